package Testbed::Algorithm;

# The algorithms of the table in src/limit/algorithm.hpp, for tests and benchmarks of all of them.

use strict;
use warnings;
use Cwd ();
use Exporter 'import';
use File::Basename ();
use Testbed::Process;

our @EXPORT_OK = qw(@ALGORITHMS @ALL_ALGORITHMS %SCRIPTS %ALL_SCRIPTS %PLAIN is_plain_of_hash takes horizon);

my $table = Testbed::Process::slurp(Cwd::abs_path(File::Basename::dirname(__FILE__) . '/../../../src/limit/algorithm.hpp'));
my @rows;
for my $text ($table =~ /AlgorithmRow\{([.].*?)\}\}/gs) {
    my %row     = $text =~ /[.](name|script|plain) = "(\w*)"/g;
    ($row{storage}) = $text =~ /[.]storage = Storage::(\w+)/;
    my ($takes) = $text =~ /[.]takes = \{(.*?)\}/s or die "a row without takes\n";
    $row{takes}{ lc $_ } = 1 for $takes =~ /Parameter::(\w+)/g;
    push @rows, \%row;
}
@rows or die "src/limit/algorithm.hpp has no table\n";

# The names of algorithms, as algorithm= has them: of those with a window, which take the same parameters, and of all
# whose entries outlast their requests.
my @windows         = grep { $_->{takes}{window} } @rows;
our @ALGORITHMS     = map { $_->{name} } @windows;
our @ALL_ALGORITHMS = map { $_->{name} } grep { !$_->{takes}{lease} } @rows;

# The file in lua/ of each algorithm with a window, and of each algorithm; and, by that file, the file of its plain call.
our %SCRIPTS     = map { ($_->{name} => $_->{script}) } @windows;
our %ALL_SCRIPTS = map { ($_->{name} => $_->{script}) } @rows;
our %PLAIN       = map { ($_->{script} => $_->{plain}) } grep { $_->{plain} } @rows;

# Whether the plain call of that script is one of lua/plain_hash.lua. The native module has no short calls for it.
sub is_plain_of_hash {
    my ($script) = @_;
    return grep { $_->{script} eq $script && $_->{plain} && $_->{storage} eq 'Hash' } @rows;
}

# The parameter that says how long a limit of that algorithm looks back.
sub horizon {
    my ($algorithm, $window, $period) = @_;
    return takes($algorithm, 'window') ? "window=$window" : "period=$period";
}

# Whether the algorithm of that name, or of that script, takes the parameter.
sub takes {
    my ($which, $parameter) = @_;
    my ($row) = grep { $_->{name} eq $which || $_->{script} eq $which } @rows or die "no algorithm $which\n";
    return $row->{takes}{$parameter};
}

1;
