# The simulation: two runs of a seed are the same, byte for byte, and worlds of many seeds keep their limits.

use strict;
use warnings;
use FindBin;
use Test::More;
use Testbed;

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
    is((simulate(qw(--seed 7 --requests 9000 --jobs 3))->{output} =~ m{(trace \S+)})[0], ($one->{output} =~ m{(trace \S+)})[0],
        'worlds beside each other are the same');
    unlike(simulate(qw(--seed 8 --requests 9000))->{output}, qr/\Q@{[ $one->{output} =~ m{(trace \S+)} ]}\E/, 'another seed is another world');
}

# What is left out changes nothing that is drawn for the rest, so a world that fails can be made smaller.
{
    my @asked = map {
        [simulate(qw(--seed 9 --requests 2000 --trace), @$_)->{output} =~ /^ *([\d.]+ \d+ asks node .*)$/mg]
    } [], [qw(--without-faults 1-9999)], ["--without-requests", "1-20,22,30-1999"];
    is(scalar @{$asked[0]}, 2000, 'each request is in the trace');
    is_deeply($asked[1], $asked[0], 'the requests are the same without the faults');
    is_deeply($asked[2], [@{$asked[0]}[20, 22 .. 28, 1999]], 'and those that are left without the others');
}

SKIP: {
    skip 'nginx does not tell of its steps: ./build.sh simulate --steps builds it', 2 if !-e "$FindBin::RealBin/../build/simulate/nginx_steps.so";
    my ($one, $other) = map { simulate(qw(--seed 7 --requests 9000 --steps)) } 1, 2;
    like($one->{output}, qr/: no failure; trace/, 'worlds whose workers are switched out at any step keep their limits');
    is($one->{output}, $other->{output}, 'and two runs are the same');
}

# Worlds of each kind, and those that failed once.
my $requests = Testbed::operations(9000, 3);
for my $kind (qw(standalone sentinel cluster regions permits queues names replaced)) {
    like(simulate('--world', $kind, qw(--seed 20 --requests), $requests)->{output}, qr/: no failure; trace/, "worlds with something of $kind keep their limits");
}
like(simulate('--world', 'slow', qw(--seed 20 --requests), $requests / 6)->{output}, qr/: no failure; trace/, 'worlds with windows of hours keep their limits');
like(simulate('--world', 'large', qw(--seed 20 --requests), $requests)->{output}, qr/: no failure; trace/, 'worlds with logs of 100,000 entries keep their limits');
{
    open my $file, '<', "$FindBin::RealBin/simulate/seeds" or die;
    my @once = grep { !/^#/ } <$file>;
    chomp @once;
    like(simulate($_)->{output}, qr/: no failure; trace/, "$_ fails no more") for @once;
}

# A fleet in which all workers use the same memory, one after the other.
{
    my $fleet = simulate(qw(--fleet 2x3 --seed 1));
    is($fleet->{status}, 0, 'a fleet is simulated');
    my ($start) = $fleet->{output} =~ /^\| one server: the nodes start, and are asked \|(.*)\|$/m;
    my @cells = map { s/^ | $//gr } split /\|/, $start // '';
    is($cells[0], 6, 'each worker connects once');
    is($cells[10], 0, 'and all requests are decided by Redis');
    is(scalar(() = $fleet->{output} =~ /memory a worker/g), 7, 'with each kind of store');
}

for my $wrong ('--sed 1', '--seed', '--seed 1x', '--jobs 0', '--without-faults 3-', '--without-faults 3:4', '--world moon', '--fleet 3', '--fleet 0x4', '--fleet 2x65') {
    is(simulate($wrong)->{status}, 2, "$wrong is refused");
}

done_testing;
