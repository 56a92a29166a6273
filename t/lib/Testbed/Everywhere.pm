package Testbed::Everywhere;

# One limit in every algorithm and in every store, each at a location of its own.

use strict;
use warnings;
use Exporter 'import';

our @EXPORT_OK = qw(@ALGORITHMS @PLACES locations);

our @ALGORITHMS = qw(log compact counter bucket sampled);

# "ALGORITHM/STORE"; the store `default` is Redis.
our @PLACES = map { my $algorithm = $_; map { "$algorithm/$_" } qw(default local) } @ALGORITHMS;

# Locations /PREFIX/PLACE, whose limits are named PREFIX_ALGORITHM_STORE. limit: its parameters, or code that makes them
# for an algorithm; key: of what it is made; inside: what else the location has, or code that makes it for a place.
sub locations {
    my ($prefix, %options) = @_;
    return join "\n", map {
        my ($algorithm, $store) = split m{/};
        my $limit  = ref $options{limit} ? $options{limit}->($algorithm) : $options{limit};
        my $key    = $options{key} // '$arg_k';
        my $sample = $algorithm eq 'sampled' ? 'sample=1' : '';
        my $inside = ref $options{inside} ? $options{inside}->($_) : $options{inside};
        "location /$prefix/$_ { sliding_log_limit ${prefix}_${algorithm}_$store key=$key $limit algorithm=$algorithm"
            . " store=$store $sample; $inside }\n"
    } @PLACES;
}

1;
