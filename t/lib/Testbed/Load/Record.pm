package Testbed::Load::Record;

# The results of a stream of requests. Each has: at (when it was sent), took (seconds; 1e9 if never answered), stalled
# (how long of that the asking process stood still), status (0: none), path; and from nginx's field
# `X-How "$sliding_log_source $pid $sliding_log_latency"`: source, worker, waited.

use strict;
use warnings;

sub new {
    my ($class, @requests) = @_;
    return bless { requests => [sort { $a->{at} <=> $b->{at} } @requests] }, $class;
}

sub to_line {
    my ($one)    = @_;
    my ($status) = $one->{text} =~ m{\AHTTP/1\.\d (\d{3}).*\r\n\r\n}s;
    my ($how)    = $one->{text} =~ /^X-How: (.*?)\r$/m;
    return sprintf "%.4f %.4f %.4f %d %s %s\n", $one->{at}, $one->{took} // 1e9, $one->{stalled}, $status // 0, $one->{path}, $how // '';
}

sub from_line {
    my ($line) = @_;
    my %one;
    @one{qw(at took stalled status path source worker waited)} = split / /, $line =~ s/\n//r;
    $_ //= '' for @one{qw(source worker waited)};
    return \%one;
}

# The matching requests: path => regex, status =>, source =>, worker =>, from => and to => of the time of sending, answered_by =>
# of that of the answer.
sub that {
    my ($self, %which) = @_;
    my ($path, $from, $to, $answered_by) = delete @which{qw(path from to answered_by)};
    my @chosen = grep {
        my $one = $_;
        (!defined $path || $one->{path} =~ $path)
            && (!defined $from || $one->{at} >= $from)
            && (!defined $to || $one->{at} < $to)
            && (!defined $answered_by || $one->{at} + $one->{took} < $answered_by)
            && !grep { $one->{$_} ne $which{$_} } keys %which
    } @{ $self->{requests} };
    return Testbed::Load::Record->new(@chosen);
}

sub requests { return @{ $_[0]{requests} } }
sub count    { return scalar @{ $_[0]{requests} } }
sub statuses { my %n; $n{ $_->{status} }++ for $_[0]->requests; return join ' ', map { "$_:$n{$_}" } sort keys %n }

# The maximum time of this share of requests (0.9: nine of ten), in seconds; without stalls.
sub percentile {
    my ($self, $share) = @_;
    my @took = sort { $a <=> $b } map { $_->{took} - $_->{stalled} } $self->requests;
    return @took ? $took[$share * @took - 1e-6] : 0;
}

sub greatest { return (sort { $b <=> $a } @_)[0] // 0 }

# The slowest request, and the longest wait for a store as reported by nginx, both without stalls.
sub slowest      { return greatest(map { $_->{took} - $_->{stalled} } $_[0]->requests) }
sub longest_wait { return greatest(map { ($_->{waited} || 0) - $_->{stalled} } $_[0]->requests) }

# A line for each request that the code selects, with times relative to a given time.
sub describe {
    my ($self, $choose, $moment) = @_;
    return join "\n", map {
        my $one = $_;
        sprintf('%+.3f s ', $one->{at} - $moment) . join ' ', map { "$_=$one->{$_}" } qw(took stalled status path source worker waited);
    } grep { $choose->() } $self->requests;
}

# The largest number of requests that were certainly sent and answered within this number of seconds.
sub most_within {
    my ($self, $window) = @_;
    my @by_begin = $self->requests;
    my $most = 0;
    for my $i (0 .. $#by_begin) {
        my $end   = $by_begin[$i]{at} + $window - 0.002;    # stores count whole milliseconds
        my $count = 0;
        for (my $j = $i; $j <= $#by_begin && $by_begin[$j]{at} <= $end; $j++) {
            $count++ if $by_begin[$j]{at} + $by_begin[$j]{took} <= $end;
        }
        $most = $count if $count > $most;
    }
    return $most;
}

# The workers that have answered.
sub workers { my %seen = map { $_->{worker} => 1 } grep { $_->{worker} } $_[0]->requests; my @workers = sort keys %seen; return @workers }

1;
