# A log of thousands of entries that have left the window delays no call of Redis: a thousand are removed at once, the
# others do not count, and all numbers in replies are exact.

use strict;
use warnings;
use Test::More;
use Testbed;
use Testbed::Script;

my $bed   = Testbed->new;
my $redis = $bed->redis;
my $T     = 1_800_000_000_000;

use constant { WINDOW => 10_000, STALE => 4500 };

# A log with one entry a millisecond, the latest at T.
sub fill {
    my ($key, $entries) = @_;
    $redis->cli('DEL', $key);
    for (my $i = 0; $i < $entries; $i += 500) {
        $redis->cli('ZADD', $key, map { ($T - $_, "e$_") } $i .. ($i + 500 > $entries ? $entries : $i + 500) - 1);
    }
    return;
}
sub zcard { return $redis->cli('ZCARD', $_[0]) }
sub log_of { my ($key, %more) = @_; return { key => $key, limit => 10_000, window => WINDOW, ttl => 3_600_000, %more } }

for my $name (qw(sliding_log sampled_log)) {
    my $script = Testbed::Script->new($redis, $name);
    my $own    = Testbed::Script->new($redis, $name, own_clock => 1);
    my $sample = $name eq 'sampled_log' ? 'sample=1' : '';
    my $options = sub { return (options => join ' ', grep { length } @_, $sample) };

    # of 5,000 entries 500 are left, then none
    fill('half', STALE + 500);
    is($script->ask($T - 499 + WINDOW - 1, log_of('half', $options->())), '1 9499 1 0', "$name, 4,500 stale: those of the window count");
    is(zcard('half'), STALE + 500 - 1000 + 1, "$name, 4,500 stale: a thousand are removed");
    is($script->ask($T - 499 + WINDOW - 1, log_of('half', limit => 501, $options->())), '0 0 1 1', "$name, 3,500 stale: a full log denies");
    is(zcard('half'), STALE + 500 - 2000 + 1, "$name, 3,500 stale: a denial removes a thousand, too");
    is($script->ask($T - 499 + WINDOW - 1, log_of('half', limit => 300, $options->())), '0 0 1 202', "$name, 2,500 stale: the wait is of an entry of the window");
    is($script->ask($T - 499 + WINDOW - 1, log_of('half', limit => 400, cap => 400, $options->('count=all'))), '0 0 2 103',
        "$name, 1,500 stale: a denied attempt takes the place of the oldest of the window");
    is(zcard('half'), 501 + 500, "$name, 1,500 stale: none but a thousand and that one have left");
    is($script->ask($T - 499 + WINDOW - 1, log_of('half', $options->())), '1 9498 2 0', "$name, 500 stale: the others are removed");
    is(zcard('half'), 502, "$name, 500 stale: none is left");

    fill('all', STALE);
    is($script->ask($T + WINDOW, log_of('all', limit => 0, $options->())), '0 0 10000 -1', "$name, all stale: a denial finds nothing");
    is(zcard('all'), STALE, "$name, all stale: a denial leaves all of them");
    is($script->ask($T + WINDOW, log_of('all', limit => 2, $options->())), "1 $_ 10000 0", "$name, all stale: nothing else counts") for 1, 0;
    is($script->ask($T + WINDOW, log_of('all', limit => 2, $options->('block=30000'))), '0 0 10000 30000', "$name, 2,500 stale: a block begins");
    is($script->ask($T + WINDOW + 1, log_of('all', limit => 2, $options->())), '0 0 9999 29999', "$name, 1,500 stale: a blocked log denies");
    is(zcard('all'), 503, "$name, 1,500 stale: a thousand are removed from a blocked log");
    is($script->ask($T + WINDOW + 1, log_of('all', limit => 2, $options->())), '0 0 9999 29999', "$name, 500 stale: a blocked log denies");
    is(zcard('all'), 3, "$name, 500 stale: the block and what is in the window stay");
    fill('never', STALE);
    is($script->ask($T + WINDOW, log_of('never', limit => 2, $options->('cost=3 block=30000'))), '0 2 10000 -1', "$name, all stale: a block begins");
    is(zcard('never'), STALE - 1000 + 1, "$name, all stale: a thousand are removed when a block begins");

    # the clock steps back
    my ($B, $F) = ($T - 3_600_000, 'far');
    fill($F, STALE);
    for my $call (1 .. 5) {
        my $rest = WINDOW + 1 - $call;
        is($own->ask($B + $call, log_of($F, limit => STALE, $options->())), "0 0 $rest $rest", "$name, 4,500 ahead: all of them count in call $call");
        is($redis->cli('ZCOUNT', $F, '-inf', $B + $call), $call < 5 ? 1000 * $call : STALE, "$name, 4,500 ahead: call $call moves a thousand");
    }
    is($own->ask($B + WINDOW + 5, log_of($F, limit => STALE, $options->())), '1 4499 10000 0', "$name, 4,500 ahead: nobody is locked out for longer than a window");
}
$bed->done;
