#!/usr/bin/env perl
# Chaos: t/soak/chaos.pl MINUTES [cluster|sentinel [SEED]]. Four workers under a steady load use a Cluster of six nodes,
# or a master and two replicas behind three Sentinels. One to three random faults occur at a time. When the servers are
# well again, no worker uses on_error for longer than two seconds, and no request has waited longer than its timeout.
# The servers are well when each of them serves the client of this script. The printed seed repeats the same choices.

use strict;
use warnings;
use List::Util qw(sum);
use Test::More;
use Testbed qw(wait_until);
use Testbed::Chaos::Cluster;
use Testbed::Chaos::Sentinel;
use Testbed::Load;
use Testbed::Starvation;
use Time::HiRes qw(sleep time);

use constant {
    TIMEOUT  => 0.15,
    LATER    => 0.05,    # tolerance for the wait of a request
    BACK     => 2,       # seconds until Redis decides again
    WATCHED  => 1,       # seconds that are observed after that
    MOMENT   => 0.4,     # seconds in which a server without CPU time may cause timeouts
    BY_ITSELF => 10,     # seconds until the script repairs the servers
    GET_WELL  => 90,     # seconds until the servers must be well
};

my $minutes = shift // 10;
my $kind    = shift // 'cluster';
my $seed    = shift // int(time) % 1_000_000;
srand $seed;
diag("$kind, seed $seed");

my $bed   = Testbed->new;
my $world = $kind eq 'cluster' ? Testbed::Chaos::Cluster->new($bed) : Testbed::Chaos::Sentinel->new($bed);
my $nginx = $bed->serve(
    STORE       => $world->configuration,
    workers     => 4,
    connections => 2048,
    listen      => 'reuseport',
    store       => <<'STORE',
    %%STORE%% username limiter; password us3rpass; timeout 150ms; connect_timeout 300ms; reconnect 20ms 500ms;
STORE
    http        => <<'HTTP',
    error_log %%DIR%%/error.log notice;
    sliding_log_log_level info;
HTTP
    how         => '$sliding_log_source $pid $sliding_log_latency',
    server      => <<'END',
    location /one { sliding_log_limit one key=$arg_k limit=1000000 window=10s algorithm=compact; empty_gif; }
    location /two {
        sliding_log_limit here  key=$arg_k limit=1000000 window=10s algorithm=compact;
        sliding_log_limit there key=$arg_l limit=1000000 window=10s algorithm=compact;
        empty_gif;
    }
END
);
wait_until('the servers', 30, sub { $world->is_well }) or die "the servers did not start\n";
my %faults  = $world->faults;
my @workers = $nginx->workers;
my $starved = Testbed::Starvation->watch($bed, @workers);

my $begin = time;
my (@memory, %happened, @failures);
my ($requests, $slowest, $longest_back, $mended) = (0, 0, 0, 0);
while (time - $begin < 60 * $minutes && $nginx->is_running && @failures < 20) {
    my $load = Testbed::Load->start($bed, $nginx->port, paths => [$world->paths], rate => 150);
    sleep 0.3;

    my $from = time;
    my (@names, @heal);
    for (1 .. 1 + (rand() < 0.4) + (rand() < 0.2)) {
        my $name = (sort keys %faults)[rand keys %faults];
        push @names, sprintf '%s at %.2f', $name, time - $from;
        $happened{$name}++;
        push @heal, $faults{$name}->();
        sleep rand 0.5;
    }
    sleep((0.1, 0.5, 1, 3)[rand 4] * rand);
    for my $heal (@heal) { $heal->(); sleep rand 0.2 }
    $world->restore;

    my $healed = time;
    my $well   = get_well(BY_ITSELF);
    while (!$well && time - $healed < GET_WELL) {
        $world->mend;
        $well = get_well(BY_ITSELF);
        $mended++;
    }
    my $from_well = time;
    if (!$well) {
        push @failures, "the servers are not well after: @names";
        diag($failures[-1], "\n", $world->described);
    }
    sleep BACK + WATCHED;
    my $record = $load->stop;
    @{ $bed->{processes} } = grep { $_ != $load } @{ $bed->{processes} };

    # waits for CPU time are not counted
    $starved->since($from);
    my $taken   = sub { my ($one, $begin) = @_; return $one->{worker} eq '' ? 0 : $starved->between($one->{worker}, $begin, $one->{at} + $one->{took}) };
    my @late    = lasting(grep { $_->{source} ne 'redis' && $_->{at} > $from_well + BACK + $taken->($_, $from_well) } $record->requests);
    my @waited  = grep { ($_->{waited} || 0) - $_->{stalled} > TIMEOUT + LATER && $_->{waited} > TIMEOUT + LATER + $taken->($_, $_->{at}) } $record->requests;
    my @undecided = map { $_->{at} } grep { $_->{source} ne 'redis' } $record->that(from => $from_well)->requests;
    my ($last) = sort { $b <=> $a } @undecided;
    my $back = $last ? $last - $from_well : 0;
    my $told = sprintf '%6.1f s: %s; healed after %.1f s, well after %.1f s, back after %.2f s (%d not decided by Redis since it was well); %s, longest wait %d ms', $from - $begin, join(', ', @names), $healed - $from,
        $from_well - $from, $back, scalar @undecided, $record->statuses, 1000 * $record->longest_wait;
    note($told);
    my $what = @late ? scalar(@late) . ' not decided by Redis, of ' . join(' ', map { "worker $_" } Testbed::Load::Record->new(@late)->workers)
        : @waited ? sprintf('%d requests waited too long, one %.0f ms, of which %.0f ms without CPU time', scalar @waited, 1000 * $waited[0]{waited}, 1000 * $taken->($waited[0], $waited[0]{at}))
        : $record->that(status => 0)->count ? 'requests had no response'
        : '';
    if ($what ne '' && $well) {
        push @failures, "$what: $told";
        diag($failures[-1]);
        diag($record->describe(sub { $_->{source} ne 'redis' && $_->{at} > $from_well + BACK }, $from_well) =~ s/\n.*//sr);
        my @said = grep { /sliding_log_redis/ } split /^/, $nginx->error_log;
        diag(@said > 30 ? @said[-30 .. -1] : @said);
    }
    $requests += $record->count;
    $slowest      = $record->longest_wait if $record->longest_wait > $slowest;
    $longest_back = $back if $back > $longest_back && $well;
    push @memory, [time - $begin, own_memory()];
}

# Requests of workers that used on_error for longer than MOMENT, which a server without CPU time may cause, or use it
# now.
sub lasting {
    my %of_worker;
    push @{ $of_worker{ $_->{worker} } }, $_ for @_;
    my @lasting = grep { $_->[-1]{at} - $_->[0]{at} > MOMENT } values %of_worker;
    return map { @$_ } @lasting if @lasting || !@_;
    my $load = Testbed::Load->start($bed, $nginx->port, paths => [$world->paths], rate => 150);
    sleep MOMENT * 3;
    my @again = $load->stop->requests;
    @{ $bed->{processes} } = grep { $_ != $load } @{ $bed->{processes} };
    my %still = map { $_->{worker} => 1 } grep { $_->{source} ne 'redis' } @again;
    return grep { $still{ $_->{worker} } } @_;
}

sub get_well {
    my ($seconds) = @_;
    my $end = time + $seconds;
    until (my $well = $world->is_well) {
        return 0 if time > $end;
        sleep 0.02;
    }
    return 1;
}

sub own_memory {
    my ($most) = sort { $b <=> $a } map { Testbed::Process::slurp("/proc/$_/status") =~ /^RssAnon:\s+(\d+)/m ? $1 : 0 } $nginx->workers;
    return $most // 0;
}

sub typical { my @sorted = sort { $a <=> $b } @_; return $sorted[@sorted / 2] // 0 }
my $length = time - $begin;
my $early  = typical(map { $_->[1] } grep { $_->[0] > 0.3 * $length && $_->[0] < 0.6 * $length } @memory);
my $late   = typical(map { $_->[1] } grep { $_->[0] > 0.8 * $length } @memory);

is(join("\n", @failures), '', "after each fault Redis decides again, and no request waits longer than its timeout ($kind, seed $seed)");
is(join(' ', sort $nginx->workers), join(' ', sort @workers), 'no worker has exited');
cmp_ok($late, '<', 1.05 * $early + 1024, 'memory does not grow') if $minutes >= 5;
diag(sprintf '%s, seed %d: %d faults, %d requests, longest wait %.0f ms, back after %.2f s at most, servers mended %d times; memory %d KiB, later %d KiB', $kind, $seed,
    sum(values %happened), $requests, 1000 * $slowest, $longest_back, $mended, $early, $late);
diag(join ', ', map { "$_ $happened{$_}" } sort keys %happened);
$bed->done;
