# The shipped log_format: nginx accepts it, a line has the decision, and the documentation shows the same format.

use strict;
use warnings;
use Cwd ();
use File::Basename ();
use Test::More;
use Testbed qw(wait_until);
use Testbed::Http qw(get);

my $root   = Cwd::abs_path(File::Basename::dirname(__FILE__) . '/..');
my $format = "$root/packaging/log_format.conf";
my $bed    = Testbed->new;
my $nginx  = $bed->serve(
    FORMAT => $format,
    http   => <<'HTTP',
    include %%FORMAT%%;
    access_log %%DIR%%/limits.log limits;
HTTP
    server => 'location / { sliding_log_limit api key=$arg_k limit=1 window=1m; empty_gif; }',
);

get($nginx->port, '/?k=acct_42') for 1 .. 2;
my $log = sub { return Testbed::Process::slurp($nginx->dir . '/limits.log') };
ok(wait_until('two lines', 5, sub { $log->() =~ /\n.*\n/ }), 'each request has a line');
my @lines = split /\n/, $log->();
my $asked = qr{127\.0\.0\.1 "GET /\?k=acct_42 HTTP/1\.1"};
like($lines[0], qr{^$asked 200 [0-9a-f]{32} PASSED/local api "acct_42" 0/1 reset=60 retry=- wait=0\.\d{3}$}, 'a request that passed');
like($lines[1], qr{^$asked 429 [0-9a-f]{32} REJECTED/local api "acct_42" 0/1 reset=(?:60|59) retry=(?:60|59) wait=0\.\d{3}$}, 'a request that was denied');

my ($text) = Testbed::Process::slurp($format) =~ /^(log_format .*?;\n)/ms;
ok(index(Testbed::Process::slurp("$root/docs/directives.md"), $text) >= 0, 'docs/directives.md has the same format');
like(Testbed::Process::slurp("$root/debian/libnginx-mod-http-sliding-log.examples"), qr{^packaging/log_format\.conf$}m, 'the package has it');

$bed->done;
