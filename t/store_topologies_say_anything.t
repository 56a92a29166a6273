# Whatever Sentinels and cluster nodes reply, and whenever: the worker survives, every request is answered in time, and
# redirects are not followed in circles.

use strict;
use warnings;
use Test::More;
use Testbed qw(slow wait_until);
use Testbed::FakeRedis;
use Testbed::FakeSentinel qw(address confirmed list message text);
use Testbed::Http qw(get many slowest);

my $bed  = Testbed->new;
my $real = $bed->redis;

my $channel    = text('+switch-master');
my $subscribed = confirmed('+switch-master', 1);
sub switch { return message('+switch-master', @_) }
my $where = address($real);

# A Sentinel: [name, status, reply to SENTINEL, reply to SUBSCRIBE]
my @sentinels = (
    ['a master',                    200, $where, $subscribed],
    ['nobody',                      503, "*-1\r\n", ''],
    ['nil',                         503, "\$-1\r\n", ''],
    ['an error',                    503, "-ERR no such master\r\n", ''],
    ['a status',                    503, "+OK\r\n", ''],
    ['one text',                    503, list(text('127.0.0.1')), ''],
    ['numbers',                     503, "*2\r\n:1\r\n:2\r\n", ''],
    ['no port',                     503, list(text('127.0.0.1'), text('x')), ''],
    ['port 0',                      503, list(text('127.0.0.1'), text('0')), ''],
    ['a port out of range',         503, list(text('127.0.0.1'), text('65536')), ''],
    ['an empty host',               503, list(text(''), text($real->port)), ''],
    ['a name of 300 bytes',         503, list(text('n' x 300), text($real->port)), ''],
    ['a name with NUL bytes',       503, list(text("127.0.0.1\0.x"), text($real->port)), ''],
    ['itself',                      503, list(text('127.0.0.1'), text('%PORT%') =~ s/\$6/\$5/r), $subscribed],
    ['two replies for one call',         undef, $where . $where, $subscribed],
    ['a master, then no subscription',      200, $where, "-NOPERM no\r\n"],
    ['a master, then nothing',              200, $where, ''],
    ['a master, then an integer',           200, $where, ":1\r\n"],
    ['a master, then a status',             200, $where, "+OK\r\n"],
    ['a master, then nil',                  200, $where, "*-1\r\n"],
    ['a master, then an empty array',       200, $where, "*0\r\n"],
    ['a master, then two elements',         200, $where, $subscribed . list(text('message'), $channel)],
    ['a master, then numbers',              200, $where, "*3\r\n:1\r\n:2\r\n:3\r\n"],
    ['a master, then an unsubscription',    200, $where, $subscribed . list(text('unsubscribe'), $channel, text('x'))],
    ['a master, then another channel',      200, $where, $subscribed . list(text('message'), text('x'), text('x'))],
    ['a master, then garbage',              200, $where, "$subscribed?\r\n"],
    ['a master, then an empty message',     200, $where, $subscribed . switch('')],
    ['a master, then a message of another', 200, $where, $subscribed . switch('other 1 2 3 4') x 3],
    ['a master, then a list in a message',  200, $where, $subscribed . list(text('message'), $channel, "*1\r\n:1\r\n")],
    ['a master, then the master forever',  undef, $where, $subscribed . switch('limits 1 2 3 4') x 5],
);

# A node of a cluster: [name, status, reply to CLUSTER SLOTS, reply to EVALSHA]
my $self = list(text('127.0.0.1'), ':' . "%PORT%\r\n");
my $map  = list(list(":0\r\n", ":16383\r\n", $self));
my $good = list(list(":1\r\n", ":1800000000000\r\n", ":9\r\n", ":1000\r\n", ":0\r\n"));
my @nodes = (
    ['a map',                       200, $map, $good],
    ['no map',                      503, "*0\r\n", $good],
    ['an error',                    503, "-ERR no cluster\r\n", $good],
    ['a status',                    503, "+OK\r\n", $good],
    ['nothing',                     503, '', $good],
    ['nil',                         503, "*-1\r\n", $good],
    ['slots out of range',          503, list(list(":0\r\n", ":16384\r\n", $self)), $good],
    ['slots the other way round',   503, list(list(":16383\r\n", ":0\r\n", $self)), $good],
    ['no host at all',              200, list(list(":0\r\n", ":16383\r\n", list("\$-1\r\n", ":%PORT%\r\n"))), $good],
    ['two maps in one reply',            undef, $map . $map, $good],
    ['MOVED to itself forever',    503, $map, "-MOVED 1 127.0.0.1:%PORT%\r\n"],
    ['ASK to itself forever',      503, $map, "-ASK 1 127.0.0.1:%PORT%\r\n"],
    ['MOVED to its sender', 503, $map, "-MOVED 1 :%PORT%\r\n"],
    ['MOVED to a dead address',             503, $map, "-MOVED 1 127.0.0.1:1\r\n"],
    ['MOVED to nowhere',            503, $map, "-MOVED\r\n"],
    ['MOVED out of range',          503, $map, "-MOVED 16384 127.0.0.1:%PORT%\r\n"],
    ['MOVED to a name',             503, $map, "-MOVED 1 nowhere.invalid:6379\r\n"],
    ['MOVED with NUL bytes',        503, $map, "-MOVED 1 \0:\0\r\n"],
    ['TRYAGAIN forever',           503, $map, "-TRYAGAIN not yet\r\n"],
    ['CLUSTERDOWN forever',        503, $map, "-CLUSTERDOWN The cluster is down\r\n"],
    ['CROSSSLOT',                   503, $map, "-CROSSSLOT Keys in request don't hash to the same slot\r\n"],
    ['READONLY forever',           503, $map, "-READONLY You can't write against a read only replica.\r\n"],
    ['READONLY in the batch',       503, $map, list("-READONLY You can't write against a read only replica.\r\n")],
);

my ($blocks, $locations, @cases) = ('', '');
for (map({ [sentinel => @$_] } @sentinels), map { [cluster => @$_] } @nodes) {
    my ($mode, $what, $status, $first, $second) = @$_;
    my $i    = @cases;
    my $fake = Testbed::FakeRedis->new($bed, answers => $mode eq 'sentinel' ? { SENTINEL => $first, SUBSCRIBE => $second } : { CLUSTER => $first, EVALSHA => $second });
    push @cases, ["$mode, $what", $status];
    $blocks .= "sliding_log_redis r$i { server 127.0.0.1:" . $fake->port . '; mode ' . ($mode eq 'sentinel' ? 'sentinel limits' : $mode)
        . "; timeout 300ms; connect_timeout 300ms; reconnect 20ms 50ms; }\n";
    $locations .= "location /$i/ { sliding_log_limit l$i key=\$arg_k limit=100 window=1m store=r$i; empty_gif; }\n";
}
my $nginx = $bed->serve(http => $blocks, server => "sliding_log_on_error deny; $locations");
my ($worker) = $nginx->workers;

sub cpu { my @stat = split / /, Testbed::Process::slurp("/proc/$worker/stat"); return ($stat[13] + $stat[14]) / 100 }
for my $i (0 .. $#cases) {
    my ($what, $expected) = @{ $cases[$i] };
    my $before = cpu();
    if (($expected // 0) == 200) {
        ok(wait_until($what, 5, sub { get($nginx->port, "/$i/?k=0")->{status} == 200 }), "$what: 200");
    }
    elsif (defined $expected) {
        is(get($nginx->port, "/$i/?k=1")->{status}, $expected, "$what: $expected");
    }
    my @answers = many([map { [$nginx->port, "/$i/?k=$_"] } 1 .. 5]);
    is(scalar(grep { $_->{status} !~ /^(200|503)$/ } @answers), 0, "$what: everybody is answered");
    cmp_ok(slowest(@answers), '<', 0.3 + 0.3 * slow(), "$what: everybody is answered in time");
    cmp_ok(cpu() - $before, '<', 0.2 * slow(), "$what: the worker does not go in circles");
}
is(join(' ', $nginx->workers), $worker, 'the worker survives all replies');

$bed->done;
