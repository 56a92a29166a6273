package Bench::Table;

# Tables of numbers.

use strict;
use warnings;
use Exporter 'import';
use List::Util qw(max);
use Text::Wrap ();

our @EXPORT_OK = qw(median quantile ratio);

$Text::Wrap::columns = 121;

sub median { return quantile(0.5, @_) }

sub quantile {
    my ($share, @values) = @_;
    my @sorted = sort { $a <=> $b } @values;
    my $place  = $share * $#sorted;
    my $below  = int $place;
    return $sorted[$below] if $below == $#sorted;
    return $sorted[$below] + ($place - $below) * ($sorted[$below + 1] - $sorted[$below]);
}

# The median of one series in units of another, turn by turn: adjacent turns had the same conditions.
sub ratio {
    my ($series, $unit) = @_;
    return median(map { $series->[$_] / $unit->[$_] } 0 .. $#$unit);
}

# title    a line
# columns  [[group, name], ...]: a group stands over its column and those after it that name none
# rows     [[cell, ...], ...]
# notes    [text, ...]
sub new {
    my ($class, %table) = @_;
    die "$table{title}: a row of another length\n" if grep { @$_ != @{ $table{columns} } } @{ $table{rows} };
    return bless {%table}, $class;
}

# The microseconds of some ways to do the same: the medians of each, and the ratios to the first one, turn by turn.
# names: of the ways; rows: [[title, log length, series of each way], ...]; and the title and the notes of the table
sub of_ways {
    my ($class, %table) = @_;
    my ($unit, @others) = @{ $table{names} };
    return $class->new(
        title   => $table{title},
        columns => [
            ['',   'request'],
            ['',   'log length'],
            ['us', $unit],
            map({ ['', $_] } @others),
            ["in units of the $unit", $others[0]],
            map { ['', $_] } @others[1 .. $#others],
        ],
        rows  => [map {
            my ($title, $length, $first, @series) = @$_;
            [$title, $length, map({ sprintf '%.1f', median(@$_) } $first, @series), map { sprintf '%.2f', ratio($_, $first) } @series];
        } @{ $table{rows} }],
        notes => $table{notes},
    );
}

# Columns as wide as they need be, the first one to the left, all others to the right.
sub text {
    my ($self)  = @_;
    my @columns = @{ $self->{columns} };
    my @rows    = @{ $self->{rows} };
    my @width   = map { my $i = $_; max(map { length } $columns[$i][1], map { $_->[$i] } @rows) } 0 .. $#columns;
    my $groups  = '';
    my $left    = 0;
    for my $i (0 .. $#columns) {
        if ($columns[$i][0] ne '') {
            $groups .= ' ' x ($left - length $groups) if $left > length $groups;
            $groups .= " $columns[$i][0]";
        }
        $left += $width[$i] + 2;
    }
    my $line = sub {
        my ($first, @others) = @_;
        my @right = map { sprintf '%*s', $width[$_ + 1], $others[$_] } 0 .. $#others;
        my $text  = join '  ', sprintf('%-*s', $width[0], $first), @right;
        return $text =~ s/ +\z//r . "\n";
    };
    return join '', "\n$self->{title}\n", "$groups\n", $line->(map { $_->[1] } @columns),
        map({ $line->(@$_) } @rows), Text::Wrap::wrap('', '', join ' ', @{ $self->{notes} }), "\n";
}

sub markdown {
    my ($self) = @_;
    my $group  = '';
    my @names  = map {
        $group = $_->[0] if $_->[0] ne '';
        $group eq '' ? $_->[1] : "$group<br>$_->[1]";
    } @{ $self->{columns} };
    my $line = sub { return '| ' . join(' | ', @_) . " |\n" };
    return join '', "### $self->{title}\n\n", $line->(@names), '|---|', '---:|' x $#names, "\n",
        map({ $line->(@$_) } @{ $self->{rows} }), "\n", join "\n", map { wrapped($_) } split /\n\n/, join ' ', @{ $self->{notes} };
}

# A paragraph wrapped to the width of a document.
sub wrapped {
    my ($text) = @_;
    local ($Text::Wrap::columns, $Text::Wrap::huge) = (119, 'overflow');
    return Text::Wrap::wrap('', '', $text) . "\n";
}

1;
