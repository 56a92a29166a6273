# Nodes that call each other by host names that nginx cannot look up: Redis 7 has the addresses in the map. A node that
# moves to another address, and one that joins, are found without a reload.

use strict;
use warnings;
use Test::More;
use Testbed qw(wait_until);
use Testbed::Http qw(get field);

my $bed     = Testbed->new;
my $cluster = $bed->cluster(masters => 2, node_timeout => 2000);
my ($first, $second) = $cluster->nodes;

sub call_it {
    my ($node, $name) = @_;
    my @settings = ('cluster-announce-hostname', $name, 'cluster-preferred-endpoint-type', 'hostname');
    $node->cli('CONFIG', 'SET', @settings);
    push @{ $node->{args} }, map { /^cluster/ ? "--$_" : $_ } @settings;
    return;
}
sub all_named { my (@nodes) = @_; return !grep { $_->cli(qw(CLUSTER SLOTS)) =~ /^\?$/m } @nodes }
call_it($first,  'first.invalid');
call_it($second, 'second.invalid');
wait_until('names to be known', 10, sub { all_named($first, $second) });

my $nginx = $bed->serve(
    SEEDS   => $first->address,
    workers => 2,
    store   => 'server %%SEEDS%%; mode cluster; timeout 300ms; connect_timeout 300ms; reconnect 20ms 200ms;',
    how     => '$sliding_log_source',
    server  => 'location / { sliding_log_limit load key=$arg_k limit=100000 window=1h; empty_gif; }',
);

# Twenty requests in a row: both workers have their part in them.
sub serves {
    my ($tag) = @_;
    return 20 == grep { field(get($nginx->port, "/?k=$tag"), 'X-How') eq 'redis' } 1 .. 20;
}
my ($one, $two) = map { $cluster->tag_on($_) } $first, $second;
ok(wait_until('the map', 10, sub { serves($one) && serves($two) }), 'host names that no resolver knows: the addresses come from the map');

# to another address, and back
my $port = $second->port;
for my $address ('127.0.0.2', '127.0.0.1') {
    $second->kill;
    ok(wait_until('the loss', 10, sub { field(get($nginx->port, "/?k=$two"), 'X-How') eq 'local' }),
        "a node moves to $address: on_error decides until it is back");
    $second->{host} = $address;
    push @{ $second->{args} }, '--cluster-announce-ip', $address;
    $second->start;
    $cluster->wait_agreed;
    ok(wait_until("$address to be found", 10, sub { serves($two) }), "a node comes back as $address: it is found under its old name");
    is($second->port, $port, "a node comes back as $address: it has its old port");
    ok(serves($one), "a node comes back as $address: the other node is still asked");
}

# a node that joins is first named by MOVED, which tells no address
my $third = $cluster->start_node;
call_it($third, 'third.invalid');
$cluster->meet($third);
$cluster->wait_agreed;
wait_until('names to be known', 10, sub { $first->cli(qw(CLUSTER NODES)) =~ /third\.invalid/ });
$cluster->move($cluster->slot_of($one), $first, $third);
ok(wait_until('the new node', 10, sub { serves($one) }), 'a slot moved to a new node: the slot is served');
cmp_ok($third->calls('evalsha'), '>', 0, 'a slot moved to a new node: that node is asked');
$cluster->move($cluster->slot_of($two), $second, $third);
is(serves($two), 1, 'a second slot moved to a new node: the slot is served at once');

$bed->done;
