# What the exact scripts make of cost, count=all, delay, block and taking back: cases computed by hand, for both alike.
# Each log has a limit of 5 in 10 s where nothing else is said.

use strict;
use warnings;
use Test::More;
use Testbed;
use Testbed::Script;

my $bed   = Testbed->new;
my $redis = $bed->redis(clock => 1);
my $T     = 1_800_000_000_000;

for my $name (qw(sliding_log compact_log)) {
    my $script = Testbed::Script->new($redis, $name);

    my $log = sub { my ($key, $options, %other) = @_; return { key => "$name $key", limit => 5, window => 10000, options => $options, %other } };
    my $ask    = sub { my ($now, @log) = @_; return $script->ask($now, $log->(@log)) };
    my $groups = sub { return $script->ask_groups(@_) };
    # how many entries a log has, as an operator would look: a request that costs nothing tells
    my $used = sub { my ($now, $key) = @_; my @told = split / /, $script->ask($now, $log->($key, 'cost=0', limit => 1000)); return 1000 - $told[1] };
    subtest $name => sub {
        # admitted remaining reset retry, and the slots of held ones
        is($ask->($T, 'cost', 'cost=3'), '1 2 10000 0', 'a cost of 3 takes three');
        is($ask->($T + 1, 'cost', 'cost=3'), '0 2 9999 9999', 'all or none: two are left');
        is($ask->($T + 2, 'cost', 'cost=2'), '1 0 9998 0', 'which another one takes');
        is($ask->($T + 3, 'cost', 'cost=4'), '0 0 9997 9999', 'a cost of 4 waits for the fourth oldest');
        is($ask->($T + 3, 'cost', 'cost=0'), '1 0 9997 0', 'looking needs no room');
        is($ask->($T + 3, 'cost', 'cost=0', limit => 4), '0 0 9997 9997', 'but none beyond a limit that was lowered');
        is($ask->($T + 3, 'cost', 'cost=6'), '0 0 9997 -1', 'a cost above the limit: never');
        is($ask->($T + 3, 'cost', 'cost=0', limit => 0), '0 0 9997 -1', 'limit 0: not even a look');
        is($used->($T + 3, 'cost'), 5, 'and nothing was logged by those');
        is($ask->($T + 10001, 'cost', 'cost=3'), '1 0 1 0', 'when the three have left there is room for three');
        is($groups->($T, [4, $log->('many', 'cost=2')]), '2 1 10000 10000', 'of four that cost 2, two fit');
        is($groups->($T, [2, $log->('g1', 'cost=2'), $log->('g2', '')]), '2 1 10000 0 3 10000 0', 'logs of other costs');
        is($groups->($T, [2, $log->('g1', 'cost=2'), $log->('g2', '')]), '0 1 10000 10000 3 10000 0', 'all or nothing');
        is($used->($T, 'g2'), 2, '  the one with room has logged two');
        is($ask->($T, 'looks', 'cost=0'), '1 5 10000 0', 'a look at nothing');
        is($redis->cli('EXISTS', "$name looks"), 0, '  leaves nothing');

        # denied ones count
        is($groups->($T, [7, $log->('all', 'count=all', cap => 6)]), '5 0 10000 10000', 'count=all: five of seven are admitted');
        is($used->($T, 'all'), 6, '  and the denied ones are logged, up to cap');
        is($ask->($T + 4000, 'all', 'count=all', cap => 6), '0 0 6000 6000', 'who keeps hammering');
        is($groups->($T + 9000, [4, $log->('all', 'count=all', cap => 6)]), '0 0 1000 5000', '  makes it longer: the oldest went');
        is($ask->($T + 10000, 'all', 'count=all', cap => 6), '0 0 4000 9000', '  and is denied when the first window is over');
        is($groups->($T, [1, $log->('a1', 'count=all'), $log->('a2', '', limit => 0)]), '0 4 10000 0 0 10000 -1', 'denied by another log: counted');
        is($used->($T, 'a1') . $used->($T, 'a2'), '10', '  only where all count');

        # delay
        my $delay = 'delay=12000 ahead=12000';
        is($groups->($T, [3, $log->('slots', $delay, limit => 2)]), '3 0 10000 0 10000', 'the third is held until the first leaves');
        is($ask->($T + 1000, 'slots', $delay, limit => 2), '1 0 9000 0 9000', 'so is the fourth');
        is($ask->($T + 1000, 'slots', $delay, limit => 2), '0 0 9000 19000', 'the fifth would wait too long; room now is when all of them have left');
        is($ask->($T + 8000, 'slots', $delay, limit => 2), '1 0 2000 0 12000', 'when it is near enough it is held');
        is($ask->($T + 8000, 'slots', 'delay=11999 ahead=12000', limit => 2), '0 0 2000 12000', 'a ms less of patience is not enough');
        is($ask->($T + 10000, 'slots', 'ahead=12000', limit => 2), '0 0 10000 10000', 'the held ones count, and the first has left');
        is($used->($T + 10000, 'slots'), 3, '  three are on their way or there');

        $ask->($T, 'raised', $delay, limit => 1) for 1 .. 2;
        is($ask->($T + 1, 'raised', $delay, limit => 3), '1 0 9999 0', 'a raised limit has room now, in front of a reservation');
        is($ask->($T + 9999, 'raised', 'ahead=12000', limit => 3), '0 0 1 1', '  all three count');
        is($ask->($T + 10000, 'raised', '', limit => 3), '1 0 1 0', '  the first leaves, then the one that was put between');

        is($groups->($T, [2, $log->('d1', $delay, limit => 1), $log->('d2', 'ahead=12000', limit => 2)]),
            '2 0 10000 0 0 10000 0 10000', 'held in all logs, also in one that has no delay but room');
        is($groups->($T, [1, $log->('d1', $delay, limit => 3), $log->('d2', 'ahead=12000', limit => 2)]),
            '0 1 10000 0 0 10000 10000', '  and denied by that one without');

        # taking back
        $groups->($T, [['gone'], $log->('back', 'cost=2')]);
        $ask->($T + 1, 'back', 'cost=3');
        is($script->take_back($T, 'gone', $log->('back', 'cost=2')), 1, 'taken back');
        is($ask->($T + 2, 'back', 'cost=2'), '1 0 9999 0', '  both are free, the others stay');
        is($groups->($T, [['left'], $log->('held', $delay, limit => 1)], [['right'], $log->('held', $delay, limit => 1)]),
            '1 0 10000 0 | 1 0 10000 0 10000', 'one goes, one is held');
        is($script->take_back({ now => $T, logged => $T + 10000, taken => $T }, 'right', $log->('held', $delay, limit => 1)), 1, 'who is held leaves');
        is($used->($T, 'held'), 1, '  and its slot is free');
        is($ask->($T + 5, 'held', $delay, limit => 1), '1 0 9995 0 9995', '  for the next');
        is($script->take_back($T, 'nobody', $log->('none', '')), 0, 'nothing to take back');
        is($script->take_back($T, 'nobody', $log->('held', 'cost=0')), 0, 'nor for one that cost nothing');

        # block
        is($groups->($T, [6, $log->('box', 'block=30000')]), '5 0 10000 30000', 'the sixth is denied, and the key is blocked');
        is($ask->($T + 5000, 'box', 'block=30000'), '0 0 5000 25000', 'another attempt does not prolong it');
        is($ask->($T + 12000, 'box', ''), '0 5 10000 18000', 'whatever the log says, and who asks');
        is($ask->($T + 29999, 'box', 'cost=0'), '0 5 10000 1', 'until it is over');
        is($ask->($T + 30000, 'box', ''), '1 4 10000 0', 'then there is room');
        is($groups->($T, [6, $log->('long', 'block=1')]), '5 0 10000 10000', 'the log itself may take longer');
        is($ask->($T, 'large', 'cost=6 block=3000'), '0 5 10000 -1', 'a cost above the limit never fits');
        is($ask->($T + 1, 'large', ''), '0 5 10000 2999', '  and blocks as any denial');
        is($ask->($T, 'closed', 'block=3000', limit => 0), '0 0 10000 -1', 'limit 0');
        is($ask->($T + 1, 'closed', ''), '1 4 10000 0', '  needs no block');
        is($groups->($T, [1, $log->('b1', 'block=3000'), $log->('b2', '', limit => 0)]), '0 5 10000 0 0 10000 -1', 'denied by another log');
        is($ask->($T, 'b1', ''), '1 4 10000 0', '  is no reason to block');
        is($groups->($T, [3, $log->('late', "delay=10000 ahead=10000 block=3000", limit => 1)]), '2 0 10000 20000 10000', 'who is held is not denied, the third is');
        is($ask->($T + 19999, 'late', 'ahead=10000', limit => 1), '0 0 1 1', '  and its block is over before the log has room');
        is($ask->($T, 'full', 'block=30000 count=all', cap => 5, limit => 1), '1 0 10000 0', 'with count=all');
        $ask->($T, 'full', 'block=30000 count=all', cap => 5, limit => 1);
        is($groups->($T + 25000, [9, $log->('full', 'block=30000 count=all', cap => 5, limit => 1)]), '0 0 10000 10000', '  attempts at a blocked log are logged');
        is($used->($T + 34999, 'full') // '', 5, '  up to cap');
        is($script->ask($T + 500, $log->('box2', 'block=30000', limit => 1)), '1 0 10000 0', 'a clock');
        is($script->ask($T + 600, $log->('box2', 'block=30000', limit => 1)), '0 0 9900 30000', '  that steps back');
        is($script->ask($T - 3_600_000, $log->('box2', '', limit => 1)), '0 0 10000 30000', '  makes no block longer than it was to be');
        is($script->ask($T - 3_600_000 + 30000, $log->('box2', '', limit => 1)), '1 0 10000 0', '  and it ends');
        cmp_ok($redis->cli('PTTL', "$name box"), '>', 0, 'every log has a time to live');

        # a block ends with the attempts that do not count in the end
        my $boxed = sub {
            my ($key) = @_;
            $groups->($T, [['b1', 'b2', 'b3'], $log->("end $key", 'cost=2')]);    # two of them fit
            $ask->($T + 10, "end $key", 'cost=2 block=60000');
            return $log->("end $key", 'cost=2');
        };
        my $blocked = sub { my ($now, $key) = @_; return $ask->($now, "end $key", 'cost=0') =~ /^0 / ? 'blocked' : 'open' };
        my $at = sub { my ($now, $taken, $logged) = @_; return { now => $now, taken => $taken, logged => $logged // $taken } };
        my $end = $boxed->('a');
        is($script->take_back($at->($T + 20, $T), 'b1', $end), 1, 'an entry that was taken before a block began is given back');
        is($blocked->($T + 21, 'a'), 'open', '  and ends it');
        is($ask->($T + 22, 'end a', ''), '1 2 9978 0', '  the other entry counts');
        $end = $boxed->('b');
        is($script->take_back($at->($T + 20, $T + 11, $T), 'b1', $end), 1, 'one that was taken after a block began');
        is($blocked->($T + 21, 'b'), 'blocked', '  does not end it');
        $end = $boxed->('c');
        is($script->take_back($at->($T + 20, $T), 'b3', $end), $name eq 'sliding_log' ? 0 : 1, 'one that was not there');
        is($script->take_back($at->($T + 20, $T - 1), 'b4', $end), 0, '  at any time');
        is($blocked->($T + 21, 'c'), $name eq 'sliding_log' ? 'blocked' : 'open', '  ends it where entries have no names');
        $end = $boxed->('d');
        is($script->take_back($at->($T + 20, $T), 'b1', { %$end, limit => 3 }), 1, 'one of a limit that has no room yet');
        is($blocked->($T + 21, 'd'), 'blocked', '  does not end it');
        is($script->take_back($at->($T + 20, $T), 'b2', { %$end, limit => 3 }), 1, '  another one');
        is($blocked->($T + 21, 'd'), 'open', '  that makes room does');
        is($redis->cli('EXISTS', "$name end d"), 0, '  and nothing is left');
        $end = $boxed->('e');
        is($script->take_back($at->($T + 10000, $T), 'b1', $end), 0, 'one that has left its window');
        is($blocked->($T + 10001, 'e'), 'blocked', '  ends nothing');
        is($groups->($T, [['s1', 's2'], $log->('slot', $delay, limit => 1)]), '2 0 10000 0 10000', 'a reservation');
        is($ask->($T + 5, 'slot', 'ahead=12000 block=60000', limit => 1), '0 0 9995 60000', '  a block that begins when it is made');
        is($script->take_back($at->($T + 6, $T, $T + 10000), 's2', $log->('slot', $delay, limit => 1)), 1, '  it is given back');
        is($ask->($T + 7, 'slot', 'ahead=12000 cost=0', limit => 1), '0 0 9993 59998', '  but there is no room yet');
        is($script->take_back($at->($T + 8, $T), 's1', $log->('slot', $delay, limit => 1)), 1, '  when the first is given back, too');
        is($ask->($T + 9, 'slot', 'ahead=12000 cost=0', limit => 1), '1 1 10000 0', '  there is, and the block has ended');
        $end = $boxed->('f');
        is($ask->($T - 5000, 'end f', 'cost=2'), '0 1 10000 60000', 'a clock that steps back, during a block');
        is($script->take_back($at->($T - 4000, $T), 'b1', $end), 1, '  an entry from before is given back');
        is($blocked->($T - 3999, 'f'), 'open', '  and ends it');
        like($redis->cli('PTTL', "$name end a"), qr/^(?:9|10)\d{3}$/, '  what is left lives as long as any log') or diag $redis->cli('PTTL', "$name end a");

        # the clock steps back while slots are reserved
        $groups->($T, [2, $log->('step', $delay, limit => 1)]);
        is($ask->($T - 2000, 'step', 'ahead=12000', limit => 1), '0 0 12000 22000', 'two seconds: what may be a reservation keeps its time');
        is($ask->($T - 3_600_000, 'step', 'ahead=12000', limit => 1), '0 0 10000 10000', 'an hour: all are entries of now');

        # no answer is worse than an error
        my $key = "$name text";
        $redis->cli('SET', $key, 'x') if $name eq 'sliding_log';
        $redis->cli('HSET', $key, 'a', 'b') if $name eq 'compact_log';
        for my $options ('cost=2', 'count=all', $delay, 'block=5') {
            like($ask->($T, 'text', $options), qr/^error WRONGTYPE/, "$options: a key of another type");
        }
        for my $case (['no number', limit => 'x'], ['no window', window => ''], ['no cap', cap => 'y'], ['infinite', limit => 'inf', window => 'nan']) {
            my ($what, %other) = @$case;
            ok(defined $ask->($T, 'wrong', '', %other), "$what: an answer");
        }
        ok(defined $ask->($T, 'wrong', $_), "\"$_\": an answer") for 'cost=x', 'cost=-1', 'cost=1e300', 'delay=y', 'block=-1', 'nonsense', 'cost=', 'ids';
        ok(defined $script->call('EVALSHA', $script->{sha}, 1, 'k', @$_), "(@$_): an answer") for [], [''], ['take back'], ['', 0], ['', 1, 1];
        is($ask->($T, 'wrong', $_, limit => 1e12), "error ERR no log of this algorithm can keep a request of $_", "$_: is refused")
            for $name eq 'sliding_log' ? 'cost=1001' : 'cost=100001', 'cost=1000000000000';
        like($script->take_back($T, 'x', $log->('wrong', 'cost=1000000000000')), qr/^error ERR no log/, '  taken back, too');
        $redis->cli('CONFIG', 'SET', 'maxmemory', 1);
        like($ask->($T, "oom $_", $_), qr/^error OOM/, "$_: no memory") for 'cost=2', $delay, 'block=9', 'count=all';
        is($script->take_back($T, $script->latest, $log->('none', '')), 0, 'taking back needs none');
        $redis->cli('CONFIG', 'SET', 'maxmemory', 0);
        is($redis->cli('EXISTS', map { "$name oom $_" } 'cost=2', $delay, 'block=9', 'count=all'), 0, 'and nothing was logged');
        is($redis->cli('PING'), 'PONG', 'Redis is alive');
    };
}
$bed->done;
