# The server's clock jumps while there are reservations, forwards and back, as each script sees it. No request passes
# beyond the limit, and there is room at the latest a window and the longest delay after the jump.

use strict;
use warnings;
use Test::More;
use Testbed qw(seed);
use Testbed::Algorithm qw(@ALGORITHMS %SCRIPTS);
use Testbed::Script;

seed();

use constant { WINDOW => 1000, DELAY => 2500, LIMIT => 5 };

my $bed   = Testbed->new;
my $redis = $bed->redis;
my $T     = 1_800_000_000_000;

for my $name (@SCRIPTS{@ALGORITHMS}) {
    my $script = Testbed::Script->new($redis, $name, own_clock => 1);
    my $more   = { sampled_log => ' sample=1', token_bucket => ' burst=' . LIMIT }->{$name} // '';
    my $log    = sub { my ($key, $cost) = @_;
        return { key => $key, limit => LIMIT, window => WINDOW, ttl => 3_600_000, options => ($cost == 1 ? '' : "cost=$cost ") . 'delay=' . DELAY . ' ahead=' . DELAY . $more } };
    my ($over, $locked, $late, $held) = (0, 0, 0, 0);
    for my $round (1 .. 40) {
        my ($now, $key) = ($T, "$name $round");
        my @ran;        # when each ran, by the clock of the log
        for (1 .. 30) {
            $now += int rand WINDOW / 8;
            my ($admitted, undef, undef, undef, $for) = split / /, $script->ask($now, $log->($key, 1));
            $held++ if $for;
        }
        my $jump = (-3_600_000, -1500, -300, 300, 1500, 3_600_000)[$round % 6];
        $now += $jump;
        # a later request: its answer takes no longer than a window and the longest delay
        my ($admitted, $left, $reset, $retry, $for) = split / /, $script->ask($now, $log->($key, 1));
        my $longest = DELAY + WINDOW * ($name eq 'sliding_counter' ? 2 : 1);
        $late++ if $retry > $longest || ($for // 0) > DELAY;
        # no window, by the clock of the log, has more than one admission
        my $begin = $now;
        push @ran, $now + ($for // 0) if $admitted;
        for (1 .. 60) {
            $now += int rand WINDOW / 8;
            my ($admitted, undef, undef, undef, $for) = split / /, $script->ask($now, $log->($key, 1));
            push @ran, $now + ($for // 0) if $admitted;
        }
        @ran = sort { $a <=> $b } @ran;
        my $most = $name =~ /counter|bucket/ ? 2 * LIMIT - 1 : LIMIT;
        for my $i ($most .. $#ran) {
            $over++ if $ran[$i] - $ran[ $i - $most ] < WINDOW;
        }
        $locked++ if !@ran || $ran[0] - $begin > $longest;
    }
    cmp_ok($held, '>', 100, "$name: $held requests are held before the jumps");
    is($over,   0, "$name: no window after a jump has more than the limit");
    is($late,   0, "$name: no answer after a jump is of a later time than reservations may be");
    is($locked, 0, "$name: nobody is locked out for longer");
}
$bed->done;
