# Whatever a server replies, and whenever, on_error decides and the worker survives. hiredis would abort on an
# unrequested reply.

use strict;
use warnings;
use Test::More;
use Testbed qw(slow wait_until);
use Testbed::FakeRedis;
use Testbed::Http qw(get many slowest);

my $bed = Testbed->new;

my $good = "*1\r\n*5\r\n:1\r\n:1800000000000\r\n:9\r\n:1000\r\n:0\r\n";
my $long = "*5000\r\n" . "\$4\r\nlong\r\n" x 5000;

# [name, expected status, options of the fake]
my @cases = (
    ['the reply, byte by byte',      200, answer => $good, byte_by_byte => 1],
    ['a denial',                     418, answer => "*1\r\n*5\r\n:0\r\n:1800000000000\r\n:0\r\n:1000\r\n:1000\r\n"],
    ['two replies for one call',          undef, answer => $good . ":1\r\n"],
    ['three replies for one call',        undef, answer => $good x 3],
    ['a reply before the handshake',  503, answer => $good, on_connect => ":1\r\n"],
    ['the reason of a full server',  503, answer => $good, on_connect => "-ERR max number of clients reached\r\n"],
    ['garbage at connect',           503, answer => $good, on_connect => "HTTP/1.1 400 Bad Request\r\n\r\n"],
    ['a refused handshake',   503, answer => $good, greeting => "-NOAUTH no\r\n"],
    ['a handshake of garbage',        503, answer => $good, greeting => "?\r\n"],
    ['an empty array',               503, answer => "*0\r\n"],
    ['a nil array',                  503, answer => "*-1\r\n"],
    ['a nil string',                 503, answer => "\$-1\r\n"],
    ['a status',                     503, answer => "+OK\r\n"],
    ['an integer',                   503, answer => ":1\r\n"],
    ['a string',                     503, answer => "\$5\r\nhello\r\n"],
    ['the text of a short call',     503, answer => "\$24\r\n1 1800000000000 9 1000 0\r\n"],
    ['that text in an array',        503, answer => "*1\r\n\$24\r\n1 1800000000000 9 1000 0\r\n"],
    ['too few elements',             503, answer => "*1\r\n*3\r\n:1\r\n:1\r\n:1\r\n"],
    ['too many elements',            503, answer => "*1\r\n*7\r\n" . ":1\r\n" x 7],
    ['more held than admitted',      503, answer => "*1\r\n*7\r\n:1\r\n:1800000000000\r\n:9\r\n:1000\r\n:0\r\n:5\r\n:5\r\n"],
    ['held until a past time',            503, answer => "*1\r\n*6\r\n:1\r\n:1800000000000\r\n:9\r\n:1000\r\n:0\r\n:-5\r\n"],
    ['held for a day without delay=', 503, answer => "*1\r\n*6\r\n:1\r\n:1800000000000\r\n:9\r\n:1000\r\n:0\r\n:86400000\r\n"],
    ['more left than the limit',     503, answer => "*1\r\n*5\r\n:1\r\n:1800000000000\r\n:10\r\n:1000\r\n:0\r\n"],
    ['a day until more is left',     503, answer => "*1\r\n*5\r\n:1\r\n:1800000000000\r\n:9\r\n:86400000\r\n:0\r\n"],
    ['two batches for one',           503, answer => "*2\r\n" . "*5\r\n:1\r\n:1800000000000\r\n:9\r\n:1000\r\n:0\r\n" x 2],
    ['no batch, but its content',    503, answer => "*5\r\n:1\r\n:1800000000000\r\n:9\r\n:1000\r\n:0\r\n"],
    ['an error in the batch',        503, answer => "*1\r\n-WRONGTYPE no\r\n"],
    ['nested arrays',                503, answer => "*1\r\n*5\r\n:1\r\n:1800000000000\r\n*1\r\n*1\r\n:1\r\n:1\r\n:0\r\n"],
    ['nine levels deep',             503, answer => "*1\r\n" x 9 . ":1\r\n"],
    ['a huge integer',               503, answer => "*1\r\n*5\r\n:1\r\n:1800000000000\r\n:99999999999999999999999\r\n:1\r\n:0\r\n"],
    ['a negative remainder',         503, answer => "*1\r\n*5\r\n:1\r\n:1800000000000\r\n:-5\r\n:1\r\n:0\r\n"],
    ['an enormous array',            503, answer => "*2147483647\r\n"],
    ['an enormous string',           503, answer => "\$536870912\r\nx"],
    ['a long reply of 50 KiB',       503, answer => $long],
    ['half a reply',                 503, answer => "*1\r\n*5\r\n:1\r\n:1800000000000\r\n"],
    ['half a reply, then the end',   503, answer => "*1\r\n*5\r\n:1\r\n:1800000000000\r\n", then_close => 1],
    ['nothing, then the end',        503, answer => '', then_close => 1],
    ['nothing at all',               503, answer => ''],
    ['NUL bytes',                    503, answer => "\0\0\0\0"],
    ['RESP3',                        503, answer => ",1.5\r\n"],
    ['RESP3, a map',                 503, answer => "%1\r\n+a\r\n:1\r\n"],
    ['NOSCRIPT forever',            503, answer => "-NOSCRIPT No matching script.\r\n"],
    ['LOADING forever',             503, answer => "-LOADING Redis is loading the dataset in memory\r\n"],
    ['an empty error',      503, answer => "-\r\n"],
    ['an error of 20 KiB',           503, answer => '-ERR ' . 'e' x 20000 . "\r\n"],
);

my ($blocks, $locations) = ('', '');
for my $i (0 .. $#cases) {
    my (undef, $expected, %options) = @{ $cases[$i] };
    my $ms   = ($expected // 503) == 503 ? 300 : 3000;    # long enough for an answer on a busy machine
    my $fake = Testbed::FakeRedis->new($bed, %options);
    $blocks    .= "sliding_log_redis r$i { server 127.0.0.1:" . $fake->port . "; timeout ${ms}ms; connect_timeout ${ms}ms; reconnect 10ms 50ms; }\n";
    $locations .= "location /$i/ { sliding_log_limit l$i key=\$arg_k limit=10 window=1m store=r$i; empty_gif; }\n";
}
my $nginx = $bed->serve(http => $blocks, server => "sliding_log_on_error deny; sliding_log_status 418; $locations");
my ($worker) = $nginx->workers;

for my $i (0 .. $#cases) {
    my ($what, $expected) = @{ $cases[$i] };
    my @answers = (get($nginx->port, "/$i/?k=1"), many([map { [$nginx->port, "/$i/?k=$_"] } 1 .. 5]));
    if (defined $expected) {
        is(join(' ', grep { $_ != $expected } map { $_->{status} } @answers), '', "$what: always $expected");
    }
    is(scalar(grep { $_->{status} !~ /^(200|418|503)$/ } @answers), 0, "$what: everybody is answered");
    cmp_ok(slowest(@answers), '<', 0.3 + 0.3 * slow(), "$what: everybody is answered in time");
}
is(join(' ', $nginx->workers), $worker, 'the worker survives all replies');
cmp_ok($nginx->logged(qr/a reply that nobody asked for/), '>=', 1, 'an unrequested reply is logged as such');
cmp_ok($nginx->logged(qr/unexpected reply/),              '>=', 1, 'an unexpected reply is logged as such');

$bed->done;
