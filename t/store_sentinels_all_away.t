# While all Sentinels are down, the last known master is asked, also over a new connection, as long as its role is
# master. A Sentinel that comes back is used.

use strict;
use warnings;
use Test::More;
use Testbed qw(wait_until);
use Testbed::Http qw(get);

my $bed      = Testbed->new;
my $master   = $bed->redis;
my $sentinel = $bed->sentinel(master => $master);
my $nginx    = $bed->serve(
    SENTINEL => $sentinel->address, NOBODY => Testbed::free_port(),
    store    => <<'STORE',
    mode sentinel limits; server %%SENTINEL%% 127.0.0.1:%%NOBODY%%; timeout 1s; connect_timeout 1s;
    reconnect 20ms 200ms;
STORE
    http     => 'sliding_log_on_error deny;',
    server   => 'location / { sliding_log_limit a key=$arg_k limit=100000 window=1h; empty_gif; }',
);
my $number = 0;
sub status { return get($nginx->port, '/?k=' . $number++)->{status} }
sub is_watched { return $sentinel->cli(qw(CLIENT LIST)) =~ / sub=2 / }

is(status(), 200, 'the master is found');
ok(wait_until('the subscription', 5, \&is_watched), 'the workers are subscribed to the Sentinel');

$sentinel->kill;
for (1 .. 3) {
    my $connects = $master->info('total_connections_received');
    $master->cli(qw(CLIENT KILL TYPE normal));
    ok(wait_until('the master to be asked', 5, sub { status() == 200 }), "no Sentinel, loss $_ of the connection: the master is still asked");
    cmp_ok($master->info('total_connections_received'), '<', $connects + 8, "no Sentinel, loss $_ of the connection: one new connection is made");
}
$master->kill;
ok(wait_until('the loss', 5, sub { status() == 503 }), 'no Sentinel, the master dies: on_error decides');
$master->start;
ok(wait_until('the master to be asked', 5, sub { status() == 200 }), 'no Sentinel, the master comes back: it is asked');

$master->cli(qw(REPLICAOF 127.0.0.1 1));
$master->cli(qw(CLIENT KILL TYPE normal));
ok(wait_until('the refusal', 5, sub { status() == 503 && $nginx->logged(qr/is down: ROLE answered: slave/) }),
    'no Sentinel, the master becomes a replica: it is not asked');
$master->cli(qw(REPLICAOF NO ONE));
ok(wait_until('the master to be asked', 5, sub { status() == 200 }), 'no Sentinel, the replica is made a master: it is asked');

$sentinel->start;
ok(wait_until('the subscription', 5, \&is_watched), 'a Sentinel comes back: the workers are subscribed to it');
is(status(), 200, 'a Sentinel comes back: the master is still asked');

$bed->done;
