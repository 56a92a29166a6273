# The table of parameters in docs/algorithms.md: each parameter in each algorithm and store is accepted by `nginx -t`, or
# refused with a reason, as its cell says. Each algorithm has a column and each parameter a row.

use strict;
use warnings;
use Cwd ();
use File::Basename ();
use Test::More;
use Testbed qw(conf);
use Testbed::Algorithm qw(%ALL_SCRIPTS takes);

my $bed  = Testbed->new;
my $root = Cwd::abs_path(File::Basename::dirname(__FILE__) . '/..');
my @stores = qw(default local);

# A value of each, beside which nothing else is needed.
my %example = (
    'limit='  => 'limit=$tenant', 'key=' => 'key=$arg_k', 'cost=' => 'cost=$tenant', 'refund=' => 'refund=5xx', 'settle=' => 'settle=$upstream_http_x',
    'delay='  => 'delay=1s', 'block=' => 'block=1s,1m', 'burst=' => 'burst=5', 'sample=' => 'sample=5', 'prefetch=' => 'prefetch=5', 'id=' => 'id=$request_id',
    'window=' => 'window=1h', 'period=' => 'period=day', 'lease=' => 'lease=10s', 'cap=' => 'cap=50', 'slack=' => 'slack=1s', 'dry_run=' => 'dry_run=on', 'secret=' => 'secret=on', 'override=' => 'override=on',
);

# ---- the table

my ($table) = Testbed::Process::slurp("$root/docs/algorithms.md") =~ /^(\| parameter \|.*?)\n\n/ms or BAIL_OUT('no table');
my ($head, undef, @lines) = map { [map { s/^\s+|\s+$//gr } grep { length } split /\|/] } split /\n/, $table;
my (undef, @columns) = @$head;
my $tests = pop @columns;
is(join(' ', sort @columns), join(' ', sort keys %ALL_SCRIPTS), 'each algorithm has a column');

# [parameters of the row, tests, { algorithm => cell }]
my @rows = map {
    my ($name, @cells) = @$_;
    my $said = pop @cells;
    $cells[$_] = $cells[$_ - 1] for grep { $cells[$_] eq 'the same' } 1 .. $#cells;
    is(scalar @cells, scalar @columns, "$name: each algorithm has a cell");
    [[$name =~ /`([^`]+)`/g], $said, { map { $columns[$_] => $cells[$_] } 0 .. $#cells }, $name];
} @lines;

my ($known) = Testbed::Process::slurp("$root/src/limit/parameter.hpp") =~ /kParameterNames = \{(.*?)\};/s or BAIL_OUT('no parameters');
my %row_of  = map { my $row = $_; map { s/=.*//r => $row } @{ $row->[0] } } @rows;
delete @row_of{qw(algorithm store)};    # columns, and the stores that each cell is about
is(join(' ', sort keys %row_of), join(' ', sort grep { !/^(?:algorithm|store)$/ } $known =~ /"(\w+)"/g), 'each parameter has a row');

# ---- nginx -t

my $frame = conf(
    http   => 'sliding_log_redis { server 127.0.0.1:1; } map $arg_t $tenant { default 10; }',
    server => '%%SERVER%%',
);
sub check { return $bed->configuration($frame, SERVER => "@_")->check }

# A limit with the parameter, and what every limit of the algorithm needs.
sub limit_with {
    my ($algorithm, $store, $parameter) = @_;
    my %given = ($parameter =~ s/=.*//r => $parameter);
    $given{key}    //= 'key=$remote_addr';
    $given{limit}  //= 'limit=10';
    $given{window} //= 'window=1m'    if takes($algorithm, 'window');
    $given{period} //= 'period=month' if takes($algorithm, 'period');
    my $name = join '_', $algorithm, $store, $parameter =~ s/=.*//r;
    return "location /$name { sliding_log_limit $name algorithm=$algorithm store=$store " . join(' ', map { $given{$_} } sort keys %given) . '; }';
}

for my $row (@rows) {
    my ($parameters, $said, $cell, $name) = @$row;
    for my $file ($said =~ m{`(t/[^`]+)`}g) {
        my @files = glob "$root/$file";
        ok(@files && !grep({ !-e } @files), "$name: there is $file");
    }
    ok($said =~ m{`t/}, "$name: it has a test");
    unlike($_, qr/^(?!yes|refused$)/, "$name: a cell says yes or refused") for values %$cell;
    for my $parameter (@$parameters) {
        my $text = $parameter =~ /=./ ? $parameter : $example{$parameter};
        ok($text, "$parameter: has an example") or next;
        my @accepted = grep { $cell->{$_} =~ /^yes/ } @columns;
        my ($fine, $printed) = check(map { my $algorithm = $_; map { limit_with($algorithm, $_, $text) } @stores } @accepted);
        ok($fine, "$parameter is accepted by @accepted") or diag($printed);

        my ($word, $value) = split /=/, $text, 2;
        my $names = join(', ', @accepted) =~ s/, (\w+)$/ or $1/r;
        for my $algorithm (grep { $cell->{$_} eq 'refused' } @columns) {
            for my $store (@stores) {
                ($fine, $printed) = check(limit_with($algorithm, $store, $text));
                ok(!$fine, "$parameter is refused by $algorithm, $store");
                like($printed, qr/\[emerg\] invalid $word "\Q$value\E" in "sliding_log_limit" directive, expected algorithm=$names with it(?:: \w.*)? in \S+nginx\.conf:\d+/,
                    "$parameter is refused by $algorithm, $store, and the message names the others");
            }
        }
    }
}

$bed->done;
