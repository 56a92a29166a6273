package Bench::Errors;

# How far the algorithms without an exact log are from one: a simulation with the same result on any machine.

use strict;
use warnings;
use POSIX qw(ceil);

use Bench::Models;
use Bench::Progress qw(progress);
use Bench::Search;
use Bench::Table;
use Bench::Traffic;

use constant {
    LIMITS   => [10, 100, 1_000, 10_000],
    WINDOW   => 60_000,                     # ms
    WINDOWS  => 400,                        # of traffic,
    REQUESTS => 60_000,                     # or so many requests at the limit's rate,
    FEWEST   => 12,                         # but at least so many windows
    SAMPLE   => 10,
};

my %models = (
    counter => \&Bench::Models::counter,
    bucket  => \&Bench::Models::bucket,
    sampled => sub { Bench::Models::sampled(@_, SAMPLE) },
);
my @names = qw(counter bucket sampled);

# Two tables in one. `fullest`: traffic => algorithm => limit => percent
sub table {
    srand 1;
    my (@admitted, @wrong, %fullest);
    for my $traffic (Bench::Traffic::all()) {
        for my $limit (@{ +LIMITS }) {
            progress("errors: $traffic->{name}, $limit");
            my $windows = int(REQUESTS / $limit);
            $windows = $windows > WINDOWS ? WINDOWS : $windows < FEWEST ? FEWEST : $windows;
            my @times = $traffic->{times}->($limit, WINDOW, $windows);
            my $exact = judge(Bench::Models::exact($limit, WINDOW), $limit, @times);
            $exact->{let_in} == 0 && $exact->{kept_out} == 0 && $exact->{fullest} <= 100
                or die "bench: $traffic->{name}, $limit: the exact log errs\n";
            my @of = map { judge($models{$_}->($limit, WINDOW), $limit, @times) } @names;
            $fullest{ $traffic->{name} }{ $names[$_] }{$limit} = $of[$_]{fullest} for 0 .. $#names;
            push @admitted, [
                $traffic->{name}, $limit,
                map({ sprintf '%.0f', $_->{fullest} } @of),
                map { sprintf '%.1f', 100 * $_->{admitted} / $exact->{admitted} } @of,
            ];
            push @wrong, [
                $traffic->{name}, $limit,
                map({ share($_->{let_in}, @times) } @of),
                map { share($_->{kept_out}, @times) } @of,
            ];
        }
    }
    my @tables = (admitted_table(@admitted), wrong_table(@wrong));
    progress('');
    return bless { tables => \@tables, names => \@names, fullest => \%fullest }, __PACKAGE__;
}

# Only an exact zero is shown as 0.
sub share { my ($part, @all) = @_; return $part == 0 ? '0' : sprintf '%.1f', 100 * $part / @all }

sub text     { my ($self) = @_; return join '',   map { $_->text } @{ $self->{tables} } }
sub markdown { my ($self) = @_; return join "\n", map { $_->markdown } @{ $self->{tables} } }

sub admitted_table {
    my (@rows) = @_;
    return Bench::Table->new(
        title   => 'How much is admitted',
        columns => [['', 'traffic'], ['', 'limit'], columns('fullest window, %'), columns('in all, %')],
        rows    => \@rows,
        notes   => [
            'The maximum admitted within any window, in percent of the limit; all that was admitted, in percent of what an',
            "exact log admits of the same requests. bucket with burst = limit, sampled with sample=${\ SAMPLE}.",
            map({ "*$_->{name}*: $_->{about}." } Bench::Traffic::all()),
            search_note(),
            law_note(),
        ],
    );
}

sub wrong_table {
    my (@rows) = @_;
    return Bench::Table->new(
        title   => 'How many decisions are wrong',
        columns => [['', 'traffic'], ['', 'limit'], columns('let in, %'), columns('kept out, %')],
        rows    => \@rows,
        notes   => [
            'Percent of the requests. *let in*: the algorithm had already admitted the limit within the window; *kept out*: it',
            'had not. A small error can make many decisions wrong: an algorithm that stops one request below the limit denies',
            'all requests until the first entry leaves.',
        ],
    );
}

sub columns { my ($group) = @_; return map { [$_ eq $names[0] ? $group : '', $_] } @names }

# Compares the decisions of a model with a log of the requests that it has admitted:
#   admitted          how many
#   let_in, kept_out  how many, wrongly
#   fullest           the most in any window, in percent of the limit
sub judge {
    my ($model, $limit, @times) = @_;
    my ($admitted, $let_in, $kept_out, $fullest, @log) = (0, 0, 0, 0);
    for my $now (@times) {
        shift @log while @log && $log[0] <= $now - WINDOW;
        if ($model->($now)) {
            $let_in++ if @log >= $limit;
            $admitted++;
            push @log, $now;
            $fullest = @log if @log > $fullest;
        }
        elsif (@log < $limit) {
            $kept_out++;
        }
    }
    return { admitted => $admitted, let_in => $let_in, kept_out => $kept_out, fullest => 100 * $fullest / $limit };
}

# The worst case of a counter, derived: the whole limit in the last millisecond of a clock window is still in the window
# w - 1 ms later, when 2 / w of it still counts.
sub most { my ($limit, $window) = @_; return 2 * $limit - ceil(2 * $limit / $window) }

sub search_note {
    my $tried = 0;
    for my $limit (1 .. 4) {
        for my $window (3 .. 6) {
            my $most = Bench::Search::most($limit, $window);
            $most == most($limit, $window) or die "bench: a counter of $limit in $window ms lets $most through\n";
            $tried++;
        }
    }
    return (
        'A counter admits at most 2 limit - ceil(2 limit / w) requests in a window of w ms: all possible arrivals were tried',
        "for $tried small limits and windows.",
    );
}

# The standard deviation, in percent of the limit, of what a sampled log admits into an empty window: it is full when
# limit / sample of them were logged, a negative binomial distribution.
sub law { my ($limit, $sample) = @_; return 100 * sqrt(($sample - 1) / $limit) }

# The same, of the model.
sub deviation {
    my ($limit, $sample, $windows) = @_;
    my ($sum, $squares) = (0, 0);
    for (1 .. $windows) {
        my $model    = Bench::Models::sampled($limit, WINDOW, $sample);
        my $admitted = 0;
        $admitted++ while $model->(0);
        $sum     += $admitted;
        $squares += $admitted**2;
    }
    return 100 * sqrt($squares / $windows - ($sum / $windows)**2) / $limit;
}

sub law_note {
    my @found;
    for my $limit (@{ +LIMITS }) {
        progress("errors: sampled, $limit");
        my $law   = law($limit, SAMPLE);
        my $found = deviation($limit, SAMPLE, $limit > 1_000 ? 200 : 1_000);
        abs($found / $law - 1) < 0.2 or die "bench: a sample of $limit errs by $found %, expected $law %\n";
        push @found, sprintf '%.1f %% at %d (%.1f %% found)', $law, $limit, $found;
    }
    return (
        'The number that sampled admits into an empty window has a standard deviation of sqrt((sample - 1) / limit) of the limit: '
            . join(', ', @found) . '.',
    );
}

1;
