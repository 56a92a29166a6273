# sliding-log on a cluster, behind Sentinels, on another database, and with the documented rights only.

use strict;
use warnings;
use JSON::PP ();
use Test::More;
use Testbed qw(wait_until);
use Testbed::Acl qw(documented_rule);
use Testbed::Tool qw(tool tool_json);

my $bed = Testbed->new;
my $now = int(time * 1000);
my %as  = (env => { SLIDING_LOG_PASSWORD => 'us3rpass', SLIDING_LOG_SENTINEL_PASSWORD => 'w4tchpass' });
my @rule    = split ' ', documented_rule('operator', 'us3rpass');
my @watcher = split ' ', documented_rule('watcher', 'w4tchpass');

# No command was refused, and none but AUTH failed.
sub nothing_refused {
    my @log = map { [split /\n/, $_->cli('ACL', 'LOG')] } @_;
    is(join(' ', map { @$_ } @log), '', 'the documented rights are sufficient');
}

# ---- Cluster

my $cluster = $bed->cluster(masters => 3, args => ['--maxmemory', '100mb']);
my @masters = $cluster->nodes;
for my $node (@masters) {
    $node->cli('ACL', 'SETUSER', 'operator', @rule, '+cluster|slots', '+cluster|info', '+cluster|nodes', '+asking');
}
my @cluster = (\%as, '--mode', 'cluster', '--server', $masters[0]->address, '--user', 'operator');
sub on_cluster { my ($how, @words) = @_; return $how->($cluster[0], @words, @cluster[1 .. $#cluster]) }

my %tags;
for my $node (@masters) {
    for my $nth (1 .. 3) {
        my $tag = $cluster->tag_on($node);
        $tags{$tag} = $node;
        $node->cli('ZADD', "rl:sliding:api:{$tag}", map { ($now + $_, "$tag.$_") } 1 .. $nth);
    }
}
my @export = map { JSON::PP::decode_json($_) } split /\n/, on_cluster(\&tool, 'export', 'api')->{out};
is(scalar @export, 18, 'cluster: export has the entries of all masters');
is(scalar keys %{ { map { $_->{key} => 1 } @export } }, 9, 'cluster: export has every log');
my $top = on_cluster(\&tool_json, 'top', '--by', 'entries');
is(join(' ', map { $_->{entries} } @{ $top->{logs} }), '3 3 3 2 2 2 1 1 1', 'cluster: top has the logs of all masters');
is(on_cluster(\&tool_json, 'inspect', 'api', $_)->{key}, "rl:sliding:api:{$_}", "cluster: inspect asks the node that has $_") for (sort keys %tags)[0, 3, 8];

my $doctor = on_cluster(\&tool_json, 'doctor');
is(scalar(grep { $_->{check} eq 'cluster' && $_->{text} eq '16,384 of 16,384 slots served' } @{ $doctor->{checks} }), 3,
    'cluster: doctor checks each master');
is(join(' ', grep { !/^(?:replication|latency)$/ } map { $_->{status} eq 'ok' ? () : $_->{check} } @{ $doctor->{checks} }), '',
    'cluster: doctor warns only of missing replicas, and perhaps of a busy machine');
my ($plain) = grep { $_->{check} eq 'cluster' } @{ tool_json(\%as, 'doctor', '--server', $masters[1]->address, '--user', 'operator')->{checks} };
is("$plain->{status}: $plain->{text}", 'critical: the server is a node of a cluster: "mode cluster" is required',
    'cluster: doctor reports a node configured as a single Redis');

# a migrating slot
my ($from, $to) = @masters[0, 1];
my ($tag)  = grep { $tags{$_} == $from } sort keys %tags;
my $slot   = $cluster->slot_of($tag);
my $before = on_cluster(\&tool_json, 'inspect', 'api', $tag)->{entries};
$cluster->begin_move($slot, $from, $to);
$cluster->move_all_keys($slot);
is(on_cluster(\&tool_json, 'inspect', 'api', $tag)->{entries}, $before, 'cluster: inspect finds a log that has moved before its slot');
is(scalar(split /\n/, on_cluster(\&tool, 'export', 'api')->{out}), 18, 'cluster: export has a log that has moved before its slot');
is(on_cluster(\&tool, 'reset', 'api', $tag)->{status}, 0, 'cluster: reset finds a log that has moved before its slot');
is($to->calls('unlink'), 2, 'cluster: reset follows ASK, for the log and for its blocks');
$cluster->end_move($slot);
my $other = (grep { $tags{$_} == $from } sort keys %tags)[1];
$cluster->move($cluster->slot_of($other), $from, $to);
is(on_cluster(\&tool_json, 'inspect', 'api', $other)->{key}, "rl:sliding:api:{$other}", 'cluster: inspect finds a log that has moved with its slot');

my $size = on_cluster(\&tool_json, 'size', '--entries', 100, '--keys', 1000);
is($size->{maxmemory}, 3 * 100 * 1024 * 1024, 'cluster: size adds up maxmemory of all masters');
nothing_refused(@masters);
is(join(' ', map { $_->cli('DBSIZE') } @masters), '1 4 3', 'cluster: size leaves only the logs');

$masters[2]->kill;
my $hurt = on_cluster(\&tool, 'doctor');
is($hurt->{status}, 2, 'cluster: doctor exits with 2 when a master is lost') or diag($hurt->{out}, $hurt->{err});
like($hurt->{out}, qr/CRITICAL +answers +\S+: Connection refused/, 'cluster: doctor names the lost master');

# ---- Sentinel

my $master   = $bed->redis(args => ['--maxmemory', '100mb', '--repl-diskless-sync-delay', 0]);
my $replica  = $bed->redis(args => ['--maxmemory', '100mb']);
$replica->cli('REPLICAOF', '127.0.0.1', $master->port);
ok(wait_until('the replica', 20, sub { ($replica->info('master_link_status') // '') eq 'up' }), 'Sentinel: the replica is up');
my $stranger = $bed->sentinel;
my $sentinel = $bed->sentinel(master => $master);
$master->cli('ACL', 'SETUSER', 'operator', @rule, '+role');
$_->cli('ACL', 'SETUSER', 'watcher', @watcher, '+sentinel|ckquorum') for $stranger, $sentinel;
my @sentinel = ('--mode', 'sentinel', 'limits', '--user', 'operator', '--sentinel-user', 'watcher', map { ('--server', $_->address) } $stranger, $sentinel);
$master->cli('ZADD', 'rl:sliding:api:{a}', $now, 'one');
is(tool_json(\%as, 'inspect', 'api', 'a', @sentinel)->{entries}, 1, 'Sentinel: inspect asks the master that a Sentinel names');
my %said = map { ("$_->{server} $_->{check}" => "$_->{status}: $_->{text}") } @{ tool_json(\%as, 'doctor', @sentinel)->{checks} };
my $at_master = '127.0.0.1:' . $master->port;
is($said{"$at_master replication"}, 'ok: 1 replica', 'Sentinel: doctor reports the master');
like($said{ $sentinel->address . ' sentinel' }, qr/^ok: OK 1 usable Sentinels/, 'Sentinel: doctor reports the Sentinel that could replace the master');
is($said{ $stranger->address . ' sentinel' }, 'warning: the Sentinel names another master or none', 'Sentinel: doctor warns of a Sentinel that does not know the master');
nothing_refused($master, $sentinel);
my $unknown = tool(\%as, 'top', '--mode', 'sentinel', 'nobody', '--sentinel-user', 'watcher', '--server', $sentinel->address);
is($unknown->{status}, 3, 'Sentinel: a master that no Sentinel knows is status 3');
like($unknown->{err}, qr/no Sentinel knows the master "nobody"; \S+: the master is unknown/, 'Sentinel: a master that no Sentinel knows is reported');

# ---- a database, a socket, IPv6

$master->cli('-n', 3, 'ZADD', 'rl:sliding:api:{b}', $now, 'one');
is(tool_json('inspect', 'api', 'b', '--db', 3, '--server', 'unix:' . $master->path)->{entries}, 1,
    '--db: a log in a database of its own is found, by a socket');
is(tool('inspect', 'api', 'b', '--server', 'unix:' . $master->path)->{status}, 1, '--db: the log of one database is not in another');
my $six = eval { $bed->redis(host => '::1') };
is($six ? tool('inspect', 'api', 'b', '--server', '[::1]:' . $six->port)->{status} : 1, 1, 'IPv6: Redis replies, if the machine has IPv6');

$bed->done;
