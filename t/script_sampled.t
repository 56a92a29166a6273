# lua/sampled_log.lua: one request in N is logged and counts for N. What is drawn is a function of the request's name, so
# these cases come out the same each time.

use strict;
use warnings;
use Digest::SHA qw(sha1);
use Test::More;
use Testbed;
use Testbed::Script;

my $bed    = Testbed->new;
my $redis  = $bed->redis;
my $script = Testbed::Script->new($redis, 'sampled_log');
my $T      = 1_800_000_000_000;

sub sampled { my ($key, $options, %other) = @_; return { key => $key, limit => 20, window => 10000, options => $options, %other } }
sub ask  { my ($now, $name, @log) = @_; return $script->ask_groups($now, [[$name], sampled(@log)]) }
sub many { my ($now, $names, @log) = @_; return $script->ask_groups($now, [$names, sampled(@log)]) }
sub entries { return $redis->cli('ZCARD', $_[0]) }

# Names that are logged at that cost and sample, and names that are not.
sub is_drawn { my ($name, $cost, $sample) = @_; return unpack("Q>", "\0\0" . substr sha1($name), 0, 6) % $sample < $cost % $sample }
my @drawn   = grep { is_drawn($_, 1, 10) } map { "r$_" } 1 .. 300;
my @skipped = grep { !is_drawn($_, 1, 10) } map { "r$_" } 1 .. 300;

# admitted remaining reset retry
is(ask($T, $skipped[0], 'a', 'sample=10'), '1 20 10000 0', 'nine in ten are not logged');
is($redis->cli('EXISTS', 'a'), 0, '  and leave nothing');
is(ask($T, $drawn[0], 'a', 'sample=10'), '1 10 10000 0', 'one in ten is, and counts for ten');
is($redis->cli('ZSCORE', 'a', $drawn[0]), $T, '  by its name');
is(ask($T + 1000, $drawn[1], 'a', 'sample=10'), '1 0 9000 0', 'two are all of 20');
is(ask($T + 2000, $skipped[1], 'a', 'sample=10'), '0 0 8000 8000', 'then everybody waits for the oldest to leave');
is(ask($T + 2000, $skipped[1], 'a', 'sample=10 cost=11'), '0 0 8000 9000', '  or the one after it');
is(ask($T + 2000, $skipped[1], 'a', 'sample=10 cost=21'), '0 0 8000 -1', 'a cost above the limit: never');
is(ask($T + 10000, $skipped[1], 'a', 'sample=10'), '1 10 1000 0', 'the oldest has left');
is(many($T, [@skipped[0 .. 4], $drawn[0], $skipped[5], $drawn[1], @skipped[6 .. 9]], 'b', 'sample=10'), '8 0 10000 10000',
    'of many requests those fit that come before the second entry');
is(entries('b'), 2, '  and two are logged');
is(ask($T, 'all', 'one', 'sample=1'), '1 19 10000 0', 'sample=1 is a log');
is(ask($T, 'cost', 'c', 'sample=10 cost=20'), '1 0 10000 0', 'a cost of two samples is two entries');
is(entries('c'), 2, '  exactly');
for my $name (map { "half$_" } 1 .. 8) {
    ask($T, $name, "half $name", 'sample=10 cost=15');
    is(entries("half $name"), 1 + is_drawn($name, 15, 10), "of one and a half the half is drawn: $name");
}

# taking back: what was drawn then is drawn again
is($script->take_back($T, $drawn[0], sampled('b', 'sample=10')), 1, 'who was logged is taken back');
is($script->take_back($T, $drawn[0], sampled('b', 'sample=10')), 0, '  once');
is($script->take_back($T, $skipped[0], sampled('b', 'sample=10')), 0, 'who was not has nothing there');
is(entries('b'), 1, 'the other one stays');
is($script->take_back($T, 'cost', sampled('c', 'sample=10 cost=20')), 1, 'two entries leave');
is($redis->cli('EXISTS', 'c'), 0, '  both');
ask($T, $drawn[2], 'id', 'ids sample=10', ids => ['req']);
is($redis->cli('ZSCORE', 'id', 'req'), $T, 'an id is the name of the entry');
is($script->take_back($T, $drawn[2], sampled('id', 'ids sample=10', ids => ['req'])), 1, '  by which it is taken back');

# beyond a limit
is(many($T, [@drawn[0 .. 3]], 'd', 'delay=10000 ahead=10000 sample=10'), '4 0 10000 0 10000 10000', 'held until the oldest leave');
is(ask($T, $skipped[0], 'd', 'delay=10000 ahead=10000 sample=10'), '0 0 10000 20000', '  as long as slots are near');
is(many($T, [@drawn[0 .. 5]], 'all', 'count=all sample=10', cap => 25), '2 0 10000 10000', 'denied ones count');
is(entries('all'), 3, '  up to cap / N, rounded up');
is(many($T, [@drawn[0 .. 2]], 'box', 'block=30000 sample=10'), '2 0 10000 30000', 'a block');
is(ask($T + 12000, $skipped[0], 'box', 'sample=10'), '0 20 10000 18000', '  whatever the log says');
is(ask($T + 30000, $drawn[4], 'box', 'sample=10'), '1 10 10000 0', '  until it ends');
many($T, [@drawn[0 .. 2]], 'end', 'block=30000 sample=10');
is($script->take_back($T + 1, $skipped[0], sampled('end', 'sample=10')), 0, 'who was not logged ends no block');
is($script->take_back({ now => $T + 1, logged => $T, taken => $T }, $drawn[0], sampled('end', 'sample=10')), 1, 'who was');
is(ask($T + 2, $skipped[0], 'end', 'sample=10'), '1 10 9998 0', '  does');
is(ask($T - 3_600_000, $skipped[0], 'd', 'sample=10 ahead=10000'), '0 0 10000 10000', 'the clock steps back');

# Of 20,000 names a tenth: 2,000, and the deviation is 42. The names are the same each time.
my $logged = 0;
for (1 .. 40) {
    my $batch = $_;
    many($T, [map { "s$batch-$_" } 1 .. 500], "stat $batch", 'sample=10', limit => 1_000_000);
    $logged += entries("stat $batch");
}
cmp_ok(abs($logged - 2000), '<', 5 * 42, "of 20,000 requests $logged are logged");

# no answer is worse than an error
$redis->cli('SET', 'text', 'x');
like(ask($T, 'x', 'text', 'sample=10'), qr/^error WRONGTYPE/, 'a key of another type');
ok(defined ask($T, 'x', 'wrong', $_), "\"$_\": an answer") for '', 'sample=0', 'sample=x', 'sample=-1', 'sample=1e300', 'cost=-5 sample=10';
$redis->cli('CONFIG', 'SET', 'maxmemory', 1);
like(ask($T, $drawn[0], 'oom', 'sample=10'), qr/^error OOM/, 'no memory');
is(ask($T, $skipped[0], 'oom', 'sample=10'), '1 20 10000 0', 'who is not logged needs none');
$bed->done;
