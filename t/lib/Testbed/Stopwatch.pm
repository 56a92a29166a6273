package Testbed::Stopwatch;

# The duration of something, and the part that a busy machine adds.

use strict;
use warnings;
use List::Util qw(max);
use Testbed::Process;
use Time::HiRes qw(time);

# The processes that delayed() is asked about, as far as they have begun.
sub start {
    my ($class, @pids) = @_;
    return bless { begin => time, disturbance => disturbance(), stolen => stolen(), starved => { map { $_ => starved($_) } @pids } }, $class;
}

# Seconds since the start; seconds that the machine may have added; the difference.
sub elapsed   { return time - $_[0]{begin} }
sub disturbed { return disturbance() - $_[0]{disturbance} }
sub net       { my ($self) = @_; return $self->elapsed - $self->disturbed }

# Seconds that a busy machine adds to a wait for these processes: what the host took of all CPUs, and the most for which
# one of them had work but no CPU.
sub delayed {
    my ($self, @pids) = @_;
    return stolen() - $self->{stolen} + max(0, map { starved($_) - ($self->{starved}{$_} // 0) } @pids);
}

# Seconds since the machine was started in which a process waited for a CPU (pressure stall information) or the host gave
# one to another machine (steal); as far as the kernel tells them.
sub disturbance {
    my ($us) = Testbed::Process::slurp('/proc/pressure/cpu') =~ /^some .*total=(\d+)/;
    return ($us // 0) / 1e6 + stolen();
}

# The second part of that: the sum over all CPUs.
sub stolen { return ((split ' ', Testbed::Process::slurp('/proc/stat'))[8] // 0) / 100 }

# Seconds since its start in which a process had work but no CPU.
sub starved { my ($pid) = @_; return (split ' ', Testbed::Process::slurp("/proc/$pid/schedstat") || '0 0')[1] / 1e9 }

1;
