package Testbed::Load::AtOnce;

# Clients that ask again and again, and their upstream server, in one process with one clock, to see which requests are
# under way at the same time. It records when each request was at the upstream server, and when it did not run itself.

use strict;
use warnings;
use parent -norequire, 'Testbed::Process';
use Errno qw(EINTR);
use IO::Poll qw(POLLIN POLLHUP POLLERR);
use IO::Socket::INET;
use POSIX ();
use Socket;
use Testbed::Process;
use Time::HiRes qw(time);

use constant {
    LONGEST_REST => 0.01,    # of the process, in seconds
    STALL        => 0.03,    # it was to run earlier
    AT_ONCE      => 20,      # requests that begin without a look at the others
};

# It listens; nothing happens yet.
sub new {
    my ($class) = @_;
    my $listen = IO::Socket::INET->new(Listen => 1000, LocalAddr => '127.0.0.1', Blocking => 0) or die "listen: $!";
    return bless { listen => $listen, log => '/dev/null' }, $class;
}

sub port { return $_[0]{listen}->sockport }

# clients: their number; ports: each request goes to any of them; path; holds: the least and the longest time in seconds
# for which the upstream server holds a request; seed. What it passes on has the field X-Worker with the worker's id.
sub start {
    my ($self, $bed, %options) = @_;
    pipe my $stopped, my $stop;
    pipe my $result,  my $report;
    $self->spawn_code(sub {
        close $stop;
        srand $options{seed};
        my $lines = run($self->{listen}, $stopped, %options);
        print {$report} @$lines;
        close $report;
        POSIX::_exit(0);
    });
    close $report;
    close delete $self->{listen};
    @$self{qw(stop result)} = ($stop, $result);
    push @{ $bed->{processes} }, $self;
    return $self;
}

# Ends it when all requests have ended, or after so many seconds. Returns lists:
# requests  { node (number of its port), begin, end, status (0: closed without an answer; undef: hangs), stalled (how long
#           of that the process did not run) }
# visits    at the upstream server: { begin, end, worker, answered }
# waiting   [time, clients whose request is not at the upstream server, since then]
sub stop {
    my ($self, $seconds) = @_;
    syswrite delete $self->{stop}, $seconds;
    my $result = delete $self->{result};
    my %lists  = map { $_ => [] } qw(requests visits waiting);
    while (my $line = <$result>) {
        my ($kind, @of) = split ' ', $line;
        push @{ $lists{$kind} },
            $kind eq 'requests' ? { node => $of[0], begin => $of[1], end => $of[2], stalled => $of[3], status => $of[4] }
            : $kind eq 'visits' ? { begin => $of[0], end => $of[1], answered => $of[2], worker => $of[3] }
            :                     \@of;
    }
    $self->kill;
    @{ $lists{requests} } or die "the clients have died\n";
    return \%lists;
}

sub finish { $_[0]->kill }

sub run {
    my ($listen, $stopped, %options) = @_;
    my @addresses = map { pack_sockaddr_in($_, inet_aton('127.0.0.1')) } @{ $options{ports} };
    my ($least, $longest) = @{ $options{holds} };
    my @lines;
    my (%asking, %visiting);    # by the number of the file
    my $now  = time;
    my @idle = map { $now + rand 0.5 } 1 .. $options{clients};    # when the next request of each begins
    my ($end, $stalled, $latest, $waiting) = (undef, 0, $now, -1);

    my $run_on = sub {
        $now = time;
        if ($now - $latest > STALL) {
            $stalled += $now - $latest;
        }
        $latest = $now;
    };
    my $ask = sub {
        my $one = { node => int rand @addresses, begin => $now, stalled => $stalled, text => '' };
        socket $one->{socket}, PF_INET, SOCK_STREAM, 0 or die "socket: $!";
        if (!connect $one->{socket}, $addresses[ $one->{node} ]) {    # this node is being started
            push @idle, $now + 0.1 + rand 0.2;
            return;
        }
        syswrite $one->{socket}, "GET $options{path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
        $asking{ fileno $one->{socket} } = $one;
    };
    my $written = sub {
        my ($one, $status) = @_;
        push @lines, sprintf "requests %d %.4f %.4f %.4f %s\n", $one->{node}, $one->{begin}, $now, $stalled - $one->{stalled}, $status;
    };
    my $hear = sub {
        my ($file) = @_;
        my $one = $asking{$file};
        return if sysread $one->{socket}, $one->{text}, 65536, length $one->{text};
        $written->($one, $one->{text} =~ m{\AHTTP/1\.\d (\d{3}).*\r\n\r\n}s ? $1 : 0);
        delete $asking{$file};
        push @idle, $now + rand 0.1;
    };
    my $leaves = sub {
        my ($file, $answered) = @_;
        my $visit = delete $visiting{$file};
        push @lines, sprintf "visits %.4f %.4f %d %s\n", $visit->{begin}, $now, $answered, $visit->{text} =~ /^X-Worker: (\d+)/m ? $1 : 0;
    };
    my $read_visit = sub {
        my ($file) = @_;
        my $visit = $visiting{$file};
        $leaves->($file, 0) if !sysread $visit->{socket}, $visit->{text}, 65536, length $visit->{text};
    };

    while (!$end || (%asking && $now < $end)) {
        my $due = $now + LONGEST_REST;
        for (@idle, map { $_->{due} } values %visiting) {
            $due = $_ if $_ < $due;
        }
        my @ready = ready($due - $now, fileno $listen, ($end ? () : fileno $stopped), keys %asking, keys %visiting);
        $run_on->();
        my $accepts = 0;
        for my $file (@ready) {
            if    ($visiting{$file})          { $read_visit->($file) }
            elsif ($asking{$file})            { $hear->($file) }
            elsif ($file == fileno $listen)   { $accepts = 1 }
            elsif ($file == fileno $stopped) {
                sysread $stopped, my $seconds, 10;
                $end  = $now + $seconds;
                @idle = ();
            }
        }
        if ($accepts) {
            my @come;
            while (accept my $socket, $listen) {
                push @come, $socket;
            }
            # the requests whose places these have got have left before, also those of killed workers
            $read_visit->($_) for %visiting ? ready(0, keys %visiting) : ();
            for my $socket (@come) {
                $visiting{ fileno $socket } = { socket => $socket, begin => $now, due => $now + $least + rand($longest - $least), text => '' };
            }
        }
        for my $file (grep { $visiting{$_}{due} <= $now } keys %visiting) {
            syswrite $visiting{$file}{socket}, "HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n";
            $leaves->($file, 1);
        }
        my @begin = grep { $_ <= $now } @idle;
        if (@begin && !$end) {
            @idle = ((grep { $_ > $now } @idle), splice @begin, AT_ONCE);
            $ask->() for @begin;
        }
        @idle = () if $end;
        my $number = keys(%asking) - keys %visiting;
        push @lines, sprintf "waiting %.4f %d\n", $now, $waiting = $number if $number != $waiting;
    }
    $written->($_, 'undef') for values %asking;
    return \@lines;
}

# The files of these that can be read within so many seconds.
sub ready {
    my ($seconds, @files) = @_;
    my @polled = map { ($_, POLLIN) } @files;
    my $count  = IO::Poll::_poll($seconds < 0 ? 0 : POSIX::ceil(1000 * $seconds), @polled);
    die "poll: $!" if $count < 0 && $! != EINTR;
    return $count > 0 ? map { $polled[ 2 * $_ + 1 ] & (POLLIN | POLLHUP | POLLERR) ? $polled[ 2 * $_ ] : () } 0 .. $#files : ();
}

1;
