package Testbed::Dns;

# A name server for one name at a time. Its answer is read from a file, one address a line; without addresses
# the name does not exist. `mute`: it does not answer.

use strict;
use warnings;
use parent -norequire, 'Testbed::Process';
use IO::Socket::INET;
use Testbed::Process;

sub new {
    my ($class, $bed, @addresses) = @_;
    my $socket = IO::Socket::INET->new(Proto => 'udp', LocalAddr => '127.0.0.1') or die "dns: $!";
    my $self   = bless { port => $socket->sockport, log => '/dev/null', bed => $bed }, $class;
    $self->answers(@addresses);
    $self->{asked} = $bed->write_file("dns$self->{port}.asked", '');
    my $file = "dns$self->{port}";
    my $path = $bed->dir . "/$file";
    $self->spawn_code(sub { serve($socket, $path, $self->{asked}) });
    push @{ $bed->{processes} }, $self;
    return $self;
}

sub address { return "127.0.0.1:$_[0]{port}" }

# From now on the name has these addresses.
sub answers { my ($self, @addresses) = @_; $self->{bed}->write_file("dns$self->{port}", join "\n", @addresses); return }

# How often it was asked.
sub asked { return -s $_[0]{asked} }

sub serve {
    my ($socket, $path, $asked) = @_;
    my $parent = getppid;
    open my $counter, '>>', $asked;
    while (getppid == $parent) {
        my $bits = '';
        vec($bits, fileno $socket, 1) = 1;
        next unless select $bits, undef, undef, 0.1;
        my $peer = recv $socket, my $query, 512, 0;
        syswrite $counter, '.';
        my @lines = split /\n/, Testbed::Process::slurp($path);
        next if grep { $_ eq 'mute' } @lines;
        my ($id, undef, $questions) = unpack 'n3', $query;
        my $rest = substr $query, 12;
        my ($name) = $rest =~ /\A((?:[\x01-\x3f].*?)*?\0)/s;
        my $length = 0;
        $length += 1 + ord substr $rest, $length, 1 while ord substr $rest, $length, 1;
        my $question = substr $rest, 0, $length + 5;
        my $type     = unpack 'n', substr $question, -4, 2;
        my @found    = $type == 1 ? @lines : ();
        my $answers  = join '', map { pack 'n n n N n a4', 0xc00c, 1, 1, 1, 4, pack 'C4', split /\./ } @found;
        send $socket, pack('n6', $id, @lines ? 0x8180 : 0x8183, 1, scalar @found, 0, 0) . $question . $answers, 0, $peer;
    }
    return;
}

sub finish { $_[0]->kill }

1;
