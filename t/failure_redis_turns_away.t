# A server refuses the worker or delays its handshake. The error log has the server's words. on_error decides, without a
# wait after the first request has reached its timeout.

use strict;
use warnings;
use Test::More;
use Testbed qw(wait_until slow);
use Testbed::FakeRedis;
use Testbed::Http qw(get many field);
use IO::Socket::INET;

my $bed  = Testbed->new;
my $full = $bed->redis;
$full->cli(qw(ACL SETUSER limiter on >us3rpass ~* +@all));
my $protected = Testbed::FakeRedis->new($bed, on_connect => '-DENIED Redis is running in protected mode because protected mode is enabled and no password is set for the default user. '
    . "In this mode connections are only accepted from the loopback interface.\r\n");
# a node of a cluster has another error text
my $node = Testbed::FakeRedis->new($bed, on_connect => "-ERR max number of clients + cluster connections reached\r\n");
my $held = $bed->redis;

# no other client is accepted
$full->cli(qw(CONFIG SET maxclients 3));
my @guests = map { guest() } 1 .. 3;
sub guest {
    return wait_until('a guest to be let in', 5, sub {
        my $guest = IO::Socket::INET->new(PeerAddr => $full->address);
        syswrite $guest, "PING\r\n";
        sysread $guest, my $answer, 100;
        return $answer =~ /PONG/ && $guest;
    });
}
$held->pause;

my $nginx = $bed->serve(
    FULL => $full->address, PROTECTED => $protected->port, NODE => $node->port, HELD => $held->address,
    http   => <<'HTTP',
    sliding_log_redis full      { server %%FULL%%; reconnect 20ms 100ms; }
    sliding_log_redis user      { server %%FULL%%; reconnect 20ms 100ms; username limiter; password us3rpass; }
    sliding_log_redis protected { server 127.0.0.1:%%PROTECTED%%; reconnect 20ms 100ms; }
    sliding_log_redis node      { server 127.0.0.1:%%NODE%%; reconnect 20ms 100ms; username limiter; password us3rpass; }
    sliding_log_redis held      { server %%HELD%%; timeout 300ms; connect_timeout 60s; }
    sliding_log_on_error deny;
    add_header X-Waited $sliding_log_latency always;
HTTP
    server => <<'END',
    location /full      { sliding_log_limit full key=$arg_k limit=100000 window=1h store=full; empty_gif; }
    location /user      { sliding_log_limit user key=$arg_k limit=100000 window=1h store=user; empty_gif; }
    location /protected { sliding_log_limit protected key=$arg_k limit=100000 window=1h store=protected; empty_gif; }
    location /node      { sliding_log_limit node key=$arg_k limit=100000 window=1h store=node; empty_gif; }
    location /held      { sliding_log_limit held key=$arg_k limit=100000 window=1h store=held; empty_gif; }
END
);
my $port = $nginx->port;

my $first = get($port, '/held?k=1');
is($first->{status}, 503, 'a delayed handshake: on_error decides');
cmp_ok($first->{time}, '<', 0.3 + 0.1 * slow(), 'a delayed handshake: the first request waits no longer than the timeout');
my @next = many([map { [$port, "/held?k=$_"] } 1 .. 20]);
is(join(' ', map { $_->{status} } @next), join(' ', (503) x 20), 'a delayed handshake: on_error decides the next requests');
is(join(' ', grep { field($_, 'X-Waited') > 0.1 } @next), '', 'a delayed handshake: the next requests do not wait');
$held->resume;
ok(wait_until('an answer', 10, sub { get($port, '/held?k=1')->{status} == 200 }), 'a late handshake: Redis decides');

for (['full', 'a server with maxclients connections'], ['user', 'a server with maxclients connections and a password']) {
    my ($store, $what) = @$_;
    ok(wait_until('the refusal', 10, sub { get($port, "/$store?k=1"); $nginx->logged(qr/"$store" .* is down: ERR max number of clients reached; on_error \w+ decides$/) }),
        "$what: the error log quotes it");
    is(get($port, "/$store?k=1")->{status}, 503, "$what: on_error decides");
}
ok(wait_until('the refusal', 10, sub { get($port, '/protected?k=1'); $nginx->logged(qr/"protected" .* is down: DENIED Redis is running in protected mode; on_error \w+ decides$/) }),
    'a server in protected mode: the error log quotes it');
is(get($port, '/protected?k=1')->{status}, 503, 'a server in protected mode: on_error decides');
ok(wait_until('the refusal', 10, sub { get($port, '/node?k=1'); $nginx->logged(qr/"node" .* is down: ERR max number of clients \+ cluster connections reached; on_error \w+ decides$/) }),
    'a node of a cluster with maxclients connections: the error log quotes it');
is($nginx->logged(qr/us3rpass/), 0, 'no password is in the error log');

close $_ for @guests;
ok(wait_until("an answer by $_", 10, sub { get($port, "/$_?k=1")->{status} == 200 }), "clients leave: $_ is served") for qw(full user);

$bed->done;
