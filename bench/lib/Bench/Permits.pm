package Bench::Permits;

# The cost of a request of a busy tenant with and without permits (prefetch=). Not in turns, unlike the other tables:
# permits would end in a pause.

use strict;
use warnings;

use Bench::Node;
use Bench::Progress qw(progress);
use Bench::Table qw(median ratio);
use Bench::Variants;

use constant {
    KEYS        => 20,
    CONNECTIONS => 4,
    PREFETCH    => 1000,
    WARM_UP     => 2,      # seconds: by then the node knows how many permits it needs
    SECONDS     => 2,
};

my @columns = (
    ['',                   'variant'],
    ['',                   'req/s'],
    ['CPU us per request', 'nginx'],
    ['',                   'Redis'],
    ['',                   'sum'],
    ['',                   'of that without'],
    ['Redis calls',        'per request'],
    ['latency',            'p50 us'],
);

# Options: rounds, window
sub table {
    my ($world, %options) = @_;
    my $redis = $world->redis_with_module;
    my $plenty = Bench::Variants::PLENTY;
    my @nodes = map { node($world, $redis, $_, "limit=$plenty window=$options{window}") }
        (map { ways_of($_, 'off', $_), ways_of($_, 'required', "$_, native") } qw(log compact)),
        ['local', 'off', 'store=local'];
    for my $round (1 .. $options{rounds}) {
        for my $node (@nodes) {
            progress("permits: round $round of $options{rounds}, $node->{name}");
            $node->load('load', WARM_UP)->result;
            push @{ $node->{runs} }, $node->run(SECONDS);
        }
    }
    progress('');
    $_->stop for @nodes;
    $redis->kill;
    my $without;
    return Bench::Table->new(
        title   => 'Permits: CPU time of one request of a busy tenant',
        columns => \@columns,
        rows    => [map { $without = $_ if $_->{name} !~ /prefetch/; row($_, $without) } @nodes],
        notes   => [
            sprintf('One worker, %d connections, %d keys picked at random, window %s, limit %d; all pinned. Medians of %d', CONNECTIONS,
                KEYS, $options{window}, $plenty, $options{rounds}),
            sprintf('rounds of %d s. Calls are those that take permits, and those that return what was not used.', SECONDS),
        ],
    );
}

# [name, value of the parameter native, parameters]: without permits, and with them.
sub ways_of {
    my ($algorithm, $native, $name) = @_;
    my @way = ($native, "algorithm=$algorithm");
    return [$name, @way], ["$name, prefetch=" . PREFETCH, $way[0], "$way[1] prefetch=" . PREFETCH];
}

sub node {
    my ($world, $redis, $way, $parameters) = @_;
    my ($name, $native, $more) = @$way;
    my $variant = Bench::Variants::module($name, 'keys', "$parameters $more", redis => 1, native => $native, keys => KEYS, connections => CONNECTIONS);
    return Bench::Node->new($world, $redis, $variant, NAME => $name =~ s/\W+/-/gr);
}

sub series { my ($node, $what) = @_; return [map { $_->{$what} } @{ $node->{runs} }] }

sub row {
    my ($node, $without) = @_;
    my %of = map { $_ => median(@{ series($node, $_) }) } qw(rate nginx redis sum call_rate p50);
    return [
        $node->{name}, sprintf('%.0f', $of{rate}), map({ sprintf '%.1f', $of{$_} } qw(nginx redis sum)),
        $node == $without ? '' : sprintf('%.2f', ratio(series($node, 'sum'), series($without, 'sum'))),
        sprintf('%.3f', $of{call_rate} / $of{rate}), sprintf('%.0f', $of{p50}),
    ];
}

1;
