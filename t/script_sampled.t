# lua/sampled_log.lua: one request in N is logged and counts for N. The choice is a function of the request's name, so
# these cases have the same result each time.

use strict;
use warnings;
use Digest::SHA qw(sha1);
use Test::More;
use Testbed;
use Testbed::Script;

my $bed    = Testbed->new;
my $redis  = $bed->redis;
my $script = Testbed::Script->new($redis, 'sampled_log');
my $own    = Testbed::Script->new($redis, 'sampled_log', own_clock => 1);
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
is($redis->cli('EXISTS', 'a'), 0, 'a request that is not logged leaves no key');
is(ask($T, $drawn[0], 'a', 'sample=10'), '1 10 10000 0', 'one in ten is logged, and counts for ten');
is($redis->cli('ZSCORE', 'a', $drawn[0]), $T, 'a request is logged by its name');
is(ask($T + 1000, $drawn[1], 'a', 'sample=10'), '1 0 9000 0', 'two logged requests use a limit of 20');
is(ask($T + 2000, $skipped[1], 'a', 'sample=10'), '0 0 8000 8000', 'a full log: requests wait for the oldest entry to leave');
is(ask($T + 2000, $skipped[1], 'a', 'sample=10 cost=11'), '0 0 8000 9000', 'a full log: a cost of 11 waits for the entry after the oldest');
is(ask($T + 2000, $skipped[1], 'a', 'sample=10 cost=21'), '0 0 8000 -1', 'a cost above the limit: never');
is(ask($T + 10000, $skipped[1], 'a', 'sample=10'), '1 10 1000 0', 'a full log has room when the oldest has left');
is(many($T, [@skipped[0 .. 4], $drawn[0], $skipped[5], $drawn[1], @skipped[6 .. 9]], 'b', 'sample=10'), '8 0 10000 10000',
    'of many requests those before the second entry fit');
is(entries('b'), 2, 'of many requests two are logged');
is(ask($T, 'all', 'one', 'sample=1'), '1 19 10000 0', 'sample=1 is a log');
is(ask($T, 'cost', 'c', 'sample=10 cost=20'), '1 0 10000 0', 'a cost of two samples is two entries');
is(entries('c'), 2, 'a cost of two samples leaves exactly two entries');
for my $name (map { "half$_" } 1 .. 8) {
    ask($T, $name, "half $name", 'sample=10 cost=15');
    is(entries("half $name"), 1 + is_drawn($name, 15, 10), "a cost of one and a half samples has one entry or two: $name");
}

# a take-back makes the same choice again
is($script->take_back($T, $drawn[0], sampled('b', 'sample=10')), 1, 'a request that was logged is taken back');
is($script->take_back($T, $drawn[0], sampled('b', 'sample=10')), 0, 'a request that was logged is taken back once');
is($script->take_back($T, $skipped[0], sampled('b', 'sample=10')), 0, 'a request that was not logged has nothing to take back');
is(entries('b'), 1, 'a request that is taken back leaves the other one');
is($script->take_back($T, 'cost', sampled('c', 'sample=10 cost=20')), 1, 'a request of two entries is taken back');
is($redis->cli('EXISTS', 'c'), 0, 'a request of two entries that is taken back leaves neither');
ask($T, $drawn[2], 'id', 'ids sample=10', ids => ['req']);
is($redis->cli('ZSCORE', 'id', 'req'), $T, 'an id is the name of the entry');
is($script->take_back($T, $drawn[2], sampled('id', 'ids sample=10', ids => ['req'])), 1, 'an entry is taken back by its id');

# beyond a limit
is(many($T, [@drawn[0 .. 3]], 'd', 'delay=10000 ahead=10000 sample=10'), '4 0 10000 0 10000 10000', 'delay: two requests are held until the oldest leave');
is(ask($T, $skipped[0], 'd', 'delay=10000 ahead=10000 sample=10'), '0 0 10000 20000', 'delay: a request whose reservation is too far ahead is denied');
is(many($T, [@drawn[0 .. 5]], 'all', 'count=all sample=10', cap => 25), '2 0 10000 10000', 'count=all: two of six requests are admitted');
is(entries('all'), 3, 'count=all: denied requests are logged up to cap / N, rounded up');
is(many($T, [@drawn[0 .. 2]], 'box', 'block=30000 sample=10'), '2 0 10000 30000', 'block: the third entry is denied, and the key is blocked');
is(ask($T + 12000, $skipped[0], 'box', 'sample=10'), '0 20 10000 18000', 'block: the key is denied, with room or without');
is(ask($T + 30000, $drawn[4], 'box', 'sample=10'), '1 10 10000 0', 'block: the key has room when it ends');
many($T, [@drawn[0 .. 2]], 'end', 'block=30000 sample=10');
is($script->take_back($T + 1, $skipped[0], sampled('end', 'sample=10')), 0, 'block: a request that was not logged is not taken back');
is($script->take_back({ now => $T + 1, logged => $T, taken => $T }, $drawn[0], sampled('end', 'sample=10')), 1,
    'block: a request that was logged is taken back');
is(ask($T + 2, $skipped[0], 'end', 'sample=10'), '1 10 9998 0', 'block: a request that was logged and is taken back ends it');
is($own->ask_groups($T - 3_600_000, [[$skipped[0]], sampled('d', 'sample=10 ahead=10000')]), '0 0 10000 10000', 'clock back by an hour: the entries count as those of now');

# A tenth of 20,000 names is 2,000, with a deviation of 42. The names are the same each time.
my $logged = 0;
for (1 .. 40) {
    my $batch = $_;
    many($T, [map { "s$batch-$_" } 1 .. 500], "stat $batch", 'sample=10', limit => 1_000_000);
    $logged += entries("stat $batch");
}
cmp_ok(abs($logged - 2000), '<', 5 * 42, "of 20,000 requests $logged are logged");

# impossible arguments and contents give an error
$redis->cli('SET', 'text', 'x');
like(ask($T, 'x', 'text', 'sample=10'), qr/^error WRONGTYPE/, 'a key of another type is an error');
ok(defined ask($T, 'x', 'wrong', $_), "option \"$_\": the script answers") for '', 'sample=0', 'sample=x', 'sample=-1', 'sample=1e300', 'cost=-5 sample=10';
$redis->cli('CONFIG', 'SET', 'maxmemory', 1);
like(ask($T, $drawn[0], 'oom', 'sample=10'), qr/^error OOM/, 'no memory is an error');
is(ask($T, $skipped[0], 'oom', 'sample=10'), '1 20 10000 0', 'no memory: a request that is not logged needs no memory');
$bed->done;
