# The simulation: two runs of a seed are the same, byte for byte, and worlds of many seeds keep their limits.

use strict;
use warnings;
use FindBin;
use Test::More;

my $program = "$FindBin::RealBin/../build/simulate/simulate";

plan skip_all => 'there is no simulation: ./build.sh simulate builds it' if !-x $program;

sub simulate {
    my (@options) = @_;
    my $output = qx{$program @options 2>/dev/null};
    return { status => $? >> 8, output => $output };
}

{
    my ($one, $other) = map { simulate(qw(--seed 7 --requests 9000 --trace)) } 1, 2;
    is($one->{status}, 0, 'worlds keep their limits');
    like($one->{output}, qr/^9000 requests, \d+ faults, \d+ s simulated: no failure; trace [0-9a-f]{16}$/m, 'the last line says so');
    cmp_ok(length $one->{output}, '>', 500_000, 'the trace tells of each request');
    ok($one->{output} eq $other->{output}, 'two runs are the same');
    unlike(simulate(qw(--seed 8 --requests 9000))->{output}, qr/\Q@{[ $one->{output} =~ m{(trace \S+)} ]}\E/, 'another seed is another world');
}

is(simulate('--sed', 1)->{status}, 2, 'wrong options are refused');

done_testing;
