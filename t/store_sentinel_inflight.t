# Requests under way while the master changes (algorithm=inflight): entries of requests that last are renewed at the new
# master, those of requests that end are given back there, and the next renewal enters the entries again that the
# fail-over forgot. Entries that are left on the old master have no effect.

use strict;
use warnings;
use Test::More;
use Testbed qw(wait_until);
use Testbed::Http qw(get field);
use Testbed::Metrics qw(scrape);
use Testbed::UnderWay;
use Time::HiRes qw(sleep time);

use constant LEASE => 3;

my $bed   = Testbed->new;
my @redis = map { $bed->redis(args => ['--repl-diskless-sync-delay', 0]) } 1 .. 2;
$redis[1]->cli('REPLICAOF', '127.0.0.1', $redis[0]->port);
my $sentinel = $bed->sentinel(master => $redis[0]);
my $upstream = Testbed::UnderWay->new;

# entries of the long lease leave only if they are given back
my %lease  = (short => LEASE . 's', long => '1h');
my $limits = sub { my ($cost) = @_; return { map { $_ => "sliding_log_limit $_ key=\$arg_k limit=6 algorithm=inflight lease=$lease{$_} $cost;" } keys %lease } };
my $nginx  = $bed->serve(
    SENTINEL => $sentinel->address, UPSTREAM => $upstream->port,
    workers  => 2,
    store    => 'server %%SENTINEL%%; mode sentinel limits; timeout 2s; connect_timeout 2s; reconnect 20ms 100ms;',
    how      => '$pid',
    http     => 'sliding_log_on_error deny;',
    server   => join("\n", "listen 127.0.0.1:%%PORT2%% http2;\nlocation /metrics { sliding_log_metrics; }",
        (map { "location /$_ { " . $limits->('')->{$_} . ' proxy_pass http://127.0.0.1:%%UPSTREAM%%; }' } keys %lease),
        (map { "location /look/$_ { " . $limits->('cost=0')->{$_} . ' empty_gif; }' } keys %lease)),
);
my ($port, $http2) = ($nginx->port, $nginx->port('PORT2'));

sub left { my ($name, $key) = @_; return (field(get($port, "/look/$name?k=$key"), 'RateLimit') // '') =~ /;r=(\d+)/ ? $1 : 'unknown' }
sub begin_some { my ($number, $name, $key) = @_; return map { $upstream->begin($_ % 3 ? $port : $http2, "/$name?k=$key", http2 => $_ % 3 == 0) } 1 .. $number }
sub members { my ($redis, $name, $key) = @_; return $redis->cli('ZCARD', "rl:sliding:$name:{$key}") }

# The number of entries that are not older than a lease.
sub valid { my ($redis, $key) = @_; return $redis->cli('ZCOUNT', "rl:sliding:short:{$key}", int((time - LEASE) * 1000), '+inf') }

sub in_step { my ($master) = @_; return $sentinel->in_step($master, grep { $_ != $master } @redis) }

sub is_found {
    my ($master) = @_;
    my %asked;
    return wait_until('both workers to find the master', 20, sub {
        my $answer = get($port, '/look/long?k=none');
        $asked{ field($answer, 'X-How') } = $answer->{status} == 200;
        return $sentinel->master_port == $master->port && 2 == grep { $_ } values %asked;
    });
}

# ---- a fail-over by command: each entry is on both servers

ok(in_step($redis[0]), 'the replica is in step');
my @lasting = begin_some(3, 'short', 'a');
my @ending  = (begin_some(3, 'long', 'b'), begin_some(2, 'short', 'b'));
my @later   = begin_some(4, 'long', 'c');
is(scalar(grep { $_->{backend} } @lasting, @ending, @later), 12, 'all are under way');
my $since = time;
ok($redis[1]->follows($redis[0]), 'the replica has their entries');
ok($sentinel->begin_failover, 'a fail-over begins');
Testbed::UnderWay::leave($_) for @ending[0, 1];    # in the middle of it
Testbed::UnderWay::end($_) for @ending[2 .. 4];
ok(wait_until('the promotion', 20, sub { $sentinel->master_port == $redis[1]->port && $redis[1]->cli('ROLE') =~ /^master/ }), 'the replica has become the master');
$redis[0]->cli('REPLICAOF', '127.0.0.1', $redis[1]->port);    # the Sentinel would take ten seconds
ok(is_found($redis[1]), 'both workers find it');
is(valid($redis[1], 'a'), 3, 'those under way are there');
is(left('long', 'c'), 2, 'and count');
Testbed::UnderWay::leave($later[0]);
Testbed::UnderWay::end($_) for @later[1, 2];
ok(wait_until('two to be given back', 5, sub { members($redis[1], 'long', 'c') == 1 }), 'what ends afterwards is given back there') or diag(members($redis[1], 'long', 'c'));

# nginx does not know that the replica has not got the latest give-backs of the old master: these entries leave with the
# lease.
my $forgotten = members($redis[1], 'long', 'b');
cmp_ok($forgotten, '<=', 3, "of what ended in the fail-over $forgotten of 3 are left");
$redis[1]->cli('DEL', 'rl:sliding:long:{b}');

# ---- the master dies with entries that the replica does not have

ok(in_step($redis[1]), 'the old master is a replica');
my ($replica, $master) = @redis;
ok($replica->follows($master), 'it has what the master has');
like($master->cli(qw(ACL SETUSER default -psync -sync)), qr/OK/, 'it may not follow any more');
$master->cli(qw(CLIENT KILL TYPE replica));
ok(wait_until('the replica to be behind', 5, sub { ($replica->info('master_link_status') // '') eq 'down' }), 'it does not follow');
my @lost = (begin_some(2, 'short', 'a'), begin_some(3, 'short', 'd'));
my @gone = begin_some(2, 'long', 'e');
is(scalar(grep { $_->{backend} } @lost, @gone), 7, 'more are under way whose entries the replica does not have');
Testbed::UnderWay::end($later[3]);
ok(wait_until('it to be given back', 5, sub { members($master, 'long', 'c') == 0 }), 'and one has ended of which the replica does not know');
$master->kill;
Testbed::UnderWay::end($_) for @gone;
ok(is_found($replica), 'the replica is promoted, and found');
ok(wait_until('a renewal', 2 * LEASE, sub { valid($replica, 'a') == 5 && valid($replica, 'd') == 3 }), 'the next renewal enters them again')
    or diag(join ' ', map { valid($replica, $_) } qw(a d));
is(left('short', 'a'), 1, 'and they count, with those that were not forgotten');
is(left('short', 'd'), 3, 'in each log');
is(members($replica, 'long', 'e'), 0, 'what ended meanwhile is not entered again');
is(members($replica, 'long', 'c'), 1, 'what the dead master alone gave back leaves with its lease');
$replica->cli('DEL', 'rl:sliding:long:{c}');

# ---- the old master is back, with nothing, and follows the new one

$master->start;
$master->cli('REPLICAOF', '127.0.0.1', $replica->port);
ok(in_step($replica), 'the dead master is back as a replica');
ok(wait_until('all entries', 5, sub { valid($master, 'a') == 5 }), 'and has the entries of the new one');
my $missing = 0;
while (time < $since + 3 * LEASE) {
    $missing ||= valid($replica, 'a') != 5 || valid($replica, 'd') != 3;
    sleep 0.05;
}
ok(!$missing, 'those under way are renewed, for several leases');

Testbed::UnderWay::leave($lasting[2]);    # HTTP/2: the stream is reset
Testbed::UnderWay::end($_) for @lasting[0, 1], @lost;
ok(wait_until('all to be gone', 5, sub { !grep { $_->cli('DBSIZE') != 0 } @redis }), 'all that end are given back') or diag($replica->cli('KEYS', '*'));
is(scrape($port)->value('sliding_log_store_take_backs_lost_total') // 0, 0, 'no give-back is lost');
close $_->{client} for @lasting, @ending, @later, @lost, @gone;

$bed->done;
