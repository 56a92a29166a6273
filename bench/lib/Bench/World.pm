package Bench::World;

# The processes of one run, in a directory of their own: the tests' harness, and an orderly end.

use strict;
use warnings;
use Testbed;
use Bench::Machine;

sub new {
    my ($class) = @_;
    my $self = bless { bed => Testbed->new, nginx => [] }, $class;
    # the harness turns INT and TERM into an exception, which run catches and then comes to end()
    $SIG{HUP} = $SIG{INT};
    return $self;
}

sub dir { return $_[0]{bed}->dir }

# The one Redis of the run, without persistence, on its core.
sub redis {
    my ($self) = @_;
    return $self->{redis} if $self->{redis};
    my $redis = $self->{bed}->redis;
    Bench::Machine::pin($redis->pid, 'redis');
    return $self->{redis} = $redis;
}

# An nginx of one worker, listening on %%PORT%%, with the module only where it is asked for: a loaded module is in
# every request's way, even unused.
sub nginx {
    my ($self, $conf, %options) = @_;
    my $with_module = delete $options{MODULE};
    local $ENV{TEST_NGINX_MODULE} = '' unless $with_module;
    my $nginx = $self->{bed}->nginx($conf, %options);
    push @{ $self->{nginx} }, $nginx;
    Bench::Machine::pin($_, 'nginx') for $nginx->pid, $nginx->workers;
    return $nginx;
}

# Ends nginx by its master, for a killed master would leave its worker behind.
sub end {
    my ($self) = @_;
    $_->signal('TERM') for grep { $_->is_running } @{ $self->{nginx} };
    $_->wait_end(5) for @{ $self->{nginx} };
    $self->{redis}->kill if $self->{redis};
    $self->{bed}{finished} = 1;    # else the harness shows every log; what went wrong has been said
    return;
}

1;
