# A request that has ended is settled: an additional cost counts from its end, and a lower cost as if it had been known
# from the beginning. For nodes of the version before, both count from the beginning. Random requests, of one log or two,
# against the reference; then what the reference does not know: blocks, reservations, logs that are gone, clocks that step
# back, and costs that cannot be settled.

use strict;
use warnings;
use List::Util qw(min);
use Test::More;
use Testbed qw(seed);
use Testbed::Algorithm qw(%ALL_SCRIPTS);
use Testbed::Script;
use Testbed::Settled;

seed();
my $operations = Testbed::operations(6000);    # of each algorithm

my $bed     = Testbed->new;
my $redis   = $bed->redis;
my %script = map { $_ => Testbed::Script->new($redis, $ALL_SCRIPTS{$_}) } sort keys %ALL_SCRIPTS;

my @settled = qw(compact counter bucket quota);

sub any { return $_[int rand @_] }

sub log_of {
    my ($algorithm, $key, %more) = @_;
    my $options = join ' ', $more{options} // (), $algorithm eq 'bucket' ? 'burst=' . ($more{burst} // $more{limit} // 10) : ();
    return { key => $key, limit => 10, window => 1000, ttl => 3_600_000, %more, options => $options };
}

# Settles requests of these logs, each { cost, settle, ... }, and returns how many logs were changed. { ago }: how long ago
# they ended; without it the calls are those of nodes of the version before.
sub settle {
    my ($algorithm, $at, @logs) = @_;
    my $ended = ref $at && defined $at->{ago} ? "ended=$at->{ago} " : '';
    my @asked = map { my %log = %$_; $log{options} =~ s/(?=burst=|$)/ settle=$log{settle} $ended/; $log{options} =~ s/^ +| +$//g; $log{options} =~ s/ +/ /g; \%log } @logs;
    return $script{$algorithm}->take_back($at, 'u1', @asked);
}

# ---- against the reference

for my $case (map { ([$_, 'from the end'], [$_, 'from the beginning']) } @settled) {
    my ($algorithm, $counts) = @$case;
    my $now = 1_800_000_000_000 + int rand 100_000;
    my @logs = map { my $limit = 1 + int rand 20; { key => "$algorithm $counts $_", model => Testbed::Settled->new(algorithm => $algorithm, limit => $limit,
        window => any(60, 250, 500), $algorithm eq 'bucket' ? (burst => any($limit, 1 + int rand 2 * $limit)) : ()) } } 1 .. 4;
    my (@under_way, $wrong, %seen);
    for my $number (1 .. $operations) {
        $now += rand() < 0.3 ? 0 : int -log(1 - rand) * 25;
        $now += int rand 1000 if rand() < 0.02;
        if (@under_way && rand() < 0.5) {
            my $ended  = splice @under_way, int rand @under_way, 1;
            my @asked  = map { my ($log, $request) = @$_; my $settle = any($request->{cost}, 0, int rand 12, int rand 12, int rand 60);
                [$log, $request, log_of($algorithm, $log->{key}, limit => $log->{model}{limit}, window => $log->{model}{window}, burst => $log->{model}{burst},
                    options => "cost=$request->{cost}", settle => $settle)] } @{ $ended->{requests} };
            my $ago   = $counts eq 'from the end' ? min($now - $ended->{time}, any(0, 0, int rand 30, int rand 300, int rand 2000, int rand 2000)) : undef;
            my $reply = settle($algorithm, { now => $now, logged => $ended->{time}, taken => $ended->{time}, ago => $ago }, map { $_->[2] } @asked);
            $wrong = "settling $number: $reply", last if $reply !~ /^\d$/;
            $seen{ $_->[2]{settle} > $_->[1]{cost} ? 'more' : 'less' }++ for @asked;
            $seen{late}++ if $now - $ended->{time} > 500;
            $seen{'long ago'}++ if ($ago // 0) > 250;
            $_->[0]{model}->settle($_->[1], $_->[2]{settle}, $now, defined $ago ? $now - $ago : undef) for @asked;
            next;
        }
        my @asked = map { { log => $_, cost => any(1, 1, 0, 1 + int rand 5) } } rand() < 0.3 ? @logs[0, 1] : any(@logs);
        my $fits  = !grep { $_->{log}{model}->retry($_->{cost}, $now) } @asked;
        my @added = map { $fits ? [$_->{log}, $_->{log}{model}->add($_->{cost}, $now)] : () } @asked;
        push @under_way, { time => $now, requests => \@added } if $fits;
        my $said = join ' ', 0 + $fits, map { my $model = $_->{log}{model}; ($model->remaining($now), $model->reset($now), $fits ? 0 : $model->retry($_->{cost}, $now)) } @asked;
        my $told = $script{$algorithm}->ask($now, map { log_of($algorithm, $_->{log}{key}, limit => $_->{log}{model}{limit}, window => $_->{log}{model}{window},
            burst => $_->{log}{model}{burst}, options => "cost=$_->{cost}") } @asked);
        $seen{ $fits ? 'admitted' : 'denied' }++;
        $wrong = "request $number at $now: \"$told\", not \"$said\"", last if $told ne $said;
    }
    is($wrong, undef, "$algorithm, $counts: decides as the reference: " . join ', ', map { "$seen{$_} $_" } sort keys %seen);
    ok($seen{$_}, "$algorithm, $counts: $_") for qw(admitted denied more less late), $counts eq 'from the end' ? 'long ago' : ();
}

# ---- the end of a request

my $at = 1_800_000_000_000;
for my $algorithm (@settled) {
    my $log = sub { my ($key, %more) = @_; return log_of($algorithm, "$algorithm end $key", %more) };
    my $denied = sub { my ($key, $now) = @_; my ($admitted, undef, undef, $retry) = split ' ', $script{$algorithm}->ask($now, $log->($key)); return $admitted ? '' : $retry };
    my @late = (now => $at + 10_500, logged => $at, taken => $at);

    # it lasted for ten windows, and 25 are owed; the counter counts them in this window and weighs them in the next one
    my %until = (compact => 1000, counter => 1140, bucket => 1600, quota => 500);
    is(settle($algorithm, { @late, ago => 0 }, $log->('long', options => 'cost=1', settle => 26)), 1, "$algorithm: an answer longer than the window is not free");
    is($denied->('long', $at + 10_500), $until{$algorithm}, "$algorithm: it counts from its end");
    ok($redis->cli('PTTL', "$algorithm end long") >= $until{$algorithm}, "$algorithm: and is kept as long");

    # it ended before
    is(settle($algorithm, { @late, ago => 400 }, $log->('ago', options => 'cost=1', settle => 26)), 1, "$algorithm: ended 400 ms ago");
    is($denied->('ago', $at + 10_500), $algorithm =~ /compact|bucket/ ? $until{$algorithm} - 400 : $until{$algorithm}, "$algorithm: it counts from then on");
    is(settle($algorithm, { @late, ago => $_ }, $log->("left $_", options => 'cost=1', settle => 9)), 0, "$algorithm: what ended $_ ms ago has left") for 3000, 9500, 10_500, 999_999_999_999;
    is($redis->cli('EXISTS', map { "$algorithm end left $_" } 3000, 9500, 10_500), 0, "$algorithm: no log is made for it");

    # behind the latest entry
    $script{$algorithm}->ask($at + 10_450, $log->('latest', options => 'cost=1'));
    is(settle($algorithm, { @late, ago => 400 }, $log->('latest', options => 'cost=1', settle => 26)), 1, "$algorithm: ended before the latest entry");
    is($denied->('latest', $at + 10_500), { compact => 950, counter => 1154, bucket => 1650, quota => 500 }->{$algorithm}, "$algorithm: it counts from that entry on");
}
{
    # periods: what began in one and ends in the next
    my %day   = (limit => 10, window => 86_400_000, ttl => 90_000_000);
    my $end   = $at - $at % 86_400_000 + 86_400_000;
    my $quota = $script{quota};
    my $left  = sub { my ($key, $now) = @_; return (split ' ', $quota->ask($now, log_of('quota', $key, %day, options => 'cost=0')))[1] };
    my @ended = (logged => $end - 10, taken => $end - 10);
    $quota->ask($end - 10, log_of('quota', "period $_", %day, options => 'cost=2')) for qw(more less);
    settle('quota', { @ended, now => $end + 5, ago => 0 }, log_of('quota', 'period more', %day, options => 'cost=2', settle => 6));
    is($left->('period more', $end + 5), 6, 'quota: more counts in the period of the end');
    is(settle('quota', { @ended, now => $end + 5, ago => 6 }, log_of('quota', 'period more', %day, options => 'cost=2', settle => 6)), 0, 'quota: it ended in the period before');
    is($left->('period more', $end + 6), 6, 'quota: that has left');
    $quota->ask($end + 5, log_of('quota', 'period less', %day, options => 'cost=3'));
    settle('quota', { @ended, now => $end + 6, ago => 0 }, log_of('quota', 'period less', %day, options => 'cost=2', settle => 0));
    is($left->('period less', $end + 6), 7, 'quota: less concerns the period of the reservation');

    # the clock has stepped back over the end: the later period goes on
    my $stepped = Testbed::Script->new($redis, 'calendar_quota', own_clock => 1);
    $stepped->ask($end + 5, log_of('quota', 'period back', %day, options => 'cost=3'));
    $stepped->take_back({ now => $end - 5, @ended }, 'u1', log_of('quota', 'period back', %day, options => 'cost=2 settle=4 ended=0'));
    like($stepped->ask($end - 5, log_of('quota', 'period back', %day, options => 'cost=0')), qr/^1 5 /, 'quota: with a clock that stepped back it counts in the later period');
}
# reservations ahead: behind them
for my $algorithm (qw(compact counter)) {
    my $log = sub { my (%more) = @_; return log_of($algorithm, "$algorithm ahead", limit => 4, window => 1000, %more) };
    $script{$algorithm}->ask($at, $log->(options => 'cost=4 delay=5000 ahead=5000')) for 1 .. 2;
    is(settle($algorithm, { now => $at + 10, logged => $at, taken => $at, ago => 0 }, $log->(options => 'cost=4 ahead=5000', settle => 5)), 1, "$algorithm: more beside a reservation");
    like($script{$algorithm}->ask($at + 20, $log->(options => 'cost=1 ahead=5000')), qr/^0 0 /, "$algorithm: it counts now");
    my $at_entry = $algorithm eq 'compact' ? 2000 : 3000;
    like($script{$algorithm}->ask($at + $at_entry - 1, $log->(options => 'cost=4 ahead=5000')), qr/^0 /, "$algorithm: and until the reservation has left");
}
# the price does not depend on what came since; the native module calls no such commands
if (!$ENV{TEST_NATIVE}) {
    my %long = (limit => 1_000_000, window => 3_600_000);
    $script{compact}->ask_groups($at + $_, [5000, log_of('compact', 'price', %long)]) for 0 .. 9;
    my $calls = sub { my %is = map { ($_ => $redis->calls($_)) } qw(getrange setrange set); return \%is };
    my $before = $calls->();
    settle('compact', { now => $at + 1000, logged => $at, taken => $at, ago => 500 }, log_of('compact', 'price', %long, options => 'cost=1', settle => 1001));
    my $after = $calls->();
    is(join(' ', map { "$_ " . ($after->{$_} - $before->{$_}) } sort keys %$after), 'getrange 2 set 0 setrange 1', 'compact: nothing but the front is read, twice with a clock of the callers, and written');
}

# ---- what is left of a log

for my $algorithm (@settled) {
    my $log = sub { my ($key, %more) = @_; return log_of($algorithm, "$algorithm $key", %more) };
    $script{$algorithm}->ask($at, $log->('all', options => 'cost=4'));
    is(settle($algorithm, { now => $at + 10, logged => $at, taken => $at }, $log->('all', options => 'cost=4', settle => 0)), 1, "$algorithm: a request that cost nothing changes its log");
    like($script{$algorithm}->ask($at + 10, $log->('all', options => 'cost=0')), qr/^1 10 /, "$algorithm: a request that cost nothing has left");
    is(settle($algorithm, { now => $at + 10, logged => $at, taken => $at }, $log->('all', options => 'cost=4', settle => 4)), 0, "$algorithm: the same cost changes nothing");

    # a debt, also in a log that is not there
    is(settle($algorithm, { now => $at + 20, logged => $at, taken => $at }, $log->('gone', options => 'cost=0', settle => 25)), 1, "$algorithm: a log that is gone gets what is owed");
    my ($admitted, $remaining, $reset, $retry) = split ' ', $script{$algorithm}->ask($at + 20, $log->('gone'));
    is("$admitted $remaining", '0 0', "$algorithm: a debt leaves no room");
    ok($retry > 1, "$algorithm: the debt denies for $retry ms");
    ok($redis->cli('PTTL', "$algorithm gone") >= $retry, "$algorithm: the log lives as long as its debt");
    if ($algorithm ne 'quota') {
        like($script{$algorithm}->ask($at + 20 + $retry - 1, $log->('gone')), qr/^0 /, "$algorithm: the debt denies until then");
        like($script{$algorithm}->ask($at + 20 + $retry, $log->('gone')), qr/^1 /, "$algorithm: and no longer");
    }

    # much later there is nothing to do, except for a bucket, which does not know when
    my $late = settle($algorithm, { now => $at + 10_000, logged => $at, taken => $at }, $log->('late', options => 'cost=1', settle => 5));
    is($late, $algorithm eq 'bucket' ? 1 : 0, "$algorithm: what would have left is not added");
    is($redis->cli('EXISTS', "$algorithm late"), $algorithm eq 'bucket' ? 1 : 0, "$algorithm: nor is a log made for it");

    # a key of another type, and a log that cannot take so many
    $redis->cli('RPUSH', "$algorithm wrong", 1);
    like(settle($algorithm, $at, $log->('wrong', settle => 5)), qr/^error WRONGTYPE/, "$algorithm: a key of another type is refused");
}
like(settle('compact', $at, log_of('compact', 'huge', settle => 2**41)), qr/^error ERR no log of this algorithm can keep/, 'compact: a cost that is too large is refused');
like(settle($_, $at, log_of($_, "named $_", options => $_ eq 'sampled' ? 'sample=2' : '', settle => 5)), qr/^error ERR no log of this algorithm can settle a cost/, "$_: is not settled") for qw(log sampled);

# a block ends when the log has room for such a request again, and not when it owes
for my $algorithm (qw(compact counter bucket)) {
    my $log = sub { my (%more) = @_; return log_of($algorithm, "$algorithm blocked", %more, options => join ' ', $more{options} // (), 'block=60000') };
    $script{$algorithm}->ask($at + $_, $log->(options => 'cost=5')) for 0, 1;
    like($script{$algorithm}->ask($at + 2, $log->(options => 'cost=5')), qr/^0 .* 60000$/, "$algorithm: blocked");
    settle($algorithm, { now => $at + 3, logged => $at, taken => $at }, $log->(options => 'cost=5', settle => 9));
    settle($algorithm, { now => $at + 4, logged => $at, taken => $at }, $log->(options => 'cost=9', settle => 4));
    like($script{$algorithm}->ask($at + 5, $log->(options => 'cost=5')), qr/^0 .* 59997$/, "$algorithm: too little was given back to end the block");
    settle($algorithm, { now => $at + 6, logged => $at + 1, taken => $at + 1 }, $log->(options => 'cost=5', settle => 1));
    like($script{$algorithm}->ask($at + 7, $log->(options => 'cost=5')), qr/^1 0 /, "$algorithm: the block has ended");
}

# a log that is blocked keeps its debt
for my $algorithm (qw(compact counter bucket)) {
    my $log = sub { my (%more) = @_; return log_of($algorithm, "$algorithm owes", %more, options => join ' ', $more{options} // (), 'block=100') };
    $script{$algorithm}->ask($at, $log->(options => 'cost=10'));
    like($script{$algorithm}->ask($at, $log->()), qr/^0 /, "$algorithm: blocked");
    is(settle($algorithm, { now => $at + 10, logged => $at, taken => $at }, $log->(options => 'cost=10', settle => 20)), 1, "$algorithm: a blocked log takes a debt");
    like($script{$algorithm}->ask($at + 150, $log->()), qr/^0 /, "$algorithm: it denies when the block has ended");
}

# a reservation: the entries are at its time
$script{compact}->ask($at, log_of('compact', 'held', limit => 2, options => 'cost=2 delay=5000 ahead=5000')) for 1 .. 2;
settle('compact', { now => $at + 1500, logged => $at + 1000, taken => $at }, log_of('compact', 'held', limit => 2, options => 'cost=2 ahead=5000', settle => 3));
is($script{compact}->ask($at + 1999, log_of('compact', 'held', limit => 3)), '0 0 1 1', 'a reservation is settled at its time');
is($script{compact}->ask($at + 2000, log_of('compact', 'held', limit => 3)), '1 2 1000 0', 'and leaves with it');

# a clock that has stepped back: a debt is an entry of now
my $stepped = Testbed::Script->new($redis, 'compact_log', own_clock => 1);
$stepped->ask($at, log_of('compact', 'step', options => 'cost=2'));
$stepped->take_back({ now => $at - 5000, logged => $at, taken => $at }, 'u1', log_of('compact', 'step', options => 'cost=2 settle=12'));
my ($admitted, undef, undef, $retry) = split ' ', $stepped->ask($at - 5000, log_of('compact', 'step'));
ok(!$admitted && $retry <= 1000, 'a clock that stepped back denies for no longer than a window');

$bed->done;
