# The two exact scripts with cost, count=all, delay, block and take-backs: cases computed by hand, the same for both. Each
# log has a limit of 5 in 10 s unless a case says otherwise.

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
    my $own    = Testbed::Script->new($redis, $name, own_clock => 1);

    my $log = sub { my ($key, $options, %other) = @_; return { key => "$name $key", limit => 5, window => 10000, options => $options, %other } };
    my $ask    = sub { my ($now, @log) = @_; return $script->ask($now, $log->(@log)) };
    my $stepped = sub { my ($now, @log) = @_; return $own->ask($now, $log->(@log)) };
    my $groups = sub { return $script->ask_groups(@_) };
    # the number of entries of a log, by a request of cost 0
    my $used = sub { my ($now, $key, $more) = @_; my @told = split / /, $script->ask($now, $log->($key, join(' ', 'cost=0', $more // ()), limit => 1000)); return 1000 - $told[1] };
    subtest $name => sub {
        # admitted remaining reset retry, and the reservations of held requests
        is($ask->($T, 'cost', 'cost=3'), '1 2 10000 0', 'a cost of 3 takes three of five');
        is($ask->($T + 1, 'cost', 'cost=3'), '0 2 9999 9999', 'a cost of 3 is denied where two are left');
        is($ask->($T + 2, 'cost', 'cost=2'), '1 0 9998 0', 'a cost of 2 takes the two that are left');
        is($ask->($T + 3, 'cost', 'cost=4'), '0 0 9997 9999', 'a cost of 4 waits for the fourth oldest');
        is($ask->($T + 3, 'cost', 'cost=0'), '1 0 9997 0', 'a cost of 0 needs no room');
        is($ask->($T + 3, 'cost', 'cost=0', limit => 4), '0 0 9997 9997', 'a cost of 0 is denied above a lowered limit');
        is($ask->($T + 3, 'cost', 'cost=6'), '0 0 9997 -1', 'a cost above the limit: never');
        is($ask->($T + 3, 'cost', 'cost=0', limit => 0), '0 0 9997 -1', 'limit 0: a cost of 0 is denied');
        is($used->($T + 3, 'cost'), 5, 'denied requests and those of cost 0 are not logged');
        is($ask->($T + 10001, 'cost', 'cost=3'), '1 0 1 0', 'a cost of 3 fits when the first three have left');
        is($groups->($T, [4, $log->('many', 'cost=2')]), '2 1 10000 10000', 'four requests of cost 2: two fit');
        is($groups->($T, [2, $log->('g1', 'cost=2'), $log->('g2', '')]), '2 1 10000 0 3 10000 0', 'two logs of different costs: both admit two requests');
        is($groups->($T, [2, $log->('g1', 'cost=2'), $log->('g2', '')]), '0 1 10000 10000 3 10000 0', 'two logs of different costs: a denial by one denies the request');
        is($used->($T, 'g2'), 2, 'two logs of different costs: if one denies, the other logs nothing');
        is($ask->($T, 'looks', 'cost=0'), '1 5 10000 0', 'a cost of 0 on an empty log is admitted');
        is($redis->cli('EXISTS', "$name looks"), 0, 'a cost of 0 on an empty log leaves no key');

        # denied requests count
        is($groups->($T, [7, $log->('all', 'count=all', cap => 6)]), '5 0 10000 10000', 'count=all: five of seven are admitted');
        is($used->($T, 'all'), 6, 'count=all: denied requests are logged, up to cap');
        is($ask->($T + 4000, 'all', 'count=all', cap => 6), '0 0 6000 6000', 'count=all: a flooded key is denied');
        is($groups->($T + 9000, [4, $log->('all', 'count=all', cap => 6)]), '0 0 1000 5000',
            'count=all: further attempts make the wait longer, since the oldest entries are removed');
        is($ask->($T + 10000, 'all', 'count=all', cap => 6), '0 0 4000 9000', 'count=all: a flooded key is denied when the first window is over');
        is($groups->($T, [1, $log->('a1', 'count=all'), $log->('a2', '', limit => 0)]), '0 4 10000 0 0 10000 -1',
            'two logs, one with count=all: it counts what the other denies');
        is($used->($T, 'a1') . $used->($T, 'a2'), '10', 'two logs, one with count=all: the other does not count what it denies');

        # delay
        my $delay = 'delay=12000 ahead=12000';
        is($groups->($T, [3, $log->('slots', $delay, limit => 2)]), '3 0 10000 0 10000', 'delay: the third of a limit of 2 is held until the first leaves');
        is($ask->($T + 1000, 'slots', $delay, limit => 2), '1 0 9000 0 9000', 'delay: the fourth of a limit of 2 is held until the second leaves');
        is($ask->($T + 1000, 'slots', $delay, limit => 2), '0 0 9000 19000', 'delay: the fifth would wait too long; room now is when all of them have left');
        is($ask->($T + 8000, 'slots', $delay, limit => 2), '1 0 2000 0 12000', 'delay: the fifth is held when its reservation is near enough');
        is($ask->($T + 8000, 'slots', 'delay=11999 ahead=12000', limit => 2), '0 0 2000 12000', 'delay: a delay shorter by 1 ms is not enough');
        is($ask->($T + 10000, 'slots', 'ahead=12000', limit => 2), '0 0 10000 10000', 'delay: held requests count, and the first has left');
        is($used->($T + 10000, 'slots', 'ahead=12000'), 3, 'delay: three requests are held or admitted');

        $ask->($T, 'raised', $delay, limit => 1) for 1 .. 2;
        is($ask->($T + 1, 'raised', $delay, limit => 3), '1 0 9999 0', 'delay: a raised limit has room now, in front of a reservation');
        is($ask->($T + 9999, 'raised', 'ahead=12000', limit => 3), '0 0 1 1', 'delay: all three count in front of a raised limit');
        is($ask->($T + 10000, 'raised', '', limit => 3), '1 0 1 0', 'delay: a raised limit has room when the first leaves');

        is($groups->($T, [2, $log->('d1', $delay, limit => 1), $log->('d2', 'ahead=12000', limit => 2)]),
            '2 0 10000 0 0 10000 0 10000', 'delay: a request is held in all logs, also in one without a delay that has room');
        is($groups->($T, [1, $log->('d1', $delay, limit => 3), $log->('d2', 'ahead=12000', limit => 2)]),
            '0 1 10000 0 0 10000 10000', 'delay: a request is denied by a log that has no delay and no room');

        # taking back
        $groups->($T, [['gone'], $log->('back', 'cost=2')]);
        $ask->($T + 1, 'back', 'cost=3');
        is($script->take_back($T, 'gone', $log->('back', 'cost=2')), 1, 'a request of cost 2 is taken back');
        is($ask->($T + 2, 'back', 'cost=2'), '1 0 9999 0', 'a request of cost 2 that is taken back frees both entries, the others stay');
        is($groups->($T, [['left'], $log->('held', $delay, limit => 1)], [['right'], $log->('held', $delay, limit => 1)]),
            '1 0 10000 0 | 1 0 10000 0 10000', 'one of two requests passes, one is held');
        is($script->take_back({ now => $T, logged => $T + 10000, taken => $T }, 'right', $log->('held', $delay, limit => 1)), 1,
            'a held request is taken back');
        is($used->($T, 'held'), 1, 'the take-back of a held request frees its reservation');
        is($ask->($T + 5, 'held', $delay, limit => 1), '1 0 9995 0 9995', 'the next request gets a freed reservation');
        is($script->take_back($T, 'nobody', $log->('none', '')), 0, 'nothing is taken back from a missing log');
        is($script->take_back($T, 'nobody', $log->('held', 'cost=0')), 0, 'nothing is taken back for a request of cost 0');

        # block
        is($groups->($T, [6, $log->('box', 'block=30000')]), '5 0 10000 30000', 'block: the sixth of a limit of 5 is denied, and the key is blocked');
        is($ask->($T + 5000, 'box', 'block=30000'), '0 0 5000 25000', 'block: another attempt does not extend it');
        is($ask->($T + 12000, 'box', ''), '0 5 10000 18000', 'block: all requests for the key are denied, with room or without');
        is($ask->($T + 29999, 'box', 'cost=0'), '0 5 10000 1', 'block: a cost of 0 is denied 1 ms before it is over');
        is($ask->($T + 30000, 'box', ''), '1 4 10000 0', 'block: there is room when it is over');
        is($groups->($T, [6, $log->('long', 'block=1')]), '5 0 10000 10000', 'block: the wait is that of the log if it is longer');
        is($ask->($T, 'large', 'cost=6 block=3000'), '0 5 10000 -1', 'block: a cost above the limit never fits');
        is($ask->($T + 1, 'large', ''), '0 5 10000 2999', 'block: a cost above the limit blocks as any denial');
        is($ask->($T, 'closed', 'block=3000', limit => 0), '0 0 10000 -1', 'block: limit 0 denies');
        is($ask->($T + 1, 'closed', ''), '1 4 10000 0', 'block: limit 0 begins no block');
        is($groups->($T, [1, $log->('b1', 'block=3000'), $log->('b2', '', limit => 0)]), '0 5 10000 0 0 10000 -1', 'block: a request is denied by another log');
        is($ask->($T, 'b1', ''), '1 4 10000 0', 'block: a denial by another log begins no block');
        is($groups->($T, [3, $log->('late', "delay=10000 ahead=10000 block=3000", limit => 1)]), '2 0 10000 20000 10000',
            'block with delay: the second of a limit of 1 is held, the third is denied');
        is($ask->($T + 19999, 'late', 'ahead=10000', limit => 1), '0 0 1 1', 'block with delay: it is over before the log has room');
        is($ask->($T, 'full', 'block=30000 count=all', cap => 5, limit => 1), '1 0 10000 0', 'block with count=all: the first request is admitted');
        $ask->($T, 'full', 'block=30000 count=all', cap => 5, limit => 1);
        is($groups->($T + 25000, [9, $log->('full', 'block=30000 count=all', cap => 5, limit => 1)]), '0 0 10000 10000',
            'block with count=all: attempts at a blocked log are denied');
        is($used->($T + 34999, 'full') // '', 5, 'block with count=all: attempts at a blocked log are logged up to cap');
        is($script->ask($T + 500, $log->('box2', 'block=30000', limit => 1)), '1 0 10000 0', 'block, clock back by an hour: a request is admitted before');
        is($script->ask($T + 600, $log->('box2', 'block=30000', limit => 1)), '0 0 9900 30000',
            'block, clock back by an hour: the next request begins a block');
        is($stepped->($T - 3_600_000, 'box2', '', limit => 1), '0 0 10000 30000', 'block, clock back by an hour: it is not longer than its length');
        is($stepped->($T - 3_600_000 + 30000, 'box2', '', limit => 1), '1 0 10000 0', 'block, clock back by an hour: it ends');
        cmp_ok($redis->cli('PTTL', "$name box"), '>', 0, 'every log has a time to live');

        # a block ends when its attempts are given back
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
        is($blocked->($T + 21, 'a'), 'open', 'an entry that was taken before a block began ends it');
        is($ask->($T + 22, 'end a', ''), '1 2 9978 0', 'an entry that was given back and ended a block leaves the others');
        $end = $boxed->('b');
        is($script->take_back($at->($T + 20, $T + 11, $T), 'b1', $end), 1, 'an entry that was taken after a block began is given back');
        is($blocked->($T + 21, 'b'), 'blocked', 'an entry that was taken after a block began does not end it');
        $end = $boxed->('c');
        is($script->take_back($at->($T + 20, $T), 'b3', $end), $name eq 'sliding_log' ? 0 : 1,
            'a missing entry is given back if entries have no names');
        is($script->take_back($at->($T + 20, $T - 1), 'b4', $end), 0, 'nothing is given back for a time without an entry');
        is($blocked->($T + 21, 'c'), $name eq 'sliding_log' ? 'blocked' : 'open', 'a missing entry ends a block if entries have no names');
        $end = $boxed->('d');
        is($script->take_back($at->($T + 20, $T), 'b1', { %$end, limit => 3 }), 1, 'an entry of a limit that has no room yet is given back');
        is($blocked->($T + 21, 'd'), 'blocked', 'an entry of a limit that has no room yet does not end a block');
        is($script->take_back($at->($T + 20, $T), 'b2', { %$end, limit => 3 }), 1, 'an entry that makes room is given back');
        is($blocked->($T + 21, 'd'), 'open', 'an entry that makes room ends a block');
        is($redis->cli('EXISTS', "$name end d"), 0, 'the last entry given back and the end of a block leave no key');
        $end = $boxed->('e');
        is($script->take_back($at->($T + 10000, $T), 'b1', $end), 0, 'an entry that has left its window is not given back');
        is($blocked->($T + 10001, 'e'), 'blocked', 'an entry that has left its window does not end a block');
        is($groups->($T, [['s1', 's2'], $log->('slot', $delay, limit => 1)]), '2 0 10000 0 10000',
            'block after a reservation: the second of a limit of 1 is held');
        is($ask->($T + 5, 'slot', 'ahead=12000 block=60000', limit => 1), '0 0 9995 60000', 'block after a reservation: a denied request begins a block');
        is($script->take_back($at->($T + 6, $T, $T + 10000), 's2', $log->('slot', $delay, limit => 1)), 1,
            'block after a reservation: the reservation is given back');
        is($ask->($T + 7, 'slot', 'ahead=12000 cost=0', limit => 1), '0 0 9993 59998',
            'block after a reservation: there is no room without the reservation yet');
        is($script->take_back($at->($T + 8, $T), 's1', $log->('slot', $delay, limit => 1)), 1, 'block after a reservation: the first request is given back');
        is($ask->($T + 9, 'slot', 'ahead=12000 cost=0', limit => 1), '1 1 10000 0', 'block after a reservation: there is room, and the block has ended');
        $end = $boxed->('f');
        is($stepped->($T - 5000, 'end f', 'cost=2'), '0 1 10000 60000', 'block, clock back by five seconds: the key is blocked');
        is($own->take_back($at->($T - 4000, $T), 'b1', $end), 1, 'block, clock back by five seconds: an entry from before is given back');
        is($stepped->($T - 3999, 'end f', 'cost=0') =~ /^1 /, 1, 'block, clock back by five seconds: an entry from before ends it');
        like($redis->cli('PTTL', "$name end a"), qr/^(?:9|10)\d{3}$/,
            'a log whose block has ended lives as long as any log') or diag $redis->cli('PTTL', "$name end a");

        # the clock steps back while there are reservations
        $groups->($T, [2, $log->('step', $delay, limit => 1)]);
        is($stepped->($T - 2000, 'step', 'ahead=12000', limit => 1), '0 0 12000 22000', 'clock back by two seconds: possible reservations keep their times');
        is($stepped->($T - 3_600_000, 'step', 'ahead=12000', limit => 1), '0 0 10000 10000', 'clock back by an hour: reservations are entries of now');

        # impossible arguments and contents give an error
        my $key = "$name text";
        $redis->cli('SET', $key, 'x') if $name eq 'sliding_log';
        $redis->cli('HSET', $key, 'a', 'b') if $name eq 'compact_log';
        for my $options ('cost=2', 'count=all', $delay, 'block=5') {
            like($ask->($T, 'text', $options), qr/^error WRONGTYPE/, "$options: a key of another type is an error");
        }
        for my $case (['no number', limit => 'x'], ['no window', window => ''], ['no cap', cap => 'y'], ['infinite', limit => 'inf', window => 'nan']) {
            my ($what, %other) = @$case;
            ok(defined $ask->($T, 'wrong', '', %other), "$what: the script answers");
        }
        ok(defined $ask->($T, 'wrong', $_),
            "option \"$_\": the script answers") for 'cost=x', 'cost=-1', 'cost=1e300', 'delay=y', 'block=-1', 'nonsense', 'cost=', 'ids';
        ok(defined $script->call($script->command, 1, 'k', @$_),
            "arguments (@$_): the script answers") for [], [''], ['take back'], ['', 0], ['', 1, 1];
        is($ask->($T, 'wrong', $_, limit => 1e12), "error ERR no log of this algorithm can keep a request of $_", "$_: the request is refused")
            for $name eq 'sliding_log' ? 'cost=1001' : (), 'cost=1000000000001';
        like($script->take_back($T, 'x', $log->('wrong', 'cost=1000000000001')), qr/^error ERR no log/, 'cost=1000000000001: a take-back is refused');
        $redis->cli('CONFIG', 'SET', 'maxmemory', 1);
        like($ask->($T, "oom $_", $_), qr/^error OOM/, "$_: no memory is an error") for 'cost=2', $delay, 'block=9', 'count=all';
        is($script->take_back($T, $script->latest, $log->('none', '')), 0, 'a take-back needs no memory');
        $redis->cli('CONFIG', 'SET', 'maxmemory', 0);
        is($redis->cli('EXISTS', map { "$name oom $_" } 'cost=2', $delay, 'block=9', 'count=all'), 0, 'no memory: nothing was logged');
        is($redis->cli('PING'), 'PONG', 'Redis works after all cases');
    };
}
$bed->done;
