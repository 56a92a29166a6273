package Bench::Alone;

# What one decision costs Redis in a call of its own, as when each of many workers has a request now and then: by Redis's own
# commandstats, and by Redis's own clock. The calls come together, as they do to a busy Redis. In the last row they do not:
# a Redis that sleeps before each call has lost its code from the caches of the CPU, but has time for that.

use strict;
use warnings;
use List::Util qw(min);
use Time::HiRes qw(time);

use Bench::Algorithm;
use Bench::Client;
use Bench::Progress qw(progress);
use Bench::Table;

use constant {
    LENGTHS => [10, 100, 1000],
    CALLS   => 1024,            # in a turn of one algorithm
    TOGETHER => 16,             # of them
    ENTRIES => 1000,            # at most so many in all logs before a turn
    PAUSE   => 0.0002,          # seconds between calls on average, where entries leave
    HOUR    => 3_600_000,
};

# Options: alone_turns
sub table {
    my ($world, %options) = @_;
    my $client     = Bench::Client->new($world->redis_with_module);
    my @scripts    = grep { $_->{exact} } Bench::Algorithm::all($client);
    my @algorithms = (@scripts, Bench::Algorithm::native(@scripts));
    my @rows       = map { my $title = $_; map { { title => $title, length => $_, together => TOGETHER } } @{ +LENGTHS } } 'admitted, none leaves', 'admitted, one leaves', 'denied';
    push @rows, { title => 'admitted, none leaves, Redis sleeps before it', length => 100, together => 1 };
    for my $row (@rows) {
        for my $turn (0 .. $options{alone_turns}) {
            progress("alone: $row->{title}, $row->{length}: turn $turn of $options{alone_turns}");
            for my $i (0 .. $#algorithms) {
                my $used = turn($client, $algorithms[$i], $row);
                push @{ $row->{used}[$i] }, $used if $turn > 0;
            }
        }
    }
    progress('');
    return report($options{alone_turns}, \@algorithms, @rows);
}

# Microseconds of a call, of logs that are filled anew.
sub turn {
    my ($client, $algorithm, $row) = @_;
    my $keys   = min(10, ENTRIES / $row->{length});
    my $leaves = $row->{title} =~ /one leaves/;
    my $denies = $row->{title} eq 'denied';
    my $window = $leaves ? 1000 * PAUSE * $keys * $row->{length} : HOUR;
    my $limit  = { window => $window, limit => $denies ? $row->{length} : 10_000_000 };
    my @keys   = map { $algorithm->key("alone_$_") } 1 .. $keys;
    $client->ask_all(map { ['DEL', $_] } @keys);
    for my $entry (1 .. $row->{length}) {
        ask($client, $algorithm, $limit, $leaves, $_) for @keys;
    }
    my @before   = $client->decisions_so_far;
    my @admitted = map { ask($client, $algorithm, $limit, $leaves, map { $keys[rand @keys] } 1 .. $row->{together}) } 1 .. CALLS / $row->{together};
    my @after    = $client->decisions_so_far;
    @admitted == grep { $_ == !$denies } @admitted or die "bench: alone, $row->{title}: ", $algorithm->name, " decides otherwise\n";
    return ($after[1] - $before[1]) / ($after[0] - $before[0]);
}

# A call for each of these keys, when their time has come: whether each admits.
my $due = 0;

sub ask {
    my ($client, $algorithm, $limit, $paced, @keys) = @_;
    if ($paced) {
        $due = $due > time - 0.01 ? $due : time;
        $due -= log(1 - rand) * PAUSE for @keys;
        1 while time < $due;
    }
    my $now = $algorithm->{groups} ? '' : int(1000 * time);
    my $calls = join '', map { $algorithm->calls($limit, $now, $_) } @keys;
    return map { $_->[0] } $algorithm->verdicts($limit, $client->exchange($calls));
}

sub report {
    my ($turns, $algorithms, @rows) = @_;
    return Bench::Table->of_ways(
        title => 'Alone: time inside Redis of one decision in a call of its own',
        names => [map { $_->name } @$algorithms],
        rows  => [map { [@$_{qw(title length)}, @{ $_->{used} }] } @rows],
        notes => [
            "Redis's own commandstats, usec_per_call of EVALSHA and of the native command, by Redis's own clock; ${\ TOGETHER} calls come",
            "together. Medians of $turns turns of ${\ CALLS} calls to some logs, in which all take turns; ratios turn by turn. One",
            'leaves: arrivals at random, at which as many entries leave as come.',
        ],
    );
}

1;
