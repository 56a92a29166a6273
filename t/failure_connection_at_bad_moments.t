# The connection to Redis is lost after any number of bytes, hangs during its setup, or receives unrequested bytes.
# on_error decides in time, the worker survives and reconnects with growing delays, and the error log stays short.

use strict;
use warnings;
use Test::More;
use Testbed qw(wait_until slow);
use Testbed::Http qw(many slowest);
use Testbed::Relay;
use Time::HiRes qw(sleep time);

my $bed   = Testbed->new;
my $redis = $bed->redis;

# [name, possible statuses, faults of the relay]
my @cases = (
    ['nothing wrong',                      qr/^200$/],
    ['byte by byte',                       qr/^(?:200|503)$/, slow => 1],    # on a busy machine later than the timeout
    ['closes at once',                   qr/^503$/, cut_after => 0],
    (map { ["cut after $_ bytes",          qr/^503$/, cut_after => $_] } 1, 2, 30, 46, 47, 48, 60, 65),
    (map { ["cut after $_ bytes",          qr/^(?:200|503)$/, cut_after => $_] } 70 .. 100, 110, 125, 150, 160, 200, 300),
    ['answers nothing',                    qr/^503$/, mute => 1],
    ['never accepts',                      qr/^503$/, deaf => 1],
    ['an unrequested number',                  qr/^(?:200|503)$/, idle => ":1\r\n"],
    ['an unrequested text',                    qr/^(?:200|503)$/, idle => "+PONG\r\n"],
    ['an unrequested reply',            qr/^(?:200|503)$/, idle => "*1\r\n*5\r\n:1\r\n:1800000000000\r\n:9\r\n:1\r\n:0\r\n"],
    ['half an unrequested reply',            qr/^(?:200|503)$/, idle => "*5\r\n:1\r\n:1800000000000\r\n"],
    ['an unrequested error',                  qr/^(?:200|503)$/, idle => "-ERR max idle time reached\r\n"],
    ['garbage, unasked',                   qr/^(?:200|503)$/, idle => "\0\xff?!\r\n"],
    ['an unrequested RESP3 push',              qr/^(?:200|503)$/, idle => ">2\r\n+invalidate\r\n*0\r\n"],
);

my ($blocks, $locations) = ('', '');
for my $i (0 .. $#cases) {
    my (undef, undef, %faults) = @{ $cases[$i] };
    my $ms    = $i < 2 ? 3000 : 300;    # so the first two are answered on a busy machine too
    my $relay = Testbed::Relay->new($bed, to => $redis->port, %faults);
    push @{ $cases[$i] }, relay => $relay;
    $blocks    .= "sliding_log_redis r$i { server 127.0.0.1:" . $relay->port . "; timeout ${ms}ms; connect_timeout ${ms}ms; reconnect 100ms 400ms; }\n";
    $locations .= "location /$i/ { sliding_log_limit l$i key=\$arg_k limit=10000 window=1h store=r$i; empty_gif; }\n";
}
my $nginx = $bed->serve(
    BLOCKS => $blocks, LOCATIONS => $locations,
    http   => <<'HTTP',
    sliding_log_on_error deny;
    sliding_log_log_level info;
    %%BLOCKS%%
HTTP
    server => '%%LOCATIONS%%',
);
my $port = $nginx->port;
my ($worker) = $nginx->workers;

# Requests to all of them for 1.5 s: each loses several connections.
my ($begin, %seen, %answers) = time;
my %before = map { $_ => $cases[$_][-1]->connections } 0 .. $#cases;
while (time < $begin + 1.5) {
    my @answers = many([map { [$port, "/$_/?k=a"] } 0 .. $#cases]);
    for my $i (0 .. $#cases) {
        $seen{$i}{ $answers[$i]{status} }++;
        push @{ $answers{$i} }, $answers[$i];
    }
    sleep 0.04;    # so there are idle moments
}
my $lasted = time - $begin;
ok($seen{$_}{200}, "$cases[$_][0]: answered by Redis") for 0, 1;
for my $i (0 .. $#cases) {
    my ($what, $expected) = @{ $cases[$i] };
    is(join(' ', grep { !/$expected/ } keys %{ $seen{$i} }), '', "$what: " . join(' or ', sort keys %{ $seen{$i} }));
    cmp_ok(slowest(@{ $answers{$i} }), '<', 0.3 + 0.3 * slow(), "$what: every request is answered in time");
}

# Delays of up to 100 ms, 100 to 200, then 200 to 400: two in the first 0.3 s, and then 2.5 to 5 a second.
my $most = 5 + 5 * $lasted;
my ($refused) = grep { $cases[$_][0] eq 'closes at once' } 0 .. $#cases;
my $connects = $cases[$refused][-1]->connections - $before{$refused};
ok($connects >= 3 && $connects <= $most, 'a refused connection is tried again, with growing delays') or diag("$connects times in $lasted s");

is(join("\n", $nginx->repeated_troubles), '', 'each store writes about one line a second of each cause, however often it fails');
my %recoveries;
$recoveries{$_}++ for map { /^(\S+ \S+) .*(sliding_log_redis "\w+").*: connected again/ ? "$1 $2" : () } split /\n/, $nginx->error_log;
is(scalar(grep { $_ > 2 } values %recoveries), 0, 'each store logs at most two recoveries a second');

is(join(' ', $nginx->workers), $worker, 'the worker survives all cases');
$bed->done;
