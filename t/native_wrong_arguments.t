# The native module is sent calls in which words were changed, left out, doubled or exchanged: it answers each with an error
# or a decision, and lives on.

use strict;
use warnings;
use Test::More;
use Testbed qw(seed);
use Testbed::Algorithm qw(@ALL_ALGORITHMS %ALL_SCRIPTS);
use Testbed::Corrupt qw(any);
use Testbed::Native qw(native_module);
use Testbed::Script;

seed();
my $calls = Testbed::operations(6000);    # of each algorithm

my $bed   = Testbed->new;
my $redis = $bed->redis(args => ['--loadmodule', native_module()]);

my @words = ('', ' ', 'renew', '1000', '1001', '0', '1', '2', '-1', '1.5', '1e3', '00', '+1', "1\0", '999999999999999', '9999999999999999', '18446744073709551615', 'x' x 5000, "\xff\r\n", 'take back',
    'cost=2', 'cost=', 'cost=100000', 'cost=999999999999999', 'count=all', 'count=none', 'delay=5 ahead=5', 'ahead=999999999999999', 'block=999999999999999', 'burst=0', 'burst=3',
    'sample=0', 'sample=3', 'ids', 'ids ids', 'override', 'told', 'override told', 'ids override told', '  ', 'cost=2 ', '=', 'nonsense=1', 'log', 'compact',
    'log 5 1000 1100', 'compact 5 1000 1100 2', 'compact 5 1000 1100 0', 'log 5 1000 1100 2', 'compact 5 1000', 'compact 5 1000 1100 2 ', 'compact  5 1000 1100', 'bucket 5 1000 1100', 'inflight 5 1000 0',
    'compact 5 -1 1100', 'compact 9999999999999999 1000 1100', 'compact 999999999999999 999999999999999 999999999999999 999999999999999');

sub changed {
    my ($command, @call) = @_;
    for (1 .. any(1, 1, 2, 4)) {
        my $at  = int rand @call;
        my $how = int rand 5;
        if    ($how == 0) { splice @call, $at, 1 }
        elsif ($how == 1) { splice @call, $at, 0, $call[$at] // '' }
        elsif ($how == 2) { @call[$at, -1] = @call[-1, $at] }
        else              { $call[$at] = any(@words) }
        @call = ('') if !@call;
    }
    return ($command, @call);
}

for my $algorithm (@ALL_ALGORITHMS, 'inflight') {
    my $script = Testbed::Script->new($redis, $ALL_SCRIPTS{$algorithm}, native => 1);
    my $option = { bucket => 'burst=5', sampled => 'sample=3' }->{$algorithm} // '';
    my (%answers, $wrong);
    for (1 .. $calls) {
        my $log   = sub { return { key => 'key' . int rand 5, limit => 5, window => 1000, ttl => 1100, options => join ' ', grep { length } any('', 'cost=2', 'count=all', 'delay=50', 'override'), $option } };
        my $now   = any('', '', 1_800_000_000_000);
        my @group = (any(1, 1, 3), map { $log->() } 1 .. any(1, 2));
        my @call  = rand() < 0.2 ? $script->words(Testbed::Script::taking_back({ now => $now, logged => 1_800_000_000_000, taken => 0 }), [['u1'], $log->()]) : $script->words($now, \@group);
        if ($algorithm eq 'inflight' && rand() < 0.4) {
            my @logs = map { $log->() } 1 .. any(1, 2);
            @call = ($script->command, scalar @logs, (map { $_->{key} } @logs), 'renew', $now, map { (1100, 2, 'a', 'b') } @logs);
        }
        @call = ('sliding_log.2', any(@words), 'key' . int rand 5, any(0, 1) ? 'name' : ()) if rand() < 0.1;
        my $reply = $script->call(changed(@call));
        my $kind  = ref $reply ? 'decided' : $reply =~ /^error (?:ERR|WRONGTYPE) / ? 'refused' : $reply =~ /^\d+$/ ? 'taken back' : 'else';
        $answers{$kind}++;
        $wrong //= $reply if $kind eq 'else';
    }
    is($wrong, undef, "$algorithm: every answer is a decision or an error");
    cmp_ok($answers{$_} // 0, '>', $calls / 100, "$algorithm: some are $_") for qw(decided refused);
    $script->call('FLUSHALL');
}
is($redis->info('total_connections_received') > 0 && $redis->cli('PING'), 'PONG', 'Redis lives on');
cmp_ok($redis->info('used_memory'), '<', 100_000_000, 'no call has taken much memory');
$bed->done;
