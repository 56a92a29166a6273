# lua/sliding_log.lua alone, with a given clock: its replies, and its contents in Redis.

use strict;
use warnings;
use Test::More;
use Testbed;
use Testbed::Script;

my $bed    = Testbed->new;
my $redis  = $bed->redis;
my $script = Testbed::Script->new($redis, 'sliding_log');
my $stepping = Testbed::Script->new($redis, 'sliding_log', own_clock => 1);
my $T      = 1_800_000_000_000;

# ask(now, [key, limit, window, cap, ttl, id], ...): one request for these logs; the numbers of the reply
sub ask { return $script->ask(@_) }

# ask_groups(now, [requests, log, ...], ...): many requests for the logs of each batch. Batches are separated by " | ".
sub ask_groups { return $script->ask_groups(@_) }

sub members { return join ' ', split /\n/, $redis->cli('ZRANGE', $_[0], 0, -1) }
sub scores  { my @words = split /\n/, $redis->cli('ZRANGE', $_[0], 0, -1, 'WITHSCORES'); return join ' ', @words[grep { $_ % 2 } 0 .. $#words] }

# admitted remaining reset retry
is(ask($T, ['a', 2, 10000]),        '1 1 10000 0',    'an empty log: reset is the window');
is(ask($T + 4000, ['a', 2, 10000]), '1 0 6000 0',     'reset is when the oldest leaves');
is(ask($T + 5000, ['a', 2, 10000]), '0 0 5000 5000',  'full: retry when the oldest leaves');
is(ask($T + 9999, ['a', 2, 10000]), '0 0 1 1',        'an entry counts one ms before its window is over');
is(ask($T + 10000, ['a', 2, 10000]), '1 0 4000 0',    'an entry that is one window old is out');
is(scores('a'), join(' ', $T + 4000, $T + 10000),     'an entry that is one window old is pruned');

is($redis->cli('PTTL', 'a') > 10000 && $redis->cli('PTTL', 'a') <= 11000, 1, 'the time to live is that of the call');
ask($T + 10000, ['a', 2, 10000]);
$redis->cli('PEXPIRE', 'a', 5000);
ask($T + 11000, ['a', 2, 10000]);
cmp_ok($redis->cli('PTTL', 'a'), '<=', 5000, 'a denial does not extend the time to live');

# a lowered limit applies at once, and the wait ends when enough entries have left
ask($T + $_ * 1000, ['low', 5, 10000]) for 0 .. 4;
is(ask($T + 5000, ['low', 2, 10000]), '0 0 5000 8000', 'limit lowered from 5 to 2: the fourth oldest must leave');
is(ask($T + 5000, ['low', 6, 10000]), '1 0 5000 0',    'limit raised to 6: one more fits');
is(ask($T + 5000, ['low', 0, 10000]), '0 0 5000 -1',   'limit 0: never');
is(ask($T, ['none', 0, 10000]),       '0 0 10000 -1',  'limit 0 on an empty log: never');
is($redis->cli('EXISTS', 'none'), 0, 'a denial makes no key');

# cap
ask($T + $_, ['cap', 10, 10000]) for 0 .. 9;
is(ask($T + 20, ['cap', 3, 10000, 4]), '0 0 9980 9987', 'a limit whose cap is smaller than the log denies');
is($redis->cli('ZCARD', 'cap'), 10, 'a limit whose cap is smaller than the log removes nothing that a larger one needs');
my %counts = (key => 'cap', limit => 3, window => 10000, cap => 4, options => 'count=all');
is(ask($T + 30, { %counts }), '0 0 9971 9978', 'count=all: an attempt beyond the limit is denied');
is(scores('cap'), join(' ', (map { $T + $_ } 1 .. 9), $T + 30), 'count=all: a denied attempt takes the place of the oldest entry');
is(ask($T + 10009, { %counts }), '1 1 21 0', 'count=all: a request is admitted when the oldest entries have left');
is($script->ask_groups($T + 10010, [5, { %counts }]), '1 0 10000 10000', 'count=all: one of five attempts is admitted');
is(scores('cap'), join(' ', ($T + 10010) x 4), 'count=all: denied attempts are kept up to the cap');

# the same id twice
ask($T, ['id', 5, 10000, 0, 11000, 'req']);
ask($T, ['id', 5, 10000, 0, 11000, 'req']);
is($redis->cli('ZCARD', 'id'), 2, 'an existing id: both requests are logged');
like(members('id'), qr/^req req~u\d+$/, 'an id that exists already: the second entry carries both names');
is($script->take_back($T, $script->latest, ['id', 5, 10000, 0, 11000, 'req']), 1, 'an id that exists already: the second entry is taken back');
is(members('id'), 'req', 'an id that exists already: exactly its own entry left');
is($script->take_back($T, 'stranger', ['id', 5, 10000]), 0, 'nothing is taken back for a name that is not in the log');

# a take-back also compares the time: an id may return after its first entry has left
my @named = (5, 10000, 0, 11000, 'req');
ask($T, ['again', @named]);
my $first = $script->latest;
ask($T + 10000, ['again', @named]);
my $second = $script->latest;
is($script->take_back({ now => $T + 10001, logged => $T, taken => $T }, $first, ['again', @named]), 0, 'an entry that has left the window is not taken back');
is(scores('again'), $T + 10000, 'an entry that has left the window: a later entry with its id stays');
is($script->take_back({ now => $T + 10001, logged => $T + 10000, taken => $T + 10000 }, $second, ['again', @named]), 1,
    'a later entry of an id is taken back');
ask($T, ['twice', @named]);
ask($T + 5, ['twice', @named]);
my @second = ({ now => $T + 6, logged => $T + 5, taken => $T + 5 }, $script->latest, ['twice', @named]);
is($script->take_back(@second), 1, 'an entry whose id was taken is taken back');
is($script->take_back(@second), 0, 'an entry whose id was taken is taken back once');
is(scores('twice'), $T, 'an entry whose id was taken: the first entry with the id stays');
ask($T, ['moved', @named]);
$first = $script->latest;
$stepping->ask($T - 5000, ['moved', 9, 10000]);
is(members('moved') =~ s/u\d+/other/r, 'req other', 'clock back by five seconds: both entries are in the log');
is($stepping->take_back({ now => $T - 4000, logged => $T, taken => $T }, $first, ['moved', @named]), 1,
    'clock back by five seconds: an entry that it has moved is taken back');
unlike(members('moved'), qr/req/, 'clock back by five seconds: the entry that it has moved left the log');

# a block ends when its attempts are given back
my %box = (key => 'box', limit => 2, window => 10000, options => 'block=60000');
ask($T, { %box });
$first = $script->latest;
ask($T + 1, { %box });
ask($T + 2, { %box });
is(members('box') =~ s/u\d+/u/gr, 'blocked for 60000 ms u u', 'block: the third of a limit of 2 is denied, and blocks');
is($script->take_back({ now => $T + 3, logged => $T, taken => $T }, $first, ['box', 2, 10000]), 1, 'block: an entry is given back, whose limit has no block');
is(members('box') =~ s/u\d+/u/gr, 'u', 'block: it ends with an entry that was given back');
is(ask($T + 4, { %box }), '1 0 9997 0', 'block: the next request is admitted when it has ended');

# the clock steps back by an hour
ask($T, ['step', 3, 10000]) for 1 .. 2;
my $B = $T - 3_600_000;
is($stepping->ask($B, ['step', 3, 10000]), '1 0 10000 0', 'clock back by an hour: the entries still count');
is(scores('step'), "$B $B $B", 'clock back by an hour: the entries become those of now');
is($stepping->ask($B + 1, ['step', 3, 10000]), '0 0 9999 9999', 'clock back by an hour: no request is admitted');
is($stepping->ask($B + 10000, ['step', 3, 10000]), '1 2 10000 0', 'clock back by an hour: no client is locked out for longer than a window');
ask($T, ['part', 2, 10000]);
ask($T + 8000, ['part', 2, 10000]);
is($stepping->ask($T + 3000, ['part', 2, 10000]), '0 0 7000 7000', 'clock back by five seconds: the older entry keeps its time');
is(scores('part'), join(' ', $T, $T + 3000), 'clock back by five seconds: the entry ahead becomes one of now');

# the server's own clock steps back: entries ahead, and a time to live beyond that of PEXPIRE GT
my ($s, $us) = split /\n/, $redis->cli('TIME');
my $own = $s * 1000 + int($us / 1000);
$redis->cli('ZADD', 'own', $own + 3_600_000, 'ahead');
$redis->cli('PEXPIRE', 'own', 3_611_000);
like(ask('', ['own', 5, 10000]), qr/^1 3 10000 0$/, "the server's clock stepped back: an entry ahead counts");
cmp_ok((sort split / /, scores('own'))[-1], '<', $own + 60_000, "the server's clock stepped back: an entry ahead is pulled back to now");
cmp_ok($redis->cli('PTTL', 'own'), '<=', 11000, "the server's clock stepped back: the time to live is pulled back");
like(ask('', ['own', 5, 10000]), qr/^1 2 /, "the server's clock stepped back: the next request is logged");
cmp_ok($redis->cli('PTTL', 'own'), '>', 9000, "the server's clock stepped back: the time to live is extended");

# entries leave: the log lives as long as the new entry
$redis->cli('ZADD', 'leave', $own - 20_000, 'left', $own, 'there');
$redis->cli('PEXPIRE', 'leave', 5000);
like(ask('', ['leave', 5, 10000]), qr/^1 3 /, 'an entry that left the window does not count');
cmp_ok($redis->cli('PTTL', 'leave'), '>', 9000, 'an entry that left the window: the time to live is extended');

# entries of a node whose clock is ahead, while this server's clock has not stepped
$redis->cli('ZADD', 'fast', $own + 3_600_000, 'ahead');
$redis->cli('PEXPIRE', 'fast', 5000);
is(ask('', ['fast', 5, 10000], ['none', 0, 10000]), '0 4 10000 0 0 10000 -1', 'an entry ahead of the server leaves a window later at most');

# several keys: all or nothing
ask($T, ['m2', 1, 10000]);
is(ask($T + 1000, ['m1', 5, 20000], ['m2', 1, 10000]), '0 5 20000 0 0 9000 9000', 'two keys: one denies, the other has its remaining requests in the reply');
is($redis->cli('EXISTS', 'm1'), 0, 'two keys: one denies, the other logs nothing');
is(ask($T + 10000, ['m1', 5, 20000], ['m2', 1, 10000]), '1 4 20000 0 0 10000 0', 'two keys: both admit');
is($redis->cli('ZCARD', 'm1') + $redis->cli('ZCARD', 'm2'), 2, 'two keys: both log what they admit');
$redis->cli('SET', 'text', 'x');
like(ask($T, ['m3', 5, 10000], ['text', 5, 10000]), qr/WRONGTYPE/, 'a key of another type is an error');
is($redis->cli('EXISTS', 'm3'), 0, 'a key of another type does not change the other log');

# many requests for one log: the first ones that fit
is(ask_groups($T, [3, ['n', 5, 10000]]), '3 2 10000 0', 'three requests of one log: the reply has what is left after the last');
is(ask_groups($T + 1, [4, ['n', 5, 10000]]), '2 0 9999 9999', 'four requests of one log: two fit');
is($redis->cli('ZCARD', 'n'), 5, 'four requests of one log: exactly those that fit are logged');
is(ask_groups($T, [4, ['fill', 3, 10000]]), '3 0 10000 10000', 'four requests fill an empty log: the last waits a window');
is(ask_groups($T, [3, ['p1', 2, 10000], ['p2', 5, 20000]]), '2 0 10000 10000 3 20000 0', 'three requests of two logs: the smaller one decides');
is($redis->cli('ZCARD', 'p1') . $redis->cli('ZCARD', 'p2'), '22', 'three requests of two logs: both log those that fit');
is(ask_groups($T, [3, ['ids', 9, 10000, 0, 11000, 'same', 'same', 'other']]), '3 6 10000 0', 'three requests with an id each are admitted');
is($redis->cli('ZCARD', 'ids'), 3, 'three requests with an id each: none is lost');
is(ask_groups($T, [2, ['zero', 0, 10000]]), '0 0 10000 -1', 'two requests of a limit of 0: none fits');

# many batches in one call
is(ask_groups($T, [1, ['g1', 1, 10000]], [2, ['g2', 1, 10000], ['g3', 5, 10000]], [1, ['g1', 1, 10000]]),
    '1 0 10000 0 | 1 0 10000 10000 4 10000 0 | 0 0 10000 10000', 'batches are decided one after the other');
like(ask_groups($T, map { [1, [$_, 5, 10000]] } qw(g4 text g5)), qr/^1 4 10000 0 \| error WRONGTYPE.* \| 1 4 10000 0$/,
    'an error in one batch concerns this batch only');
$redis->cli('ZADD', 'stale', $T - 20000, 'old', $T - 1, 'new');
$redis->cli('REPLICAOF', '127.0.0.1', 1);
like(ask_groups($T, [1, ['stale', 5, 10000]], [1, ['g6', 5, 10000]]), qr/^error READONLY.* \| error READONLY/,
    'an error of a command that prunes and of one that adds have the same form');
$redis->cli('REPLICAOF', 'NO', 'ONE');
is(ask_groups($T, [1, ['stale', 5, 10000]]), '1 3 9999 0', 'a server that accepted no writes has changed nothing');
$redis->cli('CONFIG', 'SET', 'maxmemory', 1);
like(ask($T, ['oom', 5, 10000]), qr/OOM/, 'no memory is an error');
is(ask($T, ['none', 0, 10000]), '0 0 10000 -1', 'no memory: a denial needs none');
$redis->cli('CONFIG', 'SET', 'maxmemory', 0);
is($redis->cli('EXISTS', 'oom'), 0, 'no memory: nothing was logged');

# milliseconds are exact at the extremes
is(ask($T, ['ms', 1, 1]), '1 0 1 0', 'a window of 1 ms admits a request');
is(ask($T, ['ms', 1, 1]), '0 0 1 1', 'a window of 1 ms lasts through its millisecond');
is(ask($T + 1, ['ms', 1, 1]), '1 0 1 0', 'a window of 1 ms is over in the next millisecond');
is(ask($T, ['year', 1, 31622400000]), '1 0 31622400000 0', 'a window of 366 days admits a request');
is(ask($T + 31622399999, ['year', 1, 31622400000]), '0 0 1 1', 'a window of 366 days is exact to the millisecond');

$bed->done;
