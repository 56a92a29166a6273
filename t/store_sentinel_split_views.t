# Two Sentinels name different masters. A Sentinel that names a replica, a dead server or one that does not reply is
# passed over. If both servers are masters, each worker stays with the one it found until the Sentinels agree.

use strict;
use warnings;
use Test::More;
use Testbed qw(conf free_port slow wait_until);
use Testbed::Load;
use Testbed::Relay;
use Time::HiRes qw(sleep time);

use constant WORKERS => 4;

my $bed     = Testbed->new;
my ($true, $other) = map { $bed->redis(args => [qw(--repl-diskless-sync-delay 0)]) } 1 .. 2;
my $knowing = $bed->sentinel(master => $true);
my $wrong   = $bed->sentinel(master => $other);
my $conf    = conf(
    workers => 4,
    listen  => 'reuseport',
    store   => <<'STORE',
    server %%SENTINELS%%; mode sentinel limits; timeout 150ms; connect_timeout 200ms; reconnect 20ms 300ms;
STORE
    http    => 'sliding_log_on_error deny;',
    how     => '$sliding_log_source $pid $sliding_log_latency',
    server  => 'location / { sliding_log_limit split key=$arg_k limit=100000 window=1h; empty_gif; }',
);

sub follow { my ($redis, @master) = @_; return $redis->cli('REPLICAOF', @master) }
sub name_at { my ($port) = @_; $wrong->cli(qw(SENTINEL REMOVE limits)); return $wrong->cli(qw(SENTINEL MONITOR limits 127.0.0.1), $port, 1) }

# All workers are served; the answers of the time after that, under load.
sub all_served {
    my ($nginx, $what) = @_;
    ok($nginx->all_serve('/?k=all', WORKERS), "$what: every worker is served");
    my $load = Testbed::Load->start($bed, $nginx->port, paths => ['/?k=%d'], rate => 200);
    sleep 1;
    my $record = $load->stop;
    is($record->that(source => 'redis', status => 200)->count, $record->count, "$what: Redis decides every request");
    return;
}

# Workers begin with any of the Sentinels: reload often enough that some have begun with the wrong one.
sub passes_over {
    my ($what) = @_;
    my $nginx = $bed->nginx($conf, SENTINELS => join ' ', map { $_->address } $wrong, $knowing);
    my $before = $other->calls('evalsha');
    for (1 .. 2) {
        all_served($nginx, $what);
        $nginx->reload(gone => 1);
    }
    # waiting calls follow the handshake, whose ROLE shows that this server accepts no writes
    cmp_ok(($other->is_running ? $other->calls('evalsha') : $before) - $before, '<=', 2 * WORKERS, "$what: the server that it names is asked once by each worker");
    $nginx->finish;
    @{ $bed->{processes} } = grep { $_ != $nginx } @{ $bed->{processes} };
    return;
}

follow($other, '127.0.0.1', $true->port);
ok(wait_until('the replica', 10, sub { ($other->info('master_link_status') // '') eq 'up' }), 'the replica is up');
passes_over('one Sentinel names a replica');
is(name_at(free_port()), 'OK', 'a Sentinel takes another master');
passes_over('one Sentinel names a dead server');
my $deaf = Testbed::Relay->new($bed, to => $other->port, deaf => 1);
name_at($deaf->port);
passes_over('one Sentinel names a server that does not accept');

# both are masters
follow($other, 'NO', 'ONE');
name_at($other->port);
my $nginx = $bed->nginx($conf, SENTINELS => join ' ', map { $_->address } $wrong, $knowing);
$_->cli(qw(CONFIG RESETSTAT)) for $true, $other;
my @moved = ($nginx->logged(qr/is left|connection lost/));
for (1 .. 10) {    # all four workers begin with the same Sentinel once in eight times
    all_served($nginx, 'two masters');
    last if $true->calls('evalsha') && $other->calls('evalsha');
    $nginx->reload(gone => 1);
}
cmp_ok($_->calls('evalsha'), '>', 0, 'two masters: each is asked by some workers') for $true, $other;
is($nginx->logged(qr/is left|connection lost/), $moved[0], 'two masters: no worker changes from one to the other');

# they agree again: the other server is a replica, and its Sentinel names the true master
my $load = Testbed::Load->start($bed, $nginx->port, paths => ['/?k=%d'], rate => 200);
sleep 0.3;
name_at($true->port);
follow($other, '127.0.0.1', $true->port);
my $agreed = time;
sleep 1.5 * slow();
my $record = $load->stop;
my $late   = $record->that(from => $agreed + 1);
is($late->that(source => 'redis', status => 200)->count, $late->count, 'they agree again: within a second Redis decides every request');
cmp_ok($record->longest_wait, '<', 0.15 + 0.1 * slow(), 'they agree again: no request waits longer than the timeout');
my $calls = $other->calls('evalsha');
all_served($nginx, 'they agree again');
is($other->calls('evalsha'), $calls, 'they agree again: the replica gets no calls');

$bed->done;
