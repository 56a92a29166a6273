# Fail-overs, by command and by death in turn, with the default back-off of 5 s: every worker asks the new master within
# a second of the moment at which a Sentinel names it. TEST_FAILOVERS is their number.
# prove: first

use strict;
use warnings;
use Test::More;
use Testbed qw(wait_until slow);
use Testbed::Guarded;
use Testbed::Load;
use Testbed::Stopwatch;
use Time::HiRes qw(time sleep);

use constant WORKERS => 4;

my $bed   = Testbed->new;
my $world = Testbed::Guarded->new($bed, workers => WORKERS, reconnect => '50ms 5s');
my ($master, $replica) = $world->redis;

my @slowest;
for my $number (1 .. $ENV{TEST_FAILOVERS} // 4) {
    my $dies = $number % 2 == 0;
    my $what = "fail-over $number, by " . ($dies ? 'death' : 'command');
    my $load = Testbed::Load->start($bed, $world->nginx->port, paths => ['/deny?k=%d'], rate => 400);
    wait_until('the load', 5, sub { $master->calls('evalsha') > 50 });
    my @involved = ($replica->pid, $world->nginx->workers, map { $_->pid } $world->sentinels);
    my $watch    = Testbed::Stopwatch->start(@involved);
    # a Sentinel begins no fail-over so soon after the previous one
    $dies ? $master->kill : ($world->sentinels)[$number % 3]->begin_failover;
    my $named = wait_until('a Sentinel to name the new master', 20, sub {
        grep({ $_->master_port == $replica->port } $world->sentinels) ? time : 0;
    }) or last;
    my %served;
    ok(wait_until('all workers', 20, sub {
        my ($status, undef, $worker) = $world->ask('/deny?k=all');
        $served{ $worker // '' } = 1 if $status == 200;
        return keys %served == WORKERS;
    }), "$what: every worker asks the new master");
    sleep 0.5;
    my $delayed = $watch->delayed(@involved);
    my $record = $load->stop;

    # requests sent after that moment and denied, and the last of them of each worker
    my %late;
    for my $request ($record->that(status => 503, from => $named)->requests) {
        my $after = $request->{at} - $named;
        $late{ $request->{worker} // '' } = $after if $after > ($late{ $request->{worker} // '' } // 0);
    }
    my ($slowest) = sort { $b <=> $a } values %late, 0;
    push @slowest, $slowest;
    cmp_ok($slowest, '<', 1 + $delayed, "$what: every worker asks the new master within a second")
        or diag(join ', ', map { "$_ $late{$_}" } sort keys %late);
    $master->start if $dies;
    ($master, $replica) = ($replica, $master);
    ok($world->wait_agreed($master), "$what: the old master is a replica") or last;
}
diag(sprintf 'the slowest worker after %d fail-overs: %s s', scalar @slowest, join ' ', map { sprintf '%.2f', $_ } @slowest) if $ENV{TEST_FAILOVERS};
note(join ' ', map { sprintf '%.3f', $_ } @slowest);

$bed->done;
