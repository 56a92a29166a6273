# After a burst, no call removes more than a thousand of the entries that have left the window: neither a plain call nor
# one with a cost, an attempt that counts, a reservation or a block. The other entries do not count, so each reply is that
# of a log without them. Random calls, by Redis's own clock, of the scripts and of the native module.

use strict;
use warnings;
use List::Util qw(max);
use Test::More;
use Testbed qw(seed);
use Testbed::Algorithm qw(%ALL_SCRIPTS takes);
use Testbed::Native qw(native_module);
use Testbed::Script;
use Time::HiRes qw(sleep time);

use constant { HOUR => 3_600_000, LEFT => 4500, LIVE => 40, AT_ONCE => 1000, STEPS => 25 };

my $bed   = Testbed->new;
my $redis = $bed->redis($ENV{TEST_NATIVE} ? () : (args => ['--loadmodule', native_module()]));
my $seed = seed();

# Makes a log with so many entries that left an hour ago, and some that are in the window of half an hour.
sub fill {
    my ($script, $key) = @_;
    my $now = int(1000 * time);
    $script->call('DEL', $key);
    my @entries = ((map { ($now - 2 * HOUR + $_, "left$_") } 1 .. LEFT), map { ($now - 60_000 + $_, "live$_") } 1 .. LIVE);
    $script->call('ZADD', $key, splice @entries, 0, 1000) while @entries;
    return $now - HOUR;
}

for my $algorithm (grep { $ALL_SCRIPTS{$_} =~ /^(?:sliding_log|sampled_log|inflight)$/ } sort keys %ALL_SCRIPTS) {
    for my $native (0, 1) {
        my $who    = $algorithm . ($native ? ', native module' : ', script') . ", seed $seed";
        my $script = Testbed::Script->new($redis, $ALL_SCRIPTS{$algorithm}, native => $native);
        my $key    = "rl:sliding:left:{$algorithm$native}";
        my ($horizon, $live, @named) = (fill($script, $key), LIVE);
        my ($wrong, $kept, $calls) = ('', LEFT, 0);
        my $ask = sub {
            my ($limit, $options, $wanted, $remaining) = @_;
            my @options = (grep({ length } $options), takes($algorithm, 'sample') ? 'sample=1' : ());
            my %log     = (key => $key, limit => $limit, window => HOUR / 2, ttl => HOUR, cap => $limit, options => join ' ', @options);
            my $reply   = $script->call($script->words('', [1, \%log]));
            my ($admitted, $now, $left) = ref $reply && ref $reply->[0] ? @{ $reply->[0] } : ($reply, 0, '');
            $wrong ||= "limit=$limit $options: $admitted $left, not $wanted $remaining" if "$admitted $left" ne "$wanted $remaining";
            push @named, [$script->latest, $now, \%log] if $wanted && $options eq '';
            $calls++;
        };
        my @kinds = (
            sub { $live++;    $ask->(9999, '', 1, 9999 - $live) },
            sub { $live++;    $ask->($live, '', 1, 0) },
            sub { my ($limit, $fits) = ($live + $kept, $kept > 0 ? 1 : 0); $live += $fits; $ask->($limit, '', $fits, $limit - $live) },
            sub { $ask->($live, '', 0, 0) },
            sub { $ask->($live - 9, '', 0, 0) },
            sub { $live += 3; $ask->(9999, 'cost=3', 1, 9999 - $live) },
            sub { $ask->(9999, 'cost=0', 1, 9999 - $live) },
            takes($algorithm, 'count') ? sub { $ask->($live, 'count=all', 0, 0) } : (),
            takes($algorithm, 'count') ? sub { $live++; $ask->($live - 1, 'delay=7200000 ahead=7200000', 1, 0) } : (),
            takes($algorithm, 'block') ? sub { $ask->($live, 'block=1', 0, 0); sleep 0.005 } : (),
            sub {
                my ($name, $now, $log) = @{ shift @named // return };
                my $gone = $script->take_back({ now => '', logged => $now, taken => $now }, $name, $log);
                $live -= $gone;
                $wrong ||= "a take-back: $gone" if $gone !~ /^[01]$/;
            },
        );
        for my $step (1 .. STEPS) {
            my $before = $kept;
            $kinds[$step == 1 ? 0 : rand @kinds]->();    # the first one is a plain call
            $kept = $script->call('ZCOUNT', $key, 0, $horizon);
            $wrong ||= "step $step: of $before entries that have left $kept are kept" if $kept < $before - AT_ONCE || $kept > $before;
            my $count = $script->call('ZCOUNT', $key, "($horizon", '+inf');
            $wrong ||= "step $step: $count are in the window, not $live" if $count != $live;
        }
        is($wrong, '', "$who: decides as if all had left");
        is($kept, max(0, LEFT - AT_ONCE * $calls), "$who: each call removes a thousand");
    }
}
$bed->done;
