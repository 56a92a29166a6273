package Testbed::FakeRedis;

# A server that speaks RESP just well enough to be connected to, and then answers EVALSHA with whatever bytes a test
# wants: the one thing that a real Redis cannot be made to do.

use strict;
use warnings;
use parent -norequire, 'Testbed::Process';
use IO::Select;
use IO::Socket::INET;
use Testbed::Process;

# answer: bytes for each EVALSHA; greeting: for each other command (+OK); on_connect: said before anything is asked;
# byte_by_byte: 1; then_close: 1
sub new {
    my ($class, $bed, %options) = @_;
    my $listen = IO::Socket::INET->new(Listen => 50, LocalAddr => '127.0.0.1', LocalPort => $options{port} // 0, ReuseAddr => 1)
        or die "fake Redis: $!";
    my $self = bless { port => $listen->sockport, log => '/dev/null' }, $class;
    $self->spawn_code(sub { serve($listen, %options) });
    push @{ $bed->{processes} }, $self;
    return $self;
}

sub port   { return $_[0]{port} }
sub finish { $_[0]->kill }

sub serve {
    my ($listen, %options) = @_;
    my $parent = getppid;
    my $select = IO::Select->new($listen);
    my %buffer;
    while (getppid == $parent) {    # nobody else would end it
        for my $socket ($select->can_read(1)) {
            if ($socket == $listen) {
                my $client = $listen->accept or next;
                $select->add($client);
                $buffer{$client} = '';
                say_to($client, $options{on_connect}, %options) if defined $options{on_connect};
                next;
            }
            if (!sysread $socket, $buffer{$socket}, 65536, length $buffer{$socket}) {
                $select->remove($socket);
                close $socket;
                next;
            }
            while (defined(my $command = next_command(\$buffer{$socket}))) {
                say_to($socket, $command eq 'EVALSHA' ? $options{answer} : $options{greeting} // "+OK\r\n", %options);
                if ($options{then_close} && $command eq 'EVALSHA') {
                    $select->remove($socket);
                    close $socket;
                    last;
                }
            }
        }
    }
    return;
}

# Takes one whole command off the buffer; its name, or undef.
sub next_command {
    my ($buffer) = @_;
    $$buffer =~ /\G\*(\d+)\r\n/gc or return undef;
    my $name;
    for (1 .. $1) {
        $$buffer =~ /\G\$(\d+)\r\n/gc or return undef;
        my $end = pos($$buffer) + $1;
        return undef if length $$buffer < $end + 2;
        $name //= substr $$buffer, pos $$buffer, $1;
        pos($$buffer) = $end + 2;
    }
    substr($$buffer, 0, pos $$buffer) = '';
    return $name;
}

sub say_to {
    my ($socket, $bytes, %options) = @_;
    return syswrite $socket, $bytes unless $options{byte_by_byte};
    for my $byte (split //, $bytes) {
        syswrite $socket, $byte;
        select undef, undef, undef, 0.001;
    }
    return;
}

1;
