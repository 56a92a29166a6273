package Testbed::RedirectTree;

# A random tree of locations with all kinds of internal redirects, with limits of all algorithms and stores.

use strict;
use warnings;
use Exporter 'import';
use List::Util qw(max min);
use Testbed::Algorithm qw(@ALL_ALGORITHMS takes horizon);
use Testbed::Corrupt qw(any);

use constant { LOCATIONS => 60, CAP => 9 };

our @EXPORT_OK = qw(%algorithm %holds %longest %place %store %ways @locations @names cost directive grow inside is_dry is_of_places places);

# NAME => stage of its limits: the local store first, then one store after the other, algorithm by algorithm.
our (%place, %store, %algorithm);
my @algorithms = (@ALL_ALGORITHMS, 'inflight');
for my $number (0 .. $#algorithms) {
    for my $store (qw(local one two)) {
        my $name = "$algorithms[$number]-$store";
        ($store{$name}, $algorithm{$name}) = ($store, $algorithms[$number]);
        $place{$name} = $store eq 'local' ? 0 : ($store eq 'one' ? 10 : 20) + $number;
    }
}

our @names = sort keys %place;

# Limits of cost 0 for the model, which hold a request for a moment if /hold was asked just before.
our %holds = map { ("hold-$_" => { name => "hold-$_", limit => 1, cost => 0, refund => '', says => '' }) } qw(local one two);
($place{"hold-$_"}, $algorithm{"hold-$_"}) = ($place{"log-$_"}, 'log') for qw(local one two);

# The answer of a location, or the next location, and whether an upstream was used by then.
our %ways = (
    upstream => { worked => 1, says => sub { "set \$target /answer/$_[0]{status}; proxy_pass http://127.0.0.1:%%PORT2%%\$target;" } },
    itself   => { says => sub { 'try_files /none @nothing;' } },
    missing  => { status => 404, says => sub { 'try_files /none =404;' } },
    try      => { says => sub { "try_files /none $_[1];" } },
    try_uri  => { says => sub { "try_files /none /$_[0]{next};" } },
    index    => { says => sub { "rewrite ^ /directory/ break; index /$_[0]{next};" } },
    accel    => { worked => 1, says => sub { "set \$target /accel/$_[0]{next}; proxy_pass http://127.0.0.1:%%PORT2%%\$target;" } },
    page     => { worked => 1, says => sub { "error_page 404 = $_[1]; proxy_intercept_errors on; set \$target /answer/404; proxy_pass http://127.0.0.1:%%PORT2%%\$target;" } },
    down     => { says => sub { "error_page 502 = $_[1]; set \$target /; proxy_pass http://127.0.0.1:1\$target;" } },
    denied   => { says => sub { "error_page 403 = $_[1]; deny all;" } },
);

sub is_dry { my ($limit, $location) = @_; return $limit->{says} ? $limit->{says} eq 'on' : $location->{dry} }

# Makes the locations, after rand was seeded.
our @locations;
our %longest;    # NAME => how many entries its log may have: cap=, and room for reservations if it is asked with a limit that holds
sub grow {
    @locations = map {
        my $number = $_;
        my %chosen = map { $_ => 1 } map { any(@names) } 1 .. any(0, 1, 1, 2, 3);
        my $goes_on = $number < LOCATIONS - 3 && rand() < 0.75;
        {
            way => $goes_on ? any(grep { $_ !~ /^(?:upstream|itself|missing)$/ } sort keys %ways) : any(qw(upstream itself missing)),
            next   => $goes_on ? min(LOCATIONS - 1, $number + 8 + int rand 8) : undef,
            status => any(200, 404, 500),
            dry    => rand() < 0.3,
            page   => rand() < 0.15 && $number < LOCATIONS - 1 ? min(LOCATIONS - 1, $number + 8 + int rand 8) : undef,
            limits => [(map { {
                name   => $_,
                limit  => 1 + int rand 5,
                cost   => any(1, 1, 1, 2),
                all    => takes($algorithm{$_}, 'count') && rand() < 0.15,
                refund => takes($algorithm{$_}, 'refund') ? any('', '', '', 404, 200, 429, 500) : '',
                says   => any('', '', '', 'on', 'off'),
            } } grep { rand() < 0.95 } sort keys %chosen), rand() < 0.3 ? $holds{ any(sort keys %holds) } : ()],
        }
    } 0 .. LOCATIONS - 1;
    my %largest;
    for my $location (@locations) {
        my $holds = grep { $holds{ $_->{name} } } @{ $location->{limits} };
        for my $limit (@{ $location->{limits} }) {
            my $name = $limit->{name};
            $largest{$name} = max($largest{$name} // 0, $limit->{limit});
            $longest{$name} = 1 if $holds && !!is_dry($limit, $location) eq !!$location->{dry};
        }
    }
    $longest{$_} = CAP + ($longest{$_} ? $largest{$_} : 0) for keys %largest;
    return;
}

sub directive {
    my ($limit) = @_;
    return places($limit->{name}, $limit->{limit}, cost($limit)) . ($limit->{says} && " dry_run=$limit->{says}") . ';' if is_of_places($limit);
    return "sliding_log_limit $limit->{name} key=\$http_h limit=1 window=80ms delay=1h store=$1;" if $limit->{name} =~ /^hold-(\w+)/;
    my ($name, $sample) = ($limit->{name}, takes($algorithm{ $limit->{name} }, 'sample') ? 'sample=1' : '');
    my $cost   = min($limit->{cost}, $limit->{limit});
    my $refund = $limit->{refund} && "refund=$limit->{refund}";
    my $dry    = $limit->{says} && "dry_run=$limit->{says}";
    my $cap    = takes($algorithm{$name}, 'cap') ? 'cap=' . CAP : '';
    my $count  = $limit->{all} ? 'count=all' : '';
    return "sliding_log_limit $name key=\$http_k limit=$limit->{limit} @{[horizon($algorithm{$name}, '366d', 'month')]} $cap cost=$cost algorithm=$algorithm{$name}"
        . " store=$store{$name} $count $refund $dry $sample;";
}

sub cost { return min($_[0]{cost}, $_[0]{limit}) }

sub is_of_places { return $algorithm{ $_[0]{name} } eq 'inflight' }
sub places { my ($name, $limit, $cost) = @_; return "sliding_log_limit $name key=all limit=$limit algorithm=inflight lease=1h store=$store{$name} cost=$cost" }

sub inside {
    my ($number) = @_;
    my $location = $locations[$number];
    my $target   = defined $location->{next} ? "\@n$location->{next}" : '';
    return join ' ', 'sliding_log_dry_run ' . ($location->{dry} ? 'on' : 'off') . ';', (map { directive($_) } @{ $location->{limits} }),
        defined $location->{page} ? "error_page 429 = \@n$location->{page};" : (), $ways{ $location->{way} }{says}->($location, $target);
}

1;
