# redis-cli moves hundreds of hash slots at once under load, forward (reshard) and back (rebalance). Redis decides every
# request, and no entry is lost or counted twice.
# prove: first

use strict;
use warnings;
use Test::More;
use Testbed qw(wait_until slow);
use Testbed::Load;
use Time::HiRes qw(time);

use constant { TAGS => 200, SLOTS => 1500 };

my $bed     = Testbed->new;
my $cluster = $bed->cluster(masters => 3);
my @nodes   = $cluster->nodes;
my $nginx   = $bed->serve(
    SEEDS   => join(' ', map { $_->address } @nodes),
    workers => 2,
    store   => 'server %%SEEDS%%; mode cluster; timeout 500ms; connect_timeout 300ms; reconnect 20ms 200ms;',
    http    => 'sliding_log_on_error deny;',
    how     => '$sliding_log_source $pid $sliding_log_latency',
    server  => 'location / { sliding_log_limit load key=$arg_k limit=100000 window=1h; empty_gif; }',
);
my @tags = map { "tag$_" } 1 .. TAGS;

# The number of entries of each log, wherever it is.
sub entries {
    my %found;
    for my $node (@nodes) {
        $found{ /\{(.*)\}/ ? $1 : $_ } += $node->cli('ZCARD', $_) for split /\n/, $node->cli('KEYS', '*');
    }
    return %found;
}

sub redis_cli {
    my (@words) = @_;
    my $said = $bed->dir . '/redis-cli';
    return (system("timeout 120 redis-cli --cluster @words --cluster-yes >$said 2>&1 </dev/null"), Testbed::Process::slurp($said));
}

my %before;
for my $step (
    ['reshard, to the first',  'reshard',   '--cluster-from', $cluster->id($nodes[1]), '--cluster-to', $cluster->id($nodes[0]), '--cluster-slots', SLOTS],
    ['reshard, to the last',   'reshard',   '--cluster-from', $cluster->id($nodes[0]), '--cluster-to', $cluster->id($nodes[2]), '--cluster-slots', SLOTS, '--cluster-pipeline', 1],
    ['rebalance',              'rebalance', '--cluster-threshold', 1],
) {
    my ($what, $command, @options) = @$step;
    my $load = Testbed::Load->start($bed, $nginx->port, paths => [map { "/?k=$_" } @tags], rate => 400);
    wait_until('the load', 5, sub { $nodes[0]->calls('evalsha') > 50 });
    my ($failed, $said) = redis_cli($command, $nodes[0]->address, @options);
    is($failed, 0, "$what: redis-cli moves slots") or diag(substr $said, -500);
    ok($cluster->wait_agreed, "$what: the nodes agree");
    my $record = $load->stop;
    is($record->statuses, '200:' . $record->count, "$what: every request is admitted");
    is($record->that(source => 'redis')->count, $record->count, "$what: Redis decides every request");
    cmp_ok($record->longest_wait, '<', 0.5 + 0.1 * slow(), "$what: no request waits past the timeout");
    $before{ $_->{path} =~ /k=(\S+)/ ? $1 : '' }++ for $record->requests;
    my %after = entries();
    is(join(' ', map { "$_:" . ($after{$_} // 0) } @tags), join(' ', map { "$_:" . ($before{$_} // 0) } @tags), "$what: each log has as many entries as were admitted");
    note(sprintf '%s: %d requests, longest wait %.0f ms, %d ASK, %d MOVED so far', $what, $record->count, 1000 * $record->longest_wait, $cluster->errors('ASK'), $cluster->errors('MOVED'));
}
cmp_ok($cluster->errors('MOVED'), '>', 0, 'redirects were followed');

$bed->done;
