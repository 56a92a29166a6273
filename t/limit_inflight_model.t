# algorithm=inflight over two nodes against a reference: the list of the requests that are under way. Random requests
# begin on either node, alone and many at once, and end in any way. Workers and nodes are killed; their requests count
# until their lease ends. Redis forgets.
# prove: first

use strict;
use warnings;
use List::Util qw(min max sum0 shuffle);
use Test::More;
use Testbed qw(seed slow wait_until);
use Testbed::Inflight;
use Time::HiRes qw(time);

seed();
my $operations = $ENV{TEST_OPERATIONS} // 250;
use constant { LEASE => 4, LIMIT => 6 };

my $bed    = Testbed->new;
my $world  = Testbed::Inflight->new($bed, limit => LIMIT, lease => LEASE, locations => { '/' => ';' });
my @nodes  = $world->nodes;
my $redis  = $world->redis;

# ---- the reference: those under way, and those whose worker was killed, until their leases end

my @dead;
sub used { my ($key) = @_; return $world->used($key) + sum0 map { $_->{cost} } grep { $_->{key} eq $key } @dead }
sub entries { my ($key) = @_; return $world->entries($key) }

# Sends these requests, [node, key, cost] each, all at once. Returns how many are admitted; these are under way.
sub begin {
    my (@asked) = @_;
    my @sent = map { my ($node, $key, $cost) = @$_; $world->queue($node, '/', $key, $cost) } @asked;
    $world->upstream->decided($_) for @sent;
    for my $denied (grep { $_->{denied} } @sent) {
        die "answer $denied->{denied}{status}\n" if $denied->{denied}{status} != 429;
    }
    my @admitted = grep { $_->{backend} } @sent;
    $world->add(@admitted);
    return scalar @admitted;
}

my @keys = qw(a b c);
my ($admitted, $denied, $bursts, $kills, $flushes, $wrong) = (0) x 5;
for my $operation (1 .. $operations) {
    my $kind = rand;
    if ($kind < 0.45) {
        my ($node, $key, $cost) = (int rand 2, $keys[ rand @keys ], rand() < 0.8 ? 1 : 2);
        my $fits = used($key) + $cost <= LIMIT;
        my $is   = begin([$node, $key, $cost]);
        $wrong //= "operation $operation: $is admitted with @{[used($key)]} of @{[LIMIT]} taken" if $is != $fits;
        $is ? $admitted++ : $denied++;
    }
    elsif ($kind < 0.55) {
        my $key  = $keys[ rand @keys ];
        my $free = LIMIT - used($key);
        my $is   = begin(map { [int rand 2, $key, 1] } 1 .. 12);
        $wrong //= "operation $operation: $is of 12 at once admitted, $free were free" if $is != max(0, min(12, $free));
        $bursts++;
    }
    elsif ($kind < 0.95) {
        my @ends = shuffle $world->under_way;
        $world->finish($_) for @ends[0 .. min(scalar @ends, 1 + int rand 4) - 1];
    }
    elsif ($kind < 0.97 && $kills < 6) {
        my $node   = int rand 2;
        my $before = time;
        $world->kill_workers($node);
        @dead = $world->forget_node($node);
        close $_ for map { @$_{qw(client backend)} } @dead;
        for my $key (time - $before < 0.4 * LEASE ? @keys : ()) {
            my $free = LIMIT - used($key);
            my $is   = begin([1 - $node, $key, 1]);
            $wrong //= "operation $operation: $is admitted of $key, $free were free after a kill" if $is != ($free > 0);
        }
        @dead = ();
        for my $key (@keys) {
            wait_until("the leases of $key to end", LEASE + 2, sub { entries($key) == used($key) })
                or $wrong //= "operation $operation: entries of killed workers stay";
        }
        cmp_ok(time - $before, '<', LEASE + 2 * slow(), 'entries of killed workers leave with their leases');
        $kills++;
        next;
    }
    elsif ($flushes < 4) {
        $redis->cli(any_of('FLUSHALL', 'SCRIPT FLUSH'));
        wait_until('the renewal', LEASE, sub { !grep { entries($_) != used($_) } @keys }) or $wrong //= "operation $operation: the renewal does not enter all";
        $flushes++;
    }
    # a give-back is not waited for
    wait_until('give-backs', 5, sub { !grep { entries($_) != used($_) } @keys })
        or $wrong //= "operation $operation: " . join ', ', map { "$_ has " . entries($_) . ', not ' . used($_) } @keys;
    last if $wrong;
}
sub any_of { my ($words) = $_[rand @_]; return split / /, $words }

is($wrong, undef, "the reference and two nodes agree in $operations operations");
note "$admitted admitted, $denied denied, $bursts bursts, $kills kills, $flushes flushes";
cmp_ok($_, '>', 0, 'some of each') for $admitted, $denied, $bursts;
$world->finish($_) for $world->under_way;
ok(wait_until('the end', 5, sub { !grep { entries($_) != 0 } @keys }), 'nothing stays');
$_->expect_kills for @nodes;

$bed->done;
