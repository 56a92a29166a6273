# Requests that wait for a place (`delay=` with algorithm=inflight) while their hash slot moves to another node of a
# cluster, and while a Sentinel makes the replica the master: they go on waiting, in their order, and are admitted.

use strict;
use warnings;
use Test::More;
use Testbed qw(wait_until);
use Testbed::UnderWay;
use Time::HiRes qw(sleep);

my $bed      = Testbed->new;
my $upstream = Testbed::UnderWay->new;
my $server   = 'location / { sliding_log_limit at key=$arg_k limit=1 algorithm=inflight lease=20s delay=60s; proxy_pass http://127.0.0.1:%%UPSTREAM%%; }';
my %common   = (UPSTREAM => $upstream->port, workers => 2, listen => 'reuseport', http => 'sliding_log_on_error local;', server => $server);

sub answer { my ($one) = @_; return Testbed::UnderWay::end($one) }
sub comes { my ($one, $name) = @_; return ok($upstream->arrives($one), $name) }
sub waits { my ($one, $name) = @_; return ok(!$upstream->arrives($one, 0.3), $name) }

# Makes a request under way, and some that wait behind it.
sub line {
    my ($nginx, $key, $many) = @_;
    my @line = $upstream->decided($upstream->queue($nginx->port, "/?k=$key"));
    for (1 .. $many) {
        push @line, $upstream->queue($nginx->port, "/?k=$key");
        waits($line[-1], "number $_ waits");
    }
    return @line;
}

# ---- a slot moves

my $cluster = $bed->cluster(masters => 2);
my ($from, $to) = $cluster->nodes;
my $tag   = $cluster->tag_on($from);
my $slot  = $cluster->slot_of($tag);
my $nginx = $bed->serve(%common, SEEDS => join(' ', map { $_->address } $from, $to), store => 'server %%SEEDS%%; mode cluster; timeout 2s; connect_timeout 2s; reconnect 20ms 100ms;');
my @line  = line($nginx, $tag, 4);
$cluster->begin_move($slot, $from, $to);
answer($line[0]);
comes($line[1], 'the first comes while its slot moves and its log has not');
$cluster->move_all_keys($slot);
waits($line[2], 'the next one waits');
answer($line[1]);
comes($line[2], 'and comes when its log has moved');
$cluster->end_move($slot);
waits($line[3], 'the next one waits where the slot is now');
answer($line[2]);
comes($line[3], 'and comes from there');
$from->kill;
answer($line[3]);
comes($line[4], 'it is of no matter that the old node dies');
answer($line[4]);
ok(wait_until('the end', 5, sub { $to->cli('EXISTS', "rl:sliding:at:{$tag}") == 0 }), 'nothing stays');

# ---- the master changes

my @redis = map { $bed->redis(args => ['--repl-diskless-sync-delay', 0]) } 1 .. 2;
$redis[1]->cli('REPLICAOF', '127.0.0.1', $redis[0]->port);
my $sentinel = $bed->sentinel(master => $redis[0]);
$nginx = $bed->serve(%common, SENTINEL => $sentinel->address, store => 'server %%SENTINEL%%; mode sentinel limits; timeout 2s; connect_timeout 2s; reconnect 20ms 100ms;');
ok($sentinel->in_step($redis[0], $redis[1]), 'the replica is in step');
@line = line($nginx, 'a', 3);
ok($redis[1]->follows($redis[0]), 'the replica has who is under way');
ok($sentinel->begin_failover, 'a fail-over begins');
ok(wait_until('the promotion', 20, sub { $sentinel->master_port == $redis[1]->port && $redis[1]->cli('ROLE') =~ /^master/ }), 'the replica has become the master');
$redis[0]->cli('REPLICAOF', '127.0.0.1', $redis[1]->port);
waits($line[1], 'those that wait go on');
for my $n (1 .. 3) {
    answer($line[$n - 1]);
    comes($line[$n], "number $n comes");
}
answer($line[3]);
ok(wait_until('the end', 5, sub { $redis[1]->cli('EXISTS', 'rl:sliding:at:{a}') == 0 }), 'nothing stays');
$bed->done;
