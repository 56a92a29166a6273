# Sources without a slot map: a node outside the cluster, a user without the right, a server that delays its reply, an
# address without a server. Every worker passes to the next source, at the start and later.

use strict;
use warnings;
use Test::More;
use Testbed qw(conf free_port wait_until);
use Testbed::Acl qw(documented_rule);
use Testbed::FakeRedis;
use Testbed::Http qw(get field many);
use Time::HiRes qw(time);

my $bed     = Testbed->new;
my $cluster = $bed->cluster(masters => 3, node_timeout => 2000);
my @masters = $cluster->nodes;
my ($first, $second, $third) = @masters;
my @tags = map { $cluster->tag_on($_) } @masters;
my @rule = split ' ', documented_rule('limiter', 'us3rpass');

my $stranger = $cluster->start_node;
pop @{ $cluster->{nodes} };    # useless for it
$_->cli('ACL', 'SETUSER', 'limiter', @rule, '+cluster|slots', '+asking') for @masters, $stranger;
$second->cli(qw(ACL SETUSER limiter -cluster|slots));
my $holds = Testbed::FakeRedis->new($bed, answers => { CLUSTER => '' });

my $conf = conf(
    workers => 4,
    listen  => 'reuseport',
    store   => <<'STORE',
    server %%SEEDS%%; mode cluster; username limiter; password us3rpass; timeout 300ms; connect_timeout 300ms;
    reconnect 20ms 200ms;
STORE
    how     => '$sliding_log_source $pid $sliding_log_latency',
    server  => 'location / { sliding_log_limit load key=$arg_k limit=100000 window=1h; empty_gif; }',
);

# True if Redis decides for all four workers and all tags.
sub all_decide {
    my ($nginx, @of) = @_;
    my (%by, $local);
    for my $answer (many([map { [$nginx->port, "/?k=$of[$_ % @of]"] } 1 .. 60])) {
        my ($source, $worker) = split / /, field($answer, 'X-How');
        $by{$worker}++;
        $local = 1 if $source ne 'redis';
    }
    return !$local && keys %by == 4;
}

my %seed = (
    'a node without a cluster'      => $stranger->address,
    'a user without the right'          => $second->address,
    'a node that delays its reply' => '127.0.0.1:' . $holds->port,
    'nobody'                            => '127.0.0.1:' . free_port(),
);
for my $what (sort keys %seed) {
    my $nginx = $bed->nginx($conf, SEEDS => join ' ', ($seed{$what}) x 3, $first->address);
    ok(wait_until('all workers', 5, sub { all_decide($nginx, @tags) }), "$what as a seed: all workers find the map");
}
my $nginx = $bed->nginx($conf, SEEDS => join ' ', values %seed, $first->address);
ok(wait_until('all workers', 5, sub { all_decide($nginx, @tags) }), 'all kinds of useless seeds: all workers find the map');

# a source that gives no map is not asked again at once
my $only    = $bed->nginx($conf, SEEDS => $stranger->address);
wait_until('the cause', 5, sub { get($only->port, '/?k=x'); $only->logged(qr/names no node that serves slots/) });
my $before = $stranger->calls('cluster|slots');
my $over   = time + 3;
wait_until('some seconds', 5, sub { get($only->port, '/?k=x'); time > $over });
cmp_ok($stranger->calls('cluster|slots') - $before, '<=', 4 * 4, 'the only source gives no map: each worker asks it once a second');
cmp_ok($stranger->calls('cluster|slots') - $before, '>=', 4, 'the only source gives no map: the workers continue to ask it');

# with a map, and connected to nodes that no longer have one
$first->cli(qw(ACL SETUSER limiter -cluster|slots));
my $slot = $cluster->slot_of($tags[2]);
$third->kill;
$third->start;
$third->cli('ACL', 'SETUSER', 'limiter', @rule, '+cluster|slots', '+asking');
$cluster->wait_agreed;
ok(wait_until('all workers', 10, sub { all_decide($nginx, @tags) }), 'two of three nodes have no map: Redis decides all');
my $asked = $third->calls('cluster|slots');
$cluster->move($slot, $third, $first);
ok(wait_until('the map to be asked', 10, sub { all_decide($nginx, @tags) && $third->calls('cluster|slots') > $asked }),
    'two of three nodes have no map: the third node is asked for it');

# connections to the outside node are closed once the map is known
ok(wait_until('connections to be closed', 15, sub { all_decide($nginx, @tags); 4 >= grep { /user=limiter/ } split /\n/, $stranger->cli(qw(CLIENT LIST TYPE normal)) }),
    'connections to a seed outside the cluster are closed');

$bed->done;
