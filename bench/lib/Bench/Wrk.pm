package Bench::Wrk;

# A wrk with one thread. load.lua defines its requests and output.

use strict;
use warnings;
use parent -norequire, 'Testbed::Process';
use FindBin;
use Testbed;
use Bench::Machine;

my $count = 0;

# start(world, port => , path => , keys => , connections => , seconds => , kind => load, count or paced)
sub start {
    my ($class, $world, %options) = @_;
    my $self = bless { output => $world->dir . '/wrk' . ++$count, seconds => $options{seconds} }, $class;
    # A timeout that no answer reaches: answers to a paused generator take a few seconds, and all must be counted.
    my @limits = ('-t', 1, '-c', $options{connections}, '-d', "$options{seconds}s", '--timeout', '10s');
    $self->spawn($self->{output}, Bench::Machine::pinned($world->cores('load')), 'wrk', @limits,
        '-s', "$FindBin::RealBin/load.lua", "http://127.0.0.1:$options{port}/", '--', @options{qw(path keys kind)});
    $world->own($self);
    return $self;
}

sub pause  { $_[0]->signal('STOP') }
sub resume { $_[0]->signal('CONT') }

# Ends it early. INT only works if the main thread of wrk receives it, which may take several attempts after a pause.
sub end {
    my ($self) = @_;
    $self->resume;
    for (1 .. 50) {
        last if !$self->is_running;
        $self->signal('INT');
        $self->wait_end(0.2);
    }
    $self->{seconds} = 0;
    return $self;
}

# The names and values in the line of load.lua, after its time is over.
sub result {
    my ($self) = @_;
    my $in_time = $self->wait_end($self->{seconds} + 10);
    my $text    = Testbed::Process::slurp($self->{output});
    my ($line)  = $text =~ /^(requests=.*)/m;
    $in_time && defined $line or die 'wrk ', ($in_time ? 'failed' : 'did not end'), ":\n$text";
    return { $line =~ /(\w+)=(-?\d+)/g };
}

1;
