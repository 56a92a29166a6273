package Bench::Chart;

# Charts as SVG, in the light or dark colours of the reader.

use strict;
use warnings;
use Exporter 'import';
use List::Util qw(max min sum);
use POSIX qw(ceil floor);

our @EXPORT_OK = qw(curve legend line step_of svg text thousands);

use constant { WIDTH => 760, BAR => 18, ROW => 26, TOP => 92, PLOT_HEIGHT => 340 };
use constant LETTER => 7.5;    # the mean width of a letter of the fonts below

my $style = <<'END';
<style>
  svg { font: 13px system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; }
  .paper { fill: #ffffff; } text { fill: #1f2328; } .dim { fill: #59636e; } .title { font-size: 16px; font-weight: 600; }
  .grid { stroke: #d1d9e0; stroke-width: 1; } .line { fill: none; stroke-width: 2.5; }
  .even { stroke: #59636e; stroke-width: 1.5; stroke-dasharray: 5 4; }
  .fill0 { fill: #2f73c9; } .fill1 { fill: #d9722e; } .fill2 { fill: #1f8f63; }
  .fill3 { fill: #8a52c4; } .fill4 { fill: #b58900; } .fill5 { fill: #c2366b; }
  .line0 { stroke: #2f73c9; } .line1 { stroke: #d9722e; } .line2 { stroke: #1f8f63; }
  .line3 { stroke: #8a52c4; } .line4 { stroke: #b58900; } .line5 { stroke: #c2366b; }
  @media (prefers-color-scheme: dark) {
    .paper { fill: #0d1117; } text { fill: #e6edf3; } .dim { fill: #9198a1; } .grid { stroke: #3d444d; }
    .even { stroke: #9198a1; }
    .fill0 { fill: #5c9ded; } .fill1 { fill: #ec965a; } .fill2 { fill: #4fbf90; }
    .fill3 { fill: #b78bea; } .fill4 { fill: #d9b34a; } .fill5 { fill: #ee7ba6; }
    .line0 { stroke: #5c9ded; } .line1 { stroke: #ec965a; } .line2 { stroke: #4fbf90; }
    .line3 { stroke: #b78bea; } .line4 { stroke: #d9b34a; } .line5 { stroke: #ee7ba6; }
  }
</style>
END

# Horizontal bars, in panels beside each other of the same axes. Options:
#   title, axis  texts; axis names what is along x, and its unit
#   parts        [name, ...]: what a bar is put together from
#   rows         [name, ...]: of the bars of each panel
#   panels       [[name, [[value of the first part, ...], ...]], ...]
sub bars {
    my (%chart) = @_;
    my ($right, $gap) = (WIDTH - 16, 16);
    my $left   = 26 + LETTER * max(map { length } @{ $chart{rows} });
    my $room   = 48;    # for a bar's sum, behind the longest
    my $width  = ($right - $left + $gap) / @{ $chart{panels} } - $gap;
    my $bottom = TOP + ROW * @{ $chart{rows} };
    my $most   = max(map { sum(@$_) } map { @{ $_->[1] } } @{ $chart{panels} });
    my $step   = step_of(2 * $most);    # two to five of it are as many as fit below a panel
    my $scale  = ($width - $room) / $most;
    my @svg    = legend($left, @{ $chart{parts} });
    push @svg, map { text($left - 10, bar_top($_) + 14, $chart{rows}[$_], anchor => 'end') } 0 .. $#{ $chart{rows} };
    for my $panel (0 .. $#{ $chart{panels} }) {
        my ($name, $bars) = @{ $chart{panels}[$panel] };
        my $zero = $left + $panel * ($width + $gap);
        push @svg, text($zero, TOP - 10, $name, class => 'dim');
        for (my $value = 0; $value * $scale <= $width; $value += $step) {
            my $x = $zero + $value * $scale;
            push @svg, line($x, TOP - 4, $x, $bottom), text($x, $bottom + 18, $value, anchor => 'middle', class => 'dim');
        }
        push @svg, map { bar($zero, bar_top($_), $scale, @{ $bars->[$_] }) } 0 .. $#$bars;
    }
    push @svg, text(($left + $right) / 2, $bottom + 40, $chart{axis}, anchor => 'middle', class => 'dim');
    return svg($chart{title}, $bottom + 54, @svg);
}

sub bar_top { my ($row) = @_; return TOP + ROW * $row + (ROW - BAR) / 2 }

# Its parts, and their sum behind them.
sub bar {
    my ($x, $y, $scale, @values) = @_;
    my @svg;
    for my $part (grep { $values[$_] } 0 .. $#values) {
        push @svg, sprintf '<rect class="fill%d" x="%.1f" y="%.1f" width="%.1f" height="%d"/>', $part, $x, $y,
            $values[$part] * $scale, BAR;
        $x += $values[$part] * $scale;
    }
    return (@svg, text($x + 6, $y + 14, sprintf '%.1f', sum(@values)));
}

# Lines over two logarithmic axes. Options:
#   title, x_axis, y_axis  texts, with units
#   series                 [[name, { x => y, ... }], ...]
sub lines {
    my (%chart) = @_;
    my ($left, $right, $top, $bottom) = (70, WIDTH - 120, 60, 60 + PLOT_HEIGHT);
    my @points = map { %{ $_->[1] } } @{ $chart{series} };
    my @x      = map { log10($points[2 * $_]) } 0 .. $#points / 2;
    my @y      = map { log10($points[2 * $_ + 1]) } 0 .. $#points / 2;
    my ($x_low, $x_high, $y_low, $y_high) = (floor(min(@x)), ceil(max(@x)), floor(min(@y)), ceil(max(@y)));
    my $x_of = sub { $left + (log10($_[0]) - $x_low) / ($x_high - $x_low) * ($right - $left) };
    my $y_of = sub { $bottom - (log10($_[0]) - $y_low) / ($y_high - $y_low) * ($bottom - $top) };
    my (@svg, @names);
    for my $x (map { 10**$_ } $x_low .. $x_high) {
        push @svg, line($x_of->($x), $top, $x_of->($x), $bottom),
            text($x_of->($x), $bottom + 20, thousands($x), anchor => 'middle', class => 'dim');
    }
    for my $y (map { 10**$_ } $y_low .. $y_high) {
        push @svg, line($left, $y_of->($y), $right, $y_of->($y)),
            text($left - 8, $y_of->($y) + 4, thousands($y), anchor => 'end', class => 'dim');
    }
    for my $i (0 .. $#{ $chart{series} }) {
        my ($name, $of) = @{ $chart{series}[$i] };
        my @at = map { [$x_of->($_), $y_of->($of->{$_})] } sort { $a <=> $b } keys %$of;
        push @svg, curve($i, @at);
        push @names, [$at[-1][0] + 10, $at[-1][1] + 4, $name];
    }
    # names are at the ends of their lines, one below the other if these are close
    my $free = 0;
    for my $name (sort { $a->[1] <=> $b->[1] } @names) {
        my ($x, $y, $text) = @$name;
        $y    = max($y, $free);
        $free = $y + 17;
        push @svg, text($x, $y, $text);
    }
    push @svg, text(($left + $right) / 2, $bottom + 44, $chart{x_axis}, anchor => 'middle', class => 'dim'),
        text(20, $top - 12, $chart{y_axis}, class => 'dim');
    return svg($chart{title}, $bottom + 58, @svg);
}

sub log10 { my ($value) = @_; return log($value) / log(10) }

sub thousands { my ($number) = @_; return scalar reverse(reverse($number) =~ s/(\d{3})(?=\d)/$1,/gr) }

# A round step that makes four to ten of the range.
sub step_of {
    my ($range) = @_;
    my $power = 10**floor(log10($range));
    return $power / ($range / $power < 2 ? 5 : $range / $power < 5 ? 2 : 1);
}

sub legend {
    my ($left, @names) = @_;
    my @svg;
    for my $i (0 .. $#names) {
        my $x = $left + 90 * $i;
        push @svg, sprintf('<rect class="fill%d" x="%d" y="44" width="12" height="12"/>', $i, $x),
            text($x + 18, 55, $names[$i]);
    }
    return @svg;
}

# The nth series: a line through points.
sub curve {
    my ($n, @at) = @_;
    return (
        sprintf('<polyline class="line line%d" points="%s"/>', $n, join ' ', map { sprintf '%.1f,%.1f', @$_ } @at),
        map { sprintf '<circle class="fill%d" cx="%.1f" cy="%.1f" r="3.5"/>', $n, @$_ } @at,
    );
}

sub line {
    my (@ends) = splice @_, 0, 4;
    return sprintf '<line class="%s" x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f"/>', $_[0] // 'grid', @ends;
}

sub text {
    my ($x, $y, $text, %look) = @_;
    my %escape = ('&' => '&amp;', '<' => '&lt;', '>' => '&gt;');
    return sprintf '<text x="%.1f" y="%.1f"%s%s>%s</text>', $x, $y,
        $look{anchor} ? qq( text-anchor="$look{anchor}") : '', $look{class} ? qq( class="$look{class}") : '',
        $text =~ s/([&<>])/$escape{$1}/gr;
}

sub svg {
    my ($title, $height, @lines) = @_;
    my $size = sprintf 'width="%d" height="%d" viewBox="0 0 %1$d %2$d"', WIDTH, $height;
    return join "\n", qq(<svg xmlns="http://www.w3.org/2000/svg" $size role="img">), "<title>$title</title>", $style =~ s/\n\z//r,
        '<rect class="paper" width="100%" height="100%"/>', text(20, 28, $title, class => 'title'), @lines, "</svg>\n";
}

1;
