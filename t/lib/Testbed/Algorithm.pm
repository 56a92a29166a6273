package Testbed::Algorithm;

# The algorithms of the table in src/limit/algorithm.hpp, for tests and benchmarks of all of them.

use strict;
use warnings;
use Cwd ();
use Exporter 'import';
use File::Basename ();
use Testbed::Process;

our @EXPORT_OK = qw(@ALGORITHMS %SCRIPTS %PLAIN takes);

my $table = Testbed::Process::slurp(Cwd::abs_path(File::Basename::dirname(__FILE__) . '/../../../src/limit/algorithm.hpp'));
my @rows;
for my $text ($table =~ /AlgorithmRow\{([.].*?)\}\}/gs) {
    my %row     = $text =~ /[.](name|script|plain) = "(\w*)"/g;
    my ($takes) = $text =~ /[.]takes = \{(.*?)\}/s or die "a row without takes\n";
    $row{takes}{ lc $_ } = 1 for $takes =~ /Parameter::(\w+)/g;
    push @rows, \%row;
}
@rows or die "src/limit/algorithm.hpp has no table\n";

# Their names, as algorithm= has them; the file in lua/ of each; and by that the file of its plain call, where there is one.
our @ALGORITHMS = map { $_->{name} } @rows;
our %SCRIPTS    = map { ($_->{name} => $_->{script}) } @rows;
our %PLAIN      = map { ($_->{script} => $_->{plain}) } grep { $_->{plain} } @rows;

# Whether the algorithm of that name, or of that script, takes the parameter.
sub takes {
    my ($which, $parameter) = @_;
    my ($row) = grep { $_->{name} eq $which || $_->{script} eq $which } @rows or die "no algorithm $which\n";
    return $row->{takes}{$parameter};
}

1;
