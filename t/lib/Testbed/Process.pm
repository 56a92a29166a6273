package Testbed::Process;

# A child process: started, watched, signalled, and reaped.

use strict;
use warnings;
use POSIX ();
use Time::HiRes qw(sleep time);

sub spawn {
    my ($self, $output, @command) = @_;
    my $pid = fork // die "fork: $!";
    if ($pid == 0) {
        open STDIN,  '<',  '/dev/null';
        open STDOUT, '>>', $output or POSIX::_exit(127);
        open STDERR, '>&', \*STDOUT;
        exec @command or POSIX::_exit(127);
    }
    $self->{pid} = $pid;
    return $self;
}

sub pid { return $_[0]{pid} }

sub is_running {
    my ($self) = @_;
    return 0 unless $self->{pid};
    if (waitpid($self->{pid}, POSIX::WNOHANG()) != 0) {
        $self->{status} = $?;
        $self->{pid}    = undef;
        return 0;
    }
    return 1;
}

sub signal { my ($self, $name) = @_; return CORE::kill($name, $self->{pid}) }

# True when the process ended inside the deadline (seconds).
sub wait_end {
    my ($self, $deadline) = @_;
    my $end = time + $deadline;
    while ($self->is_running) {
        return 0 if time > $end;
        sleep 0.01;
    }
    return 1;
}

sub kill {
    my ($self) = @_;
    return unless $self->is_running;
    $self->signal('CONT');
    $self->signal('KILL');
    $self->wait_end(5);
    return;
}

sub slurp {
    my ($path) = @_;
    open my $file, '<:raw', $path or return '';
    local $/;
    return scalar(<$file>) // '';
}

sub log_tail {
    my ($self) = @_;
    my @lines = split /\n/, slurp($self->{log});
    @lines = @lines[-25 .. -1] if @lines > 25;
    return join "\n", "--- $self->{log}", @lines;
}

1;
