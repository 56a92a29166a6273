# How often the slot map is requested: at most once a second by each worker, not by all at once, and not while a hash
# slot is migrated.

use strict;
use warnings;
use Test::More;
use List::Util qw(min max);
use Testbed qw(wait_until slow);
use Testbed::Http qw(get field many);
use Testbed::Load;
use Testbed::Process;
use Time::HiRes qw(time sleep);

use constant WORKERS => 8;

my $bed     = Testbed->new;
my $cluster = $bed->cluster(masters => 2, node_timeout => 60_000);
my ($first, $second) = $cluster->nodes;
my $nginx = $bed->serve(
    SEEDS => $first->address, WORKERS => WORKERS,
    workers => '%%WORKERS%%',
    listen  => 'reuseport',
    store   => 'server %%SEEDS%%; mode cluster; timeout 5s; connect_timeout 5s;',
    how     => '$sliding_log_source $pid $sliding_log_latency',
    server  => <<'END',
    location /one { sliding_log_limit one key=$arg_k limit=100000 window=1h; empty_gif; }
    location /two {
        sliding_log_limit two_a key=$arg_k limit=100000 window=1h;
        sliding_log_limit two_b key=$arg_k limit=100000 window=1d;
        empty_gif;
    }
END
);
my $port = $nginx->port;
my @tags = map { $cluster->tag_on($first) } 1 .. 4;
my $two  = $cluster->tag_on($second);
sub asked { my $sum = 0; $sum += $_->calls('cluster|slots') for $cluster->running; return $sum }

# All workers have sent calls to both nodes.
sub warm {
    my %seen;
    return wait_until('all workers', 10, sub {
        for my $tag ($tags[0], $two) {
            my @how = map { [split / /, field($_, 'X-How')] } many([map { [$port, "/one?k=$tag"] } 1 .. 40]);
            $seen{$tag}{ $_->[1] } = 1 for grep { $_->[0] eq 'redis' } @how;
        }
        return WORKERS == min(map { scalar keys %{ $seen{$_} // {} } } $tags[0], $two);
    });
}
ok(warm(), 'at the start all workers ask both nodes');
cmp_ok(asked(), '<=', WORKERS, 'at the start each worker asks for the map once at most');

# slots move, back and forth
sleep 1.2;
my ($before, $start, $rounds) = (asked(), time, 0);
my $load = Testbed::Load->start($bed, $port, paths => [map { "/one?k=$_" } @tags], rate => 250);
while (time < $start + 3) {
    my @way = $rounds++ % 2 ? ($second, $first) : ($first, $second);
    $cluster->move($cluster->slot_of($_), @way) for @tags;
}
my $record = $load->stop;
is($record->that(source => 'redis')->count, $record->count, "4 slots moved $rounds times: Redis decides every request");
my $spent = time - $start;
cmp_ok($cluster->errors('MOVED'), '>', WORKERS, "4 slots moved $rounds times: MOVED occurs");
cmp_ok(asked() - $before, '<=', WORKERS * (1 + $spent),
    sprintf "4 slots moved $rounds times: each worker asks for the map once a second (%d in %.1f s)", asked() - $before, $spent);

# a migrating slot
my $from = $cluster->owner_of($cluster->slot_of($tags[0]));
my ($to) = grep { $_ != $from } $first, $second;
wait_until('two logs', 5, sub { get($port, "/two?k=$tags[0]")->{status} == 200 });
$cluster->begin_move($cluster->slot_of($tags[0]), $from, $to, "rl:sliding:two_a:{$tags[0]}", "rl:sliding:one:{$tags[0]}");
sleep 1.3;
$before = asked();
$load   = Testbed::Load->start($bed, $port, paths => ["/one?k=$tags[0]", "/two?k=$tags[0]"], rate => 100);
wait_until('redirects', 10, sub { $cluster->errors('ASK') > 40 && $cluster->errors('TRYAGAIN') > 40 });
cmp_ok($cluster->errors($_), '>', 40, "a migrating slot: $_ occurs") for qw(ASK TRYAGAIN);
is(asked() - $before, 0, 'a migrating slot: no worker asks for the map');
$cluster->finish_move($cluster->slot_of($tags[0]));
$record = $load->stop;
is($record->that(source => 'redis')->count, $record->count, 'a migrating slot: Redis decides every request');

# all lose a node at the same moment
ok(warm(), 'all workers are connected to both nodes');
sleep 1.3;
my $monitor = bless { log => $bed->dir . '/monitor' }, 'Testbed::Process';
$monitor->spawn($monitor->{log}, Testbed::Redis::cli_command($first->where, 'MONITOR'));
push @{ $bed->{processes} }, $monitor;
wait_until('the monitor', 5, sub { $first->cli('PING'); Testbed::Process::slurp($monitor->{log}) =~ /PING/i });
$second->kill;
my $end = time + 3.5;
my %asked_at;
wait_until('questions', 10, sub {
    %asked_at = ();
    my $seen = Testbed::Process::slurp($monitor->{log});
    push @{ $asked_at{$2} }, $1 while $seen =~ /^([\d.]+) \[0 ([^\]]+)\] "CLUSTER" "SLOTS"/mg;
    return keys %asked_at == WORKERS && time > $end;
});
is(scalar(keys %asked_at), WORKERS, 'a node is lost: every worker asks the other node for the map');
my @first = map { $_->[0] } values %asked_at;
cmp_ok(max(@first) - min(@first), '>', 0.02, sprintf 'a node is lost: the first questions are spread over %.0f ms', 1000 * (max(@first) - min(@first)));
my @gaps = map { my $at = $_; map { $at->[$_] - $at->[$_ - 1] } 1 .. $#$at } values %asked_at;
cmp_ok(scalar @gaps, '>=', WORKERS, 'a node is lost: the workers continue to ask for the map');
cmp_ok(min(@gaps), '>', 0.95, sprintf 'a node is lost: questions of a worker are a second apart, %.2f to %.2f s', min(@gaps), max(@gaps));

$bed->done;
