package Bench::Scripts;

# What the scripts cost Redis, without nginx.

use strict;
use warnings;
use Time::HiRes qw(time);

use Bench::Logs qw(copies fill);
use Bench::Machine;
use Bench::Progress qw(progress);
use Bench::Table qw(median ratio);

use constant {
    BATCH => 16,     # logs
    TURN  => 512,    # requests
};

# Options: script_turns
sub table {
    my ($logs, %options) = @_;
    my @rows = map { rows($logs, $_) } @{ +Bench::Logs::LENGTHS };
    push @rows, row_of_own_clock($logs);
    # warms up; then all take turns, and only what lies side by side is compared
    for my $turn (0 .. $options{script_turns}) {
        progress("scripts: turn $turn of $options{script_turns}");
        turn($logs, $turn > 0, $_) for @rows;
    }
    progress('');
    return report($logs, $options{script_turns}, @rows);
}

# A row: one kind of request at one length, with logs for each algorithm.
#   title, length
#   keys     the logs of one call
#   limit    limit and window
#   clock    ms, a fraction in it; step: its mean advance between calls, 0 where it stands still
#   own      true when this module's scripts take Redis's clock
#   admits   what every request's verdict shall be
#   cells    for each algorithm: its logs, and the microseconds per request of each turn
sub rows {
    my ($logs, $length) = @_;
    my $client = $logs->{client};
    my @filled = @{ $logs->{of_length}{$length} };
    my @cells;
    for my $i (0 .. $#filled) {
        my $algorithm = $logs->{algorithms}[$i];
        my ($before, $after) = $algorithm->key("${length}_copy_#") =~ /^(.*)#(.*)$/;
        copies($client, [$filled[$i]{keys}[0]], $before, $after, BATCH + 2);
        my @keys = map { "$before$_$after" } 1 .. BATCH + 2;
        $client->ask_all(map { ['PERSIST', $_] } @keys);    # the clock is not Redis's
        push @cells, { algorithm => $algorithm, keys => \@keys };
    }
    my $with = sub {
        my (@which) = @_;
        return map { { %$_, keys => [@{ $_->{keys} }[@which]] } } @cells;
    };
    my ($entries, $clock) = ($filled[0]{entries}[0], $filled[0]{clock});
    my %sliding = (length => $length, clock => $clock, step => Bench::Logs::WINDOW / $length, admits => 1,
        limit => { limit => Bench::Logs::PLENTY, window => Bench::Logs::WINDOW });
    my %full = (length => $length, clock => $clock, step => 0, admits => 0,
        limit => { limit => $entries, window => 10 * Bench::Logs::WINDOW });
    return (
        row(%sliding, title => 'admitted',              cells => [$with->(0)]),
        row(%full,    title => 'denied',                cells => [$with->(1)]),
        row(%sliding, title => BATCH . ' logs a call', cells => [$with->(2 .. BATCH + 1)]),
    );
}

# The scripts' usual clock, Redis's own, cannot be made to fit a length: here nothing leaves.
sub row_of_own_clock {
    my ($logs) = @_;
    my $window = 3_600_000;
    my %shape  = (keys => 1, entries => 1001, window => $window / 2, start => int(time * 1000) - $window / 1.5);
    my @cells  = map { { algorithm => $_, keys => fill($logs->{client}, $_, %shape)->{keys} } } @{ $logs->{algorithms} };
    return row(title => 'admitted, own clock', length => '1000+', own => 1, admits => 1, cells => \@cells,
        limit => { limit => Bench::Logs::PLENTY, window => $window });
}

sub row {
    my (%row) = @_;
    $_->{used} = [] for @{ $row{cells} };
    return \%row;
}

sub turn {
    my ($logs, $counts, $row) = @_;
    my ($redis, $client, @times) = (@$logs{qw(redis client)}, times_of($row));
    my %decided;
    for my $cell (@{ $row->{cells} }) {
        my $algorithm = $cell->{algorithm};
        my ($bytes, $lines) = ('', 0);
        for my $now (@times) {
            my @call = $algorithm->calls($row->{limit}, $now // time_for($algorithm), @{ $cell->{keys} });
            $bytes .= $call[0];
            $lines += $call[1];
        }
        my $before = Bench::Machine::cpu_ns($redis->pid);
        my $text   = $client->exchange($bytes, $lines);
        my $used   = Bench::Machine::cpu_ns($redis->pid) - $before;
        my @verdicts = $algorithm->verdicts($row->{limit}, $text);
        @verdicts == @times * @{ $cell->{keys} } && !(grep { $_->[0] != $row->{admits} } @verdicts)
            or die "bench: $row->{title}, $row->{length}: ", $algorithm->name, " decides otherwise\n";
        $decided{ join ' ', map { @$_ } @verdicts } = 1 if !$row->{own};
        push @{ $cell->{used} }, $used / 1000 / @verdicts if $counts;
    }
    keys %decided <= 1 or die "bench: $row->{title}, $row->{length}: the algorithms' logs differ\n";
    return;
}

# When the calls of a turn arrive, the same for all algorithms; undef: at a time of their own.
sub times_of {
    my ($row) = @_;
    my $calls = TURN / @{ $row->{cells}[0]{keys} };
    return map { undef } 1 .. $calls if $row->{own};
    return map { int($row->{clock} -= log(1 - rand) * $row->{step}) } 1 .. $calls;
}

sub time_for {
    my ($algorithm) = @_;
    return $algorithm->{group} ? '' : int(time * 1000);
}

sub report {
    my ($logs, $turns, @rows) = @_;
    my ($unit, @ours) = map { $_->name } @{ $logs->{algorithms} };
    my @cells;
    for my $row (sort { $a->{title} cmp $b->{title} } @rows) {
        my ($first, @others) = map { $_->{used} } @{ $row->{cells} };
        push @cells, [
            $row->{title},
            $row->{length},
            map({ sprintf '%.1f', median(@$_) } $first, @others),
            map { sprintf '%.2f', ratio($_, $first) } @others,
        ];
    }
    return Bench::Table->new(
        title   => 'Scripts: CPU time of Redis per request',
        columns => [
            ['',                      'request'],
            ['',                      'log length'],
            ['us',                    $unit],
            map({ ['', $_] } @ours),
            ["in units of the $unit", $ours[0]],
            map { ['', $_] } @ours[1 .. $#ours],
        ],
        rows  => \@cells,
        notes => [
            "User and system time of the whole Redis process, pipelined calls; medians of $turns turns of ${\ TURN} requests,",
            'in which all take turns; ratios turn by turn. A caller\'s clock gives all the same arrivals at random, at which',
            'as many entries leave as come, and all must decide alike. With Redis\'s own clock, which is the default of this',
            'module, nothing leaves during the run. The ZSET script takes one log per call always.',
        ],
    );
}

1;
