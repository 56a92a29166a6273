package Bench::World;

# The processes of one run, in their own directory: the harness of the tests, and a clean end.

use strict;
use warnings;
use File::Copy qw(copy);
use FindBin;
use Testbed;
use Testbed::Native qw(native_module);
use Bench::Machine;

sub new {
    my ($class) = @_;
    my $self = bless { bed => Testbed->new, nginx => [], others => [] }, $class;
    # the harness turns INT and TERM into an exception, which run catches before it calls end()
    $SIG{HUP} = $SIG{INT};
    return $self;
}

# The same world, in which processes run on any core instead of the one of their part.
sub unpinned { my ($self) = @_; return bless { %$self, unpinned => 1 }, ref $self }

# Where a part runs, for Bench::Machine.
sub cores { my ($self, $part) = @_; return $self->{unpinned} ? 'any' : $part }

sub dir { return $_[0]{bed}->dir }

# A Redis without persistence, with additional arguments if given. Each table has its own, which it may kill at the end.
sub redis {
    my ($self, @args) = @_;
    my $redis = $self->{bed}->redis(args => \@args);
    $self->own($redis);
    Bench::Machine::pin($redis->pid, $self->cores('redis'));
    return $redis;
}

# The same with the native module, which decides nothing unless asked.
sub redis_with_module { my ($self, @args) = @_; return $self->redis('--loadmodule', native_module(), @args) }

# An nginx, with this module only if MODULE is true: a loaded module costs time in every request, even if unused.
sub nginx {
    my ($self, $conf, %options) = @_;
    local $ENV{TEST_NGINX_MODULE} = delete $options{MODULE} ? $self->module : '';
    my $nginx = $self->{bed}->nginx($conf, %options);
    push @{ $self->{nginx} }, $nginx;
    Bench::Machine::pin($_, $self->cores('nginx')) for $nginx->pid, $nginx->workers;
    return $nginx;
}

# A copy of the module, so that a build in the meantime does not replace it while nginx runs.
sub module {
    my ($self) = @_;
    my $file = "$FindBin::RealBin/../build/ngx_http_sliding_log_module.so";
    my $copy = $self->dir . '/module.so';
    -e $copy or copy($file, $copy) or die "bench: $file: $!; run ./build.sh first\n";
    return $copy;
}

# A process that must be ended with the run.
sub own { my ($self, $process) = @_; push @{ $self->{others} }, $process; return }

# By its master, since a killed master would leave its workers behind.
sub stop {
    my ($self, @nginx) = @_;
    $_->signal('TERM') for grep { $_->is_running } @nginx;
    $_->wait_end(5) for @nginx;
    return;
}

sub end {
    my ($self) = @_;
    $_->kill for @{ $self->{others} };
    $self->stop(@{ $self->{nginx} });
    $self->{bed}{finished} = 1;    # else the harness shows every log; what went wrong has been said
    return;
}

1;
