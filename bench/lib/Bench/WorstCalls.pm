package Bench::WorstCalls;

# Every kind of call that nginx sends, to a log of N entries, with the parameters that make it long.

use strict;
use warnings;
use List::Util qw(min);

use Testbed::Algorithm qw(%ALL_SCRIPTS takes);

use constant {
    WINDOW => 366 * 86_400_000,    # ms: nothing leaves, unless a call has another window
    HOUR   => 3_600_000,
    MONTH  => 31 * 86_400_000,
    SAMPLE => 10,
    ZSETS  => [qw(log sampled inflight)],
};

my %zset = map { $_ => 1 } @{ +ZSETS };

# What one call can be told at once of these: entries of a request.
sub most_cost { my ($algorithm) = @_; return $zset{$algorithm} ? ($algorithm eq 'sampled' ? 1000 * SAMPLE : 1000) : 10**9 }

# How many of its limit an entry takes.
sub unit { my ($algorithm) = @_; return $algorithm eq 'sampled' ? SAMPLE : 1 }

# A call has:
#   name    for the table
#   for     whether an algorithm can have it
#   on      the kind of log that it is sent to; without: all but those ahead
#   ask     code that returns what is asked of the log, given the log: { limit, window, cap, cost, named, count, delay, block,
#           times, permits, override, settle, ended, requests }; limits are in entries
#   back    the entry, 0 for the oldest, that it takes back; it is a take-back then
#   before  code that returns commands sent to Redis first, and a list of what is asked first
#   raw     code that returns the words of a command that is no decision
#   admits  how many requests are admitted; -1: all
#   blind   true where a worker cannot know the work: it depends on what the log has been given by others, or has lost
sub all {
    my $any     = sub { 1 };
    my $with    = sub { my @all = @_; return sub { my ($algorithm) = @_; return !grep { !takes($algorithm, $_) } @all } };
    my $lists   = sub { $_[0] =~ /^(?:log|compact|sampled|inflight)$/ };
    my $windows = sub { my $others = $with->(@_); return sub { return $lists->($_[0]) && $others->($_[0]) } };
    my $cost    = sub { my ($log, $cost) = @_; return min(most_cost($log->{algorithm}), int($cost * unit($log->{algorithm}))) };
    my $full    = sub { my ($log, %more) = @_; return { limit => $log->{entries}, %more } };
    my $room    = sub { my ($log, %more) = @_; return { limit => 10 * $log->{entries}, %more } };
    my $blocked = sub { my ($log) = @_; return ([], [$full->($log, block => HOUR)]) };
    # a window in which so many of the latest are left
    my $left = sub { my ($log, $some) = @_; return int(1000 * Time::HiRes::time()) - $log->{at}->($log->{entries} - 1 - $some) };

    my @calls = (
        { name => 'admitted',                         for => $any, ask => sub { $room->($_[0]) }, admits => 1 },
        { name => 'admitted, cost a tenth of the limit', for => $any, ask => sub { $room->($_[0], cost => $cost->($_[0], $_[0]{entries})) }, admits => 1 },
        { name => 'admitted, with ids',               for => $with->('id'), ask => sub { $room->($_[0], named => 1) }, admits => 1 },
        { name => 'admitted, prefetch=1000',          for => $with->('prefetch'), ask => sub { $room->($_[0], permits => 999) }, admits => 1 },
        { name => 'admitted, as many as a call has',  for => $any, ask => sub { $room->($_[0], requests => 'most') }, admits => -1 },
        { name => 'admitted, as many of cost 5',      for => $any, ask => sub { $room->($_[0], cost => 5, requests => 'most') }, admits => -1 },
        { name => 'denied',                           for => $any, ask => sub { $full->($_[0]) }, admits => 0 },
        { name => 'denied, cost half the limit',      for => $any, ask => sub { $full->($_[0], cost => $cost->($_[0], $_[0]{entries} / 2)) }, admits => 0 },
        { name => 'denied, cost the limit',           for => $any, ask => sub { $full->($_[0], cost => $cost->($_[0], $_[0]{entries})) }, admits => 0 },
        { name => 'denied, as many as a call has',    for => $any, ask => sub { $full->($_[0], requests => 'most') }, admits => 0 },
        { name => 'denied, limit halved since',       for => $lists, ask => sub { +{ limit => int $_[0]{entries} / 2 } }, admits => 0, blind => 1 },
        { name => 'denied, record of half the limit', for => $with->('window'), ask => sub { $room->($_[0], override => int $_[0]{entries} / 2) }, admits => 0, blind => 1 },
        { name => 'denied, count=all',                for => $with->('count'), ask => sub { $full->($_[0], count => 1, cap => $_[0]{entries}) }, admits => 0 },
        { name => 'denied, count=all, cost half the limit', for => $with->('count'), ask => sub { $full->($_[0], count => 1, cap => $_[0]{entries}, cost => $cost->($_[0], $_[0]{entries} / 2)) }, admits => 0 },
        { name => 'denied, count=all, cap halved since', for => $with->('count'), ask => sub { $full->($_[0], count => 1, cap => int $_[0]{entries} / 2) }, admits => 0 },
        { name => 'denied, count=all, as many as a call has', for => $with->('count'), ask => sub { $full->($_[0], count => 1, cap => $_[0]{entries}, requests => 'most') }, admits => 0 },
        { name => 'denied, a block begins',           for => $with->('block'), ask => sub { $full->($_[0], block => HOUR) }, admits => 0 },
        { name => 'denied, block=1m,1h',              for => $with->('block'), ask => sub { $full->($_[0], block => 60_000, times => '60000,3600000') }, admits => 0 },
        { name => 'denied, blocked',                  for => $with->('block'), ask => sub { $full->($_[0], block => HOUR) }, before => $blocked, admits => 0 },
        { name => 'denied, blocked, count=all',       for => $with->('block', 'count'), ask => sub { $full->($_[0], block => HOUR, count => 1, cap => $_[0]{entries}) }, before => $blocked, admits => 0 },
        { name => 'denied, blocked, limit halved',    for => $with->('block'), ask => sub { +{ limit => int $_[0]{entries} / 2, block => HOUR } }, before => $blocked, admits => 0, blind => 1 },
        { name => 'admitted, a block is over',        for => $with->('block'), ask => sub { $room->($_[0], block => HOUR) }, admits => 1,
            before => sub { my ($log) = @_; return ([], [$full->($log, block => 1)], 0.005) } },
        { name => 'held, delay=',                     for => $windows->('delay', 'window'), ask => sub { $full->($_[0], delay => WINDOW) }, admits => 1 },
        { name => 'held, as many as a call has',      for => $windows->('delay', 'window'), ask => sub { $full->($_[0], delay => WINDOW, requests => 'most') }, admits => -1 },
        { name => 'held behind N reservations',       for => $windows->('delay', 'window'), on => 'ahead', ask => sub { $full->($_[0], delay => 2 * WINDOW) }, admits => 1 },
        { name => 'held behind N, as many as a call has', for => $windows->('delay', 'window'), on => 'ahead', ask => sub { $full->($_[0], delay => 2 * WINDOW, requests => 'most') }, admits => -1 },
        { name => 'held, N reserved, limit halved',   for => $windows->('delay', 'window'), on => 'ahead', ask => sub { +{ limit => int $_[0]{entries} / 2, delay => 2 * WINDOW } }, admits => 1, blind => 1 },
        { name => 'admitted before N reservations',   for => $windows->('delay', 'window'), on => 'ahead', ask => sub { $room->($_[0], delay => 2 * WINDOW) }, admits => 1 },
        { name => 'admitted, the clock has stepped back', for => $lists, on => 'ahead', ask => sub { $room->($_[0]) }, admits => 1, blind => 1 },
        { name => 'admitted, all but one have left',  for => $lists, ask => sub { $room->($_[0], window => $left->($_[0], 1)) }, admits => 1, blind => 1 },
        { name => 'admitted, half have left',         for => $lists, ask => sub { $room->($_[0], window => $left->($_[0], $_[0]{entries} / 2)) }, admits => 1, blind => 1 },
        { name => 'admitted, all have left',          for => $lists, ask => sub { $room->($_[0], window => 100) }, admits => 1, blind => 1 },
        { name => 'admitted, full, a thousand have left', for => $lists, ask => sub { $full->($_[0], window => $left->($_[0], $_[0]{entries} - 1000)) }, admits => 1, blind => 1 },
        { name => 'denied, blocked, half have left',  for => $windows->('block'), ask => sub { $full->($_[0], block => HOUR, window => $left->($_[0], $_[0]{entries} / 2)) }, before => $blocked, admits => 0, blind => 1 },
        { name => 'admitted, the key has expired',    for => $any, ask => sub { $room->($_[0]) }, admits => 1, blind => 1,
            before => sub { return ([['PEXPIRE', $_[1], 1]], [], 0.01) } },
        { name => 'refund of the latest',             for => $with->('refund'), ask => sub { $room->($_[0]) }, back => sub { $_[0]{entries} - 1 } },
        { name => 'refund of the oldest',             for => $with->('refund'), ask => sub { $room->($_[0]) }, back => sub { 0 } },
        { name => 'refund of one in the middle',      for => $with->('refund'), ask => sub { $room->($_[0]) }, back => sub { int $_[0]{entries} / 2 } },
        { name => 'refund of a large cost',           for => $with->('refund'), ask => sub { $room->($_[0], cost => $cost->($_[0], $_[0]{entries} / 2)) }, back => sub { int $_[0]{entries} / 2 } },
        { name => 'refund, blocked',                  for => $with->('refund', 'block'), ask => sub { $full->($_[0], block => HOUR) }, before => $blocked, back => sub { int $_[0]{entries} / 2 } },
        { name => 'settled, it cost less',            for => $with->('settle'), ask => sub { $room->($_[0], cost => 5, settle => 1) }, back => sub { int $_[0]{entries} / 2 } },
        { name => 'settled, it cost more',            for => $with->('settle'), ask => sub { $room->($_[0], cost => 5, settle => 500, ended => 250) }, back => sub { int $_[0]{entries} / 2 } },
        { name => 'settled, blocked, it cost more',   for => $with->('settle', 'block'), ask => sub { $full->($_[0], cost => 5, settle => 500, ended => 250) }, before => $blocked, back => sub { int $_[0]{entries} / 2 } },
        { name => 'released, 500 entries',            for => $with->('lease'), raw => sub { my ($log, $key) = @_; return ('ZREM', $key, map { $log->{name}->($_) } 0 .. 499) } },
        { name => 'renewed, 500 entries',             for => $with->('lease'), raw => sub { my ($log, $key, @command) = @_; return (@command, 1, $key, 'renew', '', HOUR, 500, map { $log->{name}->($_) } 0 .. 499) } },
        { name => 'renewed, 500 were lost',           for => $with->('lease'), raw => sub { my ($log, $key, @command) = @_; return (@command, 1, $key, 'renew', '', HOUR, 500, map { "lost$_" } 0 .. 499) } },
        { name => 'reset by the tool',                for => $any, raw => sub { my ($log, $key) = @_; return ('UNLINK', $key) } },
    );
    return @calls;
}

1;
