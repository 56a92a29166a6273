package Testbed::Everywhere;

# A limit in every algorithm and in every store, each in its own location.

use strict;
use warnings;
use Exporter 'import';
use Testbed::Algorithm qw(@ALGORITHMS takes);

our @EXPORT_OK = qw(@PLACES locations);

# "ALGORITHM/STORE"; the store `default` is Redis.
our @PLACES = map { my $algorithm = $_; map { "$algorithm/$_" } qw(default local) } @ALGORITHMS;

# Locations /PREFIX/PLACE with limits named PREFIX_ALGORITHM_STORE. limit: parameters, or code that returns them for an
# algorithm; key: the value of key=; inside: other directives of the location, or code that returns them for a place.
sub locations {
    my ($prefix, %options) = @_;
    return join "\n", map {
        my ($algorithm, $store) = split m{/};
        my $limit  = ref $options{limit} ? $options{limit}->($algorithm) : $options{limit};
        my $key    = $options{key} // '$arg_k';
        my $sample = takes($algorithm, 'sample') ? 'sample=1' : '';
        my $inside = ref $options{inside} ? $options{inside}->($_) : $options{inside};
        "location /$prefix/$_ { sliding_log_limit ${prefix}_${algorithm}_$store key=$key $limit algorithm=$algorithm"
            . " store=$store $sample; $inside }\n"
    } @PLACES;
}

1;
