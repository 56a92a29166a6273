# The simulated Redis answers as a real one: tests of the scripts talk to both at the same time, and each reply
# and log is compared.

use strict;
use warnings;
use File::Temp;
use FindBin;
use List::Util qw(max);
use Test::More;

my $compared = "$FindBin::RealBin/../build/simulate/redis/compared";

plan skip_all => 'there is no simulation: ./build.sh simulate builds it' if !-x $compared;
plan skip_all => 'another Redis is tested'                               if $ENV{TEST_REDIS_BINARY};

local $ENV{TEST_REDIS_BINARY} = $compared;
my @tests = qw(contract inflight settle);
push @tests, qw(counter bucket sampled quota beyond_a_limit) if !$ENV{TEST_BRIEF};
local $ENV{TEST_BRIEF} = 1;

for my $name (map { "script_$_" } @tests) {
    my $log = File::Temp->new;
    local $ENV{COMPARED_LOG} = $log->filename;
    my $output = qx{"$^X" -It/lib "t/$name.t" 2>&1};
    is($?, 0, "$name passes") or diag($output);
    my $told = do { local $/; <$log> };
    unlike($told, qr/^DIFFERENT/m, 'no reply and no log differs');
    cmp_ok(max(0, $told =~ /: (\d+) replies/g), '>', 50, 'many were compared');
}

done_testing;
