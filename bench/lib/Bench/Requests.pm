package Bench::Requests;

# Requests per second, latency and answers, by variant.

use strict;
use warnings;
use List::Util qw(max min);

use Bench::Group;
use Bench::Progress qw(progress);
use Bench::Table;
use Bench::Turns;
use Bench::Variants;

# Options: rounds, and those of Bench::Group
sub table {
    my ($world, %options) = @_;
    my $group = Bench::Group->new($world, %options, connections => Bench::Variants::CONNECTIONS);
    count_answers($group->nodes);
    measure_latency($options{rounds}, $group->nodes);
    $group->stop;
    progress('');
    return report(\%options, $group->nodes);
}

# Warms up, and counts every status, which is too much work for the load generator during a measurement.
sub count_answers {
    for my $node (@_) {
        progress("answers: $node->{name}");
        my $result = $node->load('count', 1)->result;
        $node->check($result);
        $node->{$_} = 100 * $result->{$_} / $result->{requests} for qw(passed denied);
    }
    return;
}

# Throughput and latency, at full load and at about the same moderate rate for all: at full load the latency of a slower
# variant only follows from its throughput.
sub measure_latency {
    my ($rounds, @nodes) = @_;
    for my $round (1 .. $rounds) {
        for my $node (@nodes) {
            progress("latency: round $round of $rounds, $node->{name}");
            my $load  = $node->load('load', 1)->result;
            my $paced = $node->load('paced', 1)->result;
            $node->check($_) for $load, $paced;
            push @{ $node->{rounds} }, {
                rate    => $load->{requests} / $load->{microseconds} * 1e6,
                p50     => $load->{p50} / 1000,
                p99     => $load->{p99} / 1000,
                pace    => $paced->{requests} / $paced->{microseconds} * 1e6,
                paced50 => $paced->{p50} / 1000,
                paced99 => $paced->{p99} / 1000,
            };
        }
    }
    return;
}

my @columns = (
    ['',          'variant', sub { $_{name} }],
    ['',          'req/s',   sub { sprintf '%.0f', $_{rate} }],
    ['full load', 'p50 ms',  sub { sprintf '%.2f', $_{p50} }],
    ['',          'p99 ms',  sub { sprintf '%.2f', $_{p99} }],
    ['paced',     'p50 ms',  sub { sprintf '%.2f', $_{paced50} }],
    ['',          'p99 ms',  sub { sprintf '%.2f', $_{paced99} }],
    ['answers %', '2xx',     sub { sprintf '%.1f', $_{passed} }],
    ['',          '429',     sub { sprintf '%.1f', $_{denied} }],
);

sub report {
    my ($options, @nodes) = @_;
    my (@rows, @pace);
    for my $node (@nodes) {
        local %_ = (%$node, Bench::Turns::medians(@{ $node->{rounds} }));
        push @rows, [map { $_->[2]->() } @columns];
        push @pace, $_{pace};
    }
    return Bench::Table->new(
        title   => 'Requests: throughput, latency and answers',
        columns => \@columns,
        rows    => \@rows,
        notes   => [
            sprintf('One worker, %d connections, %d keys picked at random or one, window %s; nginx\'s own empty image; all',
                Bench::Variants::CONNECTIONS, Bench::Variants::KEYS, $options->{window}),
            sprintf('pinned. Medians of %d rounds of a second. Paced: all variants at %.0f to %.0f req/s.', $options->{rounds},
                min(@pace), max(@pace)),
        ],
    );
}

1;
