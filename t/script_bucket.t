# lua/token_bucket.lua: cases computed by hand, and waits that are exact to the millisecond.

use strict;
use warnings;
use Test::More;
use Testbed qw(seed);
use Testbed::Script;

seed();

my $bed    = Testbed->new;
my $redis  = $bed->redis;
my $script = Testbed::Script->new($redis, 'token_bucket');
my $own    = Testbed::Script->new($redis, 'token_bucket', own_clock => 1);
my $T      = 1_800_000_000_000;

# 10 tokens come back in 10 s: one a second
sub bucket {
    my ($key, $options, %other) = @_;
    my $burst = delete $other{burst} // 5;
    return { key => $key, limit => 10, window => 10000, options => join(' ', grep { length } $options, "burst=$burst"), %other };
}
sub ask  { my ($now, @log) = @_; return $script->ask($now, bucket(@log)) }
sub stepped { my ($now, @log) = @_; return $own->ask($now, bucket(@log)) }
sub many { my ($now, $requests, @log) = @_; return $script->ask_groups($now, [$requests, bucket(@log)]) }
sub hash { my %fields = split /\n/, $redis->cli('HGETALL', $_[0]); return join ' ', map { "$_=$fields{$_}" } sort keys %fields }

# admitted remaining reset retry
is(ask($T, 'a', ''), '1 4 1000 0', 'a full bucket: the token is back in a second');
is(hash('a'), "time=$T. used=10000", 'the bucket stores the taken tokens times the window, and the time');
is(many($T + 400, 9, 'a', ''), '4 0 600 600', 'four tokens are left, and a part of the fifth has returned');
is(ask($T + 999, 'a', ''), '0 0 1 1', 'a token has not returned 1 ms before its time');
is(hash('a'), "time=${\ ($T + 400)}.00000$T used=46000", 'a denial writes nothing');
is(ask($T + 1000, 'a', ''), '1 0 1000 0', 'a token has returned at its time');
is(ask($T + 7000, 'a', 'cost=0'), '1 5 10000 0', 'a bucket that is full again has no wait');
is(ask($T + 7000, 'a', 'cost=5'), '1 0 1000 0', 'a cost of 5 takes all tokens at once');
is(ask($T + 7000, 'a', 'cost=6'), '0 0 1000 -1', 'a cost above the burst: never');
is(ask($T + 7000, 'a', 'cost=3'), '0 0 1000 3000', 'a cost of 3 waits for three seconds');
is(ask($T + 8000, 'a', '', limit => 0), '0 0 10000 -1', 'limit 0: never');
is(ask($T + 8000, 'a', 'cost=0', limit => 0), '0 0 10000 -1', 'limit 0: a cost of 0 is denied');
is(ask($T + 9000, 'a', '', limit => 3), '0 0 1334 1334', 'with a lower limit tokens return more slowly, from the time of the bucket');
is(many($T + 9000, 9, 'wide', '', burst => 20, limit => 3, window => 10), '9 11 4 0', 'a burst beyond the limit admits nine');
cmp_ok($redis->cli('PTTL', 'wide'), '<=', 11020, 'a burst beyond the limit lives until it is full again');
many($T, 20, 'slow', '', burst => 20);
cmp_ok($redis->cli('PTTL', 'slow'), '>', 20000, 'a bucket that takes longer than a window to fill lives until it is full');
cmp_ok($redis->cli('PTTL', 'slow'), '<=', 21000, 'a bucket that takes longer than a window to fill lives no longer than the slack beyond');

my @debt = (burst => 1_000_000_000_000, limit => 1, window => 31_622_400_000);
is(ask($T, 'debt', 'cost=1000000000000', @debt), '1 0 31622400000 0', 'a bucket that fills in 31 million million years admits a cost of all tokens');
is(ask($T, 'debt', 'cost=1000000000000', @debt), '0 0 31622400000 999999999999999', 'a bucket that fills in 31 million million years has the longest wait');

# another limit and burst: exactly the taken tokens stay taken
many($T, 4, 'other', '', burst => 10);
is(ask($T, 'other', 'cost=0', burst => 4), '1 0 1000 0', 'another burst: a smaller bucket is empty');
is(ask($T, 'other', 'cost=0', burst => 10), '1 6 1000 0', 'another burst: a smaller bucket does not change the larger one');
is(ask($T, 'other', 'cost=0', burst => 100, limit => 100), '1 96 100 0', 'another limit and burst: a raised one has room at once');

# count=all
is(many($T, 9, 'all', 'count=all', cap => 7), '5 0 3000 3000', 'count=all: denied requests count, up to cap: two tokens of debt');
is(hash('all'), "time=$T.00000$T used=70000", 'count=all: the bucket keeps the debt');
is(ask($T + 1000, 'all', 'count=all', cap => 7), '0 0 3000 3000', 'count=all: the debt does not exceed cap');

# delay
my $delay = 'delay=2500 ahead=2500';
is(many($T, 9, 'd', $delay), '7 0 3000 3000 1000 2000', 'delay: two are held, until the token of each is there');
is(ask($T + 499, 'd', $delay), '0 0 2501 2501', 'delay: a third would wait a ms too long') or diag hash('d');
is(ask($T + 500, 'd', $delay), '1 0 3500 0 2500', 'delay: a third is held when its token is near enough');
is($script->take_back({ now => $T + 500, logged => $T + 3000, taken => $T + 500 }, 'x', bucket('d', '')), 1, 'delay: a held request is taken back');
is(ask($T + 500, 'd', $delay), '1 0 3500 0 2500', 'delay: another request gets the tokens of one that was taken back');
is($script->take_back($T, 'x', bucket('d', 'cost=5')), 1, 'delay: a request of cost 5 is taken back');
is(ask($T + 500, 'd', $delay), '1 1 500 0', 'delay: there is room when a request of cost 5 was taken back');
is($script->take_back($T, 'x', bucket('d', 'cost=5')), 1, 'a request of cost 5 is taken back from a bucket that lacks less');
is(ask($T + 500, 'd', 'cost=0'), '1 5 10000 0', 'a take-back never leaves more than a full bucket') or diag hash('d');
is($script->take_back($T, 'x', bucket('none', '')), 0, 'nothing is taken back from a missing bucket');
is($script->take_back($T, 'x', bucket('d', 'cost=0')), 0, 'nothing is taken back for a request of cost 0');

# block
is(many($T, 6, 'b', 'block=60000'), '5 0 1000 60000', 'block: the sixth of a burst of 5 is denied, and the key is blocked');
is(ask($T + 30000, 'b', ''), '0 5 10000 30000', 'block: the key is denied, with tokens or without');
is(stepped($T - 3_600_000, 'b', ''), '0 0 1000 60000', 'block, clock back by an hour: it is not longer than its length');
is(stepped($T - 3_600_000 + 60000, 'b', ''), '1 4 1000 0', 'block, clock back by an hour: it ends');
is($redis->cli('HEXISTS', 'b', 'blocked until'), 0, 'block: nothing is left of it when it has ended');
many($T, 6, 'end', 'block=60000');
is($script->take_back({ now => $T + 5, logged => $T, taken => $T }, 'x', bucket('end', '', burst => 3)), 1, 'an entry that makes no room is given back');
is(ask($T + 5, 'end', 'cost=0'), '0 1 995 59995', 'an entry that makes no room does not end a block');
is($script->take_back({ now => $T + 5, logged => $T, taken => $T + 1 }, 'x', bucket('end', '')), 1,
    'an entry that was taken after a block began is given back');
is(ask($T + 5, 'end', 'cost=0'), '0 2 995 59995', 'an entry that was taken after a block began does not end it');
is($script->take_back({ now => $T + 5, logged => $T, taken => $T }, 'x', bucket('end', '')), 1, 'an entry that was taken before a block began is given back');
is(hash('end'), "time=$T. used=20000", 'an entry that was taken before a block began ends it');

# the clock steps back
many($T, 5, 'step', '');
is(stepped($T - 3_600_000, 'step', ''), '0 0 1000 1000', 'clock back by an hour: a time ahead of now is now');
is(stepped($T - 3_600_000 + 1000, 'step', ''), '1 0 1000 0', 'clock back by an hour: the bucket fills from now on');

# a wait is exact, and never more tokens are taken than a full bucket and those returned since
my ($inexact, $over) = (0, 0);
for my $round (1 .. 60) {
    my ($limit, $window) = (1 + int rand 30, (1, 7, 1000, 86_400_000)[rand 4]);
    my $burst = 1 + int rand 2 * $limit;
    my ($now, $begin, $taken) = ($T, $T, 0);
    for (1 .. 60) {
        my $cost = 1 + int rand $burst;
        my %log  = (limit => $limit, window => $window, burst => $burst, ttl => $window + 60000);
        my ($admitted, $remaining, $reset, $retry) = split / /, ask($now, "exact $round", "cost=$cost", %log);
        $taken += $admitted * $cost;
        $over++ if $taken > $burst + ($now - $begin) * $limit / $window + 1e-6;
        if ($retry > 0) {
            my $left = sub { (split / /, ask($now + $_[0], "exact $round", 'cost=0', %log))[1] };
            $inexact++ if $left->($retry - 1) >= $cost || $left->($retry) < $cost || $left->($reset - 1) > $remaining
                || $left->($reset) <= $remaining;
            $now += rand() < 0.5 ? $retry : int rand $window / 3;
        } else {
            $now += int rand $window / 10 if rand() < 0.3;
        }
    }
}
is($inexact, 0, 'random requests: each wait is exact to the ms');
is($over, 0, 'random requests: no token is given twice');

# impossible arguments and contents give an error
$redis->cli('SET', 'text', 'x');
$redis->cli('HSET', 'count', $T, 1);
$redis->cli('HSET', 'word', 'used', 'much');
like(ask($T, $_, ''), qr/^error WRONGTYPE/, "$_: a key that is no bucket is an error") for qw(text count word);
ok(defined ask($T, 'wrong', $_), "option \"$_\": the script answers") for 'cost=x', 'cost=-1', 'cost=1e300', 'delay=y', 'block=-1';
many($T, 5, 'empty', '');
$redis->cli('CONFIG', 'SET', 'maxmemory', 1);
like(ask($T, 'oom', ''), qr/^error OOM/, 'no memory is an error');
is(ask($T, 'empty', ''), '0 0 1000 1000', 'no memory: a denial needs none');
is($script->take_back($T, 'x', bucket('empty', '')), 1, 'no memory: a take-back needs none');
$redis->cli('CONFIG', 'SET', 'maxmemory', 0);
is(ask($T, 'empty', ''), '1 0 1000 0', 'no memory: the take-back has given one token back');
$bed->done;
