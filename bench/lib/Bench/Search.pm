package Bench::Search;

# The maximum that a counter admits in a window, found by trying all possibilities for small numbers.

use strict;
use warnings;
use List::Util qw(max sum);

# The requests admitted in each millisecond, in all ways that the counter permits, over two clock windows after a pause:
# no window of the same length reaches further, and earlier requests only take room.
sub most {
    my ($limit, $window) = @_;
    return try($limit, $window, []);
}

sub try {
    my ($limit, $window, $admitted) = @_;
    my $now = @$admitted;
    if ($now == 2 * $window) {
        return max(map { sum(@$admitted[$_ .. $_ + $window - 1]) } 0 .. $window);
    }
    my $previous = $now < $window ? 0 : sum(@$admitted[0 .. $window - 1]);
    my $current  = sum(0, @$admitted[$now - $now % $window .. $#$admitted]);
    my $room     = $limit - $current - $previous * (1 - $now % $window / $window);
    return max(map { try($limit, $window, [@$admitted, $_]) } 0 .. max(0, int($room + 1e-9)));
}

1;
