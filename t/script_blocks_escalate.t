# block= with several times, in each script: which time a block lasts, what is remembered and for how long, and what
# take-backs forget. Random calls are compared with a reference.

use strict;
use warnings;
use List::Util qw(min);
use Test::More;
use Testbed qw(seed);
use Testbed::Algorithm qw(%SCRIPTS takes);
use Testbed::Clock;
use Testbed::Script;

seed();

use constant T => 1_800_000_000_000;    # a whole number of the longest window

my $bed   = Testbed->new;
my $clock = Testbed::Clock->new($bed->dir, standing => 1)->set(T);
my $redis = $bed->redis(clock => $clock);
my $now   = T;

sub any { return $_[int rand @_] }

# One request for the key at a time by Redis's clock; the entries do not leave the window.
sub log_of {
    my ($script, $key, $limit, $block) = @_;
    my @own = takes($script, 'burst') ? "burst=$limit" : takes($script, 'sample') ? 'sample=1' : ();
    return { key => $key, limit => $limit, window => 1_000_000_000, ttl => 1_000_000_100, options => join ' ', $block, @own };
}

my %seen;    # how blocks began and ended, with all algorithms

for my $name (sort values %SCRIPTS) {
    my $script = Testbed::Script->new($redis, $name);
    my $at     = sub { my ($time) = @_; $now = $time; $clock->set($now); return };
    my $remembered = sub { return $script->call('GET', "$_[0]:blocks") // '' };
    my $ask        = sub {
        my ($time, $key, $block, $limit) = @_;
        $at->($time);
        return ($script->call($script->words('', [1, log_of($name, $key, $limit // 1, $block)]))->[0][0]) ? 'admitted' : 'denied';
    };
    my $take_back = sub {
        my ($time, $who, $key, $block, $taken, $limit) = @_;
        $at->($time);
        return $script->take_back({ now => '', logged => $taken, taken => $taken }, $who, log_of($name, $key, $limit // 1, $block));
    };
    my $list = 'block=1000,5000,20000';

    # one block after the other
    is($ask->(T, 'a', $list), 'admitted', "$name: the first request is admitted");
    is($remembered->('a'), '', "$name: no denial, nothing is remembered");
    is($ask->(T + 10, 'a', $list), 'denied', "$name: the next one begins a block");
    is($remembered->('a'), T + 1010 . ' 1000 1', "$name: the first block lasts the first time");
    is($script->call('PTTL', 'a:blocks'), 2100, "$name: it is remembered for its length after its end, and the slack");
    $ask->(T + 1009, 'a', $list);
    is($remembered->('a'), T + 1010 . ' 1000 1', "$name: attempts during a block change nothing");
    $ask->(T + 2010, 'a', $list);
    is($remembered->('a'), join(' ', T + 7010, 5000, 2, T + 1010, 1000, 1), "$name: a block that begins within the length of the last one after its end lasts the next time");
    $ask->(T + 7010, 'a', $list);
    is($remembered->('a'), join(' ', T + 27_010, 20_000, 3, T + 7010, 5000, 2), "$name: the third time follows");
    $ask->(T + 27_010 + 20_000, 'a', $list);
    is($remembered->('a'), join(' ', T + 67_010, 20_000, 3, T + 27_010, 20_000, 3), "$name: the last one repeats");
    $ask->(T + 67_010 + 20_001, 'a', $list);
    is($remembered->('a'), T + 88_011 . ' 1000 1', "$name: later than that, the first one lasts again");

    # a node of the version before, whose blocks have one time, finds what it would have written
    my @held;
    for my $block ('block=1000,5000', 'block=1000') {
        $at->(T + 88_015);
        $script->call($script->words('', [['one'], log_of($name, "same $block", 1, $block)]));
        $at->(T + 88_018);
        $script->call($script->words('', [['two'], log_of($name, "same $block", 1, $block)]));
        push @held, unpack 'H*', $script->call('DUMP', "same $block");
    }
    is($held[0], $held[1], "$name: the log itself is that of a block with one time");

    # the memory outlives the log, and ends by itself
    $script->call('DEL', 'a');
    is($ask->(T + 88_020, 'a', $list), 'admitted', "$name: the log is gone");
    $ask->(T + 88_030, 'a', $list);
    is((split / /, $remembered->('a'))[2], 2, "$name: what is remembered outlives the log");
    $at->(T + 88_030 + 5000 + 5000 + 101);
    is($script->call('EXISTS', 'a:blocks'), 0, "$name: what is remembered ends when it is of no use");

    # take-backs
    my $base = T + 200_000;
    my $undone = sub {
        my ($key) = @_;
        my ($who, $taken) = ("$key one", $now);
        $script->call($script->words('', [[$who], log_of($name, $key, 2, $list)]));
        return sub { my ($time) = @_; return $take_back->($time, $who, $key, $list, $taken, 2) };
    };
    $at->($base);
    my $first = $undone->('b');
    $ask->($base + 1, 'b', $list, 2);
    is($ask->($base + 2, 'b', $list, 2), 'denied', "$name: with two of two requests a block begins");
    is($first->($base + 3), 1, "$name: the first one is taken back");
    is($script->call('EXISTS', 'b:blocks'), 0, "$name: with it the block is forgotten");
    is($ask->($base + 4, 'b', $list, 2), 'admitted', "$name: there is room again");
    $ask->($base + 5, 'b', $list, 2);
    is($remembered->('b'), $base + 1005 . ' 1000 1', "$name: the next block is the first one");
    $at->($base + 1100);
    $script->call('DEL', 'b');
    my $second = $undone->('b');
    $ask->($base + 1101, 'b', $list, 2);
    $ask->($base + 1102, 'b', $list, 2);
    is((split / /, $remembered->('b'))[2], 2, "$name: a second block");
    $second->($base + 1200);
    is($remembered->('b'), $base + 1005 . ' 1000 1', "$name: when it is taken back, the first one is remembered again");
    is($script->call('PTTL', 'b:blocks'), 1000 - 195 + 100, "$name: as long as it would have been");
    $at->($base + 1300);
    $script->call('DEL', 'b');
    my $third = $undone->('b');
    $ask->($base + 1301, 'b', $list, 2);
    $ask->($base + 1302, 'b', $list, 2);
    $third->($base + 2006);
    is($script->call('EXISTS', 'b:blocks'), 0, "$name: it is not if that time is over");

    # other limits of the log
    my $mixed = $base + 10_000;
    $ask->($mixed, 'c', 'block=500');
    $ask->($mixed + 1, 'c', 'block=500');
    is($script->call('EXISTS', 'c:blocks'), 0, "$name: a block with one time leaves nothing");
    $ask->($mixed + 501, 'c', $list);
    is($remembered->('c'), $mixed + 1501 . ' 1000 1', "$name: nor does it count");
    $ask->($mixed + 1501, 'c', 'block=500');
    is($remembered->('c'), $mixed + 1501 . ' 1000 1', "$name: nor does it change what is remembered");
    $ask->($mixed + 2001, 'c', 'block=10,20');
    is($remembered->('c'), join(' ', $mixed + 2021, 20, 2, $mixed + 1501, 1000, 1), "$name: another list has its own times");
    $at->($mixed + 3000);
    my $fourth = $undone->('d');
    $ask->($mixed + 3001, 'd', $list, 2);
    $ask->($mixed + 3002, 'd', $list, 2);
    $take_back->($mixed + 3003, 'd one', 'd', 'escalates', $mixed + 3000, 2);
    is($script->call('EXISTS', 'd:blocks'), 0, "$name: another limit that knows of it takes it back, too");

    # contents that do not belong there
    for my $foreign ('', 'x', '1 2 3 4', T . " 1000 1 ", '0' . T . ' 1000 1', T . ' 0 1', T . ' 1000 0', ('9' x 20) . ' 1 1', 'x' x 100_000) {
        $script->call('SET', 'e:blocks', $foreign);
        $script->call('DEL', 'e');
        $ask->($mixed + 4000, 'e', $list) for 1 .. 2;
        is($remembered->('e'), $mixed + 5000 . ' 1000 1', "$name: \"" . substr($foreign, 0, 30) . '" counts as none');
    }
    $script->call(qw(DEL e:blocks e));
    $script->call(qw(RPUSH e:blocks x));
    $ask->($mixed + 4000, 'e', $list);
    is($ask->($mixed + 4001, 'e', $list), 'denied', "$name: a key of another type counts as none");

    # a clock that steps back
    $ask->($mixed + 5000, 'f', $list) for 1 .. 2;
    $script->call('DEL', 'f');
    $ask->($mixed - 3_600_000, 'f', $list) for 1 .. 2;
    is((split / /, $remembered->('f'))[2], 2, "$name: a block of a time to come is the last one");

    # random calls
    my ($asked, $wrong) = (0, '');
    for my $round (1 .. Testbed::operations(150, 3)) {
        my ($limit, $key) = (1 + int rand 3, "model $round");
        my @times = map { 100 + int rand any(50, 400) } 1 .. any(2, 2, 3, 5);
        my %is    = (used => 0, until => 0, since => 0, latest => undef, before => undef);
        my (@admitted, $count);
        $at->($mixed + 10_000 + 100_000 * $round);
        my $lasts = sub { my ($block) = @_; return $block && $now - $block->[0] <= $block->[1] };
        for (1 .. 40) {
            $at->($now + int rand any(2, 100, 400, 600));
            if (@admitted && rand() < 0.2) {
                my ($who, $taken) = @{ splice @admitted, int rand @admitted, 1 };
                $take_back->($now, $who, $key, any('block=' . join(',', @times), 'escalates'), $taken, $limit);
                $is{used}--;
                if ($now < $is{until} && $is{since} >= $taken) {
                    $seen{ended}++;
                    if ($is{latest} && $is{latest}[0] >= $is{until}) {
                        $seen{restored}++ if $lasts->($is{before});
                        @is{qw(latest before)} = $lasts->($is{before}) ? ($is{before}, undef) : ();
                    }
                    $is{until} = 0;
                }
            } else {
                my @list = rand() < 0.8 ? @times : any(@times);
                my $who  = "$key " . ++$count;
                my $reply = $script->call($script->words('', [[$who], log_of($name, $key, $limit, 'block=' . join ',', @list)]))->[0];
                my $fits  = $now >= $is{until} && $is{used} < $limit;
                $wrong ||= "round $round: at $now admitted $reply->[0], expected " . ($fits ? 1 : 0) if $reply->[0] != $fits;
                if ($fits) {
                    $is{used}++;
                    push @admitted, [$who, $now];
                } elsif ($now >= $is{until}) {
                    my $follows = $lasts->($is{latest});
                    my $step    = @list > 1 && $follows ? min($is{latest}[2] + 1, scalar @list) : 1;
                    @is{qw(since until)} = ($now, $now + $list[$step - 1]);
                    @is{qw(before latest)} = ($follows ? $is{latest} : undef, [$is{until}, $list[$step - 1], $step]) if @list > 1;
                    $seen{"step $step"}++;
                }
            }
            $asked++;
            my $expected = join ' ', map { @{ $_ // [] } } @is{qw(latest before)};
            my $got      = $remembered->($key);
            # a memory that is of no use any more may still be there
            $wrong ||= "round $round: at $now it remembers \"$got\", expected \"$expected\"" if $got ne $expected && ($got ne '' || $lasts->($is{latest}));
        }
    }
    is($wrong, '', "$name: the reference and the script agree in $asked calls");
    $script->call('FLUSHALL');
}
is(join(' ', grep { !$seen{$_} } 'ended', 'restored', map { "step $_" } 1 .. 4), '', 'blocks ended in all ways');

$bed->done;
