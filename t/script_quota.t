# The script of algorithm=quota decides as a list of all admitted requests with the calendar of the C library: a year with
# a leap day, in virtual time. Then: a clock that steps back, take-backs, and broken logs.

use strict;
use warnings;
use List::Util qw(max min sum0);
use POSIX qw(strftime);
use Test::More;
use Testbed qw(seed);
use Testbed::Script;
use Time::Local qw(timegm);

seed();
my $requests = $ENV{TEST_OPERATIONS} // 3000;    # of each period

my %longest = (hour => 3_600_000, day => 86_400_000, week => 7 * 86_400_000, month => 31 * 86_400_000);
my $bed     = Testbed->new;
my $redis   = $bed->redis;
my $script  = Testbed::Script->new($redis, 'calendar_quota');

sub at { my ($text) = @_; my ($y, $mo, $d, $h, $m, $s) = split /\D/, $text; return 1000 * timegm($s, $m, $h, $d, $mo - 1, $y) }

# When the period of that time begins and ends (ms), by the C library: mktime carries a day or a month that is too large over.
sub period {
    my ($kind, $ms) = @_;
    local $ENV{TZ} = 'UTC';
    POSIX::tzset();
    my @t = gmtime int $ms / 1000;
    @t[0, 1] = (0, 0);
    $t[2] = 0 if $kind ne 'hour';
    $t[3] -= ($t[6] + 6) % 7 if $kind eq 'week';
    $t[3] = 1 if $kind eq 'month';
    my @end = @t;
    $end[{ hour => 2, day => 3, week => 3, month => 4 }->{$kind}] += $kind eq 'week' ? 7 : 1;
    return map { 1000 * POSIX::mktime(@$_[0 .. 5], 0, 0, 0) } \@t, \@end;
}

sub log_of { my ($kind, $key, $limit, %more) = @_; return { key => $key, limit => $limit, window => $longest{$kind}, ttl => $longest{$kind} + 60_000, %more } }

is(join(' ', map { strftime('%F', gmtime $_ / 1000) } period('month', at('2028-02-29 12:00:00'))), '2028-02-01 2028-03-01', 'the reference knows leap years');
is(join(' ', map { strftime('%F %a', gmtime $_ / 1000) } period('week', at('2028-01-01 12:00:00'))), '2027-12-27 Mon 2028-01-03 Mon', 'the reference has ISO weeks');

# ---- a year in virtual time: two keys, of which a request asks one or both

for my $kind (sort keys %longest) {
    my $begin = at('2027-12-20 00:00:00');
    my $now   = $begin;
    my @taken = ([], []);    # of each key: [when, cost, name] of all that was admitted and not taken back
    my @began = (0, 0);      # when its count began
    my ($denied, $over, $back, $periods, $wrong) = (0, 0, 0, 0, '');
    my $mean = ($kind eq 'hour' ? 20 : 390) * 86_400_000 / $requests;
    for my $number (1 .. $requests) {
        my $before = $now;
        $now += int rand 2 * $mean;
        $now = (period($kind, $now))[1] - int rand 3 if rand() < 0.05;    # the last ms of a period, and the first of the next
        my ($from, $to) = period($kind, $now);
        $periods++ if (period($kind, $before))[1] < $to;
        my @asked = map { { key => $_, limit => 1 + int rand 30, cost => int rand 4 } } rand() < 0.3 ? (0, 1) : int rand 2;
        for my $each (@asked) {
            $taken[ $each->{key} ] = [grep { $_->[0] >= $from } @{ $taken[ $each->{key} ] }];
            $each->{used} = sum0 map { $_->[1] } @{ $taken[ $each->{key} ] };
        }
        my $fits = !grep { $_->{used} + $_->{cost} > $_->{limit} } @asked;
        my @logs = map { log_of($kind, "$kind $_->{key}", $_->{limit}, options => "cost=$_->{cost}") } @asked;
        my $told = $script->ask($now, @logs);
        my $said = join ' ', 0 + $fits, map {
            my $room = $_->{limit} - $_->{used} - ($fits ? $_->{cost} : 0);
            my $retry = $fits ? 0 : $_->{cost} > $_->{limit} ? -1 : $_->{used} + $_->{cost} > $_->{limit} ? $to - $now : 0;
            (max($room, 0), $to - $now, $retry)
        } @asked;
        if ($told ne $said) {
            $wrong = "request $number at " . strftime('%F %T', gmtime $now / 1000) . ": \"$told\", not \"$said\"";
            last;
        }
        $fits ? 0 : $denied++;
        for my $each ($fits ? @asked : ()) {
            my $list = $taken[ $each->{key} ];
            $began[ $each->{key} ] = $now if $each->{cost} && !@$list;
            push @$list, [$now, $each->{cost}, Testbed::Script::latest()] if $each->{cost};
            my $left = $each->{cost} ? $script->call('PTTL', "$kind $each->{key}") : $to - $now;
            $wrong ||= "request $number: the log lives for $left ms" if $left < $to - $now || $left > $longest{$kind} + 60_000;
        }
        my $key = int rand 2;
        next if rand() > 0.1 || !@{ $taken[$key] };
        my $gone = splice @{ $taken[$key] }, int rand @{ $taken[$key] }, 1;
        my $is = $script->take_back({ now => $now, logged => $gone->[0], taken => $gone->[0] }, $gone->[2], log_of($kind, "$kind $key", 9, options => "cost=$gone->[1]"));
        my $was = $gone->[0] >= $from && $gone->[0] >= $began[$key];
        push @{ $taken[$key] }, $gone if !$was && $gone->[0] >= $from;
        $wrong ||= "take-back at $number: $is" if $is != $was && $gone->[0] >= $from;
        $back += $is;
    }
    is($wrong, '', "$kind: the model and the script agree in $requests requests until " . strftime('%F', gmtime $now / 1000));
    cmp_ok($periods, '>=', $kind eq 'month' ? 12 : 50, "$kind: $periods periods begin");
    cmp_ok($denied, '>', $requests / 20, "$kind: $denied requests are denied");
    cmp_ok($back, '>', $requests / 50, "$kind: $back requests are taken back");
}

# ---- the form

my $march = at('2028-03-01 00:00:00');
$script->ask($march - 5000, log_of('month', 'form', 10));
is($redis->cli('HGETALL', 'form') =~ tr/\n/ /r, 'month ' . ($march - 5000) . ' 1', 'a log is one field: the period and the time of its first request => the count');
$script->ask($march - 4000, log_of('month', 'form', 10, options => 'cost=5'));
is($redis->cli('HGETALL', 'form') =~ tr/\n/ /r, 'month ' . ($march - 5000) . ' 6', 'a cost is added');
cmp_ok(abs($redis->cli('PTTL', 'form') - 65_000), '<', 2000, 'the log lives until its period ends, and the slack longer');
$script->ask($march, log_of('month', 'form', 10));
is($redis->cli('HGETALL', 'form') =~ tr/\n/ /r, "month $march 1", 'the count of the past period goes when the next one begins');
cmp_ok(abs($redis->cli('PTTL', 'form') - 31 * 86_400_000 - 60_000), '<', 2000, 'a new period renews the time to live');
is($script->ask($march, log_of('month', 'look', 10, options => 'cost=0')), "1 10 @{[31 * 86_400_000]} 0", 'a look tells until when the period lasts');
is($redis->cli('EXISTS', 'look'), 0, 'a look logs nothing');
is($script->ask($march, log_of('month', 'large', 1_000_000_000_000, options => 'cost=999999999999')), "1 1 @{[31 * 86_400_000]} 0", 'a large cost is one count');
cmp_ok($redis->cli('MEMORY', 'USAGE', 'large'), '<', 150, 'its memory is that of any other');

# another period of the same NAME, after a reload: what began in the current one stays
$script->ask($march + 3_600_000, log_of('hour', 'other', 10));
is($script->ask($march + 3_600_001, log_of('day', 'other', 10)), "1 8 @{[23 * 3_600_000 - 1]} 0", 'a count of an hour counts in its day');
is($script->ask($march + 7_200_000, log_of('hour', 'other', 10)), '1 9 3600000 0', 'a count of a past hour does not count in the next one');

# ---- the clock of the server steps back

my $stepped = Testbed::Script->new($redis, 'calendar_quota', own_clock => 1);
$stepped->ask($march, log_of('day', 'back', 3));
is($stepped->ask($march - 2000, log_of('day', 'back', 3)), '1 1 86402000 0', 'back before the end of a period: the later one goes on');
is($stepped->ask($march - 1000, log_of('day', 'back', 3)), '1 0 86401000 0', 'what is admitted counts in the later one');
is($stepped->ask($march - 500,  log_of('day', 'back', 3)), '0 0 86400500 86400500', 'it denies until the later one ends');
is($stepped->ask($march + 1000, log_of('day', 'back', 3)), '0 0 86399000 86399000', 'and so it does when the clock is there again');
is($stepped->ask($march + 86_400_000, log_of('day', 'back', 3)), '1 2 86400000 0', 'its end frees it');
$stepped->ask($march, log_of('day', 'far', 3)) for 1, 2;
is($stepped->ask($march - 10 * 86_400_000 + 5, log_of('day', 'far', 3)), '1 0 86399995 0', 'ten days back: the count is one of now');
is($stepped->ask($march - 10 * 86_400_000 + 5, log_of('day', 'far', 3)), '0 0 86399995 86399995', 'nobody is let through');
is($redis->cli('HLEN', 'far'), 1, 'the log has one count');
is($stepped->ask($march - 9 * 86_400_000, log_of('day', 'far', 3)), '1 2 86400000 0', 'nobody is locked out for longer than a period');
# by callers' clocks the latest decision is a floor
$script->ask($march, log_of('day', 'floor', 2));
is($script->call($script->words($march - 5 * 86_400_000, [1, log_of('day', 'floor', 2)]))->[0][1], $march, 'a caller that is behind decides in the later period');
is($script->call($script->words($march - 1000, [1, log_of('day', 'floor', 2)]))->[0][0], 0, 'two callers share the limit');

# ---- lost logs, broken logs

my %one = %{ log_of('day', 'lost', 5) };
$script->ask_groups($march, [['first'], { %one }]);
$redis->cli('DEL', 'lost');
$script->ask_groups($march + 10, [['second'], { %one }]);
is($script->take_back({ now => $march + 20, logged => $march, taken => $march }, 'first', { %one }), 0, 'what was lost with the log is not taken from others');
is($script->take_back({ now => $march + 20, logged => $march + 10, taken => $march + 10 }, 'second', { %one }), 1, 'what is there is taken back');
is($redis->cli('EXISTS', 'lost'), 0, 'an empty log is gone');
is($script->take_back({ now => $march + 20, logged => $march + 10, taken => $march + 10 }, 'second', { %one }), 0, 'nothing is left to take back');

for my $broken (['month x', 1], ['month', 1], ["month $march", -1], ["month $march", 'many'], ["month $march", 1.5], ["month $march", '90071992547409930'],
    [$march, 1], ['month -1', 1], ['month 99999999999999999', 1]) {
    $redis->cli('DEL', 'broken', 'whole');
    $redis->cli('HSET', 'broken', @$broken);
    like($script->ask($march, log_of('month', 'whole', 5), log_of('month', 'broken', 5)), qr/^error WRONGTYPE not a log|^WRONGTYPE/, "a log that has \"@$broken\" is told")
        or diag explain $script->call($script->words($march, [1, log_of('month', 'broken', 5)]));
    is($redis->cli('EXISTS', 'whole'), 0, 'the other log is as it was');
}
$redis->cli('DEL', 'broken');
$redis->cli('SET', 'broken', 1);
like($script->call($script->words($march, [1, log_of('month', 'broken', 5)]))->[0] // '', qr/WRONGTYPE/, 'a key of another type is told');

# another writer's fields of one period: their sum counts, and becomes one
$redis->cli('HSET', 'sum', 'month ' . ($march + 1), 2, "month $march", 3, 'month ' . ($march - 1), 9, 'month ' . ($march + 99 * 86_400_000), 1);
is($stepped->ask($march + 5, log_of('month', 'sum', 7)), '1 0 ' . (31 * 86_400_000 - 5) . ' 0', 'the sum of counts of a period counts');
is($redis->cli('HLEN', 'sum') . ' ' . $redis->cli('HVALS', 'sum'), '1 7', 'and becomes one count');

# ---- no memory

$redis->cli(qw(CONFIG SET maxmemory-policy noeviction));
$script->ask_groups($march, [['own'], log_of('day', 'full', 5)]);
$redis->cli(qw(CONFIG SET maxmemory 1));
like($script->call($script->words($march, [1, log_of('day', 'full', 5)]))->[0] // '', qr/OOM/, 'no memory is told');
is($script->take_back({ now => $march, logged => $march, taken => $march }, 'own', log_of('day', 'full', 5)), 1, 'without memory an entry is taken back');
$redis->cli(qw(CONFIG SET maxmemory 0));

$bed->done;
