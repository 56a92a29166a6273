package Bench::Load;

# One pass of wrk: 1 thread, 50 connections. What it does and prints is in load.lua.

use strict;
use warnings;
use parent -norequire, 'Testbed::Process';
use FindBin;
use Testbed;
use Bench::Machine;

my $passes = 0;

# pass(world, port => , path => , keys => , seconds => , kind => load, count or paced): the names and values of
# load.lua's line, and cpu: the seconds that wrk itself used.
sub pass {
    my ($world, %options) = @_;
    my $output = $world->dir . '/wrk' . ++$passes;
    my $self   = bless {}, __PACKAGE__;
    my $before = cpu_of_children();
    $self->spawn($output, Bench::Machine::pinned('load'), 'wrk', '-t', 1, '-c', 50, '-d', "$options{seconds}s",
        '--timeout', '2s', '-s', "$FindBin::RealBin/load.lua", "http://127.0.0.1:$options{port}/",
        '--', $options{path}, $options{keys}, $options{kind});
    # an interrupted run must not leave it behind
    my $in_time = eval { $self->wait_end($options{seconds} + 10) };
    my $error = $@;
    $self->kill;
    die $error if $error;
    my $text = Testbed::Process::slurp($output);
    unlink $output;
    my ($line) = $text =~ /^(requests=.*)/m;
    $in_time && defined $line or die "wrk failed:\n$text";
    return { $line =~ /(\w+)=(-?\d+)/g, cpu => cpu_of_children() - $before };
}

sub cpu_of_children { my (undef, undef, $user, $system) = times; return $user + $system }

1;
