package Testbed::Settled;

# The decisions of each algorithm if the costs of requests are known only when they have ended: the reference of tests. A
# lower cost counts as if it had been known from the beginning. An additional cost counts from the end of the request, or
# from the latest entry if that is later. Times are in ms and never step back.

use strict;
use warnings;
use List::Util qw(max min sum0);
use POSIX qw(ceil floor);

# { algorithm, limit, window, burst }
sub new { my ($class, %options) = @_; return bless { requests => [], full => 0, %options }, $class }

sub capacity { my ($self) = @_; return $self->{burst} // $self->{limit} }

# How much is used at this time if nothing else comes; of a bucket, the tokens that are missing.
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

# ms until the condition holds, and goes on to hold.
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

# Settles the cost of a request, which is known now. $ended: when the request ended. Without it the request counts as if
# it had had this cost from the beginning, as with nodes of the version before.
sub settle {
    my ($self, $request, $cost, $now, $ended) = @_;
    my $more = $cost - $request->{cost};
    return $self->owe($more, $now, $ended) if $more > 0 && defined $ended;
    return $self->settle_as_before($request, $cost, $now) if $more > 0;
    $request->{cost} = $cost;
    # tokens that have returned to a bucket since the request are not given back again
    $self->{full} = max($self->{full} + $more * $self->{window}, $self->{written} * $self->{limit}) if $more < 0 && $request->{time} >= $self->{since};
    return;
}

sub owe {
    my ($self, $more, $now, $ended) = @_;
    my ($algorithm, $window, $limit) = @$self{qw(algorithm window limit)};
    if ($algorithm eq 'bucket') {
        my $full = max($self->{full}, $ended * $limit) + $more * $window;
        return if $full <= $now * $limit;
        $self->{since} = $self->{written} = $ended if $self->{full} < $ended * $limit;
        $self->{full}  = $full;
        return;
    }
    my %left = (compact => $now - $window + 1, counter => $now - $now % $window - $window, quota => $now - $now % $window);
    return if $ended < $left{$algorithm};
    my $latest = max map { $_->{time} } grep { $_->{cost} > 0 && $_->{time} >= $left{$algorithm} } @{ $self->{requests} };
    push @{ $self->{requests} }, { time => max($ended, $latest // 0), cost => $more };
    return;
}

# If a bucket was full when the request came, the additional tokens are missing from then on. Since when a bucket was full
# that has never been used is not known.
sub settle_as_before {
    my ($self, $request, $cost, $now) = @_;
    my $more = $cost - $request->{cost};
    $request->{cost} = $cost;
    if (!$self->{written} || $self->{full} < $request->{time} * $self->{limit}) {
        $self->{since} = $self->{written} = $self->{written} ? $request->{time} : $now;
        $self->{full} = $self->{since} * $self->{limit} + $more * $self->{window};
    } else {
        $self->{full} += $more * $self->{window};
    }
    return;
}

1;
