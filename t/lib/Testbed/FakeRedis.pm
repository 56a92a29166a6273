package Testbed::FakeRedis;

# A server with enough RESP for clients to connect. It replies to EVALSHA with any bytes that a test gives, as no real
# Redis does.

use strict;
use warnings;
use parent -norequire, 'Testbed::Process';
use IO::Select;
use IO::Socket::INET;
use Testbed::Process;

# answer: bytes for each EVALSHA that has keys (a probe has none); answers: { COMMAND => bytes, or a list of them, of which the
# last one stays }, which may hold %PORT%, its own; greeting: for each other command (+OK); on_connect: said before anything is asked;
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
    while (getppid == $parent) {    # ended by nothing else
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
            while (my ($command, undef, $keys) = next_command(\$buffer{$socket})) {
                my $asks   = $command eq 'EVALSHA' && $keys > 0;
                my $answer = $asks ? $options{answers}{EVALSHA} // $options{answer} : $command eq 'EVALSHA' ? "*0\r\n"
                    : $options{answers}{$command} // $options{greeting} // "+OK\r\n";
                $answer = @$answer > 1 ? shift @$answer : $answer->[0] if ref $answer;
                say_to($socket, $answer =~ s/%PORT%/$listen->sockport/er, %options);
                if ($options{then_close} && $asks) {
                    $select->remove($socket);
                    close $socket;
                    last;
                }
            }
        }
    }
    return;
}

# Removes one whole command from the buffer; returns its words, or nothing.
sub next_command {
    my ($buffer) = @_;
    $$buffer =~ /\G\*(\d+)\r\n/gc or return;
    my @words;
    for (1 .. $1) {
        $$buffer =~ /\G\$(\d+)\r\n/gc or return;
        my $end = pos($$buffer) + $1;
        return if length $$buffer < $end + 2;
        push @words, substr $$buffer, pos $$buffer, $1;
        pos($$buffer) = $end + 2;
    }
    substr($$buffer, 0, pos $$buffer) = '';
    return @words;
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
