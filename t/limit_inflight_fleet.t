# A thousand clients of one key at three nodes of two workers each, with algorithm=inflight and delay=, while workers and
# nodes are killed and nodes are reloaded. Never more requests than the limit are at the upstream server, places are used
# as long as clients wait for them, and each client gets an answer. Places of killed workers count until their leases end.

use strict;
use warnings;
use List::Util qw(max min sum0);
use Test::More;
use Testbed qw(seed slow wait_until);
use Testbed::Http qw(get field);
use Testbed::Load::AtOnce;
use Testbed::Metrics qw(scrape);
use Testbed::Stopwatch;
use Time::HiRes qw(sleep time);

my $seed = seed();
my $seconds = $ENV{TEST_SECONDS} // 12;
use constant { CLIENTS => 1000, LIMIT => 50, BUSY => 45, LEASE => 3, DELAY => 5, LONGEST_HELD => 0.5, NODES => 3 };

# If the processes of the test together wait longer than this for a CPU, in a twentieth of a second, the machine is too
# busy to tell whether places are used, then and a moment later.
use constant { LOOK_EVERY => 0.05, STARVED => 0.05, STARVED_AFTER => 0.05 };

my $bed     = Testbed->new;
my $redis   = $bed->redis;
my $clients = Testbed::Load::AtOnce->new;
my $limit   = 'sliding_log_limit at key=all limit=' . LIMIT . ' algorithm=inflight lease=' . LEASE . 's delay=' . DELAY . 's;';
my @nodes   = map {
    $bed->serve(
        REDIS => $redis->address, UPSTREAM => $clients->port,
        workers     => 2,
        connections => 4096,
        listen      => 'reuseport',
        store       => 'server %%REDIS%%; timeout 5s; connect_timeout 5s; reconnect 20ms 200ms;',
        http        => 'sliding_log_on_error deny;',
        server      => <<"END",
    location /        { $limit proxy_set_header X-Worker \$pid; proxy_pass http://127.0.0.1:%%UPSTREAM%%; }
    location /fresh   { $limit empty_gif; }
    location /metrics { sliding_log_metrics; }
END
    )
} 1 .. NODES;
$_->expect_kills for @nodes;

# ---- the faults

my @kills;      # { from, to, node, pids => [id, ...] }; the kill was between these times
my @reloads;    # { at, node }
my $begin = time;
my $end   = $begin + $seconds;
$clients->start($bed, clients => CLIENTS, ports => [map { $_->port } @nodes], path => '/', holds => [0.1, LONGEST_HELD], seed => $seed);

# How long each process of the test has had work but no CPU.
my (@watched, %starved, $looked_at);
my @looks;    # [from, to, seconds without CPU of all together]

sub look {
    my $now  = time;
    my %now  = map { $_ => Testbed::Stopwatch::starved($_) } @watched;
    my $more = sum0 map { max(0, $now{$_} - ($starved{$_} // $now{$_})) } @watched;
    push @looks, [$looked_at // $now, $now, $more];
    ($looked_at, %starved) = ($now, %now);
    return;
}

# The faults, each with a number of seconds without another one behind it.
my @faults = (
    [sub { }, 2.5],
    [\&kill_worker, 4],
    [\&reload, 1],
    [\&kill_node, 4.5],
);
for (my $n = 0; time < $end; $n++) {
    my ($fault, $lasts) = @{ $faults[ $n % @faults ] };
    my $until = min($end, time + $lasts);
    $fault->(int rand @nodes);
    @watched = ($redis->pid, $clients->pid, map { $_->workers } @nodes);
    look(), sleep LOOK_EVERY while time < $until;
}

sub note_kill {
    my ($number, $pids, $kill) = @_;
    my $from = time;
    $kill->();
    push @kills, { from => $from, to => time, node => $number, pids => $pids };
    return;
}

sub kill_worker {
    my ($number) = @_;
    my $node     = $nodes[$number];
    my @workers  = $node->workers;
    my $killed   = $workers[ rand @workers ];
    note_kill($number, [$killed], sub { kill 'KILL', $killed });
    wait_until('another worker', 10, sub { my @pids = $node->workers; @pids >= 2 && !grep { $_ == $killed } @pids }) or fail('a killed worker has a successor');
    return;
}

sub kill_node {
    my ($number) = @_;
    note_kill($number, [$nodes[$number]->workers], sub { $nodes[$number]->kill });
    $nodes[$number]->start;
    return;
}

sub reload {
    my ($number) = @_;
    push @reloads, { at => time, node => $number };
    $nodes[$number]->reload;
    return;
}

my $seen = $clients->stop(30 * slow());
my ($requests, $visits) = @$seen{qw(requests visits)};

# ---- never more than the limit at once

# The greatest number of these spans [from, to] that contain the same moment, and that moment.
sub most_at_once {
    my (@stays) = @_;
    my ($most, $count, $when) = (0, 0, 0);
    for my $change (sort { $a->[0] <=> $b->[0] || $a->[1] <=> $b->[1] } map { ([$_->[0], 1], [$_->[1], -1]) } @stays) {
        $count += $change->[1];
        ($most, $when) = ($count, $change->[0]) if $count > $most;
    }
    return ($most, $when - $begin);
}

# A killed worker's places count for at least two thirds of the lease. A third is left for renewals that are late.
my %killed_at = map { my $kill = $_; map { $_ => $kill->{from} } @{ $kill->{pids} } } @kills;
sub held_until {
    my ($visit) = @_;
    my $killed_at = $visit->{answered} ? undef : $killed_at{ $visit->{worker} };
    return $killed_at ? max($visit->{end}, $killed_at + LEASE / 3) : $visit->{end};
}
my ($most, $when) = most_at_once(map { [$_->{begin}, $_->{end}] } @$visits);
cmp_ok($most, '<=', LIMIT, 'never more than the limit are at the upstream server') or diag("after $when s");
my ($most_held, $when_held) = most_at_once(map { [$_->{begin}, held_until($_)] } @$visits);
cmp_ok($most_held, '<=', LIMIT, 'the places of killed workers count') or diag("after $when_held s");
is(scalar(grep { !$_->{answered} && $_->{worker} && !$killed_at{ $_->{worker} } } @$visits), 0, 'only killed workers leave it before its answer');

# ---- the places are used

# For the time in which clients wait, except when leases of dead workers have places: for how long which part of the
# places was used. A wait for a CPU is only seen when it ends.
my @moments = (
    (map { ([$_->{begin}, at => 1], [$_->{end}, at => -1]) } @$visits),
    (map { [$_->[0], waiting => $_->[1]] } @{ $seen->{waiting} }),
    (map { ([$_->{from}, dead => 1], [$_->{to} + LEASE, dead => -1]) } @kills),
    (map { ([$_->[0] - $_->[2], starved => 1], [$_->[1] + STARVED_AFTER, starved => -1]) } grep { $_->[2] > STARVED } @looks),
    [$begin + 1, measured => 1], [$end, measured => -1],
);
my %state = map { $_ => 0 } qw(at waiting dead starved measured);
my $since = 0;
my (%lasted, @idle);
for my $moment (sort { $a->[0] <=> $b->[0] } @moments) {
    my ($time, $what, $change) = @$moment;
    if ($state{waiting} > 0 && $state{measured} && !$state{dead}) {
        my $is_busy = $state{at} >= BUSY;
        $lasted{ ($state{starved} ? 'starved' : 'fair') . ($is_busy ? ' busy' : ' idle') } += $time - $since;
        if (!$is_busy && !$state{starved}) {
            push @idle, { from => $since, least => LIMIT } if !@idle || $idle[-1]{to} != $since;
            $idle[-1]{to}    = $time;
            $idle[-1]{least} = min($idle[-1]{least}, $state{at});
        }
    }
    $state{$what} = $what eq 'waiting' ? $change : $state{$what} + $change;
    $since = $time;
}
my ($fair_busy, $fair, $all_busy, $all) = map {
    my $time = $_;
    map { my $use = $_; sum0 map { $lasted{$_} } grep { /$time/ && /$use/ } keys %lasted } qr/busy/, qr/./;
} qr/fair/, qr/./;
cmp_ok($all, '>', $seconds / 4, 'clients wait');
SKIP: {
    skip 'the machine is too busy to tell whether places are used', 1 if $fair < 1;
    cmp_ok($fair_busy / $fair, '>=', 0.95, 'the places are used nearly all the time that clients wait');
}
note(sprintf 'fewer than %d for %.0f ms after %.3f s, down to %d', BUSY, 1000 * ($_->{to} - $_->{from}), $_->{from} - $begin, $_->{least})
    for grep { $_->{to} - $_->{from} >= 0.02 } @idle;
diag(sprintf 'node %d: %d killed from %.4f to %.4f s', $_->{node}, scalar @{ $_->{pids} }, $_->{from} - $begin, $_->{to} - $begin) for @kills;

# ---- each client gets an answer

my %count;
$count{ $_->{status} }++ for @$requests;
is($count{undef} // 0, 0, 'no client hangs');
is(join(' ', grep { !/^(?:0|200|429|undef)$/ } sort keys %count), '', 'each is admitted or denied');
cmp_ok($count{$_} // 0, '>', 0, "some of each: $_") for 0, 200, 429;

# The sockets of a worker close a moment after the kill.
sub was_killed {
    my ($one) = @_;
    return grep { $_->{node} == $one->{node} && $one->{begin} <= $_->{to} + 0.5 && $one->{end} >= $_->{from} && $one->{end} <= $_->{to} + 1 + $one->{stalled} } @kills;
}
for my $number (0 .. $#nodes) {
    my %ended;
    $ended{ $_->{status} }++ for grep { $_->{node} == $number } @$requests;
    note("node $number: " . join ', ', map { "$ended{$_} of $_" } sort keys %ended);
    cmp_ok($ended{200}, '>', $count{200} / 10, 'each node gets places');
}
my @closed = grep { $_->{status} eq 0 && !was_killed($_) } @$requests;
is(scalar @closed, 0, 'only killed workers close connections without an answer');
diag(sprintf 'closed by node %d after %.4f s, it came after %.4f s', $_->{node}, $_->{end} - $begin, $_->{begin} - $begin) for @closed;
note(sprintf 'node %d: reloaded after %.3f s', $_->{node}, $_->{at} - $begin) for @reloads;
my @denied = sort { $a <=> $b } map { $_->{end} - $_->{begin} } grep { $_->{status} eq 429 } @$requests;
cmp_ok($denied[0], '>=', DELAY - 0.1, 'who is denied has waited');
my $slowest = max(map { $_->{end} - $_->{begin} - $_->{stalled} } @$requests);
cmp_ok($slowest, '<=', DELAY + LONGEST_HELD + slow(), 'and nobody waits longer than that');

# ---- nothing stays

ok(wait_until('all to be gone', LEASE + 2, sub { $redis->cli('DBSIZE') == 0 }), 'nothing stays in Redis') or diag($redis->cli(qw(ZRANGE rl:sliding:at:{all} 0 -1 WITHSCORES)));
for my $node (@nodes) {
    my $fresh = get($node->port, '/fresh');
    is("$fresh->{status} " . field($fresh, 'RateLimit'), '200 "at";r=' . (LIMIT - 1), 'a fresh request has a place');
    is(scrape($node->port)->{'sliding_log_store_take_backs_lost_total{store="default",node="' . $redis->address . '"}'} // 0, 0, 'no give-back is lost');
}

my $asked = $redis->calls('evalsha');
diag(sprintf '%d requests in %d s: %d passed, %d denied, %d closed by %d kills; %d reloads; %d calls of Redis', scalar @$requests, $seconds, @count{200, 429, 0},
    scalar @kills, scalar @reloads, $asked);
diag(sprintf 'at most %d at once, %d with those of killed workers; %d and more for %.2f %% of %.1f s, for %.2f %% of the %.1f s in which the machine is not too busy; the slowest took %.2f s',
    $most, $most_held, BUSY, 100 * $all_busy / $all, $all, $fair ? 100 * $fair_busy / $fair : 0, $fair, $slowest);

$bed->done;
