package Testbed::Relay;

# A proxy between nginx and a real Redis that causes faults of networks and servers.

use strict;
use warnings;
use parent -norequire, 'Testbed::Process';
use IO::Select;
use IO::Socket::INET;
use Socket qw(SOL_SOCKET SO_LINGER SO_RCVBUF);
use Testbed::Process;
use Time::HiRes qw(time);

# to: the port of Redis; port: its own port, otherwise a free one. The faults, each per connection:
# cut_after  closes after this number of bytes of replies; 0: as soon as it is accepted
# mute       passes on no replies
# slow       passes on replies byte by byte
# late       passes on each reply this number of seconds late, from turn_late() until the next call of it
# idle       bytes that it sends by itself after 10 ms without data
# hold       file: when it exists, half of the next reply is passed on, and nothing is read from the client until the
#            file contains a number: the rest is passed on when the client has sent this number of further bytes
# changes    [share, seed]: changes this share of the integers in replies, until be_honest()
# rewrites   sub: what is passed on in place of these bytes of a client
# deaf       accepts nothing, and its queue is full: connecting hangs
# tape       file: a line for each piece in which bytes arrive from a client: the number of the connection (from 0), the
#            number of bytes, and the commands that begin in it
# each_byte  [what, first, step]: the n-th connection (from 0) has a fault at byte first + n * step of its replies;
#            what: close, reset, hold (nothing more arrives), flip (the byte is changed), delay (the rest arrives
#            later). A connection that is not cut by this is closed some bytes later.
sub new {
    my ($class, $bed, %options) = @_;
    my $listen = IO::Socket::INET->new(Listen => $options{deaf} ? 0 : 50, LocalAddr => '127.0.0.1', ReuseAddr => 1,
        LocalPort => $options{port} // 0)
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

sub turn_late { return $_[0]->signal('USR1') }
sub be_honest { return $_[0]->signal('USR2') }

# The number of its connections.
sub connections { return -s $_[0]{count} }

sub serve {
    my ($listen, $count, %options) = @_;
    my $parent = getppid;
    open my $counter, '>>', $count;
    my $select = IO::Select->new($listen);
    my (%peer, %client, %passed, %said, %suffers, %number);
    my $tape;
    open $tape, '>>', $options{tape} or die "$options{tape}: $!" if defined $options{tape};
    my ($held, $wanted);    # held bytes, and the number of client bytes to wait for
    my @late;    # [when it is due, to whom, bytes]
    my $is_late = 0;
    local $SIG{USR1} = sub { $is_late = !$is_late };
    my ($share, $seed) = @{ $options{changes} // [0, 0] };
    srand $seed;
    local $SIG{USR2} = sub { $share = 0 };
    my $number = 0;
    my $hang_up = sub {
        my ($one, $reset) = @_;
        for my $socket (grep { defined } $one, delete $peer{$one}) {
            delete $_->{$socket} for \%peer, \%client, \%passed, \%said, \%suffers, \%number;
            $select->remove($socket);
            setsockopt $socket, SOL_SOCKET, SO_LINGER, pack 'ii', 1, 0 if $reset;
            close $socket;
        }
    };
    while (getppid == $parent) {
        my @ready = $select->can_read(@late ? 0.001 : 0.01);
        while (@late && $late[0][0] <= time) {
            my (undef, $to, $bytes) = @{ shift @late };
            syswrite $to, $bytes if $peer{$to};
        }
        for my $socket (@ready) {
            if ($socket == $listen) {
                my $client = $listen->accept or next;
                syswrite $counter, '.';
                next if defined $options{cut_after} && $options{cut_after} == 0;
                my $redis = IO::Socket::INET->new(PeerAddr => "127.0.0.1:$options{to}") or next;
                $select->add($client, $redis);
                ($peer{$client}, $peer{$redis}) = ($redis, $client);
                $client{$client}  = 1;
                $passed{$client}  = 0;
                $number{$client}  = $number;
                $suffers{$client} = fault($number++, %options);
                next;
            }
            my $peer = $peer{$socket} or next;
            if (!sysread $socket, my $bytes, 65536) {
                $hang_up->($socket);
            }
            elsif ($client{$socket}) {
                my @commands = $bytes =~ /^\*\d+\r\n\$\d+\r\n(\w+)/mg;
                syswrite $tape, join(' ', $number{$socket}, length $bytes, @commands) . "\n" if $tape;
                $bytes = $options{rewrites}->($bytes) if $options{rewrites};
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
            elsif ($is_late || @late) {
                push @late, [time + ($is_late ? $options{late} : 0), $peer, $bytes];
            }
            elsif (!$options{mute}) {
                my $ends = pass_on($peer, with_changes($bytes, $share), \$passed{$peer}, $suffers{$peer}, $options{slow});
                $hang_up->($socket, $ends eq 'reset') if $ends;
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

# The fault of the connection of that number, and its byte: [what, at].
sub fault {
    my ($number, %options) = @_;
    return ['close', $options{cut_after}] if defined $options{cut_after};
    return undef unless $options{each_byte};
    my ($what, $first, $step) = @{ $options{each_byte} };
    return [$what, $first + $number * $step];
}

# Changes this share of the integers to others: near, far, of another sign, too large, or the previous one. Texts and
# lengths are not changed.
sub with_changes {
    my ($bytes, $share) = @_;
    return $bytes if !$share;
    my $before = 0;
    $bytes =~ s{(?:^|(?<=\n)):(-?\d+)\r\n}{
        my $value = $1;
        my @others = ($value - 1, $value + 1, -$value, $value * 1000, $before, -1, 0, 1, int rand 1000, 86_400_000,
            '999999999999999', '9223372036854775807', '-9223372036854775808');
        $before = $value;
        ':' . (rand() < $share ? $others[rand @others] : $value) . "\r\n";
    }ge;
    return $bytes;
}

# Passes on replies as far as the fault permits; true ('close' or 'reset') if the connection has to end.
sub pass_on {
    my ($to, $bytes, $passed, $fault, $slow) = @_;
    my ($what, $at) = @{ $fault // ['none', 1e12] };
    my $left = $at - $$passed;    # bytes before the fault
    $$passed += length $bytes;
    my $ends = '';
    if ($what =~ /close|reset|hold/ && $left <= length $bytes) {
        $bytes = $left > 0 ? substr $bytes, 0, $left : '';
        $ends  = $what eq 'hold' ? '' : $what;
    }
    elsif ($what =~ /flip|delay/ && $left < length $bytes) {
        if ($left >= 0) {
            if ($what eq 'flip') {
                substr($bytes, $left, 1) ^= chr(1 << $at % 8);
            }
            else {
                syswrite $to, substr $bytes, 0, $left, '';
                select undef, undef, undef, 0.01;
            }
        }
        $ends = 'close' if $$passed > $at + 100;
    }
    for my $part ($slow ? split //, $bytes : $bytes) {
        syswrite $to, $part;
        select undef, undef, undef, 0.0002 if $slow;
    }
    return $ends;
}

1;
