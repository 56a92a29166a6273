# algorithm=compact and algorithm=log decide alike: the same random arrivals to both scripts, with a given clock. No
# window has more requests than the limit, and requests are served in their order.
# prove: first

use strict;
use warnings;
use Test::More;
use Testbed qw(seed);
use Testbed::Admissions qw(is_exact is_fair keep life);
use Testbed::CompactLog qw(add_marks untrue_marks);
use Testbed::Script;

seed();

my $operations = Testbed::operations(100_000);    # requests; a million take a minute
my $bed        = Testbed->new;
my $redis      = $bed->redis;
my $unique     = 0;

# One reply, as text; arrays in brackets.
sub text { my ($reply) = @_; return ref $reply ? '[' . join(' ', map { text($_) } @$reply) . ']' : $reply }

# Options of the requests in this world; the same for all requests of a call.
sub options {
    my ($world, $log) = @_;
    my %asks = (cost => 1, delay => 0);
    my @words;
    if ($world->{costs} && rand() < 0.6) {
        $asks{cost} = (0, 2, 3, 1 + int rand $log->{limit}, $log->{limit} + 1 + int rand 3)[rand 5];
        push @words, "cost=$asks{cost}" if $asks{cost} != 1;
    }
    push @words, 'count=all' if $world->{count_all} && rand() < $world->{count_all};
    if ($world->{delays}) {
        $asks{delay} = int rand $world->{delays} if rand() < 0.8;
        push @words, "delay=$asks{delay}" if $asks{delay};
        push @words, "ahead=$world->{delays}";
    }
    push @words, 'block=' . (1 + int rand $world->{blocks}) if $world->{blocks} && rand() < 0.7;
    if ($world->{permits}) {
        push @words, 'ahead=1000';
        push @words, 'permits=' . ($asks{permits} = 1 + int rand $world->{permits}) if $asks{cost} && rand() < 0.5;
    }
    $asks{options} = "@words";
    return \%asks;
}

# mixed: each caller has a cap of its own, at least the limit; alone: no request asks two logs.
# A world of keys with limits of their own, from `least` on and then with the longest window; worlds differ in their probabilities.
sub world {
    my ($title, %world) = @_;
    my %script = (
        log     => Testbed::Script->new($redis, 'sliding_log', own_clock => $world{own_clock}, at_once => $world{at_once}),
        compact => Testbed::Script->new($redis, 'compact_log', own_clock => $world{own_clock}, front => $world{front}, step => ($world{marks} // 1024) == 1024 ? undef : $world{marks}),
    );
    my @logs = map {
        my $limit = ($world{least} // 1) + int rand $world{limits};
        { name => "$title $_", limit => $limit, cap => $limit + int rand $limit, window => $world{least} ? $world{windows} : 1 + int rand $world{windows} }
    } 1 .. $world{keys};
    my $now  = 1_800_000_000_000;
    my $left = $operations * $world{share};
    my ($calls, $denied, $held, $back, $marks) = (0, 0, 0, 0, 0);
    while ($left > 0) {
        my @calls;
        for (1 .. $world{batch} // 50) {
            $now += rand() < 0.3 ? 0 : int -log(1 - rand) * $world{step};
            $now += int rand 2 * $world{windows} if rand() < 0.001;
            $now -= int rand($world{windows} / (1 + int rand 20)) if rand() < $world{steps_back};
            my @groups;
            for (1 .. 1 + int rand 3) {
                my ($first, $second) = @logs[rand @logs, rand @logs];
                my @asked = $first == $second || $world{alone} || rand() < 0.7 ? $first : ($first, $second);
                my $requests = rand() < 0.9 ? 1 : 1 + int rand $world{burst};
                push @groups, {
                    logs  => \@asked,
                    asks  => [map { options(\%world, $_) } @asked],
                    caps  => [map { $world{mixed} ? $_->{limit} + int rand $_->{limit} : $_->{cap} } @asked],
                    names => [map { 'u' . $unique++ } 1 .. $requests],
                    limits => [map { $world{fixed} || rand() < 0.95 ? $_->{limit} : int rand $_->{cap} } @asked],
                };
                $left -= $requests;
            }
            push @calls, { now => $now, groups => \@groups };
            for my $kind (qw(log compact)) {
                $script{$kind}->send($script{$kind}->words($now, map { [$_->{names}, logs_of($kind, $_)] } @groups));
            }
        }
        my @undone;
        for my $call (@calls) {
            my ($log, $compact) = map { $script{$_}->reply } qw(log compact);
            $calls++;
            if (text($log) ne text($compact)) {
                is(text($compact), text($log), "$title: both scripts decide call $calls alike");
                exit 1;
            }
            ref $log && !(grep { !ref } @$log) or BAIL_OUT("$title: " . text($log));
            for my $i (0 .. $#$log) {
                my ($group, $reply) = ($call->{groups}[$i], $log->[$i]);
                $denied++ if $reply->[0] < @{ $group->{names} };
                my @held = keep($group, $reply);
                $held += @held;
                for my $j (grep { $group->{permits}[$_] && !$world{steps_back} && rand() < 0.5 } 0 .. $#{ $group->{logs} }) {    # some or all are returned
                    my $log = $group->{logs}[$j];
                    my ($taken) = grep { $_->[0] == $reply->[1] + life($log) } reverse @{ $log->{admitted} };
                    my $cost = $group->{asks}[$j]{cost} * (1 + int rand $group->{permits}[$j]);
                    my %at   = (now => $call->{now}, logged => $reply->[1] + life($log), taken => $reply->[1]);
                    push @undone, $group;
                    for my $kind (qw(log compact)) {
                        my %log = ((logs_of($kind, $group))[$j]->%*, options => "cost=$cost ahead=1000");
                        $script{$kind}->send($script{$kind}->words(Testbed::Script::taking_back(\%at), [["$group->{names}[0]~p"], \%log]));
                    }
                    $taken->[1] -= $cost;
                }
                # the first one admitted, or one that is held
                next if !$reply->[0] || rand() >= $world{taken_back};
                my $place = @held && rand() < 0.7 ? $reply->[0] - 1 - int rand @held : 0;
                my $slot  = $place - $reply->[0] + @held;
                my $taken = $reply->[1];
                my $at    = $taken + ($slot >= 0 ? $held[$slot] : 0);
                push @undone, $group;
                for my $kind (qw(log compact)) {
                    $script{$kind}->send($script{$kind}->words(Testbed::Script::taking_back({ now => $call->{now}, logged => $at, taken => $taken }),
                        [[$group->{names}[$place]], logs_of($kind, $group)]));
                }
                next if !$world{fixed};
                for my $j (0 .. $#{ $group->{logs} }) {
                    my ($log, $cost) = ($group->{logs}[$j], $group->{asks}[$j]{cost});
                    my ($entry) = grep { $log->{admitted}[$_][0] == $at && $log->{admitted}[$_][1] == $cost }
                        reverse 0 .. $#{ $log->{admitted} };
                    splice @{ $log->{admitted} }, $entry, 1;
                }
            }
        }
        for (@undone) {
            my ($log, $compact) = map { $script{$_}->reply } qw(log compact);
            $back++;
            if ($log ne $compact) {
                is($compact, $log, "$title: both scripts take back alike after call $calls");
                exit 1;
            }
        }
        next if !$world{marks};
        my ($untrue, $believed) = mark($script{compact}, \%world, "compact $logs[rand @logs]{name}");
        $untrue eq '' or BAIL_OUT("$title: after call $calls: $untrue");
        $marks += $believed;
    }
    is_exact($_) or return for $world{fixed} ? @logs : ();
    is_fair($_) or return for $world{delays} && !$world{steps_back} && !$world{taken_back} ? @logs : ();
    my $has_all = $denied && ($held || !$world{delays}) && ($marks || !$world{marks});
    return world("$title, again", %world, draws => 1 + ($world{draws} // 1)) if !$has_all && ($world{draws} // 1) < 10;
    ok($has_all, "$title: $calls calls, $denied groups denied, $held requests held, $back taken back, $marks true marks believed");
    return;
}

# Adds some marks to a log, of those that have a ring. Returns what was wrong with those before, and how many were to be believed.
sub mark {
    my ($client, $world, $key) = @_;
    my $log = $client->call('GET', $key) // return ('', 0);
    return ('', 0) if ord($log) % 2 == 0;    # it is blocked
    my %sizes = (front => $world->{front}, step => $world->{marks});
    my @found = untrue_marks($log, %sizes);
    my $share = rand;
    $client->call('SET', $key, add_marks($log, sub { rand() < $share }, %sizes), 'KEEPTTL');
    return @found;
}

sub logs_of {
    my ($kind, $group) = @_;
    return map {
        my $log = $group->{logs}[$_];
        { key => "$kind $log->{name}", limit => $group->{limits}[$_], window => $log->{window}, cap => $group->{caps}[$_],
            ttl => 3_600_000, options => $group->{asks}[$_]{options} }
    } 0 .. $#{ $group->{logs} };
}

my %usual = (keys => 30, limits => 20, windows => 2000, burst => 12, step => 30, taken_back => 0, steps_back => 0);
my %steps = (own_clock => 1);    # the server's own clock steps back; otherwise each call has a clock of its own
my %few   = (at_once => 2);      # at most two stale entries are removed in a call
world('short logs',     %usual, share => 0.1, fixed => 1);
world('small fronts',   %usual, %few, share => 0.1, front => 14, limits => 60);
world('fixed limits',   %usual, share => 0.1, front => 14, limits => 60, fixed => 1);
world('clock goes back', %usual, %steps, share => 0.2, front => 14, limits => 60, steps_back => 0.01);
world('clock goes back often', %usual, %steps, share => 0.05, front => 20, limits => 200, steps_back => 0.3);
world('skewed clocks',  %usual, share => 0.1, front => 20, limits => 200, steps_back => 0.3);
world('skewed clocks, one log each', %usual, share => 0.1, limits => 10, steps_back => 0.3, fixed => 1, alone => 1);
world('skewed clocks, taken back', %usual, share => 0.02, batch => 1, front => 14, limits => 60, taken_back => 0.3, steps_back => 0.1);
world('long windows',   %usual, %few, share => 0.1, front => 14, limits => 60, windows => 30_000_000_000, step => 300_000_000);
world('taken back',     %usual, share => 0.2, front => 14, limits => 60, taken_back => 0.3);
world('few entries, taken back', %usual, share => 0.1, front => 14, limits => 8, taken_back => 0.7);
world('taken back, clock goes back', %usual, %steps, share => 0.02, batch => 1, front => 14, limits => 60, taken_back => 0.3, steps_back => 0.01);
world('long logs',      %usual, share => 0.2, keys => 3, limits => 9000, windows => 9000, step => 1, burst => 500);
world('long logs, clock goes back', %usual, %steps, share => 0.2, keys => 3, limits => 3000, windows => 9000, step => 1, burst => 300, steps_back => 0.001, at_once => 3900);

world('costs',          %usual, %few, share => 0.05, front => 14, costs => 1, fixed => 1);
world('costs, taken back', %usual, %few, share => 0.05, front => 14, costs => 1, fixed => 1, taken_back => 0.2, batch => 1);
world('denied requests count', %usual, %few, share => 0.05, front => 14, count_all => 0.5);
world('all count, with costs', %usual, share => 0.05, front => 14, count_all => 1, costs => 1, fixed => 1);
world('delays',         %usual, %few, share => 0.05, front => 14, delays => 3000, fixed => 1);
world('delays, few at a time', %usual, share => 0.05, limits => 3, delays => 3000, fixed => 1);
world('delays, with costs', %usual, share => 0.05, front => 14, delays => 3000, costs => 1, fixed => 1);
world('delays, taken back', %usual, %few, share => 0.03, batch => 1, front => 14, delays => 3000, costs => 1, fixed => 1, taken_back => 0.3);
world('delays, clock goes back', %usual, %steps, share => 0.05, front => 14, delays => 3000, steps_back => 0.02);
world('delays, skewed clocks', %usual, share => 0.05, front => 14, delays => 3000, steps_back => 0.1);
world('blocks',         %usual, share => 0.05, front => 14, blocks => 4000, fixed => 1);
world('blocks, clock goes back', %usual, %steps, share => 0.05, front => 14, blocks => 4000, steps_back => 0.02);
world('blocks, skewed clocks', %usual, share => 0.05, front => 14, blocks => 4000, steps_back => 0.1);
world('blocks, taken back', %usual, %few, share => 0.05, batch => 1, front => 14, blocks => 4000, fixed => 1, taken_back => 0.3);
world('delays and blocks, taken back', %usual, %few, share => 0.05, batch => 1, front => 14, limits => 5, delays => 3000, blocks => 4000, costs => 1,
    fixed => 1, taken_back => 0.3);
world('permits',        %usual, %few, share => 0.03, batch => 1, front => 14, limits => 600, windows => 20_000, permits => 50, fixed => 1);
world('permits, with costs', %usual, share => 0.03, batch => 1, limits => 600, windows => 20_000, step => 5, permits => 50, costs => 1, fixed => 1);
world('permits of long logs', %usual, share => 0.1, batch => 1, keys => 3, limits => 9000, windows => 90_000, step => 1, burst => 300, permits => 900, fixed => 1);
world('permits, clock goes back', %usual, %steps, share => 0.05, front => 14, limits => 600, windows => 20_000, permits => 50, steps_back => 0.02);
world('mixed caps',     %usual, %few, share => 0.05, front => 14, limits => 60, mixed => 1, count_all => 0.5, costs => 1);
world('mixed caps, with reservations', %usual, share => 0.05, front => 14, mixed => 1, count_all => 0.5, costs => 1, delays => 3000);
my %marked = (%usual, share => 0.03, keys => 10, front => 14, limits => 300, windows => 4000, step => 10, batch => 3, marks => 16, taken_back => 0.3);
world('marks',          %marked);
world('marks, permits', %marked, permits => 50);
world('marks, costs',   %marked, costs => 1, fixed => 1);
world('marks, all count', %marked, costs => 1, count_all => 0.2, taken_back => 0);
world('marks, delays',  %marked, delays => 3000, costs => 1, marks => 40);
world('marks, long logs', %usual, share => 0.4, keys => 1, least => 6000, limits => 3000, windows => 200_000, step => 10, burst => 1500, taken_back => 0.6, batch => 2, marks => 1024, fixed => 1);
world('marks, blocks',  %marked, blocks => 1000);
world('marks, clock goes back', %marked, %steps, steps_back => 0.01, batch => 1);
world('marks, clock goes back, reservations', %marked, %steps, steps_back => 0.02, delays => 1000, taken_back => 0);
world('marks, skewed clocks',   %marked, steps_back => 0.1, batch => 1);
world('all of it',      %usual, %few, share => 0.1, front => 14, costs => 1, count_all => 0.2, delays => 3000, blocks => 1000, fixed => 1);
world('all of it, clock goes back', %usual, %steps, share => 0.1, front => 14, costs => 1, count_all => 0.2, delays => 3000, blocks => 1000, steps_back => 0.02);
world('all of it, skewed clocks', %usual, share => 0.1, front => 14, costs => 1, count_all => 0.2, delays => 3000, blocks => 1000, steps_back => 0.1);
$bed->done;
