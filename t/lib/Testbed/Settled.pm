package Testbed::Settled;

# What each algorithm decides if the costs of requests are known only when they have ended: the reference of tests. A
# request that has ended counts as if it had had its true cost from the beginning. Times are in ms and never step back.

use strict;
use warnings;
use List::Util qw(max min sum0);
use POSIX qw(ceil floor);

# { algorithm, limit, window, burst }
sub new { my ($class, %options) = @_; return bless { requests => [], full => 0, %options }, $class }

sub capacity { my ($self) = @_; return $self->{burst} // $self->{limit} }

# What is used at this time if nothing else comes. A bucket: the tokens that are missing.
sub used {
    my ($self, $at) = @_;
    my ($algorithm, $window) = @$self{qw(algorithm window)};
    my $since = sub { my ($from, $to) = @_; return sum0 map { $_->{cost} } grep { $_->{time} >= $from && $_->{time} < $to } @{ $self->{requests} } };
    my $begin = $at - $at % $window;
    return $since->($at - $window + 1, 9e15) if $algorithm eq 'compact';
    return $since->($begin, 9e15)            if $algorithm eq 'quota';
    return ceil($since->($begin - $window, $begin) * ($window - $at + $begin) / $window) + $since->($begin, 9e15) if $algorithm eq 'counter';
    return $self->capacity - floor(($self->capacity * $window - max($self->{full} - $at * $self->{limit}, 0)) / $window);
}

sub remaining { my ($self, $at) = @_; return max($self->capacity - $self->used($at), 0) }

# ms until a request of this cost has room: 0 now, -1 never.
sub retry {
    my ($self, $cost, $at) = @_;
    return -1 if $self->{limit} < 1 || $cost > $self->capacity;
    return $self->first($at, sub { $self->used($_[0]) + $cost <= $self->capacity });
}

# ms until more of the limit is available; the window if all of it is.
sub reset {
    my ($self, $at) = @_;
    my $left = $self->remaining($at);
    return $self->{window} - $at % $self->{window} if $self->{algorithm} eq 'quota';
    return $self->{window} if $self->used($at) == 0;
    return $self->first($at, sub { $self->remaining($_[0]) > $left }) if $self->{algorithm} ne 'compact';
    return $self->{window} - $at + min map { $_->{time} } grep { $_->{cost} && $_->{time} > $at - $self->{window} } @{ $self->{requests} };
}

# ms until this is so, and stays so.
sub first {
    my ($self, $at, $is_so) = @_;
    return 0 if $is_so->($at);
    my ($not, $wait) = (0, 1);
    ($not, $wait) = ($wait, 2 * $wait) while !$is_so->($at + $wait);
    while ($wait - $not > 1) {
        my $middle = int(($not + $wait) / 2);
        $is_so->($at + $middle) ? ($wait = $middle) : ($not = $middle);
    }
    return $wait;
}

# Logs a request that has room, and returns it.
sub add {
    my ($self, $cost, $at) = @_;
    my $request = { time => $at, cost => $cost };
    push @{ $self->{requests} }, $request;
    @{ $self->{requests} } = grep { $_->{time} > $at - 3 * $self->{window} } @{ $self->{requests} };
    if ($cost > 0) {
        $self->{since}   = $at if $self->{full} <= $at * $self->{limit};
        $self->{written} = $at;
        $self->{full}    = max($self->{full}, $at * $self->{limit}) + $cost * $self->{window};
    }
    return $request;
}

# The request has ended. What a bucket has got back since the request is not given back again. One that was idle when the
# request came pays from then on; of one that has never been used it is not known since when it was idle.
sub settle {
    my ($self, $request, $cost, $now) = @_;
    my $more = $cost - $request->{cost};
    $request->{cost} = $cost;
    if ($more > 0 && (!$self->{written} || $self->{full} < $request->{time} * $self->{limit})) {
        $self->{since} = $self->{written} = $self->{written} ? $request->{time} : $now;
        $self->{full} = $self->{since} * $self->{limit} + $more * $self->{window};
    } elsif ($more > 0) {
        $self->{full} += $more * $self->{window};
    } elsif ($more < 0 && $request->{time} >= $self->{since}) {
        $self->{full} = max($self->{full} + $more * $self->{window}, $self->{written} * $self->{limit});
    }
    return;
}

1;
