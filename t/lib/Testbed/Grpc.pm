package Testbed::Grpc;

# Servers of gRPC for the test, and a client: grpc_calls.py.

use strict;
use warnings;
use parent -norequire, 'Testbed::Process';
use Cwd ();
use File::Basename ();
use IO::Handle;
use IPC::Open2 ();
use Test::More;
use Testbed qw(wait_until);
use Testbed::Process;

# Debian's Python: grpc is installed for it, and perhaps not for another one
my $python = '/usr/bin/python3';
my $calls  = Cwd::abs_path(File::Basename::dirname(__FILE__) . '/../grpc_calls.py');

# Skips the test without it.
sub needs_grpc { return system("$python -c 'import grpc' 2>/dev/null") == 0 || plan skip_all => 'python3-grpcio is not installed' }

# $what: serve or collect.
sub new {
    my ($class, $bed, $what) = @_;
    my $self = bless { log => $bed->dir . "/grpc-$what.log" }, $class;
    push @{ $bed->{processes} }, $self;
    $self->spawn($self->{log}, $python, $calls, $what);
    wait_until('the gRPC server', 15, sub { $self->port }) or BAIL_OUT('no gRPC server');
    return $self;
}

sub port { my ($self) = @_; return ($self->output =~ /^(\d+)$/m)[0] }

# Streams that are open until the test ends them: see "streams" in grpc_calls.py.
sub open_streams {
    my ($port, $path) = @_;
    my $pid = IPC::Open2::open2(my $out, my $in, $python, $calls, 'streams', $port, $path);
    $in->autoflush(1);
    return bless { pid => $pid, in => $in, out => $out }, 'Testbed::Grpc::Streams';
}

# What it has printed.
sub output { my ($self) = @_; return Testbed::Process::slurp($self->{log}) }

# A line for each call.
sub told { my ($port, @calls) = @_; return split /\n/, qx{$python $calls call $port @calls} }

package Testbed::Grpc::Streams;

sub tell {
    my ($self, $what, $name) = @_;
    print { $self->{in} } "$what $name\n";
    return;
}

# OK, or the name of the status that denies it.
sub open_stream {
    my ($self, $name) = @_;
    $self->tell('open', $name);
    my (undef, $status) = split ' ', readline($self->{out}) // '';
    return $status // 'none';
}

sub finish { my ($self) = @_; close $self->{in}; waitpid $self->{pid}, 0; return }

1;
