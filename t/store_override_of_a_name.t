# The record of a whole NAME is read where it is, in every topology, by one worker of the node, about once a second; it
# counts until its end, whatever clocks do, and for a minute when it cannot be read.

use strict;
use warnings;
use Test::More;
use Testbed qw(wait_until slow);
use Testbed::Acl qw(documented_rule);
use Testbed::Clock;
use Testbed::Http qw(get field);
use Testbed::Tool qw(tool);
use Time::HiRes qw(sleep time);

my $bed = Testbed->new;
my $location = 'location / { sliding_log_limit api key=$arg_k limit=3 window=1h override=name; empty_gif; }';

sub asked { my ($node) = @_; my $answer = get($node->port, '/?k=' . int rand 1e9); return "$answer->{status} " . (field($answer, 'X-How') // '') }
sub obeys {
    my ($node, $expected, $what) = @_;
    my $is;
    ok(wait_until($what, 3 * slow(), sub { ($is = asked($node)) =~ $expected }), $what) or diag($is);
    return;
}
sub record { my ($what) = @_; return "$what until=0 since=1 by=tester why=" }
my $key = 'rl:sliding:api:override';

# ---- how it is read

my $redis = $bed->redis;
my %of    = (how => '$sliding_log_source $sliding_log_limit', server => $location, workers => 4, listen => 'reuseport');
my $nginx = $bed->serve(%of, store => 'server ' . $redis->address . ';');
$redis->cli('SET', $key, record('limit=5'));
obeys($nginx, qr/^200 redis 5$/, 'one server: it is obeyed');
my $before = $redis->calls('get');
sleep 5;
my $reads = $redis->calls('get') - $before;
ok($reads >= 4 && $reads <= 6, 'four workers read it once a second') or diag($reads);

# ---- a cluster: its slot, and while that moves

my $cluster = $bed->cluster(masters => 2);
my ($one, $other) = $cluster->nodes;
my ($slot) = $one->cli('CLUSTER', 'KEYSLOT', $key);
my $from = $cluster->owner_of($slot);
my $to   = $from == $one ? $other : $one;
my $of_cluster = $bed->serve(%of, store => 'server ' . $one->address . '; mode cluster;');
$from->cli('SET', $key, record('limit=5'));
obeys($of_cluster, qr/^200 redis 5$/, 'a cluster: it is obeyed');
$cluster->begin_move($slot, $from, $to);
$from->cli('SET', $key, record('limit=7'));
obeys($of_cluster, qr/^200 redis 7$/, 'a slot that moves: the record is still here');
$cluster->move_all_keys($slot);
sleep 2.5;
like(asked($of_cluster), qr/^200 redis 7$/, 'a slot that moves: the record is there');
is($of_cluster->logged(qr/override of all keys has ended/), 0, 'nobody has lost it meanwhile');
$cluster->end_move($slot);
$to->cli('SET', $key, record('limit=8'));
obeys($of_cluster, qr/^200 redis 8$/, 'a slot that has moved');

# ---- Sentinels

my ($first, $second) = ($bed->redis, $bed->redis(args => ['--repl-diskless-sync-delay', 0]));
$second->cli('REPLICAOF', '127.0.0.1', $first->port);
my $sentinel = $bed->sentinel(master => $first);
ok(wait_until('the replica', 20, sub { ($sentinel->field('num-slaves') // 0) == 1 && ($second->info('master_link_status') // '') eq 'up' }), 'the Sentinel knows the replica');
my $of_master = $bed->serve(%of, store => 'server ' . $sentinel->address . '; mode sentinel limits;');
$first->cli('SET', $key, record('limit=5'));
obeys($of_master, qr/^200 redis 5$/, 'Sentinels: it is obeyed');
ok(wait_until('the replica', 10, sub { $second->cli('GET', $key) =~ /limit=5/ }), 'the replica has it');
ok($sentinel->begin_failover, 'a fail-over begins');
ok(wait_until('the new master', 20, sub { $second->cli('ROLE') =~ /^master/ }), 'the replica is the master');
$second->cli('SET', $key, record('limit=9'));
obeys($of_master, qr/^200 redis 9$/, 'Sentinels: that of the new master is obeyed');

# ---- rights

my $guarded = $bed->redis;
$guarded->cli('ACL', 'SETUSER', 'decider', split ' ', documented_rule('decider', 'us3rpass'));
$guarded->cli('SET', $key, record('limit=5'));
my $of_user = $bed->serve(%of, store => 'server ' . $guarded->address . '; username decider; password us3rpass;');
obeys($of_user, qr/^200 redis 5$/, 'the documented rights suffice');
is($guarded->cli('ACL', 'LOG'), '', 'nothing was refused');
$guarded->cli('ACL', 'SETUSER', 'decider', '-get');
ok(wait_until('the line', 5, sub { $of_user->logged(qr/the override of all keys, "\Q$key\E", may not be read, which requires \+get and %R~ of its key: NOPERM/) }), 'a right that is missing is told');
like(asked($of_user), qr/^200 redis 5$/, 'the last reading counts');
is($of_user->logged(qr/may not be read/), 1, 'once');

# ---- clocks: that of the node, that of Redis, and the minute

my $clock   = Testbed::Clock->new($bed->dir, monotonic => 1);
my $shifted = $bed->redis(clock => 1);
my $node    = $bed->serve(%of, CLOCK => $clock, store => 'server ' . $shifted->address . '; reconnect 10ms 50ms;');
my @at      = ('--server', $shifted->address);
is(tool('set', 'api', '--all', '--deny', '--for', '1h', @at)->{status}, 0, 'denied for an hour');
obeys($node, qr/^429 override 3$/, 'it is obeyed');
$shifted->set_clock(-7200);
sleep 1.5;
like(asked($node), qr/^429 override 3$/, "Redis's clock steps back: it is in force");
$shifted->set_clock(7200);
obeys($node, qr/^200 redis 3$/, "Redis's clock steps ahead: it is over");
$shifted->set_clock(0);
tool('set', 'api', '--all', '--deny', '--for', '30s', @at);
obeys($node, qr/^429 override 3$/, 'denied for half a minute');
$shifted->kill;
like(asked($node), qr/^429 override 3$/, 'Redis is away: denied');
$clock->set(31);
obeys($node, qr/^200 local 3$/, 'until its end, by the clock of the node since its start');
is($node->logged(qr/limit "api": the override of all keys has ended: it is over; the configuration counts/), 1, 'which is told');
$shifted->start;
tool('set', 'api', '--all', '--deny', @at);
obeys($node, qr/^429 override 3$/, 'denied without an end');
$shifted->kill;
$clock->set(31 + 58);
like(asked($node), qr/^429 override 3$/, 'Redis is away for 58 s: denied');
$clock->set(31 + 65);
obeys($node, qr/^200 local 3$/, 'for 65 s: the configuration counts');
ok(wait_until('the line', 5, sub { $node->logged(qr/the override of all keys has ended: it could not be read for a minute; the configuration counts/) == 1 }), 'which is told');

$bed->done;
