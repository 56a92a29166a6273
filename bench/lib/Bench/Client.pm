package Bench::Client;

# A connection to Redis: running redis-cli for each command would disturb the measurement, and it cannot pipeline. An
# error reply is an exception, so that figures of failing calls do not get into a table.

use strict;
use warnings;
use Exporter 'import';
use IO::Socket::UNIX;
use List::Util qw(pairkeys pairvalues sum0);

our @EXPORT_OK = qw(command replies);

sub new {
    my ($class, $redis) = @_;
    my $socket = IO::Socket::UNIX->new(Peer => $redis->path) or die "Redis: $!\n";
    return bless { socket => $socket }, $class;
}

# The bytes of a command.
sub command { return join '', '*', scalar @_, "\r\n", map { ('$', length, "\r\n", $_, "\r\n") } @_ }

# The reply to one command; a list as a reference.
sub ask {
    my ($self, @words) = @_;
    return ($self->ask_all([@words]))[0];
}

# The replies to pipelined commands, which shall be few enough for the sockets' buffers.
sub ask_all {
    my ($self, @commands) = @_;
    $self->{socket}->print(map { command(@$_) } @commands);
    $self->{socket}->flush;
    return map { $self->reply } @commands;
}

sub reply { return next_reply($_[0]{socket}) }

# From a socket, or a text that is open as a file.
sub next_reply {
    my ($from) = @_;
    my ($kind, $value) = (<$from> // '') =~ /^([-+:\$*])(.*)\r\n/ or die "Redis hung up\n";
    die "Redis: $value\n" if $kind eq '-';
    return [map { next_reply($from) } 1 .. $value] if $kind eq '*';
    return $value if $kind ne '$';
    return undef  if $value < 0;
    read($from, my $text, $value + 2) == $value + 2 or die "Redis hung up\n";
    return substr $text, 0, $value;
}

# Pipelined commands: the text of the replies. A PING behind them tells where it ends.
sub exchange {
    my ($self, $commands) = @_;
    my ($sent, $text) = (0, '');
    $commands .= command('PING');
    while ($sent < length $commands) {
        $sent += syswrite($self->{socket}, $commands, length($commands) - $sent, $sent) // die "Redis: $!\n";
    }
    while ($text !~ s/^\+PONG\r\n\z//m) {
        sysread($self->{socket}, my $part, 65536) or die "Redis hung up\n";
        $text .= $part;
        die "Redis: $1\n" if $part =~ /^-(.*)/m;
    }
    return $text;
}

# The replies in a text of exchange(); lists as references.
sub replies {
    my ($text) = @_;
    my @replies;
    open my $from, '<', \$text or die "replies: $!\n";
    push @replies, next_reply($from) until eof $from;
    return @replies;
}

# INFO's numbers of one section.
sub info {
    my ($self, $section) = @_;
    return { $self->ask('INFO', $section) =~ /^(\w+):(\d+)\r$/mg };
}

# (calls that decide, microseconds that Redis spent inside them) so far: calls of scripts, of the native module, and of the C peer's command.
# The time of a script includes that of the commands which it calls.
sub decisions_so_far {
    my ($self) = @_;
    my $text    = $self->ask('INFO', 'commandstats');
    my @figures = $text =~ /^cmdstat_(?:(?:evalsha|eval)(?:_ro)?|rater\.limit|sliding_log\.2):calls=(\d+),usec=(\d+)/mg;
    return (sum0(pairkeys(@figures)), sum0(pairvalues(@figures)));
}

1;
