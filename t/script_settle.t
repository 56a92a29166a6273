# A request that has ended is settled: its log is as if the request had had its true cost from the beginning. Random
# requests, of one log or two, against the reference; then what the reference does not know: blocks, reservations, logs
# that are gone, clocks that step back, and what cannot be settled.

use strict;
use warnings;
use Test::More;
use Testbed;
use Testbed::Algorithm qw(%ALL_SCRIPTS);
use Testbed::Script;
use Testbed::Settled;

my $seed = $ENV{TEST_SEED} // time;
srand $seed;
note "TEST_SEED=$seed";
my $operations = $ENV{TEST_OPERATIONS} // 6000;    # of each algorithm

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

# Settles requests of these logs, each { cost, settle, ... }, and returns how many logs were changed.
sub settle {
    my ($algorithm, $at, @logs) = @_;
    my @asked = map { my %log = %$_; $log{options} =~ s/(?=burst=|$)/ settle=$log{settle} /; $log{options} =~ s/^ +| +$//g; $log{options} =~ s/ +/ /g; \%log } @logs;
    return $script{$algorithm}->take_back($at, 'u1', @asked);
}

# ---- against the reference

for my $algorithm (@settled) {
    my $now = 1_800_000_000_000 + int rand 100_000;
    my @logs = map { my $limit = 1 + int rand 20; { key => "$algorithm $_", model => Testbed::Settled->new(algorithm => $algorithm, limit => $limit,
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
            my $reply = settle($algorithm, { now => $now, logged => $ended->{time}, taken => $ended->{time} }, map { $_->[2] } @asked);
            $wrong = "settling $number: $reply", last if $reply !~ /^\d$/;
            $seen{ $_->[2]{settle} > $_->[1]{cost} ? 'more' : 'less' }++ for @asked;
            $seen{late}++ if $now - $ended->{time} > 500;
            $_->[0]{model}->settle($_->[1], $_->[2]{settle}, $now) for @asked;
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
    is($wrong, undef, "$algorithm: decides as the reference: " . join ', ', map { "$seen{$_} $_" } sort keys %seen);
    ok($seen{$_}, "$algorithm: $_") for qw(admitted denied more less late);
}

# ---- what is left of a log

my $at = 1_800_000_000_000;
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

# a clock that has stepped back: what is owed is an entry of now
my $stepped = Testbed::Script->new($redis, 'compact_log', own_clock => 1);
$stepped->ask($at, log_of('compact', 'step', options => 'cost=2'));
$stepped->take_back({ now => $at - 5000, logged => $at, taken => $at }, 'u1', log_of('compact', 'step', options => 'cost=2 settle=12'));
my ($admitted, undef, undef, $retry) = split ' ', $stepped->ask($at - 5000, log_of('compact', 'step'));
ok(!$admitted && $retry <= 1000, 'a clock that stepped back denies for no longer than a window');

$bed->done;
