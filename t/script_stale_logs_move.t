# A migrating hash slot: the source has the keys that have not left yet, and a script cannot touch a key again that it
# emptied. The scripts decide as on a single server, whatever is stale in a log, whichever clock is used, and wherever
# the log is. Each decision is made once.
# prove: first

use strict;
use warnings;
use Test::More;
use Testbed qw(seed);
use Testbed::Algorithm qw(@ALGORITHMS %SCRIPTS takes);
use Testbed::Script;

seed();
my $calls = Testbed::operations(1000);    # of each algorithm and clock

my $bed     = Testbed->new;
my $still   = $bed->redis;
my $cluster = $bed->cluster(masters => 2);
my @nodes   = $cluster->nodes;
my @tags    = map { $cluster->tag_on($nodes[0]) } 1 .. 20;

use constant { WINDOW => 1000, TTL => 3_600_000, AHEAD => 1500 };

sub any { return $_[int rand @_] }

# Options of a request.
sub options {
    my ($name) = @_;
    my @words;
    push @words, 'ids'                        if $name =~ /sliding_log|sampled/ && rand() < 0.3;
    push @words, 'cost=' . any(0, 2, 3, 9)    if rand() < 0.3;
    push @words, 'count=all'                  if rand() < 0.15;
    push @words, 'delay=' . any(300, 900)     if rand() < 0.15;
    push @words, 'ahead=' . AHEAD;
    push @words, 'block=' . any(200, 1200)    if rand() < 0.15;
    push @words, 'burst=' . any(3, 5)         if takes($name, 'burst');
    push @words, 'sample=' . any(1, 2)        if takes($name, 'sample');
    return "@words";
}

sub text { my ($reply) = @_; return ref $reply ? '[' . join(' ', map { text($_) } @$reply) . ']' : $reply }

# A log as it is stored.
sub content {
    my ($script, $key) = @_;
    my $type = $script->call('TYPE', $key);
    return
          $type eq 'zset'   ? join ' ', @{ $script->call('ZRANGE', $key, 0, -1, 'WITHSCORES') }
        : $type eq 'hash'   ? do { my %hash = @{ $script->call('HGETALL', $key) }; join ' ', map { "$_=$hash{$_}" } sort keys %hash }
        : $type eq 'string' ? unpack 'H*', substr $script->call('GET', $key), 0, 19
        :                     '';
}

# The reply of the node that has the keys; undef if they are apart.
sub follow {
    my ($from, $to, @words) = @_;
    my $reply = $from->call(@words);
    if (!ref $reply && $reply =~ /^error ASK /) {
        $to->call('ASKING');
        $reply = $to->call($to->command, @words[2 .. $#words]);
    }
    return !ref $reply && $reply =~ /^error TRYAGAIN/ ? undef : $reply;
}

for my $name (@SCRIPTS{@ALGORITHMS}) {
    for my $own_clock (0, 1) {
        my ($source, $target) = @nodes;
        my ($alone, $from, $to) = map { Testbed::Script->new($_, $name, own_clock => $own_clock) } $still, $source, $target;
        my $what = "$name, " . ($own_clock ? "the server's clock" : 'clocks of callers');
        my $tag  = shift @tags;
        my $slot = $cluster->slot_of($tag);
        my @keys = map { "{$tag}$_" } 1 .. 6;
        my $now  = 1_800_000_000_000 + int rand 1000;
        my %seen = (map { $_ => 0 } qw(asked apart admitted denied back moved));
        my (@taken, @wrong);
        my $turn = sub {
            my ($words, $kind) = @_;
            my $there = follow($from, $to, @$words);
            if (!defined $there) {
                $seen{apart}++;
                return;
            }
            my $here = $alone->call($alone->command, @$words[2 .. $#$words]);
            $seen{asked}++;
            push @wrong, "$kind @$words[2 .. $#$words]: " . text($there) . ', not ' . text($here) if text($here) ne text($there);
            return $here;
        };
        for my $round (1 .. 10) {
            for my $call (1 .. $calls / 10) {
                $cluster->begin_move($slot, $source, $target) if $call == int $calls / 40;
                if ($call > $calls / 30 && rand() < 0.01) {
                    my $key = any(@keys);
                    if ($source->cli('EXISTS', $key)) {
                        $cluster->move_keys($slot, $key);
                        $seen{moved}++;
                    }
                }
                # usually close together; sometimes all entries have left, or the clock is behind
                $now += rand() < 0.05 ? any(0.5, 1, 1.05, 2, 2.5) * WINDOW : rand() < 0.2 ? 0 : int rand 150;
                my $at = $now - (rand() < 0.05 ? int rand 2 * WINDOW : 0);
                if (@taken && rand() < 0.3) {
                    my ($times, $name_of, @logs) = @{ splice @taken, int rand @taken, 1 };
                    my $left = $turn->([$from->words(Testbed::Script::taking_back({ now => $at, %$times }), [[$name_of], @logs])], 'take back');
                    $seen{back}++ if $left;
                    next;
                }
                my @groups = map {
                    my @of = rand() < 0.7 ? any(@keys) : do { my $i = int rand $#keys; @keys[$i, $i + 1] };
                    my @names = map { 'r' . ++$seen{names} } 1 .. any(1, 1, 1, 2, 4);
                    [\@names, map {
                        my $options = options($name);
                        { key => $_, limit => any(0, 1, 3, 5, 5), window => WINDOW, cap => 6, ttl => TTL, options => $options,
                            ids => $options =~ /ids/ ? [map { any('', 'one', 'two') } @names] : [] }
                    } @of];
                } 1 .. any(1, 1, 2, 3);
                my $told = $turn->([$from->words($at, @groups)], 'ask');
                next if !ref $told;
                for my $i (grep { ref $told->[$_] } 0 .. $#groups) {
                    my ($names, @logs) = @{ $groups[$i] };
                    my ($admitted, $decided, @rest) = @{ $told->[$i] };
                    my @held = splice @rest, 3 * @logs;
                    $seen{ $admitted < @$names ? 'denied' : 'admitted' }++;
                    next if !$admitted || rand() < 0.5;
                    my $slot_in = @held ? $held[-1] : 0;    # of the last request
                    push @taken, [{ logged => $decided + $slot_in, taken => $decided }, $names->[$admitted - 1],
                        map { { %$_, ids => @{ $_->{ids} } ? [$_->{ids}[$admitted - 1]] : [] } } @logs];
                }
            }
            $cluster->finish_move($slot);
            push @wrong, map { "round $round: $_ is " . content($to, $_) . ', not ' . content($alone, $_) } grep { content($to, $_) ne content($alone, $_) } @keys;
            ($source, $target, $from, $to) = ($target, $source, $to, $from);
            last if @wrong;
        }
        is(join("\n", @wrong[0 .. ($#wrong < 3 ? $#wrong : 3)]), '', "$what: a slot on its way changes nothing in $seen{asked} calls");
        cmp_ok($seen{$_}, '>', $calls / 100, "$what: $seen{$_} $_") for qw(admitted denied back);
        note("$what: $seen{apart} apart, $seen{moved} moved");
    }
}

# For every algorithm, a log whose entries have all left the window, and another one after it in the same call.
for my $case (
    ['sliding_log', ''], ['sliding_log', 'block=500'], ['compact_log', ''], ['compact_log', 'block=500'], ['sliding_counter', ''],
    ['sliding_counter', 'block=500'], ['token_bucket', 'burst=2'], ['token_bucket', 'block=500 burst=2'], ['sampled_log', 'sample=1'],
    ['sampled_log', 'block=500 sample=1']
) {
    my ($name, $options) = @$case;
    my ($source, $target) = @nodes;
    my $from = Testbed::Script->new($source, $name);
    my $tag  = shift @tags;
    my %log = (limit => 2, window => WINDOW, options => $options, ttl => TTL);
    my @logs = map { { %log, key => "{$tag}$_" } } 1 .. 2;
    my $T = 1_800_000_000_000;
    $from->ask_groups($T, [3, $_]) for @logs;
    $cluster->begin_move($cluster->slot_of($tag), $source, $target);
    my @none = map { { %$_, limit => 0 } } @logs;
    like($from->ask_groups($T + 10 * WINDOW, [1, @none], [1, @none]), qr/^0 .* \| 0 /, "$name, $options: two denials of stale logs leave them");
    is($source->cli('EXISTS', map { $_->{key} } @logs), 2, "$name, $options: both keys are still there");
    like($from->ask_groups($T + 10 * WINDOW, [1, @logs], [1, @logs]), qr/^1 [^|]* \| 1 [^|]*$/, "$name, $options: two requests of stale logs are admitted");
    $cluster->move($cluster->slot_of($tag), $source, $target);
}

$bed->done;
