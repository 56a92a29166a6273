package Bench::Table;

# Numbers as people read them.

use strict;
use warnings;
use Exporter 'import';
use List::Util qw(max);

our @EXPORT_OK = qw(median quantile);

sub median { return quantile(0.5, @_) }

sub quantile {
    my ($share, @values) = @_;
    my @sorted = sort { $a <=> $b } @values;
    my $place  = $share * $#sorted;
    my $below  = int $place;
    return $sorted[$below] if $below == $#sorted;
    return $sorted[$below] + ($place - $below) * ($sorted[$below + 1] - $sorted[$below]);
}

# text([[group, name, ...], ...], [cell, ...], ...): columns as wide as they need be, the first one to the left, all
# others to the right. A group stands over its column and those after it that name none.
sub text {
    my ($columns, @rows) = @_;
    my @width = map { my $i = $_; max(map { length } $columns->[$i][1], map { $_->[$i] } @rows) } 0 .. $#$columns;
    my $groups = '';
    my $left   = 0;
    for my $i (0 .. $#$columns) {
        if ($columns->[$i][0] ne '') {
            $groups .= ' ' x ($left - length $groups) if $left > length $groups;
            $groups .= " $columns->[$i][0]";
        }
        $left += $width[$i] + 2;
    }
    my $line = sub {
        my ($first, @others) = @_;
        my @right = map { sprintf '%*s', $width[$_ + 1], $others[$_] } 0 .. $#others;
        my $text  = join '  ', sprintf('%-*s', $width[0], $first), @right;
        return $text =~ s/ +\z//r . "\n";
    };
    return join '', "$groups\n", $line->(map { $_->[1] } @$columns), map { $line->(@$_) } @rows;
}

1;
