package Testbed::Crowd;

# Clients of several kinds at once, each kind in its own process, until they are stopped: kept-alive, pipelined and
# HTTP/2 clients, clients that close the connection early, and clients that stop half-way.

use strict;
use warnings;
use parent -norequire, 'Testbed::Process';
use POSIX ();
use Socket qw(SOL_SOCKET SO_LINGER);
use Testbed::Http ();
use Testbed::Http2 qw(open_http2 ask_stream reset_stream);
use Testbed::Process;
use Time::HiRes qw(sleep);

# ports: plain and HTTP/2 ports; paths: requested paths; seed: of the random choices
sub start {
    my ($class, $bed, %options) = @_;
    my $urls = sub {
        my ($port) = @_;
        return $bed->write_file("urls$port", join '', map { "http://127.0.0.1:$port$_\n" } @{ $options{paths} });
    };
    my @kinds;
    for my $port (@{ $options{plain} }) {
        push @kinds, h2load('--h1 -c 8 --rps 12', $urls->($port)), h2load('--h1 -c 4 -m 8 --rps 12', $urls->($port));
        push @kinds, sub { leave($port, $options{paths}) }, sub { stop_half_way($port, $options{paths}) };
    }
    for my $port (@{ $options{http2} }) {
        push @kinds, h2load('-c 4 -m 20 --rps 25', $urls->($port)), sub { reset_streams($port, $options{paths}) };
    }
    my @crowd;
    for my $i (0 .. $#kinds) {
        my $one = bless { log => '/dev/null' }, $class;
        $one->spawn_code(sub {
            srand $options{seed} + $i;
            my $parent = getppid;
            eval { $kinds[$i]->() }, $@ && sleep 0.1 while getppid == $parent;    # a connect may fail while nginx is busy
        });
        push @{ $bed->{processes} }, $one;
        push @crowd, $one;
    }
    return @crowd;
}

sub finish { $_[0]->kill }

sub h2load {
    my ($how, $urls) = @_;
    return sub { system "exec h2load $how -n 400 -i $urls >/dev/null 2>&1" };
}

sub any { return $_[int rand @_] }

# Sends a request or a part of one, and closes before, during or after the answer; sometimes with a reset.
sub leave {
    my ($port, $paths) = @_;
    for (1 .. 100) {
        my $socket  = Testbed::Http::connect_to($port);
        my $request = 'GET ' . any(@$paths) . " HTTP/1.1\r\nHost: x\r\n\r\n";
        $socket->syswrite(rand() < 0.2 ? substr $request, 0, rand length $request : $request);
        sleep rand(0.03) if rand() < 0.7;
        setsockopt $socket, SOL_SOCKET, SO_LINGER, pack 'ii', 1, 0 if rand() < 0.5;
        close $socket;
        sleep rand(0.02);
    }
    return;
}

# Closes its own side after the request and waits for the answer, or uploads a part of a body and leaves.
sub stop_half_way {
    my ($port, $paths) = @_;
    for (1 .. 20) {
        my $path = any(@$paths);
        if (rand() < 0.5) {
            Testbed::Http::raw($port, "GET $path HTTP/1.0\r\n\r\n", half => 1, deadline => 2);
        }
        else {
            my $socket = Testbed::Http::connect_to($port);
            $socket->syswrite("POST $path HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n" . 'x' x rand 900);
            sleep rand(0.1);
            close $socket;
        }
        sleep rand(0.05);
    }
    return;
}

sub reset_streams {
    my ($port, $paths) = @_;
    my $socket = open_http2($port);
    for my $stream (map { 2 * $_ + 1 } 0 .. 60) {
        ask_stream($socket, $stream, any(grep { length() < 100 } @$paths));
        reset_stream($socket, $stream) if rand() < 0.6;
        sleep rand(0.02);
    }
    close $socket;    # unread answers remain: some streams are still waiting
    return;
}

1;
