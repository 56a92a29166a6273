package Bench::Models;

# Models of the algorithms, without Redis: requests of cost 1 to one key, at whole milliseconds.

use strict;
use warnings;

# A model: made from limit, window (ms) and, for some, one more number; called with the time of a request, not earlier
# than the previous one, it returns whether the request is admitted.

sub exact {
    my ($limit, $window) = @_;
    my @log;
    return sub {
        my ($now) = @_;
        shift @log while @log && $log[0] <= $now - $window;
        return 0 if @log >= $limit;
        push @log, $now;
        return 1;
    };
}

# The previous window counts as far as the sliding one overlaps it.
sub counter {
    my ($limit, $window) = @_;
    my ($index, $previous, $current) = (0, 0, 0);
    return sub {
        my ($now) = @_;
        my $at = int($now / $window);
        ($index, $previous, $current) = ($at, $at == $index + 1 ? $current : 0, 0) if $at != $index;
        return 0 if $previous * ($window - $now % $window) + ($current + 1) * $window > $limit * $window;
        $current++;
        return 1;
    };
}

# The level is in units of 1 / window tokens; a millisecond adds `limit` of them.
sub bucket {
    my ($limit, $window, $burst) = @_;
    my $full = ($burst // $limit) * $window;
    my ($level, $since) = ($full, 0);
    return sub {
        my ($now) = @_;
        $level += ($now - $since) * $limit;
        $level = $full if $level > $full;
        $since = $now;
        return 0 if $level < $window;
        $level -= $window;
        return 1;
    };
}

# A random one of `sample` admitted requests is logged, and counts as `sample` requests.
sub sampled {
    my ($limit, $window, $sample) = @_;
    my @log;
    return sub {
        my ($now) = @_;
        shift @log while @log && $log[0] <= $now - $window;
        return 0 if @log * $sample + 1 > $limit;
        push @log, $now if rand $sample < 1;
        return 1;
    };
}

1;
