package Testbed::Process;

# A child process: started, watched, signalled, and ended together with its own children.

use strict;
use warnings;
use Exporter 'import';
use POSIX ();
use Time::HiRes qw(sleep time);

our @EXPORT_OK = qw(run);

# setpriv ends the child if this process is killed, since no END block runs then.
my ($setpriv) = grep { -x } '/usr/bin/setpriv', '/bin/setpriv';

sub spawn {
    my ($self, $output, @command) = @_;
    unshift @command, $setpriv, '--pdeathsig', $self->death_signal if $setpriv;
    return $self->spawn_code(sub {
        open STDIN,  '<',  '/dev/null';
        open STDOUT, '>>', $output or POSIX::_exit(127);
        open STDERR, '>&', \*STDOUT;
        exec @command;
    });
}

# Runs the code in a child that leads a process group of its own.
sub spawn_code {
    my ($self, $code) = @_;
    my $pid = fork // die "fork: $!";
    if ($pid == 0) {
        POSIX::setpgid(0, 0);
        eval { $code->() };
        POSIX::_exit(127);
    }
    POSIX::setpgid($pid, $pid);    # here too: either process may run first
    $self->{pid} = $self->{group} = $pid;
    return $self;
}

sub death_signal { return 'KILL' }

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

# Ends it and its children at once, even if stopped: workers of nginx survive a killed master.
sub kill {
    my ($self) = @_;
    my $group = delete $self->{group} or return;
    CORE::kill('KILL', -$group);
    $self->wait_end(5);
    return;
}

sub finish { $_[0]->kill }

# Runs a command to its end: a line for the shell, or its words. Returns its exit status and what it printed.
sub run {
    my (@command) = @_;
    @command = ('sh', '-c', @command) if @command == 1;
    my $pid = open(my $output, '-|') // die "fork: $!";
    if ($pid == 0) {
        open STDERR, '>&', \*STDOUT;
        exec { $command[0] } @command or POSIX::_exit(127);
    }
    local $/;
    my $printed = <$output> // '';
    close $output;
    return ($? >> 8, $printed);
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
