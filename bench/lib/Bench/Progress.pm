package Bench::Progress;

# A line that shows the progress on a terminal.

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
