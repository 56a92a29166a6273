package Testbed::Load;

# A steady stream of requests from a process of its own, each on its own connection. It records when each request was
# sent, its answer and how long that took. The stream does not slow down when answers do, as long as select() can wait
# for all of them. Time in which the process itself did not run, on a busy machine, is recorded, too: it is not due to
# nginx.

use strict;
use warnings;
use parent -norequire, 'Testbed::Process';
use IO::Select;
use POSIX ();
use Socket;
use Testbed::Load::Record;
use Testbed::Process;
use Time::HiRes qw(time);

use constant MOST_OPEN => 960;    # of the 1024 files that select() knows

# paths: asked in turn; each %d in one becomes the request's number; rate: per second
sub start {
    my ($class, $bed, $port, %options) = @_;
    my $self = bless { log => '/dev/null' }, $class;
    pipe my $stopped, my $stop;
    pipe my $result,  my $report;
    $self->spawn_code(sub {
        close $stop;
        print {$report} stream($port, $stopped, rate => 300, %options);
        close $report;
        POSIX::_exit(0);
    });
    @$self{qw(stop result)} = ($stop, $result);
    push @{ $bed->{processes} }, $self;
    return $self;
}

# Ends the stream after every request has been answered or has timed out; returns a Testbed::Load::Record.
sub stop {
    my ($self) = @_;
    syswrite delete $self->{stop}, '.';    # the end of file would be seen only after every later child has closed it
    my $result = delete $self->{result};
    my @lines  = <$result> or die "the load has died\n";
    $self->kill;
    return Testbed::Load::Record->new(map { Testbed::Load::Record::from_line($_) } @lines);
}

sub finish { $_[0]->kill }

# The lines of the record.
sub stream {
    my ($port, $stopped, %options) = @_;
    my $address = pack_sockaddr_in($port, inet_aton('127.0.0.1'));
    my $select  = IO::Select->new($stopped);
    my (@lines, %open);
    my ($begin, $sent, $end) = (time, 0, undef);
    my ($stalled, $latest)   = (0, time);
    my $notice_stall = sub {
        my $passed = time - $latest;
        $stalled += $passed if $passed > 0.02;
        $latest  += $passed;
    };
    while (!$end || (%open && time < $end)) {
        $notice_stall->();
        while (!$end && $sent < (time - $begin) * $options{rate} && keys %open < MOST_OPEN) {
            my $path = $options{paths}[$sent % @{ $options{paths} }] =~ s/%d/$sent/r;
            $sent++;
            my $one = { at => time, path => $path, text => '', stalled => $stalled };
            socket my $socket, PF_INET, SOCK_STREAM, 0 or die "socket: $!";
            if (!connect $socket, $address) {
                $one->{stalled} = 0;
                push @lines, Testbed::Load::Record::to_line($one);
                next;
            }
            syswrite $socket, "GET $path HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
            $open{$socket} = $one;
            $select->add($socket);
        }
        my @ready = $select->can_read(1 / $options{rate});
        $notice_stall->();
        for my $socket (@ready) {
            if ($socket == $stopped) {
                $select->remove($stopped);
                $end = time + 10 * Testbed::slow();
                next;
            }
            my $one = $open{$socket};
            next if sysread $socket, $one->{text}, 65536, length $one->{text};
            $one->{took}    = time - $one->{at};
            $one->{stalled} = $stalled - $one->{stalled};
            push @lines, Testbed::Load::Record::to_line(delete $open{$socket});
            $select->remove($socket);
        }
    }
    return @lines, map { Testbed::Load::Record::to_line($_) } values %open;
}

1;
