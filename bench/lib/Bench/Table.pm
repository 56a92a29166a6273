package Bench::Table;

# Numbers as people read them.

use strict;
use warnings;
use Exporter 'import';
use List::Util qw(max);

our @EXPORT_OK = qw(median);

sub median {
    my @sorted = sort { $a <=> $b } @_;
    my $middle = int(@sorted / 2);
    return @sorted % 2 ? $sorted[$middle] : ($sorted[$middle - 1] + $sorted[$middle]) / 2;
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
        my $text = join '  ', sprintf('%-*s', $width[0], $first), map { sprintf '%*s', $width[$_ + 1], $others[$_] } 0 .. $#others;
        return $text =~ s/ +\z//r . "\n";
    };
    return join '', "$groups\n", $line->(map { $_->[1] } @$columns), map { $line->(@$_) } @rows;
}

1;
