package Bench::Progress;

# One line that says what is going on, where somebody watches.

use strict;
use warnings;
use Exporter 'import';

our @EXPORT_OK = qw(progress);

# '' wipes it.
sub progress {
    my ($text) = @_;
    printf STDERR "\r%-70.70s%s", $text, $text eq '' ? "\r" : '' if -t STDERR;    ## no critic (ProhibitInteractiveTest)
    return;
}

1;
