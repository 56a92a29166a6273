# Each call has a clock of its own, as with "clock nginx". Every script decides as a model of a page, in which the
# latest decision in a request's logs is the earliest time of the next one. The time of a log only advances.

use strict;
use warnings;
use List::Util qw(max min);
use POSIX qw(ceil floor);
use Test::More;
use Testbed qw(seed);
use Testbed::Algorithm qw(%SCRIPTS);
use Testbed::Script;

seed();
my $calls = Testbed::operations(4000);    # of each script

my $bed   = Testbed->new;
my $redis = $bed->redis;

# For each kind: the time of the latest decision (a counter knows when the count of a window began), how much is used at
# a time, and what a request adds. Stale contents are removed from a log only if something stays.
my %exact = (
    latest => sub { my ($log) = @_; return @{ $log->{times} //= [] } ? $log->{times}[-1] : 0 },
    used   => sub {
        my ($log, $now) = @_;
        my @live = grep { $_ > $now - $log->{window} } @{ $log->{times} };
        $log->{times} = [@live] if @live;
        return scalar @live;
    },
    add => sub {
        my ($log, $now, $more) = @_;
        $log->{times} = [grep({ $_ > $now - $log->{window} } @{ $log->{times} }), ($now) x $more];
    },
);
my %counter = (
    latest => sub { my ($log) = @_; return max(0, map { $log->{began}{$_} } keys %{ $log->{counts} //= {} }) },
    used   => sub {
        my ($log, $now) = @_;
        my ($counts, $window, $start) = ($log->{counts}, $log->{window}, $now - $now % $log->{window});
        my @stale = grep { $_ < $start - $window } keys %$counts;
        delete @$counts{@stale} if @stale < keys %$counts;
        return ($counts->{$start} // 0) + ceil(($counts->{ $start - $window } // 0) * ($window - $now + $start) / $window);
    },
    add => sub {
        my ($log, $now, $more) = @_;
        my $start = $now - $now % $log->{window};
        $log->{began}{$start} = $now if !$log->{counts}{$start};
        $log->{counts}{$start} += $more;
        delete @{ $log->{counts} }{ grep { $_ < $start - $log->{window} } keys %{ $log->{counts} } };
    },
);
my %bucket = (
    latest => sub { return $_[0]{time} //= 0 },
    used   => sub { my ($log, $now) = @_; return ceil(taken($log, $now) / $log->{window}) },
    add    => sub { my ($log, $now, $more) = @_; @$log{qw(taken time)} = (taken($log, $now) + $more * $log->{window}, $now) },
);
sub taken { my ($log, $now) = @_; return max(0, ($log->{taken} // 0) - ($now - $log->{time}) * $log->{limit}) }

# The number of admitted requests, and when.
sub decide {
    my ($kind, $called, $requests, @asked) = @_;
    my $now = max($called, map { $kind->{latest}->($_->[0]) } @asked);
    my $fits = min($requests, map { my ($log, $cost) = @$_; floor(($log->{limit} - $kind->{used}->($log, $now)) / $cost) } @asked);
    $fits = max($fits, 0);
    $kind->{add}->($_->[0], $now, $fits * $_->[1]) for $fits > 0 ? @asked : ();
    return ($fits, $now);
}

my %kinds = (sliding_log => \%exact, compact_log => \%exact, sampled_log => \%exact, sliding_counter => \%counter, token_bucket => \%bucket);
is("@{[sort keys %kinds]}", "@{[sort values %SCRIPTS]}", 'each algorithm has a model');
for my $name (sort keys %kinds) {
    my $script = Testbed::Script->new($redis, $name);
    my @logs   = map { { key => "$name $_", limit => 1 + int rand 8, window => 200 + int rand 1500 } } 1 .. 6;
    my @clocks = (0, -30, -700, 5000);    # of four nodes, from the true time
    my ($now, $wrong, $floored, $denied) = (1_800_000_000_000, '', 0, 0);
    my %told;                             # when each log was last asked
    for my $call (1 .. $calls) {
        $now += rand() < 0.01 ? int rand 4000 : int rand 60;
        @clocks = map { int rand(4000) - 2000 } 1 .. 4 if rand() < 0.01;
        my $called = $now + $clocks[rand @clocks];
        my @groups = map {
            my ($i, $j) = (int rand @logs, int rand @logs);
            { requests => 1 + int rand 3, asked => [map { [$_, 1 + int rand 2] } $i == $j || rand() < 0.6 ? $logs[$i] : @logs[$i, $j]] }
        } 1 .. 1 + int rand 3;
        my $reply = $script->call($script->words($called, map {
            [$_->{requests}, map {
                my ($log, $cost) = @$_;
                my $options = join ' ', "cost=$cost", $name eq 'token_bucket' ? "burst=$log->{limit}" : (), $name eq 'sampled_log' ? 'sample=1' : ();
                +{ %$log{qw(key limit window)}, ttl => 3_600_000, options => $options }
            } @{ $_->{asked} }]
        } @groups));
        for my $i (0 .. $#groups) {
            my @said = decide($kinds{$name}, $called, $groups[$i]{requests}, @{ $groups[$i]{asked} });
            my @told = ref $reply && ref $reply->[$i] ? @{ $reply->[$i] }[0, 1] : ($reply);
            $wrong ||= "call $call at $called: @told, not @said" if "@told" ne "@said";
            $floored++ if $said[1] > $called;
            $denied++ if $said[0] < $groups[$i]{requests};
        }
        last if $wrong;
    }
    is($wrong, '', "$name: the model and the script agree in $calls calls");
    cmp_ok($floored, '>', $calls / 10, "$name: $floored decisions are of a later time than the caller's");
    cmp_ok($denied,  '>', $calls / 20, "$name: $denied groups are denied");
}

# A log that denies expires after its time to live, whatever is requested meanwhile.
for my $name (sort keys %kinds) {
    my $script = Testbed::Script->new($redis, $name);
    my $more   = { token_bucket => ' burst=2', sampled_log => ' sample=1' }->{$name} // '';
    my $ask    = sub { my ($now, $options) = @_; return $script->ask($now, { key => "$name ttl", limit => 2, window => 10_000, ttl => 11_000, options => $options . $more }) };
    my $T      = 1_800_000_000_000;
    $ask->($T + 3_600_000, 'cost=1') for 1 .. 2;
    $ask->($T + 3_600_000, 'cost=1 block=5000');
    $redis->cli('PEXPIRE', "$name ttl", 3000);
    $ask->($T + $_, 'cost=' . $_ % 3) for 0 .. 20;
    $ask->($T + $_, 'cost=1 block=5000') for 0 .. 20;
    my $left = $redis->cli('PTTL', "$name ttl");
    cmp_ok($left, '<=', 3000, "$name: denials by a clock that is behind do not renew the time to live");
    cmp_ok($left, '>',  0, "$name: denials by a clock that is behind leave the log");
}

# A take-back uses the time of the log, whatever the clock of the node is then.
for my $name (qw(sliding_log compact_log sliding_counter token_bucket)) {
    my $script = Testbed::Script->new($redis, $name);
    my $more   = $name eq 'token_bucket' ? 'burst=3' : '';
    my $T      = 1_800_000_000_000;
    for my $behind (0, 5000, 3_600_000) {
        my %log = (key => "$name back $behind", limit => 3, window => 10_000, ttl => 3_600_000, options => $more);
        $script->ask_groups($T, [["first $behind"], { %log }]);
        my $reply = $script->call($script->words($T - $behind, [["own $behind"], { %log }]));
        is($reply->[0][1], $T, "$name: a request of a node that is $behind ms behind is of the latest decision's time");
        is($script->take_back({ now => $T - $behind + 1, logged => $T, taken => $T }, "own $behind", { %log }), 1, "$name: it is taken back, $behind ms behind");
        like($script->call($script->words($T, [1, { %log, options => join ' ', grep { length } 'cost=0', $more }]))->[0][2], qr/^2$/, "$name: exactly it has left");
    }
}
$bed->done;
