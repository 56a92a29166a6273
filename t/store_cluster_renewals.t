# The renewals of algorithm=inflight in a cluster, when nothing else is asked: they follow a slot to a node without a
# connection, and a slot that is refused does not delay the renewals of others.

use strict;
use warnings;
use Test::More;
use Testbed qw(wait_until);
use Testbed::UnderWay;
use Time::HiRes qw(sleep time);

use constant { LEASE => 3, MANY => 700 };

my $bed      = Testbed->new;
my $cluster  = $bed->cluster(masters => 2, args => ['--cluster-require-full-coverage', 'no']);
my ($node)   = $cluster->nodes;
my $upstream = Testbed::UnderWay->new;
my $nginx    = $bed->serve(
    UPSTREAM => $upstream->port, SEED => $node->address,
    store    => 'server %%SEED%%; mode cluster; timeout 2s; connect_timeout 2s; reconnect 20ms 100ms;',
    server   => 'location / { sliding_log_limit at key=$arg_k limit=100000 algorithm=inflight lease=' . LEASE . 's cost=$arg_cost; proxy_pass http://127.0.0.1:%%UPSTREAM%%; }',
);

sub begin { my ($tag, $cost) = @_; return $upstream->begin($nginx->port, "/?k=$tag&cost=$cost") }

# The number of entries that are not older than a lease.
sub valid {
    my ($tag)  = @_;
    my $oldest = (time - LEASE) * 1000;
    my %times  = $cluster->entries('at', $tag);
    return scalar grep { $_ >= $oldest } values %times;
}

# True if the log has as many at any time, for longer than a lease.
sub lasts {
    my ($tag, $number) = @_;
    my $end = time + 1.2 * LEASE;
    while (time < $end) {
        my $is = valid($tag);
        return diag("$is of $number") && 0 if $is != $number;
        sleep 0.1;
    }
    return 1;
}

# ---- a node that imports a slot for long

my $new = $cluster->start_node;
$cluster->meet($new);
$cluster->wait_agreed;
my $tag       = $cluster->tag_on($node);
my $slot      = $cluster->slot_of($tag);
my @under_way = map { begin($tag, 2) } 1 .. 2;
is(valid($tag), 4, 'two are under way');
$cluster->begin_move($slot, $node, $new);
$cluster->move_all_keys($slot);
is($new->calls('evalsha'), 0, 'nothing has asked the new node yet');
ok(lasts($tag, 4), 'renewals go to the node that imports the slot');
cmp_ok($node->cli('INFO', 'errorstats') =~ /errorstat_ASK:count=(\d+)/ ? $1 : 0, '>', 2, 'by ASK');
Testbed::UnderWay::end(shift @under_way);
ok(wait_until('the end', 3, sub { valid($tag) == 2 }), 'an entry is given back there');
$cluster->end_move($slot);
is(valid($tag), 2, 'the slot is there');
Testbed::UnderWay::end(shift @under_way);
ok(wait_until('the end', 3, sub { valid($tag) == 0 }), 'and the last entry is given back');

# ---- a slot that no node serves

my ($refused, $served) = map { $cluster->tag_on($node) } 1, 2;
@under_way = map { begin($_, MANY) } ($refused, $served) x 10;    # so many entries that each is renewed in a step of its own
is(valid($_), 10 * MANY, 'ten are under way') for $refused, $served;
$slot = $cluster->slot_of($refused);
$node->cli('CLUSTER', 'DELSLOTS', $slot);
ok(lasts($served, 10 * MANY), 'renewals that are refused do not delay those of another slot');
cmp_ok($cluster->errors('CLUSTERDOWN'), '>=', 10, 'by CLUSTERDOWN');
$node->cli('CLUSTER', 'ADDSLOTS', $slot);
ok(wait_until('the renewal', LEASE, sub { valid($refused) == 10 * MANY }), 'they are renewed when the slot is served');
Testbed::UnderWay::end($_) for @under_way;
ok(wait_until('the end', 3, sub { !valid($refused) && !valid($served) }), 'and given back');

$bed->done;
