package Bench::Traffic;

# Requests of one client, as whole milliseconds in order, around what a limit allows.

use strict;
use warnings;

# Each kind:
#   name, about  for the table
#   times        (limit, window (ms), windows) => the requests
sub all {
    return map { { name => $_->[0], times => $_->[1], about => $_->[2] } } (
        ['steady', \&steady, 'at random, 1.2 times the limit'],
        ['on/off', \&on_off, 'four times the limit for a quarter of a window, nothing for three quarters, all at random'],
        ['Pareto', \&pareto, 'gaps of a Pareto distribution (shape 1.5), 1.2 times the limit'],
        ['full, then steady', \&full_then_steady, 'nothing for two windows, the limit in the last millisecond of a clock'
                . ' window, then all that is admitted until that leaves: the worst case of a counter'],
        ['at the edges', \&edges, 'the limit in the first millisecond of each clock window'],
    );
}

sub exponential { my ($mean) = @_; return -log(1 - rand) * $mean }

sub steady {
    my ($limit, $window, $windows) = @_;
    return apart($window * $windows, sub { exponential($window / $limit / 1.2) });
}

sub pareto {
    my ($limit, $window, $windows) = @_;
    my $shape    = 1.5;
    my $smallest = $window / $limit / 1.2 * ($shape - 1) / $shape;
    return apart($window * $windows, sub { $smallest / (1 - rand)**(1 / $shape) });
}

sub apart {
    my ($end, $gap) = @_;
    my @times;
    for (my $now = $gap->(); $now < $end; $now += $gap->()) {
        push @times, int $now;
    }
    return @times;
}

# Two states, each left at random.
sub on_off {
    my ($limit, $window, $windows) = @_;
    my @times;
    for (my $now = 0; $now < $window * $windows; $now += exponential(0.75 * $window)) {
        my $off = $now + exponential(0.25 * $window);
        while (($now += exponential($window / $limit / 4)) < $off) {
            push @times, int $now;
        }
        $now = $off;
    }
    return @times;
}

sub full_then_steady {
    my ($limit, $window, $windows) = @_;
    return map {
        my $begin = 4 * $_ * $window + 2 * $window;
        my @later = map { $begin + $window + int($_ * ($window - 2) / 2 / $limit) } 1 .. 2 * $limit;
        (($begin + $window - 1) x $limit, @later);
    } 0 .. $windows / 4 - 1;
}

sub edges {
    my ($limit, $window, $windows) = @_;
    return map { ($_ * $window) x $limit } 1 .. $windows;
}

1;
