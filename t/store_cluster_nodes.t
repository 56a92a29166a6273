# Nodes join and leave a cluster, one and all of them; forms in which nodes name each other; useless seeds.

use strict;
use warnings;
use Test::More;
use IO::Socket::IP;
use Testbed qw(conf free_port slow wait_until);
use Testbed::Http qw(get);
use Time::HiRes qw(time);

my $bed     = Testbed->new;
my $cluster = $bed->cluster(masters => 2, node_timeout => 2000);
my ($first, $second) = $cluster->nodes;
my $conf = conf(
    store  => 'server %%SEEDS%%; mode cluster; timeout 1s; connect_timeout 1s; reconnect 20ms 200ms;',
    server => <<'END',
    location /deny  { sliding_log_limit load key=$arg_k limit=100000 window=1h; sliding_log_on_error deny; empty_gif; }
    location /local { sliding_log_limit near key=$arg_k limit=100000 window=1h; empty_gif; }
END
);

# the first seed does not exist
my $nginx = $bed->nginx($conf, SEEDS => '127.0.0.1:' . free_port() . ' ' . $first->address);
my $port  = $nginx->port;
sub serves { my ($tag) = @_; return get($port, "/deny?k=$tag")->{status} == 200 }
sub connections { my ($node) = @_; return scalar grep { /cmd=(?:evalsha|config|cluster|info)/ } split /\n/, $node->cli(qw(CLIENT LIST TYPE normal)) }

my ($one, $two) = map { $cluster->tag_on($_) } $first, $second;
ok(wait_until('the map', 10, sub { serves($one) && serves($two) }), 'a seed that does not exist: the other seed has the map');
is($_->calls('evalsha') > 0, 1, "a seed that is nobody: the node on port $_->{port} is asked") for $first, $second;

# a third one joins, and takes a slot over
my $third = $cluster->start_node;
$cluster->meet($third);
$cluster->wait_agreed;
is(connections($third), 0, 'a node joins: no worker connects to it without need');
my $slot = $cluster->slot_of($one);
$cluster->move($slot, $first, $third);
is(serves($one), 1, 'a node takes a slot over: the slot is served at once');
is($cluster->zcard('load', $one), $third->cli('ZCARD', "rl:sliding:load:{$one}"), 'a node takes a slot over: it has the log');
cmp_ok($third->calls('evalsha'), '>', 0, 'a node takes a slot over: it is asked');

# it leaves, and the connection to it is closed
$cluster->move($slot, $third, $first);
is(serves($one), 1, 'a node gives a slot back: the slot is served at once');
my $id = $cluster->id($third);
$_->cli('CLUSTER', 'FORGET', $id) for $first, $second;
$third->cli('CLUSTER', 'RESET', 'HARD');
ok(wait_until('the connection to be closed', 15, sub { serves($one) && connections($third) == 0 }), 'a node leaves: all connections to it are closed');
is(serves($two), 1, 'a node leaves: the other nodes are still asked');
$third->kill;

# how nodes name each other
for my $case (['unknown-endpoint', 'no host for the node that answered'], ['hostname', 'host names with their addresses'], ['ip', 'addresses']) {
    my ($type, $what) = @$case;
    for my $node ($first, $second) {
        $node->cli(qw(CONFIG SET cluster-announce-hostname localhost)) if $type eq 'hostname';
        $node->cli('CONFIG', 'SET', 'cluster-preferred-endpoint-type', $type);
    }
    wait_until('names to be known', 10, sub { $type ne 'hostname' || !grep { $_->cli(qw(CLUSTER SLOTS)) =~ /\?/ } $first, $second });
    $nginx->reload(gone => 1);
    ok(wait_until('the map', 10, sub { serves($one) && serves($two) }), "$type, $what: both nodes are asked");
    $slot = $cluster->slot_of($two);
    $cluster->move($slot, $second, $first);
    is(serves($two), 1, "$type: MOVED is followed");
    $cluster->move($slot, $first, $second);
    is(serves($two), 1, "$type: MOVED back is followed");
}

# all nodes are down, and come back
$_->kill for $first, $second;
ok(wait_until('the loss', 10, sub { !serves($one) && !serves($two) }), 'all nodes gone: on_error decides');
my $start = time;
is(scalar(grep { get($port, '/local?k=x')->{status} == 200 } 1 .. 20), 20, 'all nodes gone: the local log decides');
cmp_ok(time - $start, '<', 1 * slow(), 'all nodes gone: the local log decides at once');
$_->start for $first, $second;
my $well = 0;
ok(wait_until('the cluster', 20, sub { $well = serves($one) && serves($two) ? $well + 1 : 0; $well > 20 }), 'all nodes back: Redis decides again');

# a server that is not a node
my $plain = $bed->redis;
my $wrong = $bed->nginx($conf, SEEDS => $plain->address);
$port = $wrong->port;
ok(wait_until('the cause', 10, sub { get($port, '/deny?k=x')->{status} == 503 && $wrong->logged(qr/CLUSTER SLOTS answered: ERR This instance has cluster support disabled/) }),
    'a server without cluster support: on_error decides, and the error log has the cause');
$start = time;
is(scalar(grep { get($port, '/deny?k=x')->{status} == 503 } 1 .. 20), 20, 'a server without cluster support: on_error decides every request');
cmp_ok(time - $start, '<', 1 * slow(), 'a server without cluster support: on_error decides at once');

SKIP: {
    my $probe = IO::Socket::IP->new(Listen => 1, LocalHost => '::1') or skip 'no IPv6 here', 3;
    close $probe;
    my $six = $bed->cluster(masters => 2, host => '::1');
    my $way = $bed->nginx($conf, SEEDS => ($six->nodes)[0]->address);
    $port = $way->port;
    my @tags = map { $six->tag_on($_) } $six->nodes;
    ok(wait_until('the map', 10, sub { serves($tags[0]) && serves($tags[1]) }), 'nodes with IPv6 addresses: both are asked');
    $six->move($six->slot_of($tags[0]), $six->nodes);
    is(serves($tags[0]), 1, 'nodes with IPv6 addresses: MOVED is followed');
    is($six->errors('CROSSSLOT'), 0, 'nodes with IPv6 addresses: no key is sent to a wrong node');
}

$bed->done;
