# lua/sliding_counter.lua: cases computed by hand, and waits that are exact to the millisecond.

use strict;
use warnings;
use POSIX qw(ceil);
use Test::More;
use Testbed qw(seed wait_until);
use Testbed::Script;

seed();

my $bed    = Testbed->new;
my $redis  = $bed->redis;
my $script = Testbed::Script->new($redis, 'sliding_counter');
my $own    = Testbed::Script->new($redis, 'sliding_counter', own_clock => 1);
my $T      = 1_800_000_000_000;    # a multiple of the window

sub counter { my ($key, $options, %other) = @_; return { key => $key, limit => 10, window => 10000, options => $options, %other } }
sub ask     { my ($now, @log) = @_; return $script->ask($now, counter(@log)) }
sub stepped { my ($now, @log) = @_; return $own->ask($now, counter(@log)) }
sub many    { my ($now, $requests, @log) = @_; return $script->ask_groups($now, [$requests, counter(@log)]) }
sub hash    { my %fields = split /\n/, $redis->cli('HGETALL', $_[0]); return join ' ', map { "$_=$fields{$_}" } sort keys %fields }

# admitted remaining reset retry
is(ask($T + 2000, 'a', ''), '1 9 18000 0', 'an empty counter: reset is when the whole limit is available again');
is(many($T + 3000, 8, 'a', ''), '8 1 8112 0', 'nine of ten: of the next window an eighth, less a ms, has to pass until eight are left');
is(hash('a'), "${\ ($T + 2000)}=9", 'the counter keeps the time of the first request, and the count of its window');
is(many($T + 4000, 2, 'a', ''), '1 0 7000 7000', 'a full counter: retry is when a tenth of the next window is over');
is(ask($T + 10999, 'a', ''), '0 0 1 1', 'a full counter denies 1 ms before a tenth of the next window is over');
is(ask($T + 11000, 'a', ''), '1 0 1000 0', 'a full counter admits one when a tenth of the next window is over');
is(hash('a'), "${\ ($T + 2000)}=10 ${\ ($T + 11000)}=1", 'the counter keeps two windows');
is(ask($T + 21000, 'a', ''), '1 8 9000 0', 'the window before the last does not count');
is(hash('a'), "${\ ($T + 11000)}=1 ${\ ($T + 21000)}=1", 'the window before the last is not kept');
is(ask($T + 45000, 'a', ''), '1 9 15000 0', 'no window counts after a while');
is(ask($T + 45000, 'a', '', limit => 0), '0 0 15000 -1', 'limit 0: never');
cmp_ok($redis->cli('PTTL', 'a'), '>', 20000, 'a counter lives until the next window is over');
cmp_ok($redis->cli('PTTL', 'a'), '<=', 21000, 'a counter lives no longer than the slack beyond the next window');

# cost
is(ask($T, 'cost', 'cost=7'), '1 3 11429 0', 'a cost of 7 takes seven');
is(ask($T, 'cost', 'cost=4'), '0 3 11429 11429', 'a cost of 4 waits for one more if three are left');
is(ask($T, 'cost', 'cost=11'), '0 3 11429 -1', 'a cost above the limit: never');
is(ask($T, 'cost', 'cost=0'), '1 3 11429 0', 'a cost of 0 is admitted');
is(hash('cost'), "$T=7", 'a cost of 0 leaves no key');

# count=all
is(many($T, 20, 'all', 'count=all', cap => 12), '10 0 12500 12500', 'count=all: ten of twenty are admitted, the others count up to cap');
is(hash('all'), "$T=12", 'count=all: the counter keeps two more than the limit');
is(ask($T + 5, 'all', 'count=all', cap => 12), '0 0 12495 12495', 'count=all: attempts beyond cap do not count');

# delay
my $delay = 'delay=12000 ahead=12000';
is(many($T, 12, 'd', $delay), '12 0 13000 0 11000 12000', 'delay: the eleventh and the twelfth wait for a tenth of the next window each');
is(hash('d'), "$T=10 ${\ ($T + 10000)}=2 reserved=${\ ($T + 12000)}.00000$T", 'delay: held requests are counted in the next window');
is(ask($T + 500, 'd', $delay), '0 0 12500 12500', 'delay: another would wait too long');
is(ask($T + 1000, 'd', $delay), '1 0 13000 0 12000', 'delay: another is held when its time is near enough');
is(ask($T + 1000, 'd', 'delay=999999 ahead=12000 cost=7'), '1 0 22334 0 19000', 'delay: a cost of 7 waits longer');
is($script->take_back({ now => $T + 1000, logged => $T + 20000, taken => $T + 1000 }, 'x', counter('d', 'cost=7 ahead=12000')), 1,
    'delay: a held request is taken back');
is($script->take_back({ now => $T + 1000, logged => $T + 20000, taken => $T + 1000 }, 'x', counter('d', 'cost=7 ahead=12000')), 0,
    'delay: nothing is taken back from a window without a count');
is($script->take_back({ now => $T + 1000, logged => $T + 13000, taken => $T + 1000 }, 'x', counter('d', 'cost=2')), 1, 'a request of cost 2 is taken back');
like(hash('d'), qr/ ${\ ($T + 10000)}=1 /, 'a request of cost 2 that is taken back leaves the rest of its window');
is($script->take_back($T, 'x', counter('d', 'cost=10')), 1, 'a request of cost 10 is taken back');
unlike(hash('d'), qr/^$T=/, 'a request of cost 10 that is taken back leaves nothing in its window');
is($script->take_back($T, 'x', counter('d', '')), 0, 'nothing more is taken back from a window without requests');

# reservations of a node with another window
is(many($T, 13, 'other', $delay), '12 0 13000 13000 11000 12000', 'delay: of thirteen requests two are held in the next window');
my $apart = Testbed::Script->new($redis, 'sliding_counter');
$redis->cli('CONFIG', 'SET', 'lua-time-limit', 100);
$apart->send($apart->words($T, [1, counter('other', $delay, limit => 2, window => 7000)]));
$apart->{socket}->flush;
wait_until('the script to end', 2, sub { $redis->cli('PING') eq 'PONG' }) or $redis->cli('SCRIPT', 'KILL');
is($apart->told($T, $apart->reply), '0 0 16500 16500', 'delay: reservations are counted in the windows of the caller');

# block
is(many($T, 11, 'b', 'block=60000'), '10 0 11000 60000', 'block: the eleventh of a limit of 10 is denied, and the key is blocked');
is(ask($T + 30000, 'b', ''), '0 10 10000 30000', 'block: the key is denied, with room or without');
is(stepped($T - 3_600_000, 'b', ''), '0 10 10000 60000', 'block, clock back by an hour: it is not longer than its length');
is(stepped($T - 3_600_000 + 60000, 'b', ''), '1 9 20000 0', 'block, clock back by an hour: it ends');
is($redis->cli('HEXISTS', 'b', 'blocked until'), 0, 'block: nothing is left of it when it has ended');
many($T, 11, 'end', 'block=60000');
is($script->take_back({ now => $T + 5, logged => $T, taken => $T + 1 }, 'x', counter('end', '')), 1,
    'an entry that was taken after a block began is given back');
is(ask($T + 5, 'end', 'cost=0'), '0 1 11107 59995', 'an entry that was taken after a block began does not end it');
is($script->take_back({ now => $T + 5, logged => $T, taken => $T }, 'x', counter('end', '', limit => 8)), 1, 'an entry that makes no room is given back');
is(ask($T + 5, 'end', 'cost=0'), '0 2 11245 59995', 'an entry that makes no room does not end a block');
is($script->take_back({ now => $T + 5, logged => $T, taken => $T }, 'x', counter('end', '')), 1, 'an entry that was taken before a block began is given back');
is(hash('end'), "$T=7", 'an entry that was taken before a block began ends it');

# the clock steps back
many($T, 4, 'step', '');
is(stepped($T - 1, 'step', ''), '1 5 2001 0', 'clock back: counts of a window ahead count in this one');
is(hash('step'), "${\ ($T - 10000)}=5", 'clock back: counts of a window ahead move to this one for good');
many($T, 12, 'ahead', $delay);
is(stepped($T - 3_600_000, 'ahead', 'ahead=12000'), '0 0 12500 12500', 'clock back: reservations count in this window');
is(hash('ahead'), "${\ ($T - 3_600_000)}=12", 'clock back: reservations move to this window for good');

# a wait is exact: 1 ms before its end there is no room, at its end there is, whatever the counts are
my $inexact = 0;
for my $round (1 .. 60) {
    my ($limit, $window) = (1 + int rand 30, (1, 7, 1000, 86_400_000)[rand 4]);
    my $now  = $T + int rand 2 * $window;
    my $cost = int rand 1.2 * $limit + 1;
    my @log  = ("exact $round", $cost == 1 ? '' : "cost=$cost", limit => $limit, window => $window, ttl => 2 * $window + 60000);
    for (1 .. 3 * $limit) {
        my ($admitted, $remaining, $reset, $retry) = split / /, ask($now, @log);
        if ($retry > 0) {
            my @look = ('cost=0', @log[2 .. $#log]);
            # in a copy, since past counts are removed
            my $left = sub { $script->call('COPY', $log[0], 'copy', 'REPLACE'); (split / /, ask($now + $_[0], 'copy', @look))[1] };
            $inexact++ if $left->($retry) < $cost || $left->($retry - 1) >= $cost || $left->($reset) <= $remaining
                || $left->($reset - 1) > $remaining;
            $now += rand() < 0.5 ? $retry : int rand $window / 3;
        } else {
            $now += int rand $window / 10 if rand() < 0.3;
        }
    }
}
is($inexact, 0, 'random requests: each wait is exact to the ms');

# of many held requests, never more than the limit, as the counter computes it
for my $window (10, 1000) {
    my ($limit, $held, $over, $now, @admitted) = (6, 0, 0, $T);
    for (1 .. 600) {
        $now += int rand $window / 4;
        my $cost  = 1 + int rand 3;
        my $reply = ask($now, "held $window", "cost=$cost delay=@{[3 * $window]} ahead=@{[3 * $window]}", limit => $limit, window => $window, ttl => 60000);
        my ($admitted, undef, undef, undef, $wait) = split / /, $reply;
        next if !$admitted;
        $held++ if $wait;
        push @admitted, [$now + ($wait // 0), $cost];
    }
    my %count;
    $count{ int $_->[0] / $window } += $_->[1] for @admitted;
    my (%seen, $last);
    for (sort { $a->[0] <=> $b->[0] } @admitted) {
        my ($at, $cost) = @$_;
        my $index = int $at / $window;
        $seen{$index} += $cost;
        $over++ if ($count{ $index - 1 } // 0) * (1 - ($at - $index * $window) / $window) + $seen{$index} > $limit + 1e-9;
    }
    ok($held > 100 && !$over, "$held held in windows of $window ms: $over of them over the limit");
}

# impossible arguments and contents give an error
$redis->cli('SET', 'text', 'x');
$redis->cli('HSET', 'level', 'level', 1, 'time', 2);
$redis->cli('HSET', 'word', $T, 'many');
like(ask($T, $_, ''), qr/^error WRONGTYPE/, "$_: a key that is no counter is an error") for qw(text level word);
ok(defined ask($T, 'wrong', $_), "option \"$_\": the script answers") for 'cost=x', 'cost=-1', 'cost=1e300', 'delay=y', 'block=-1';
ask($T, 'cost2', 'cost=7');
$redis->cli('CONFIG', 'SET', 'maxmemory', 1);
like(ask($T, 'oom', ''), qr/^error OOM/, 'no memory is an error');
is(ask($T, 'oom', '', limit => 0), '0 0 10000 -1', 'no memory: a denial needs none');
is($script->take_back($T, 'x', counter('cost2', 'cost=2')), 1, 'no memory: a take-back needs none');
$redis->cli('CONFIG', 'SET', 'maxmemory', 0);
is(hash('cost2'), "$T=5", 'no memory: the take-back has left five');
# a block that begins after all counts have left is not taken for the previous block
my $B = 1_800_000_000_000;
my $block = sub { my ($ms) = @_; return { key => 'begins', limit => 2, window => 1000, cap => 4, ttl => 3_600_000, options => "cost=3 count=all block=$ms" } };
$own->ask($B, $block->(500));
$own->ask($B + 5000, $block->(60_000));
is((split / /, $own->ask($B + 9000, { key => 'begins', limit => 2, window => 1000, ttl => 3_600_000, options => 'block=60000' }))[3], 56_000,
    'a block begins while the fields of a previous one are stale');

# the take-back of entries that left long ago ends no block
my %left = (key => 'left', limit => 3, window => 1000, ttl => 3_600_000, options => 'block=60000');
$own->ask_groups($B, [['x1'], {%left}]);
$own->ask($B + 4000, { %left, options => 'cost=4 block=60000' });
$own->take_back({ now => $B + 5000, logged => $B, taken => $B }, 'x1', {%left});
is((split / /, $own->ask($B + 5000, {%left}))[3], 59_000, 'a take-back of entries that left long ago ends no block');

# a reservation made before the first one, by a node with a slower clock
my %slow = (key => 'slow', limit => 1, window => 1000, ttl => 3_600_000, options => 'delay=5000 ahead=5000');
$script->ask_groups($B + 500, [['x1'], {%slow}]) for 1 .. 2;
my $held = $script->call($script->words($B + 400, [['x3'], {%slow}]))->[0];
is($script->take_back({ now => $B + 550, logged => $held->[1] + $held->[5], taken => $held->[1] }, 'x3', {%slow}), 1,
    'a reservation made by a slower clock than the first one is given back');

# half a block is no block, whatever the previous batch has read
$redis->cli('HSET', 'whole', 'blocked until', $B - 1, 'blocked for', 5000);
$redis->cli('HSET', 'half', 'blocked until', $B + 1000);
my @halves = map { { key => $_, limit => 3, window => 1000, ttl => 3_600_000 } } qw(whole half);
like(join(' ', map { ref ? 'decided' : $_ } @{ $script->call($script->words($B, map { [1, $_] } @halves)) }), qr/^decided error WRONGTYPE/, 'a block without its length is an error of its batch only');

$bed->done;
