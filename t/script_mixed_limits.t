# Nodes have different limits, caps and parameters for one log, as while a configuration is rolled out: never more
# requests pass than the largest limit, and each decision is that of a plain list of the entries. Random requests, with a
# given clock.

use strict;
use warnings;
use List::Util qw(max min sum0);
use POSIX qw(ceil floor);
use Test::More;
use Testbed qw(seed);
use Testbed::Algorithm qw(%SCRIPTS);
use Testbed::Script;

seed();

my $operations = Testbed::operations(30_000);
my $bed        = Testbed->new;
my $redis      = $bed->redis;
my $unique     = 0;

sub any { return $_[int rand @_] }

# ---- the models: the used part of the limit, add a request, add a denied one, remove one (true: it was there). A
# request: { name, cost }, with at: the time of its entries; a node: { limit, burst, cap, ... }.

sub exact {
    my ($window, $has_names) = @_;
    my @entries;    # [time, name, member], oldest first; of one time as a ZSET has them
    my $live = sub { my ($now) = @_; @entries = grep { $_->[0] > $now - $window } @entries; return scalar @entries };
    my $add  = sub {
        my ($node, $request) = @_;
        @entries = sort { $a->[0] <=> $b->[0] || $a->[2] cmp $b->[2] }
            @entries, map { [$request->{at}, $request->{name}, $request->{name} . ($_ > 1 ? "~$_" : '')] } 1 .. $request->{cost};
    };
    return {
        used => sub { my ($node, $now) = @_; return $live->($now) },
        add  => $add,
        deny => sub {
            my ($node, $request) = @_;
            my $longest = max(scalar @entries, $node->{cap});
            $add->($node, $request);
            splice @entries, 0, max(@entries - $longest, 0);
        },
        remove => sub {
            my ($node, $request, $now) = @_;
            my $before = $live->($now);
            my $left   = $request->{cost};
            @entries = grep { !($_->[0] == $request->{at} && (!$has_names || $_->[1] eq $request->{name}) && $left-- > 0) } @entries;
            return @entries < $before;
        },
        # when that many have left, and the time that no reservation precedes
        room_at => sub { my ($missing) = @_; return $entries[ $missing - 1 ][0] + $window },
        newest  => sub { return $entries[-1][0] },
        reset   => sub { my ($now) = @_; return @entries ? $entries[0][0] + $window - $now : $window },
    };
}

sub counter {
    my ($window) = @_;
    my %counts;
    my $here = sub { my ($now) = @_; return sum0(map { $counts{$_} } grep { $_ >= floor($now / $window) } keys %counts) };
    my $add = sub { my ($node, $request) = @_; $counts{ floor($request->{at} / $window) } += $request->{cost} };
    return {
        used => sub {
            my ($node, $now) = @_;
            return $here->($now) + ceil(($counts{ floor($now / $window) - 1 } // 0) * ($window - $now % $window) / $window);
        },
        add  => $add,
        deny => sub {
            my ($node, $request) = @_;
            $add->($node, { %$request, cost => max(min($request->{cost}, $node->{cap} - $here->($request->{at})), 0) });
        },
        remove => sub {
            my ($node, $request, $now) = @_;
            my $index = floor($request->{at} / $window);
            return 0 if $index < floor($now / $window) - 1 || !$counts{$index};
            $counts{$index} = max($counts{$index} - $request->{cost}, 0);
            return 1;
        },
    };
}

sub bucket {
    my ($window) = @_;
    my ($taken, $time, $since) = (0, 0, 0);    # each token is `window` parts; as last written, and since when some are missing
    my $now_taken = sub { my ($node, $now) = @_; return max($taken - ($now - $time) * $node->{limit}, 0) };
    my $write = sub {
        my ($before, $after, $now) = @_;
        return if $after == $before;
        ($taken, $time) = ($after, $now);
        $since = $now if !$before;
    };
    return {
        used => sub {
            my ($node, $now) = @_;
            return $node->{burst} - floor(($node->{burst} * $window - $now_taken->($node, $now)) / $window);
        },
        add => sub {
            my ($node, $request) = @_;
            my $before = $now_taken->($node, $request->{at});
            $write->($before, $before + $request->{cost} * $window, $request->{at});
        },
        deny => sub {
            my ($node, $request) = @_;
            my $before = $now_taken->($node, $request->{at});
            $write->($before, max($before, min($before + $request->{cost} * $window, $node->{cap} * $window)), $request->{at});
        },
        remove => sub {
            my ($node, $request) = @_;
            return 0 if $request->{taken} < $since;    # its tokens have returned
            $taken = max($taken - $request->{cost} * $window, 0);
            return 1;
        },
    };
}

# ---- the rules that all share

# The reply in the form of the script: admitted, remaining, and, if the model is a list, reset, retry and the delays of
# held requests.
sub decide {
    my ($model, $block, $node, $request, $now) = @_;
    my $size  = $node->{burst} // $node->{limit};
    my $cost  = $request->{cost};
    my $never = $node->{limit} < 1 || $cost > $size;
    my $over  = $model->{used}->($node, $now) + $cost - $size;
    my $is_blocked = $block->{until} > $now;
    my $slot  = $never || $is_blocked ? undef : $over <= 0 ? $now : $node->{delay} ? max($model->{newest}->(), $model->{room_at}->($over)) : undef;
    my $is_admitted = defined $slot && $slot - $now <= $node->{delay};
    if ($is_admitted) {
        $model->{add}->($node, { %$request, at => $slot });
    } else {
        @$block{qw(since until)} = ($now, $now + $node->{block}) if $node->{block} && $node->{limit} > 0 && !$is_blocked;
        $model->{deny}->($node, { %$request, at => $now }) if $node->{count};
    }
    my $used  = $model->{used}->($node, $now);
    my @answer = (0 + $is_admitted, max($size - $used, 0));
    return ("@answer", $slot) if !$model->{reset};
    $over = $used + $cost - $size;
    my $retry = $is_admitted ? 0 : $never ? -1 : max($over > 0 ? $model->{room_at}->($over) - $now : 0, $block->{until} - $now, 0);
    return (join(' ', @answer, $model->{reset}->($now), $retry, $is_admitted && $slot > $now ? $slot - $now : ()), $slot);
}

sub take_back {
    my ($model, $block, $node, $request, $now) = @_;
    return 0 if !$model->{remove}->($node, $request, $now);
    my $has_room = $node->{limit} > 0 && $model->{used}->($node, $now) + $request->{cost} <= ($node->{burst} // $node->{limit});
    $block->{until} = 0 if $block->{since} >= $request->{taken} && $has_room;
    return 1;
}

# ---- the comparison

my %algorithms = (
    sliding_log     => sub { return exact($_[0], 1) },
    compact_log     => sub { return exact($_[0], 0) },
    sampled_log     => sub { return exact($_[0], 1) },    # a sample of all
    sliding_counter => \&counter,
    token_bucket    => \&bucket,
);

sub log_of {
    my ($name, $key, $window, $node, $cost) = @_;
    my @words = ($cost == 1 ? () : "cost=$cost", $node->{count} ? 'count=all' : (), $node->{delay} ? "delay=$node->{delay}" : (),
        $node->{ahead} ? "ahead=$node->{ahead}" : (), $node->{block} ? "block=$node->{block}" : (),
        $node->{burst} ? "burst=$node->{burst}" : (), $name eq 'sampled_log' ? 'sample=1' : ());
    return { key => $key, limit => $node->{limit}, window => $window, cap => $node->{cap}, ttl => 36_000_000, options => "@words" };
}

# The largest number of these times in a window.
sub most_in_a_window {
    my ($window, @times) = @_;
    my ($most, $first) = (0, 0);
    @times = sort { $a <=> $b } @times;
    for my $i (0 .. $#times) {
        $first++ while $times[$first] <= $times[$i] - $window;
        $most = max($most, $i - $first + 1);
    }
    return $most;
}

is("@{[sort keys %algorithms]}", "@{[sort values %SCRIPTS]}", 'each algorithm has a model');

for my $name (sort keys %algorithms) {
    my $script = Testbed::Script->new($redis, $name, $name eq 'compact_log' ? (front => 14) : ());
    my $is_list = $name =~ /_log$/;
    my ($left, $round, $denied, $held, $back, @wrong) = ($operations / keys %algorithms, 0, 0, 0, 0);
    while ($left > 0 && !@wrong) {
        $round++;
        my $key    = "$name $round";
        my $window = any(10, 1000, 60_000);
        my $ahead  = $is_list && any(0, 1) ? $window + int rand $window : 0;
        my ($costs, $counts, $blocks) = map { any(0, 0, 1) } 1 .. 3;
        my @nodes = map {
            my $limit = any(0, 1, 2, 10, 20, 40, 1 + int rand 60);
            {
                limit => $limit,
                cap   => max($limit, 1) + int rand 1 + $limit,
                count => $counts && any(0, 1),
                delay => any(0, 1) * int rand 1 + $ahead,
                ahead => $ahead,
                block => $blocks && any(0, 1 + int rand 2 * $window),
                $name eq 'token_bucket' ? (burst => 1 + int rand 40) : (),
            }
        } 1 .. any(2, 2, 3);
        my ($model, $block) = ($algorithms{$name}->($window), { until => 0, since => 0 });
        my $now = 1_800_000_000_000 + int rand $window;
        my @admitted;
        for (1 .. 300) {
            $left--;
            $now += rand() < 0.01 ? int rand 2 * $window : rand() < 0.3 ? 0 : int rand $window / 15;
            my $node    = any(@nodes);
            my $request = { name => 'r' . $unique++, cost => $costs ? any(0, 1, 1, 2, 5, 1 + int rand 50) : 1, taken => $now, node => $node };
            my ($expected, $slot) = decide($model, $block, $node, $request, $now);
            my @told = split / /, $script->ask_groups($now, [[$request->{name}], log_of($name, $key, $window, $node, $request->{cost})]);
            my $told = join ' ', $is_list ? @told : @told[0, 1];
            if ($told ne $expected) {
                push @wrong, "request $_ of round $round: \"$told\", not \"$expected\"";
                last;
            }
            push @admitted, { %$request, at => $slot } if $told[0];
            $denied++ if !$told[0];
            $held++ if $told[4];
            next if !@admitted || rand() > 0.1;
            my $gone = splice @admitted, any($#admitted, int rand @admitted), 1;
            next if !$gone->{cost} || $name eq 'token_bucket' && $gone->{at} < $now - $window;    # its tokens have returned
            # a past count may still exist, or not
            next if $name eq 'sliding_counter' && $gone->{at} - $gone->{at} % $window + 2 * $window <= $now;
            my $said = take_back($model, $block, $gone->{node}, $gone, $now);
            my $is   = $script->take_back({ now => $now, logged => $gone->{at}, taken => $gone->{taken} }, $gone->{name},
                log_of($name, $key, $window, $gone->{node}, $gone->{cost}));
            push @wrong, "taken back after request $_ of round $round: $is, not $said" and last if $is != $said;
            $back++;
        }
        my $largest = max(map { $_->{limit} } @nodes);
        my $most    = most_in_a_window($window, map { ($_->{at}) x $_->{cost} } @admitted);
        push @wrong, "round $round: $most passed in a window, and the largest limit is $largest" if $is_list && $most > $largest;
    }
    is("@wrong", '', "$name: $round mixes of limits and caps, $denied denied, $held held, $back taken back");
}

$bed->done;
