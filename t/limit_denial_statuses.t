# A denial is answered with any configured status from 400 to 599. None of them becomes an admission by `satisfy any`,
# an authentication, or a broken connection.

use strict;
use warnings;
use Test::More;
use Testbed;
use Testbed::Http qw(get raw field);

# Statuses that are special for nginx: it closes the connection without an answer, or answers 400.
my %closed  = map { $_ => 1 } 408, 444, 499;
my %as_400  = map { $_ => 1 } 494 .. 497;
# nginx always closes the connection after these
my %hang_up = map { $_ => 1 } 400, 413, 414, 495 .. 497, 500, 501;
my @statuses = (400 .. 431, 444, 451, 494 .. 499, 500 .. 511, 599);

my $bed   = Testbed->new;
my $redis = $bed->redis;
my $nginx = $bed->serve(
    redis  => $redis,
    http   => <<'HTTP',
    log_format status '$uri $status $sliding_log_status';
    access_log %%DIR%%/access.log status;
HTTP
    server => join "\n", 'satisfy any; allow all; location /free { empty_gif; }',
        map { "location /$_ { sliding_log_limit s$_ key=\$arg_k limit=1 window=1h; sliding_log_status $_; empty_gif; }" } @statuses,
);
my $port = $nginx->port;

for my $status (@statuses) {
    is(get($port, "/$status?k=a")->{status}, 200, "$status: the first request is admitted");
    my $text = raw($port, join '', map { "GET $_ HTTP/1.1\r\nHost: x\r\n" . ($_ eq '/free' ? "Connection: close\r\n" : '') . "\r\n" }
            "/$status?k=a", '/free');
    my @answered = $text =~ m{^HTTP/1\.1 (\d+)}mg;
    my @expected = $closed{$status} ? () : ($as_400{$status} ? 400 : $status, $hang_up{$status} ? () : 200);
    is("@answered", "@expected", "$status: the second request is denied" . (@expected == 2 ? ', and the connection stays open' : ''));
    is(scalar(() = $text =~ /^Retry-After: 3600\r$/mg), @expected ? 1 : 0, "$status: the denial has Retry-After") ;
    unlike($text, qr/^WWW-Authenticate/m, "$status: the denial has no challenge") if $status == 401;
}

is(join(' ', map { $redis->cli('ZCARD', "rl:sliding:s$_:{a}") } @statuses), join(' ', (1) x @statuses), 'a denial adds nothing to the log');
for my $status (@statuses) {
    my $logged = $as_400{$status} ? "(?:400|$status)" : $status;
    is(scalar(() = Testbed::Process::slurp($nginx->dir . '/access.log') =~ m{^/$status $logged REJECTED$}mg), 1, "$status is in the access log");
}

$bed->done;
