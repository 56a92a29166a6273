# `delay=` with algorithm=inflight over two nodes against a reference: the list of requests under way and, for each node,
# of those that wait, some after another limit has held them. Random requests begin, end, leave and give up; nodes are
# reloaded, workers killed, Redis stands still or forgets its scripts. A place is never given twice, no request waits
# beside a free place, and none overtakes another one of its node.

use strict;
use warnings;
use IO::Select;
use List::Util qw(shuffle);
use Test::More;
use Testbed qw(seed slow wait_until);
use Testbed::Http qw(parse);
use Testbed::Inflight;
use Time::HiRes qw(sleep time);

seed();
my $operations = $ENV{TEST_OPERATIONS} // 150;
use constant { LEASE => 3, LIMIT => 4, SHORT => 0.7, LONG => 60 };

# Requests that are sent at a shorter distance may come to their workers in any order. So may requests from about the time
# when Redis stands still and forgets its scripts: a worker that misses a script waits up to 0.1 s before it asks again.
use constant { APART => 0.15, STILL => 0.3 };
use constant SPREAD => STILL + 0.1;

my $bed    = Testbed->new;
my $pace   = 'sliding_log_limit pace key=$arg_p limit=1 window=500ms delay=10m;';
my $world  = Testbed::Inflight->new($bed, limit => LIMIT, lease => LEASE, locations => {
    '/long'  => 'delay=' . LONG . "s; $pace",
    '/short' => 'delay=' . 1000 * SHORT . "ms; $pace",
});
my @nodes  = $world->nodes;
my $redis  = $world->redis;
my $silent = $world->upstream;

# ---- the reference

my (@waiting, $wrong);
my %count = map { $_ => 0 } qw(admitted paced waited expired left killed reloads pauses);
sub used { my ($key) = @_; return $world->used($key) }
sub wrong { my ($what) = @_; $wrong //= $what; return }

my %latest = map { $_ => 0 } qw(pause reload kill);
sub apart { my ($one) = @_; return APART * slow() + (abs($one->{sent} - $latest{pause}) < 1 ? SPREAD : 0) }

sub send_one {
    my ($node, $key, $cost, $place, $paced) = @_;
    my $one = $world->queue($node, "/$place", $key, $cost, '&p=' . ($paced ? $key : ''));
    @$one{qw(place paced sent)} = ($place, $paced, time);
    push @waiting, $one;
    return;
}

# A waiting request has come to the upstream server.
sub came {
    my ($one) = @_;
    my @before = grep { $_->{node} == $one->{node} && $_->{key} eq $one->{key} && $_->{sent} < $one->{sent} - apart($_) && !$_->{leaving} && !$_->{paced} } @waiting;
    for my $overtaken (grep { !$_->{overtaken} } @before) {    # they may come at the same time, by two workers
        $overtaken->{overtaken} = time + 0.5 * slow();
        $overtaken->{by} = sprintf "$one->{key} $one->{cost} number $one->{number} overtakes $overtaken->{cost} number $overtaken->{number}, sent %.3f s earlier", $one->{sent} - $overtaken->{sent};
    }
    @waiting = grep { $_ != $one } @waiting;
    $world->add($one);
    $count{admitted}++;
    $count{waited}++ if time - $one->{sent} > 0.3;
    $count{paced}++ if $one->{paced};
    wrong("$one->{key} has " . used($one->{key}) . ' of ' . LIMIT) if used($one->{key}) > LIMIT;
    return;
}

# A waiting request was answered.
sub expired {
    my ($one) = @_;
    my $answer = parse(Testbed::Http::read_all($one->{client}, 10));
    @waiting = grep { $_ != $one } @waiting;
    return if $one->{leaving};
    my $waited = time - $one->{sent};
    wrong("answer $answer->{status} to one that waits long") if $one->{place} eq 'long' || $answer->{status} != 429;
    wrong("its time is up after $waited s") if $waited < SHORT - 0.02;
    $count{expired}++;
    return;
}

# Takes what comes, until nothing has come for this time.
sub take {
    my ($quiet) = @_;
    my $ready = IO::Select->new($silent->{listen}, map { $_->{client} } @waiting);
    while (my @come = $ready->can_read($quiet)) {
        for my $from (@come) {
            if ($from == $silent->{listen}) {
                my $one = $silent->next_one(0) or next;
                $ready->remove($one->{client});
                $one->{leaving} ? close $one->{backend} : came($one);
                next;
            }
            $ready->remove($from);
            expired($_) for grep { $_->{client} == $from } @waiting;
        }
    }
    return;
}

# No request waits beside a free place: of the requests that may be the first one of their node, one has no room.
sub is_settled_for {
    my ($node, $key) = @_;
    my @all   = grep { $_->{node} == $node && $_->{key} eq $key } @waiting;
    my @line  = grep { !$_->{paced} } @all;
    return scalar grep { used($key) + $_->{cost} > LIMIT } @all if @line < @all;    # nobody knows their order
    my @first = grep { $_->{sent} < $line[0]{sent} + apart($line[0]) } @line;
    return !@line || grep { $_->{place} eq 'long' && used($key) + $_->{cost} > LIMIT } @first;
}
sub is_settled { return !grep { my $node = $_; grep { !is_settled_for($node, $_) } qw(a b) } 0, 1 }

# None was overtaken by a request that did not come at the same time.
sub see_order {
    wrong($_->{by}) for grep { $_->{place} eq 'long' && ($_->{overtaken} // time) < time } @waiting;
    return;
}

for my $operation (1 .. $operations) {
    my $kind = rand;
    my $key  = rand() < 0.7 ? 'a' : 'b';
    if ($kind < 0.5) {
        my $many = rand() < 0.2 ? 8 : 1;
        send_one(int rand 2, $key, rand() < 0.8 ? 1 : 2, rand() < 0.8 ? 'long' : 'short') for 1 .. $many;
        send_one(int rand 2, $key, 1, 'long', 1) if rand() < 0.2;
    } elsif ($kind < 0.85) {
        my @ends = shuffle $world->under_way;
        $world->finish($_) for @ends[0 .. (@ends > 2 ? int rand 3 : $#ends)];
    } elsif ($kind < 0.93 && @waiting) {
        my $one = $waiting[rand @waiting];
        $one->{leaving} = 1;
        close $one->{client};
        @waiting = grep { $_ != $one } @waiting;
        $count{left}++;
    } elsif ($kind < 0.95) {
        $nodes[rand 2]->reload;
        $latest{reload} = time;
        $count{reloads}++;
    } elsif ($kind < 0.97) {
        $redis->pause;
        sleep STILL;
        $redis->resume;
        $redis->cli('SCRIPT', 'FLUSH');
        $latest{pause} = time;
        $count{pauses}++;
    } elsif ($count{killed} < 3) {
        my $node = int rand 2;
        $_->{leaving} = 1 for grep { $_->{node} == $node } $world->under_way, @waiting;
        @waiting = grep { $_->{node} != $node } @waiting;
        $world->kill_workers($node);
        $latest{kill} = time;
        $count{killed}++;
        take(0.2);
        close $_ for map { grep { defined } @$_{qw(client backend)} } $world->forget_node($node);
        take(0.1);
    }
    take(0.02);
    see_order();
    my $until = time + 12 * slow();
    take(0.05) while !$wrong && !is_settled() && time < $until;
    wrong('somebody waits: ' . join ', ', map { "$_->{key} $_->{cost} at $_->{node}, $_->{place}, " . sprintf '%.1f s', time - $_->{sent} } @waiting) if !is_settled();
    next if !$wrong;
    diag("operation $operation: $wrong; taken, and in Redis: " . join ', ', (map { "$_ " . used($_) . ' ' . $world->entries($_) } qw(a b)), map { sprintf 'the latest %s %.3f s ago', $_, time - $latest{$_} } grep { $latest{$_} } sort keys %latest);
    last;
}
is($wrong, undef, "the reference and two nodes agree in $operations operations");
note join ', ', map { "$count{$_} $_" } sort keys %count;
cmp_ok($count{$_}, '>', 0, "some: $_") for qw(admitted paced waited expired left);
$_->{leaving} = 1 for @waiting;
close $_->{client} for splice @waiting;
ok(wait_until('the end', 8, sub { take(0.05); $world->finish($_) for $world->under_way; !grep { $world->entries($_) != 0 } qw(a b) }), 'nothing stays') or diag(join ' ', map { $world->entries($_) } qw(a b));
$_->expect_kills for @nodes;
$bed->done;
