package Bench::Panels;

# Small plots side by side, of the same axes: along x logarithmic, along y not.

use strict;
use warnings;
use List::Util qw(max min);
use POSIX qw(ceil);

use Bench::Chart qw(curve legend line step_of svg text thousands);

use constant { LEFT => 52, RIGHT => 744, TOP => 104, HEIGHT => 230, GAP => 22 };

# Options:
#   title, x_axis, y_axis  texts, with units
#   even                   a value of y that is marked
#   series                 [name, ...]
#   panels                 [[name, { series => { x => y, ... } }], ...]
sub panels {
    my (%chart)  = @_;
    my @lines    = map { values %{ $_->[1] } } @{ $chart{panels} };
    my @x        = sort { $a <=> $b } keys %{ $lines[0] };
    my $most     = max(map { values %$_ } @lines);
    my $step     = step_of($most);
    my $top_of_y = $step * ceil($most / $step);
    my $width    = (RIGHT - LEFT + GAP) / @{ $chart{panels} } - GAP;
    my $bottom   = TOP + HEIGHT;
    my $y_of     = sub { $bottom - $_[0] / $top_of_y * HEIGHT };
    my @svg      = legend(LEFT, @{ $chart{series} });
    for my $panel (0 .. $#{ $chart{panels} }) {
        my ($name, $of) = @{ $chart{panels}[$panel] };
        my $left = LEFT + $panel * ($width + GAP);
        my $x_of = sub { $left + log($_[0] / $x[0]) / log($x[-1] / $x[0]) * ($width - 40) + 20 };
        push @svg, text($left, TOP - 14, $name);
        for (my $y = 0; $y <= $top_of_y; $y += $step) {
            push @svg, line($left, $y_of->($y), $left + $width, $y_of->($y));
            push @svg, text($left - 8, $y_of->($y) + 4, $y, anchor => 'end', class => 'dim') if $panel == 0;
        }
        push @svg, line($left, $y_of->($chart{even}), $left + $width, $y_of->($chart{even}), 'even'),
            map { text($x_of->($_), $bottom + 18, thousands($_), anchor => 'middle', class => 'dim') } @x;
        for my $i (0 .. $#{ $chart{series} }) {
            my $line = $of->{ $chart{series}[$i] };
            push @svg, curve($i, map { [$x_of->($_), $y_of->($line->{$_})] } @x);
        }
    }
    push @svg, text((LEFT + RIGHT) / 2, $bottom + 42, $chart{x_axis}, anchor => 'middle', class => 'dim'),
        text(RIGHT, 55, $chart{y_axis}, anchor => 'end', class => 'dim');
    return svg($chart{title}, $bottom + 56, @svg);
}

1;
