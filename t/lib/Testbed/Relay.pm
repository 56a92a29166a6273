package Testbed::Relay;

# Stands between nginx and a real Redis, and does what networks and servers do at bad moments.

use strict;
use warnings;
use parent -norequire, 'Testbed::Process';
use IO::Select;
use IO::Socket::INET;
use Socket qw(SO_RCVBUF);
use Testbed::Process;

# to: Redis's port. The faults, each per connection:
# cut_after  closes after so many bytes of replies; 0: as soon as it is accepted
# mute       passes no reply on
# slow       passes replies on byte by byte
# idle       bytes that it says of its own once nothing has come for 10 ms
# hold       file: once it is there half of what Redis says next is passed on, and nothing is read of what the client
#            says, until the file holds a number: the rest is passed on when the client has said so many bytes more
# deaf       accepts nothing, and its queue is full: connecting hangs
sub new {
    my ($class, $bed, %options) = @_;
    my $listen = IO::Socket::INET->new(Listen => $options{deaf} ? 0 : 50, LocalAddr => '127.0.0.1', ReuseAddr => 1)
        or die "relay: $!";
    $listen->sockopt(SO_RCVBUF, 65536) if $options{hold};
    my $self = bless { port => $listen->sockport, log => '/dev/null' }, $class;
    my $count = $self->{count} = $bed->write_file("relay$self->{port}", '');
    if ($options{deaf}) {
        $self->{listen} = $listen;
        $self->{queue}  = [map { IO::Socket::INET->new(PeerAddr => "127.0.0.1:$self->{port}", Blocking => 0) } 1 .. 3];
        return $self;
    }
    $self->spawn_code(sub { serve($listen, $count, %options) });
    push @{ $bed->{processes} }, $self;
    return $self;
}

sub port   { return $_[0]{port} }
sub finish { $_[0]->kill }

# How often it was connected to.
sub connections { return -s $_[0]{count} }

sub serve {
    my ($listen, $count, %options) = @_;
    my $parent = getppid;
    open my $counter, '>>', $count;
    my $select = IO::Select->new($listen);
    my (%peer, %client, %passed, %said);
    my ($held, $wanted);    # what is held back, until the client has said so many bytes
    my $hang_up = sub {
        for my $socket (grep { defined } $_[0], delete $peer{ $_[0] }) {
            delete $_->{$socket} for \%peer, \%client, \%passed, \%said;
            $select->remove($socket);
            close $socket;
        }
    };
    while (getppid == $parent) {
        my @ready = $select->can_read(0.01);
        for my $socket (@ready) {
            if ($socket == $listen) {
                my $client = $listen->accept or next;
                syswrite $counter, '.';
                next if defined $options{cut_after} && $options{cut_after} == 0;
                my $redis = IO::Socket::INET->new(PeerAddr => "127.0.0.1:$options{to}") or next;
                $select->add($client, $redis);
                ($peer{$client}, $peer{$redis}) = ($redis, $client);
                $client{$client} = 1;
                $passed{$client} = 0;
                next;
            }
            my $peer = $peer{$socket} or next;
            if (!sysread $socket, my $bytes, 65536) {
                $hang_up->($socket);
            }
            elsif ($client{$socket}) {
                write_all($peer, $bytes);
                next unless defined $held;
                $wanted -= length $bytes;
                next if $wanted > 0;
                write_all($socket, $held);
                undef $held;
            }
            elsif (defined $held) {
                $held .= $bytes;
            }
            elsif ($options{hold} && -e $options{hold}) {
                $held   = substr $bytes, length($bytes) / 2, length $bytes, '';
                write_all($peer, $bytes);
                select undef, undef, undef, 0.01 until $wanted = Testbed::Process::slurp($options{hold});
                unlink $options{hold};
            }
            elsif (!$options{mute}) {
                pass_on($peer, $bytes, \$passed{$peer}, %options) or $hang_up->($socket);
            }
        }
        next if @ready || !defined $options{idle};
        syswrite $peer{$_}, $options{idle} for grep { $peer{$_} && !$client{$_} && !$said{$_}++ } $select->handles;
    }
    return;
}

sub write_all {
    my ($to, $bytes) = @_;
    while (length $bytes) {
        my $written = syswrite($to, $bytes) or return;
        substr($bytes, 0, $written) = '';
    }
    return;
}

# False when the connection is to be cut.
sub pass_on {
    my ($to, $bytes, $passed, %options) = @_;
    my $end = defined $options{cut_after} && $options{cut_after} <= $$passed + length $bytes;
    $bytes = substr $bytes, 0, $options{cut_after} - $$passed if $end;
    $$passed += length $bytes;
    for my $part ($options{slow} ? split //, $bytes : $bytes) {
        syswrite $to, $part;
        select undef, undef, undef, 0.0002 if $options{slow};
    }
    return !$end;
}

1;
