package Testbed::Starvation;

# How long processes had work but no CPU: the delay that a busy machine, or its host, adds to a wait. A separate
# process records it twenty times a second.

use strict;
use warnings;
use parent -norequire, 'Testbed::Process';
use Testbed::Process;
use Testbed::Stopwatch;
use Time::HiRes qw(sleep time);

use constant EVERY => 0.05;

sub watch {
    my ($class, $bed, @pids) = @_;
    my $self = bless { log => '/dev/null', pids => \@pids, file => $bed->write_file('starvation', '') }, $class;
    $self->spawn_code(sub {
        open my $out, '>>', $self->{file} or die $!;
        $out->autoflush(1);
        my $parent = getppid;
        while (getppid == $parent) {
            print {$out} join(' ', time, Testbed::Stopwatch::stolen(), map { Testbed::Stopwatch::starved($_) } @pids), "\n";
            sleep EVERY;
        }
    });
    push @{ $bed->{processes} }, $self;
    return $self;
}

# Seconds without CPU of that process between two times, or shortly before and after.
sub between {
    my ($self, $pid, $from, $to) = @_;
    my ($index) = grep { $self->{pids}[$_] == $pid } 0 .. $#{ $self->{pids} };
    return 0 if !defined $index;
    my ($before, $after);
    for my $sample (@{ $self->{samples} }) {
        $before = $sample if $sample->[0] <= $from - EVERY || !$before;
        $after  = $sample;
        last if $sample->[0] >= $to + EVERY;
    }
    return 0 if !$before;
    # the watch itself may have had no CPU
    my $gap = $after->[0] - $before->[0] - ($to - $from) - 4 * EVERY;
    return $after->[1] - $before->[1] + $after->[ 2 + $index ] - $before->[ 2 + $index ] + ($gap > 0 ? $gap : 0);
}

# Reads what was recorded since that time.
sub since {
    my ($self, $moment) = @_;
    $self->{samples} = [grep { $_->[0] >= $moment - 1 } map { [split] } split /\n/, Testbed::Process::slurp($self->{file})];
    return $self;
}

sub finish { $_[0]->kill }

1;
