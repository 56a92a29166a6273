package Testbed::Http;

# A small HTTP client for details that other clients hide: duplicate fields, half-closed and pipelined connections, and
# thousands of requests at once from one process.

use strict;
use warnings;
use Exporter 'import';
use IO::Select;
use IO::Socket::INET;
use List::Util qw(max);
use POSIX ();
use Testbed::Stopwatch;
use Time::HiRes qw(time);

our @EXPORT_OK = qw(get request raw parse many slowest flood load_while connect_to field fields statuses);

sub connect_to {
    my ($port) = @_;
    return IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $port, Timeout => 5) // die "connect: $!\n";
}

# Sends the bytes, reads until the server closes (or the deadline); half => 1 closes our side after sending.
sub raw {
    my ($port, $bytes, %options) = @_;
    my $socket = connect_to($port);
    $socket->syswrite($bytes);
    $socket->shutdown(1) if $options{half};
    return read_all($socket, $options{deadline} // 10);
}

sub read_all {
    my ($socket, $deadline) = @_;
    my ($text, $end) = ('', time + $deadline * Testbed::slow());
    my $select = IO::Select->new($socket);
    while ((my $left = $end - time) > 0) {
        next unless $select->can_read($left);
        my $got = sysread $socket, $text, 65536, length $text;
        last unless $got;
    }
    return $text;
}

# { status, fields => [[name, value], ...], body } of one answer that ends with the connection.
sub parse {
    my ($text) = @_;
    my ($head, $body) = split /\r\n\r\n/, $text, 2;
    my ($line, @lines) = split /\r\n/, $head // '';
    my ($status) = ($line // '') =~ m{^HTTP/\S+ (\d+)};
    return { status => $status // 0, fields => [map { [split /:\s*/, $_, 2] } @lines], body => $body // '', text => $text };
}

# The answer to the request that was sent when the watch was started, with: ended, when it had arrived; time, how long
# it took; and disturbed, how much of that a busy machine may have added. In seconds.
sub timed {
    my ($watch, $text) = @_;
    my $answer = parse($text);
    @$answer{qw(ended time disturbed)} = (time, $watch->elapsed, $watch->disturbed);
    return $answer;
}

# One request on a connection of its own: request($port, '/path', method => , headers => { }, body => )
sub request {
    my ($port, $path, %options) = @_;
    my $method  = $options{method} // 'GET';
    my $headers = join '', map { "$_: $options{headers}{$_}\r\n" } sort keys %{ $options{headers} // {} };
    my $body    = $options{body} // '';
    $headers .= 'Content-Length: ' . length($body) . "\r\n" if length $body;
    my $watch = Testbed::Stopwatch->start;
    return timed($watch, raw($port, "$method $path HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n$headers\r\n$body",
        deadline => $options{deadline}));
}

sub get { my ($port, $path, %options) = @_; return request($port, $path, %options) }

# All values of one field; the only value (undef if it is missing or duplicate).
sub fields { my ($answer, $name) = @_; return map { $_->[1] } grep { lc $_->[0] eq lc $name } @{ $answer->{fields} } }
sub field  { my @values = fields(@_); return @values == 1 ? $values[0] : undef }

# The number of answers with each status: '200:1 429:2'.
sub statuses { my %count; $count{ $_->{status} }++ for @_; return join ' ', map { "$_:$count{$_}" } sort keys %count }

# Many GETs at once: many([[port, path, headers], ...]), each on its own connection, `at_once` open at a time.
# Returns the answers in order; when_sent => code runs once the last request is on its way.
sub many {
    my ($requests, %options) = @_;
    my $at_once = $options{at_once} // 500;
    my $end     = time + ($options{deadline} // 30) * Testbed::slow();
    my (@answers, %open);
    my $select = IO::Select->new;
    my $next   = 0;
    while (($next < @$requests || %open) && time < $end) {
        while ($next < @$requests && keys %open < $at_once) {
            my ($port, $path, $headers) = @{ $requests->[$next] };
            my $socket = connect_to($port);
            my $watch  = Testbed::Stopwatch->start;
            $socket->syswrite("GET $path HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n" . ($headers // '') . "\r\n");
            $open{$socket} = { index => $next++, text => '', watch => $watch };
            $select->add($socket);
            $options{when_sent}->() if $options{when_sent} && $next == @$requests;
        }
        for my $socket ($select->can_read(0.1)) {
            my $one = $open{$socket};
            next if sysread $socket, $one->{text}, 65536, length $one->{text};
            $answers[$one->{index}] = timed($one->{watch}, $one->{text});
            $select->remove($socket);
            delete $open{$socket};
            close $socket;
        }
    }
    $_ //= { status => 0, fields => [], body => '', time => 1e9, disturbed => 0 } for @answers[0 .. $#$requests];
    return @answers;
}

# The time of the slowest, without the delay of a busy machine.
sub slowest { return max(map { $_->{time} - $_->{disturbed} } @_) }

# Sends all requests at the same time from four processes, so that 1,024 open files each are enough. The code runs when
# all have been sent and before any answer is read. Returns { status => how many }.
sub flood {
    my ($requests, $when_sent) = @_;
    pipe(my $sent, my $tell_sent);
    pipe(my $result, my $tell_result);
    my @children = map {
        my $part = $_;
        my @mine = @$requests[grep { $_ % 4 == $part } 0 .. $#$requests];
        my $pid  = fork // die "fork: $!";
        if ($pid == 0) {
            my %seen;
            eval { $seen{ $_->{status} }++ for many(\@mine, at_once => scalar @mine, when_sent => sub { syswrite $tell_sent, '.' }) };
            syswrite $tell_result, join ' ', %seen, $@ ? ('died', 1) : (), "\n";
            POSIX::_exit(0);
        }
        $pid;
    } 0 .. 3;
    close $_ for $tell_sent, $tell_result;
    my ($count, $dot) = (0);
    $count++ while $count < 4 && sysread $sent, $dot, 1;
    $when_sent->();
    my %seen;
    while (my $line = <$result>) {
        my %part = split ' ', $line;
        $seen{$_} += $part{$_} for keys %part;
    }
    waitpid $_, 0 for @children;
    return \%seen;
}

# Repeats the requests, 20 at a time, for as long as the code runs: ('200:1234 503:5', how long the slowest took).
sub load_while {
    my ($requests, $code) = @_;
    pipe(my $result,  my $tell_result);
    pipe(my $stopped, my $stop);
    my $pid = fork // die "fork: $!";
    if ($pid == 0) {
        close $stop;
        my ($slowest, %seen) = 0;
        my $ready = IO::Select->new($stopped);
        until ($ready->can_read(0)) {
            for my $answer (many($requests, at_once => 20)) {
                $seen{ $answer->{status} }++;
                $slowest = $answer->{time} if $answer->{time} > $slowest;
            }
        }
        syswrite $tell_result, join(' ', map { "$_:$seen{$_}" } sort keys %seen) . "\n$slowest\n";
        POSIX::_exit(0);
    }
    close $tell_result;
    $code->();
    close $stop;
    chomp(my @lines = <$result>);
    waitpid $pid, 0;
    return @lines;
}

1;
