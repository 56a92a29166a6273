package Bench::Commands;

# Counts what Redis does, over a connection of its own: a redis-cli for each look would disturb what is measured.

use strict;
use warnings;
use IO::Socket::UNIX;

sub new {
    my ($class, $redis) = @_;
    my $socket = IO::Socket::UNIX->new(Peer => $redis->path) or die "Redis: $!\n";
    return bless { socket => $socket }, $class;
}

# (calls of scripts, all commands) so far; all includes those that scripts call, and not this one.
sub so_far {
    my ($self) = @_;
    my $socket = $self->{socket};
    print $socket "INFO commandstats\r\n";
    my ($length) = (<$socket> // '') =~ /^\$(\d+)/ or die "Redis does not answer INFO\n";
    read($socket, my $text, $length + 2) or die "Redis: $!\n";
    my ($calls, $commands) = (0, 0);
    while ($text =~ /^cmdstat_([^:]+):calls=(\d+)/mg) {
        my ($command, $n) = ($1, $2);
        next if $command eq 'info';
        $commands += $n;
        $calls += $n if $command =~ /^(?:evalsha|eval)(?:_ro)?$/;
    }
    return ($calls, $commands);
}

1;
