package Bench::Turns;

# CPU time. Virtual machines share cores, and their speed may halve and double from one second to the next, unseen.
# So the nodes take turns of a tenth of a second, by pausing the load generators of all others, and only what lies
# side by side is compared.

use strict;
use warnings;
use List::Util qw(max uniq);
use Time::HiRes qw(time);

use Bench::Machine;
use Bench::Progress qw(progress);
use Bench::Table qw(median);

use constant LENGTH => 0.1;    # seconds

# Sets `turns` of each node to the results of Node::turn. Options:
#   turns    how many
#   warm_up  seconds of turns before, that count for nothing
# Returns the share of the machine, in percent, that other processes used in the meantime.
sub measure {
    my ($nodes, %options) = @_;
    $_->connect_load for @$nodes;
    my $warm = time + $options{warm_up};
    do {
        progress(sprintf 'warming up: %.0f s', max(0, $warm - time));
        $_->turn(LENGTH) for @$nodes;
    } while (time < $warm);
    my @ours  = ($$, uniq(map { ($_->{server}->pid, $_->{worker}, $_->{load}->pid) } @$nodes));
    my $whole = Bench::Machine::stopwatch(ours => \@ours);
    for my $turn (1 .. $options{turns}) {
        progress("CPU: turn $turn of $options{turns}");
        push @{ $_->{turns} }, $_->turn(LENGTH) for @$nodes;
    }
    my %used = $whole->();
    $_->end_load for @$nodes;
    return max(0, 100 * ($used{machine} - $used{ours}) / $used{available});
}

# A figure of all turns of a node.
sub series { my ($node, $what) = @_; return [map { $_->{$what} } @{ $node->{turns} }] }

sub others_note {
    my ($others) = @_;
    return sprintf('Other processes used %.0f %% of the machine%s', $others,
        $others > 5 ? ': repeat the measurement on an idle machine.' : '.');
}

# The medians of the values of hashes with the same names; undef if none has a figure.
sub medians {
    my (@samples) = @_;
    my %median;
    for my $what (keys %{ $samples[0] }) {
        my @figures = grep { defined } map { $_->{$what} } @samples;
        $median{$what} = @figures ? median(@figures) : undef;
    }
    return %median;
}

1;
