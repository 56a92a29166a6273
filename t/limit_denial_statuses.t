# A denial is answered with any configured status from 400 to 599. None of them becomes an admission by `satisfy any`,
# an authentication, or a broken connection. With both values of sliding_log_answer, the connection stays open after the
# same statuses.

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
    server => join "\n", 'satisfy any; allow all; location /free { empty_gif; }', map {
        my $status = $_;
        map { "location /$_/$status { sliding_log_answer $_; sliding_log_limit s$status key=\$arg_k limit=1 window=1h; sliding_log_status $status; empty_gif; }" }
            qw(plain problem)
    } @statuses,
);
my $port = $nginx->port;

for my $case (map { my $status = $_; map { [$_, $status] } qw(plain problem) } @statuses) {
    my ($answer, $status) = @$case;
    my $path = "/$answer/$status?k=$answer";
    is(get($port, $path)->{status}, 200, "$path: the first request is admitted");
    my $text = raw($port, join '', map { "GET $_ HTTP/1.1\r\nHost: x\r\n" . ($_ eq '/free' ? "Connection: close\r\n" : '') . "\r\n" }
            $path, '/free');
    my @answered = $text =~ m{^HTTP/1\.1 (\d+)}mg;
    my @expected = $closed{$status} ? () : ($as_400{$status} ? 400 : $status, $hang_up{$status} ? () : 200);
    is("@answered", "@expected", "$path: the second request is denied" . (@expected == 2 ? ', and the connection stays open' : ''));
    is(scalar(() = $text =~ /^Retry-After: 3600\r$/mg), @expected ? 1 : 0, "$path: the denial has Retry-After");
    is(scalar(() = $text =~ m{^Content-Type: application/problem\+json\r$}mg), $answer eq 'problem' && @expected && !$as_400{$status} ? 1 : 0, "$path: the type of the answer");
    unlike($text, qr/^WWW-Authenticate/m, "$path: the denial has no challenge") if $status == 401;
}

is(join(' ', map { $redis->cli('ZCARD', "rl:sliding:s$_:{problem}") } @statuses), join(' ', (1) x @statuses), 'a denial adds nothing to the log');
for my $status (@statuses) {
    my $logged = $as_400{$status} ? "(?:400|$status)" : $status;
    is(scalar(() = Testbed::Process::slurp($nginx->dir . '/access.log') =~ m{^/\w+/$status $logged REJECTED$}mg), 2, "$status is in the access log");
}

$bed->done;
