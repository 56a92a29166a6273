# The models of bench/, from which docs/algorithms.md has its errors, decide as the scripts do.

use strict;
use warnings;
use Cwd ();
use File::Basename ();
use Test::More;
use lib Cwd::abs_path(File::Basename::dirname(__FILE__) . '/../bench/lib');
use Bench::Models;
use Testbed qw(seed);
use Testbed::Algorithm qw(%SCRIPTS takes);
use Testbed::Script;

seed();

my $bed   = Testbed->new;
my $redis = $bed->redis;
my %cases = (
    sliding_log     => [\&Bench::Models::exact],
    compact_log     => [\&Bench::Models::exact],
    sliding_counter => [\&Bench::Models::counter],
    token_bucket    => [\&Bench::Models::bucket],
    # a sample of all is exact
    sampled_log => [sub { Bench::Models::sampled(@_, 1) }, 'sample=1'],
);

is("@{[sort keys %cases]}", "@{[sort values %SCRIPTS]}", 'each algorithm has a model');

# own_clock: plain calls, too
for my $case (map { ([$_, 0], [$_, 1]) } sort keys %cases) {
    my ($name, $own_clock) = @$case;
    my ($model, $options)  = @{ $cases{$name} };
    my $script = Testbed::Script->new($redis, $name, own_clock => $own_clock);
    my ($asked, $admitted, @otherwise) = (0, 0);
    for my $shape ([1, 10], [5, 1000], [10, 60_000], [100, 7], [300, 1234]) {
        my ($limit, $window) = @$shape;
        my $decides = $model->($limit, $window);
        my %log     = (key => "$name:$own_clock:$limit", limit => $limit, window => $window, ttl => 3_600_000,
            options => takes($name, 'burst') ? "burst=$limit" : $options // '');
        my $now = 1_800_000_000_000 + int rand $window;
        for (1 .. 600) {
            # usually close together, sometimes a window or two without requests
            $now += rand() < 0.02 ? int rand 2 * $window : rand() < 0.4 ? 0 : int rand 3 * $window / $limit;
            my ($told) = split ' ', $script->ask($now, \%log);
            my $expected = $decides->($now);
            $asked++;
            $admitted += $told;
            push @otherwise, "$limit in $window ms: at $now it says $told" if $told != $expected;
        }
    }
    is(join("\n", @otherwise), '', "$name: the model and the script agree in $asked decisions") or next;
    cmp_ok($admitted, '>', 100, "$name: more than 100 decisions admit");
    cmp_ok($asked - $admitted, '>', 100, "$name: more than 100 decisions deny");
}

$bed->done;
