package Testbed::UnderWay;

# Requests that wait for their upstream server until the test answers there: for what happens between the decision and
# the end of a request.

use strict;
use warnings;
use IO::Select;
use IO::Socket::INET;
use Testbed ();
use Testbed::Http qw(connect_to);
use Testbed::Http2 qw(open_http2 ask_stream reset_stream answers);
use Time::HiRes qw(time);

# The upstream server: accepts, and answers when told.
sub new {
    my ($class) = @_;
    my $listen = IO::Socket::INET->new(Listen => 500, LocalAddr => '127.0.0.1', Timeout => 20) or die "listen: $!";
    return bless { listen => $listen }, $class;
}

sub port { return $_[0]{listen}->sockport }

# A request that is on its way; http2 => 1: by that protocol, headers => lines: only without it. It has not come to the
# upstream server yet.
sub send_only {
    my ($self, $port, $path, %options) = @_;
    my $client = $options{http2} ? open_http2($port) : connect_to($port);
    $options{http2} ? ask_stream($client, 1, $path) : $client->syswrite("GET $path HTTP/1.1\r\nHost: x\r\nConnection: close\r\n" . ($options{headers} // '') . "\r\n");
    return { client => $client, http2 => $options{http2} };
}

# The same; waits until it is under way, or was answered without the upstream server: denied is then its answer. Of HTTP/2
# the test has to know: denied => 1.
sub begin {
    my ($self, $port, $path, %options) = @_;
    my $one   = $self->send_only($port, $path, %options);
    my @those = ($one->{http2} && $options{denied} ? () : $self->{listen}, $one->{http2} ? () : $one->{client});
    my ($seen) = @those ? IO::Select->new(@those)->can_read(10 * Testbed::slow()) : ();
    if (defined $seen && $seen == $self->{listen}) {
        $one->{backend} = $self->{listen}->accept;
    } else {
        $one->{denied} = read_answer($one);
    }
    return $one;
}

# A request that may have to wait before it comes to the upstream server: see arrives(). The path has arguments.
sub queue {
    my ($self, $port, $path, %options) = @_;
    my $number = ++$self->{numbers};
    my $one    = $self->send_only($port, "$path&number=$number", %options);
    $one->{number} = $number;
    return $self->{queued}{$number} = $one;
}

# The next request of the queue that comes to the upstream server within so many seconds; undef if none does.
sub next_one {
    my ($self, $seconds) = @_;
    my $accepts = IO::Select->new($self->{listen});
    my ($backend, $line);
    while (!defined $line) {    # nginx may have left already
        return if !$accepts->can_read($seconds);
        $backend = $self->{listen}->accept;
        $line    = readline $backend;
    }
    my ($number) = $line =~ m{^GET \S*[&]number=(\d+)} or die "not a queued request\n";
    my $one = delete $self->{queued}{$number};
    $one->{backend} = $backend;
    return $one;
}

# True if this request comes within so many seconds.
sub arrives {
    my ($self, $one, $seconds) = @_;
    my $until = time + ($seconds // 10 * Testbed::slow());
    while (!$one->{backend}) {
        my $left = $until - time;
        last if $left < 0 || !$self->next_one($left);
    }
    return defined $one->{backend};
}

# Waits until this request comes, or is answered without the upstream server: {denied} is then its answer.
sub decided {
    my ($self, $one) = @_;
    my $either = IO::Select->new($self->{listen}, $one->{client});
    while (!$one->{backend}) {
        my @ready = $either->can_read(20 * Testbed::slow()) or die "no answer\n";
        if (grep { $_ == $one->{client} } @ready) {
            $one->{denied} = read_answer($one);
            last;
        }
        $self->next_one(0);
    }
    return $one;
}

# The upstream server answers, with these fields.
sub answer {
    my ($one, %fields) = @_;
    syswrite $one->{backend}, join '', "HTTP/1.0 200 OK\r\n", (map { "$_: $fields{$_}\r\n" } sort keys %fields), "Content-Length: 0\r\n\r\n";
    return close $one->{backend};
}

# The answer to the client; of HTTP/2 its status.
sub read_answer {
    my ($one) = @_;
    return answers($one->{client}, [1], 10)->{1} // { status => 0, fields => [] } if $one->{http2};
    return Testbed::Http::parse(Testbed::Http::read_all($one->{client}, 10));
}

# Answers, and returns the answer that the client has got.
sub end { my ($one, %fields) = @_; answer($one, %fields); return read_answer($one) }

# Ends the request in a random way: by an answer, by the client or by the upstream server. Waits for nothing.
sub end_anyhow {
    my ($one) = @_;
    my $how = int rand 3;
    answer($one) if $how == 0;
    close $one->{$_} for $how == 1 ? qw(client backend) : qw(backend client);
    return;
}

# The client leaves; waits until nginx has told the upstream server.
sub leave {
    my ($one) = @_;
    $one->{http2} ? reset_stream($one->{client}, 1) : close $one->{client};
    my $ready = IO::Select->new($one->{backend});
    my $told  = Testbed::wait_until('nginx to leave', 10, sub { $ready->can_read(0.1) && !sysread $one->{backend}, my $request, 65536 });
    close $one->{backend};
    return $told;
}

1;
