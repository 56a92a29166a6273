package Bench::Requests;

# The first table: the cost of a request, by variant.

use strict;
use warnings;
use FindBin;
use List::Util qw(max min);

use Testbed::Process;
use Bench::Node;
use Bench::Progress qw(progress);
use Bench::Table qw(quantile ratio);
use Bench::Turns;
use Bench::Variants;

# Options: only (a regular expression for names), window, turns of the CPU measurement, rounds of the latency one,
# c-peer (see Bench::Variants)
sub table {
    my ($world, %options) = @_;
    my @chosen = grep { $_->{name} =~ /$options{only}/ } Bench::Variants::all(@options{qw(window c-peer)});
    @chosen or die "no variant matches $options{only}\n";
    my $redis  = $world->redis($options{'c-peer'} ? ('--loadmodule', "$options{'c-peer'}/ratelimit.so") : ());
    my $script = $redis->cli('SCRIPT', 'LOAD', Testbed::Process::slurp("$FindBin::RealBin/peer/original.lua"));
    my $number = 0;
    my @nodes  = map { Bench::Node->new($world, $redis, $_, NAME => 'bench' . ++$number, SCRIPT => $script) } @chosen;

    count_answers(@nodes);
    my $window = Bench::Variants::milliseconds($options{window}) / 1000;
    # a whole window: from then on entries leave the logs as fast as others are added
    my $others = Bench::Turns::measure(\@nodes, turns => $options{turns}, warm_up => $window);
    measure_latency($options{rounds}, @nodes);
    $_->stop for @nodes;
    $redis->kill;
    progress('');
    return report($others, \%options, @nodes);
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
    ['',                    'variant',   sub { $_{name} }],
    ['',                    'req/s',     sub { sprintf '%.0f', $_{rate} }],
    ['full load',           'p50 ms',    sub { sprintf '%.2f', $_{p50} }],
    ['',                    'p99 ms',    sub { sprintf '%.2f', $_{p99} }],
    ['paced',               'p50 ms',    sub { sprintf '%.2f', $_{paced50} }],
    ['',                    'p99 ms',    sub { sprintf '%.2f', $_{paced99} }],
    ['CPU us per request',  'nginx',     sub { sprintf '%.1f', $_{nginx} }],
    ['',                    'Redis',     sub { $_{talks} ? sprintf '%.1f', $_{redis} : '' }],
    ['',                    'sum',       sub { sprintf '%.1f', $_{sum} }],
    ['',                    'quartiles', sub { sprintf '%.1f-%.1f', $_{lower}, $_{upper} }],
    ['Redis per request',   'calls',     sub { $_{talks} ? sprintf '%.3f', $_{calls} : '' }],
    ['',                    'commands',  sub { $_{talks} ? sprintf '%.2f', $_{commands} : '' }],
    ['answers %',           '2xx',       sub { sprintf '%.1f', $_{passed} }],
    ['',                    '429',       sub { sprintf '%.1f', $_{denied} }],
    ['CPU sum in units of', 'limit_req', sub { $_{limit_req} }],
    ['',                    'Lua peer',  sub { $_{lua} }],
);

sub report {
    my ($others, $options, @nodes) = @_;
    my (@rows, @pace, @figures);
    for my $node (@nodes) {
        my @sums = @{ Bench::Turns::series($node, 'sum') };
        local %_ = (
            Bench::Turns::medians(@{ $node->{turns} }),
            Bench::Turns::medians(@{ $node->{rounds} }),
            name      => $node->{name},
            lower     => quantile(0.25, @sums),
            upper     => quantile(0.75, @sums),
            talks     => $node->{redis},
            passed    => $node->{passed},
            denied    => $node->{denied},
            lua       => in_units_of('lua',       $node, @nodes),
            limit_req => in_units_of('limit_req', $node, @nodes),
        );
        push @rows, [map { $_->[2]->() } @columns];
        push @pace, $_{pace};
        push @figures, { map { $_ => $_{$_} } qw(name nginx redis) };
    }
    return Bench::Table->new(
        title   => 'Requests: CPU time, latency and Redis calls of one request',
        columns => \@columns,
        rows    => \@rows,
        notes   => [
            sprintf('One worker, %d connections, %d keys picked at random or one, window %s; empty_gif of nginx.',
                Bench::Variants::CONNECTIONS, Bench::Variants::KEYS, $options->{window}),
            sprintf('CPU: user and system time, medians of %d turns of %g s, in which the variants alternate; ratios are taken',
                $options->{turns}, Bench::Turns::LENGTH),
            'turn by turn, to the row of the same kind. calls: EVALSHA, or the command of the C peer; commands: including those',
            sprintf('inside scripts. paced: all variants at %.0f to %.0f req/s.', min(@pace), max(@pace)),
            Bench::Turns::others_note($others),
        ],
        figures => \@figures,
    );
}

# The CPU of a node in units of the family's node of the same kind (limit_req knows no hot keys).
sub in_units_of {
    my ($family, $node, @nodes) = @_;
    my $kind = $family eq 'limit_req' && $node->{kind} eq 'hot' ? 'keys' : $node->{kind};
    my ($unit) = grep { $_->{family} eq $family && $_->{kind} eq $kind } @nodes or return '';
    return sprintf '%.2f', ratio(map { Bench::Turns::series($_, 'sum') } $node, $unit);
}

1;
