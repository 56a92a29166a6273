package Bench::Growth;

# How the cost of a request grows with the number of keys and of connections.

use strict;
use warnings;
use Time::HiRes qw(time);

use Bench::Algorithm;
use Bench::Client;
use Bench::Logs qw(copies fill);
use Bench::Node;
use Bench::Progress qw(progress);
use Bench::Table;
use Bench::Turns;
use Bench::Variants;

use constant {
    KEYS        => [1, 100, 10_000, 1_000_000],
    CONNECTIONS => [1, 10, 50, 200, 500],
    WINDOW      => 3_600_000,    # ms: nothing leaves or expires meanwhile
    ENTRIES     => 8,            # in each log at the start, about
};

# The first ones are shown in full, the others by their sums.
my @exact  = qw(log compact);
my @others = (qw(counter bucket sampled), map { "$_, native" } @exact);

# Options: growth_turns
sub table {
    my ($world, %options) = @_;
    my (@rows, @nodes, %redis);
    for my $shape (shapes()) {
        # a Redis for each number of keys, so that other keys do not occupy the caches of the processor
        my $redis = $redis{ $shape->[0] } //= $world->redis_with_module;
        my %of    = nodes($world, $redis, @$shape);
        push @rows, [@$shape, \%of];
        push @nodes, @of{ @exact, @others };
    }
    my $others = Bench::Turns::measure(\@nodes, turns => $options{growth_turns}, warm_up => 1);
    $_->stop for @nodes;
    $_->kill for values %redis;
    progress('');
    return report($options{growth_turns}, $others, @rows);
}

# [keys, connections]: one of them varies, the other has its usual value
sub shapes {
    my ($keys, $connections) = (Bench::Variants::KEYS, Bench::Variants::CONNECTIONS);
    return (
        map({ [$_, $connections] } @{ +KEYS }),
        map { [$keys, $_] } grep { $_ != $connections } @{ +CONNECTIONS },
    );
}

# The node of each algorithm.
sub nodes {
    my ($world, $redis, $keys, $connections) = @_;
    my $client = Bench::Client->new($redis);
    my (undef, @ours) = Bench::Algorithm::all($client);
    push @ours, Bench::Algorithm::native(grep { $_->{exact} } @ours);
    return map { $_->name => node($world, $redis, $client, $_, $keys, $connections) } @ours;
}

# With existing logs of all keys.
sub node {
    my ($world, $redis, $client, $algorithm, $keys, $connections) = @_;
    my $native  = $algorithm->{native};
    my $kind    = $native // $algorithm->name;
    my $name    = join '_', $kind, $native ? 'native' : (), $keys, $connections;
    my $variant = Bench::Variants::module($name, 'keys', "limit=10000000 window=1h algorithm=$kind",
        redis => 1, native => $native && 'required', keys => $keys, connections => $connections);
    my $logs = fill($client, $algorithm, keys => 50, entries => ENTRIES, window => WINDOW / 2,
        start => int(time * 1000) - 0.6 * WINDOW);
    copies($client, $logs->{keys}, "rl:sliding:$name:{acct_", '}', $keys);
    $client->ask('DEL', @{ $logs->{keys} });
    return Bench::Node->new($world, $redis, $variant, NAME => $name);
}

sub report {
    my ($turns, $others, @rows) = @_;
    my @cells;
    for my $row (@rows) {
        my ($keys, $connections, $of) = @$row;
        my %median = map { $_ => { Bench::Turns::medians(@{ $of->{$_}{turns} }) } } @exact, @others;
        my $us     = sub { my ($name, @parts) = @_; return map { sprintf '%.1f', $median{$name}{$_} } @parts };
        push @cells, [
            $keys,
            $connections,
            map({ ($us->($_, qw(nginx redis sum)), sprintf '%.3f', $median{$_}{calls}) } @exact),
            map({ $us->($_, 'sum') } @others),
        ];
    }
    return Bench::Table->new(
        title   => 'Growth: CPU time of one request by the number of keys and of connections',
        columns => [
            ['', 'keys'],
            ['', 'connections'],
            map({ (["$_, CPU us", 'nginx'], ['', 'Redis'], ['', 'sum'], ['Redis', 'calls']) } @exact),
            map({ [$_ == 0 ? 'sum, CPU us' : '', $others[$_]] } 0 .. $#others),
        ],
        rows  => \@cells,
        notes => [
            'CPU of an admitted request, and calls to Redis per request. The log of each key exists before the run; with a',
            sprintf('window of an hour no entry leaves it. Medians of %d turns of %g s, in which the algorithms alternate.', $turns,
                Bench::Turns::LENGTH),
            Bench::Turns::others_note($others),
        ],
    );
}

1;
