# A master of a cluster is killed under load: on_error decides its hash slots until a replica takes over, and the others
# are served as before. The old master comes back as a replica and is not asked. A fail-over by command loses no
# request.

use strict;
use warnings;
use Test::More;
use Testbed qw(wait_until slow);
use Testbed::Http qw(get field);
use Testbed::Load;
use Time::HiRes qw(time);

my $bed     = Testbed->new;
my $cluster = $bed->cluster(masters => 3, replicas => 1, node_timeout => 600 * slow());
my ($first, $second, $third, $replica) = $cluster->nodes;
my $nginx = $bed->serve(
    SEEDS   => join(' ', map { $_->address } $cluster->nodes),
    workers => 2,
    store   => 'server %%SEEDS%%; mode cluster; timeout 300ms; connect_timeout 300ms; reconnect 20ms 200ms;',
    how     => '$sliding_log_source $pid $sliding_log_latency',
    server  => <<'END',
    location /deny  { sliding_log_limit load key=$arg_k limit=100000 window=1h; sliding_log_on_error deny; empty_gif; }
    location /local { sliding_log_limit near key=$arg_k limit=100000 window=1h; empty_gif; }
END
);
my $port = $nginx->port;
my $lost = $cluster->tag_on($first);
my $kept = $cluster->tag_on($second);

sub load { return Testbed::Load->start($bed, $port, paths => ["/deny?k=$lost", "/deny?k=$kept", "/local?k=$lost"], rate => 250) }
sub a_moment { my $over = time + 0.5; wait_until('some requests more', 5, sub { time > $over }); return }

# killed
my $load = load();
a_moment();
$first->kill;
ok(wait_until('the replica to be promoted', 20, sub { $replica->cli('ROLE') =~ /^master/ && $replica->calls('evalsha') > 50 }),
    'a master killed: its replica is asked');
my %served;
ok(wait_until('both workers', 10, sub {
    my $answer = get($port, "/deny?k=$lost");
    $served{ (split / /, field($answer, 'X-How'))[1] } = $answer->{status} == 200;
    return 2 == grep { $_ } values %served;
}), 'a master killed: both workers ask its replica');
my $over = time;
a_moment();
my $record = $load->stop;
my $local  = $record->that(path => qr/local/);
is($local->statuses, '200:' . $local->count, 'a master killed: no request fails under on_error local');
is($record->that(path => qr/deny\?k=$lost$/)->statuses =~ s/:\d+//gr, '200 503', 'a master killed: its slot is denied for a while');
is($record->that(path => qr/deny\?k=$lost$/, from => $over)->statuses =~ s/:\d+//r, '200', 'a master killed: its slot is served after the promotion');
cmp_ok($record->that(path => qr/deny\?k=$kept$/, status => 200)->count, '>', 0.5 * $record->that(path => qr/deny\?k=$kept$/)->count,
    'a master killed: another slot is served, except during the vote');
cmp_ok($record->longest_wait, '<', 0.3 + 0.1 * slow(), 'a master killed: no request waits longer than the timeout');
cmp_ok($record->percentile(0.5), '<', 0.05 * slow(), 'a master killed: most requests do not wait');

# back again
$first->start;
ok(wait_until('the old master to be a replica', 20, sub { $first->cli('ROLE') =~ /^slave/ && ($first->info('master_link_status') // '') eq 'up' }),
    'the old master comes back as a replica');
$load = load();
a_moment();
is($load->stop->statuses =~ s/:\d+//r, '200', 'the old master is a replica: every request is served');
unlike($first->cli(qw(INFO errorstats)), qr/MOVED/, 'the old master is a replica: it gets no calls');

# by command: CLUSTER FAILOVER loses nothing
$load = load();
a_moment();
is($first->cli('CLUSTER', 'FAILOVER'), 'OK', 'a fail-over by command: Redis begins it');
ok($cluster->has_failed_over_to($first), 'a fail-over by command: the replica has become the master');
ok(wait_until('calls', 20, sub { $first->calls('evalsha') > 50 }), 'a fail-over by command: the new master is asked');
a_moment();
$record = $load->stop;
is($record->statuses, '200:' . $record->count, 'a fail-over by command: every request is served, under on_error deny too');
is($record->that(source => 'redis')->count, $record->count, 'a fail-over by command: Redis decides every request');

# a reload in the middle
my $reloading = load();
a_moment();
$second->kill;
$nginx->reload;
ok(wait_until('the replica to be promoted', 20, sub { my $owner = $cluster->owner_of($cluster->slot_of($kept)); $owner && $owner != $second && $owner->calls('evalsha') > 50 }),
    'a reload while a master is lost: its replica is asked');
$record = $reloading->stop;
is($record->that(path => qr/local/)->statuses =~ s/:\d+//gr, '200', 'a reload while a master is lost: no request fails under on_error local');
like($record->statuses, qr/^200:\d+(?: 503:\d+)?$/, 'a reload while a master is lost: the answers are 200 and 503 only');
cmp_ok($nginx->logged(qr/\[(?:error|warn)\].*sliding_log_redis/), '<', 150, 'the error log has about one line a second and worker');

$bed->done;
