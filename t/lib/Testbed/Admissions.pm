package Testbed::Admissions;

# What the scripts have admitted to a log, and whether that is exact and fair. A log is { name, limit, window,
# admitted => [[time, cost], ...], held => [[time, how many logs the request has], ...] }.

use strict;
use warnings;
use Exporter 'import';
use Test::More;

our @EXPORT_OK = qw(is_exact is_fair keep life);

# No window has more entries than the limit: entries i and i + limit are at least a window apart.
sub is_exact {
    my ($log) = @_;
    my @times = sort { $a <=> $b } map { ($_->[0]) x $_->[1] } @{ $log->{admitted} // [] };
    for my $i ($log->{limit} .. $#times) {
        next if $times[$i] - $times[ $i - $log->{limit} ] >= $log->{window};
        fail("$log->{name}: more than $log->{limit} in $log->{window} ms before $times[$i]");
        return 0;
    }
    return 1;
}

# A held request is not admitted before those held earlier. With several logs, one may have room but hold the request
# because of another. A request of cost 0 is in no log.
sub is_fair {
    my ($log) = @_;
    my $latest = 0;
    for my $held (@{ $log->{held} // [] }) {
        my ($slot, $logs) = @$held;
        if ($logs == 1 && $slot < $latest) {
            fail("$log->{name}: $slot was given after $latest");
            return 0;
        }
        $latest = $slot if $slot > $latest;
    }
    return 1;
}

# How long permits live.
sub life { my ($log) = @_; my $life = int $log->{window} / 100; return $life < 1 ? 1 : $life > 1000 ? 1000 : $life }

# Records the admissions of a reply, for is_exact() and is_fair(). Returns for how long its requests are held.
sub keep {
    my ($group, $reply) = @_;
    my ($admitted, $now, @rest) = @$reply;
    my @held = splice @rest, 3 * @{ $group->{logs} };
    $group->{permits} = [];
    if ($admitted == @{ $group->{names} } && grep { $_->{permits} && $_->{cost} } @{ $group->{asks} }) {
        $group->{permits} = [splice @held];
        for my $i (grep { $group->{permits}[$_] } 0 .. $#{ $group->{logs} }) {
            push @{ $group->{logs}[$i]{admitted} }, [$now + life($group->{logs}[$i]), $group->{permits}[$i] * $group->{asks}[$i]{cost}];
        }
    }
    for my $i (0 .. $#{ $group->{logs} }) {
        my ($log, $asks) = ($group->{logs}[$i], $group->{asks}[$i]);
        for my $j (1 .. $admitted) {
            my $held = $j > $admitted - @held ? $held[ $j - 1 - $admitted + @held ] : undef;
            my $at = $now + ($held // 0);
            push @{ $log->{admitted} }, [$at, $asks->{cost}];
            push @{ $log->{held} }, [$at, scalar @{ $group->{logs} }] if defined $held && $asks->{cost};
        }
    }
    return @held;
}

1;
