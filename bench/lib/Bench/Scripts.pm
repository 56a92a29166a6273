package Bench::Scripts;

# The cost of decisions in Redis, without nginx: by the scripts, and by the native module.

use strict;
use warnings;
use Time::HiRes qw(time);

use Bench::Algorithm;
use Bench::Logs qw(copies fill);
use Bench::Machine;
use Bench::Progress qw(progress);
use Bench::Table;

use constant {
    BATCH => 16,     # logs
    TURN  => 512,    # requests
};

# Options: script_turns
sub table {
    my ($logs, %options) = @_;
    my @rows = map { rows($logs, $_) } @{ +Bench::Logs::LENGTHS };
    push @rows, rows_of_own_clock($logs);
    # warms up; then all alternate, and only adjacent turns are compared
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
#   cells    for each algorithm, and then for each that the native module decides: its logs, what is used of them, a limit
#            of its own where it has one, and the microseconds per request of each turn
sub rows {
    my ($logs, $length) = @_;
    my @filled = @{ $logs->{of_length}{$length} };
    my @cells  = cells($logs, $length, \@filled);
    my $clock  = $filled[0]{clock};
    my %sliding = (length => $length, clock => $clock, step => Bench::Logs::WINDOW / $length, admits => 1,
        limit => { limit => Bench::Logs::PLENTY, window => Bench::Logs::WINDOW });
    my $full = row(\@cells, [1], title => 'denied', length => $length, clock => $clock, step => 0, admits => 0);
    fill_up($logs, $full);
    return (
        row(\@cells, [0], %sliding, title => 'admitted'),
        $full,
        row(\@cells, [2 .. BATCH + 1], %sliding, title => 'admitted, ' . BATCH . ' logs a call'),
    );
}

# Gives each cell a limit that is reached: if the log lists requests, their number, and a window that none of them has
# left; otherwise a limit that a few requests reach.
sub fill_up {
    my ($logs, $row) = @_;
    for my $cell (@{ $row->{cells} }) {
        my $algorithm = $cell->{algorithm};
        $cell->{limit} =
              $algorithm->{lists} && $cell->{taken} > 0
            ? { limit => $cell->{taken}, window => 10 * Bench::Logs::WINDOW }
            : { limit => 1,              window => Bench::Logs::WINDOW };
        for (my $admitted = 1; $admitted;) {
            my $text = $logs->{client}->exchange($algorithm->calls($cell->{limit}, int $row->{clock}, @{ $cell->{keys} }));
            ($admitted) = map { $_->[0] } $algorithm->verdicts($cell->{limit}, $text);
        }
    }
    return;
}

# The usual clock of the scripts, that of Redis, cannot be adapted to a length: no entry leaves here.
sub rows_of_own_clock {
    my ($logs) = @_;
    my $window = 3_600_000;
    my %shape  = (keys => 1, entries => 1001, window => $window / 2, start => int(time * 1000) - $window / 1.5);
    my @cells  = cells($logs, 'own', [map { fill($logs->{client}, $_, %shape) } @{ $logs->{algorithms} }]);
    my %row = (length => '1000+', own => 1, admits => 1, limit => { limit => Bench::Logs::PLENTY, window => $window });
    return (
        row(\@cells, [0],              %row, title => 'admitted, own clock'),
        row(\@cells, [2 .. BATCH + 1], %row, title => 'admitted, ' . BATCH . ' logs a call, own clock'),
    );
}

# Copies of the logs that the algorithms filled, for each of them, and for each that the native module decides.
sub cells {
    my ($logs, $label, $filled) = @_;
    my @scripts = @{ $logs->{algorithms} };
    my %of      = map { $scripts[$_]->name => $filled->[$_] } 0 .. $#scripts;
    my @cells;
    for my $algorithm (@scripts, Bench::Algorithm::native(@scripts)) {
        my $log = $of{ $algorithm->{native} // $algorithm->name };
        my ($before, $after) = $algorithm->key("${label}_copy_#") =~ /^(.*)#(.*)$/;
        copies($logs->{client}, [$log->{keys}[0]], $before, $after, BATCH + 2);
        push @cells, { algorithm => $algorithm, keys => [map { "$before$_$after" } 1 .. BATCH + 2], taken => $log->{used}[0] };
    }
    return @cells;
}

# With those keys of the cells.
sub row {
    my ($cells, $which, %row) = @_;
    $row{cells} = [map { { %$_, keys => [@{ $_->{keys} }[@$which]], used => [] } } @$cells];
    return \%row;
}

sub turn {
    my ($logs, $counts, $row) = @_;
    my ($redis, $client, @times) = (@$logs{qw(redis client)}, times_of($row));
    my %decided;
    for my $cell (@{ $row->{cells} }) {
        my $algorithm = $cell->{algorithm};
        my $limit     = $cell->{limit} // $row->{limit};
        # the clock of the arrivals is not the one by which Redis lets keys expire
        $client->ask_all(map { ['PERSIST', $_] } @{ $cell->{keys} }) if !$row->{own};
        my $calls = join '', map { $algorithm->calls($limit, $_ // time_for($algorithm), @{ $cell->{keys} }) } @times;
        my $before = Bench::Machine::cpu_ns($redis->pid);
        my $text   = $client->exchange($calls);
        my $used   = Bench::Machine::cpu_ns($redis->pid) - $before;
        my @verdicts = $algorithm->verdicts($limit, $text);
        @verdicts == @times * @{ $cell->{keys} } && !(grep { $_->[0] != $row->{admits} } @verdicts)
            or die "bench: $row->{title}, $row->{length}: ", $algorithm->name, " decides otherwise\n";
        $decided{ join ' ', map { @$_ } @verdicts } = 1 if $algorithm->{exact} && !$row->{own};
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
    return $algorithm->{groups} ? '' : int(time * 1000);
}

# A row of the scripts, and one of the native module, in units of the same ZSET script.
sub shown {
    my ($row) = @_;
    my ($title, $length) = @$row{qw(title length)};
    my ($unit) = @{ $row->{cells} };
    my @script = grep { !$_->{algorithm}{native} } @{ $row->{cells} };
    my @native = grep { $_->{algorithm}{native} } @{ $row->{cells} };
    return [$title, $length, map { $_->{used} } @script], ["$title, native", $length, map { $_->{used} } $unit, @native];
}

sub report {
    my ($logs, $turns, @rows) = @_;
    my @shown = map { shown($_) } @rows;
    my %place;
    $place{ $_->[0] } //= keys %place for @shown;
    return Bench::Table->of_ways(
        title => 'Scripts: CPU time of Redis per request',
        names => [map { $_->name } @{ $logs->{algorithms} }],
        rows  => [sort { $place{ $a->[0] } <=> $place{ $b->[0] } } @shown],
        notes => [
            "User and system time of the whole Redis process, pipelined calls; medians of $turns turns of ${\ TURN} requests,",
            'in which the scripts and the native module alternate; ratios are taken turn by turn. native: decided by the native',
            'module, the ZSET script still by itself. With the caller\'s clock all get the same random arrivals, as many entries',
            'leave as are added, and all exact ones must decide alike. With Redis\'s own clock, the default of this module, no',
            'entry leaves during the run. The ZSET script always takes one log per call. The log length is the number of',
            'requests in the window; counter and bucket store none of them, sampled one in ten.',
        ],
    );
}

1;
