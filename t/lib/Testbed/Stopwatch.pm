package Testbed::Stopwatch;

# The duration of something, and the part that a busy machine adds.

use strict;
use warnings;
use Testbed::Process;
use Time::HiRes qw(time);

sub start { my ($class) = @_; return bless { begin => time, disturbance => disturbance() }, $class }

# Seconds since the start; seconds that the machine may have added; the difference.
sub elapsed   { return time - $_[0]{begin} }
sub disturbed { return disturbance() - $_[0]{disturbance} }
sub net       { my ($self) = @_; return $self->elapsed - $self->disturbed }

# Seconds since the machine was started in which a process waited for a CPU (pressure stall information) or the host gave
# one to another machine (steal); as far as the kernel tells them.
sub disturbance {
    my ($us) = Testbed::Process::slurp('/proc/pressure/cpu') =~ /^some .*total=(\d+)/;
    return ($us // 0) / 1e6 + stolen();
}

# The second part of that: the sum over all CPUs.
sub stolen { return ((split ' ', Testbed::Process::slurp('/proc/stat'))[8] // 0) / 100 }

1;
