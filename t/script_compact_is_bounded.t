# A call reads and writes a small part of a long log of algorithm=compact: a blocked log is not read whole to deny a
# request, the requests that a call holds walk over the reservations once, together, and a give-back of an old request
# writes a few bytes. Bytes are counted, not times: those that a script reads, and those in the AOF of both the script
# and the native module.

use strict;
use warnings;
use List::Util qw(sum0);
use Test::More;
use Testbed qw(seed);
use Testbed::Clock;
use Testbed::CompactLog qw(add_marks log_of times_of);
use Testbed::Native qw(native_module);
use Testbed::Script;

seed();

use constant { ENTRIES => 20_000, FEW => 600, WINDOW => 3_600_000 };

my $now    = 1_800_000_000_000;
my $bed    = Testbed->new;
my $clock  = Testbed::Clock->new($bed->dir, standing => 1)->set($now);
my $redis  = $bed->redis(clock => $clock, args => ['--loadmodule', native_module(), '--appendonly', 'yes', '--appendfsync', 'no', '--auto-aof-rewrite-percentage', 0]);
my %script = map { ($_ => Testbed::Script->new($redis, 'compact_log', native => $_ eq 'native')) } qw(lua native);
my $client = $script{lua};

# A log of entries some ms apart, the newest now. Returns their times.
sub fill {
    my ($key, $has_runs, $is_blocked, $has_marks) = @_;
    my @times = ($now);
    unshift @times, $times[0] - int rand 4 for 2 .. ENTRIES;
    my $log = log_of(\@times, runs => $has_runs, $is_blocked ? (blocked => $now + WINDOW) : ());
    $log = add_marks($log, sub { 1 }) if $has_marks;
    $client->call('SET', $key, $log, 'PX', 2 * WINDOW);
    return \@times;
}

sub written { return $client->call('INFO', 'persistence') =~ /aof_current_size:(\d+)/ ? $1 : die }

# The bytes that the calls of some code read by GETRANGE.
sub bytes_read {
    my ($code) = @_;
    my $monitor = Testbed::Script->new($redis, 'compact_log');
    $monitor->call('MONITOR');
    $code->();
    $client->call('ECHO', 'all seen');
    my $bytes = 0;
    while ((my $line = $monitor->reply) !~ /"all seen"/) {
        next if $line !~ /"GETRANGE" "[^"]*" "(\d+)" "(-?\d+)"/i;
        $bytes += $2 < 0 ? ENTRIES : $2 - $1 + 1;
    }
    return $bytes;
}

sub ask { my ($kind, %log) = @_; my ($requests, $words) = (delete $log{requests} // 1, delete $log{words} // ''); return $script{$kind}->call($script{$kind}->words($words, [$requests, { window => WINDOW, ttl => 2 * WINDOW, %log }])) }

for my $has_runs (0, 1) {
    my $of_runs = $has_runs ? ', with runs' : '';
    for my $kind (qw(lua native)) {
        my $about = "$kind$of_runs";
        my %log   = (key => "blocked $about", limit => ENTRIES / 2, options => 'block=1000');
        fill($log{key}, $has_runs, 1);
        my ($before, $reply) = written();
        my $read = bytes_read(sub { $reply = ask($kind, %log) });
        is("@{ $reply->[0] }[0, 2]", '0 0', "$about: a blocked log denies");
        cmp_ok($read, '<', ENTRIES / 2 + 1500, "$about: it reads what is missing, once");
        is(written(), $before, "$about: it writes nothing");
        $read = bytes_read(sub { ask($kind, %log, limit => ENTRIES - 9) });
        cmp_ok($read, '<', FEW, "$about: where little is missing it reads little");

        # each attempt counts, and the oldest entry leaves; one of the first finds no space in this log, and rewrites it
        ask($kind, %log, cap => ENTRIES, options => 'count=all block=1000') for 1 .. 10;
        my $most = 0;
        for (1 .. 200) {
            $before = written();
            ask($kind, %log, cap => ENTRIES, options => 'count=all block=1000');
            my $bytes = written() - $before;
            $most = $bytes if $bytes > $most;
        }
        cmp_ok($most, '<', FEW, "$about: an attempt that counts writes little");

        # entries leave the window
        $most = 0;
        my $times = fill($log{key}, $has_runs, 1);
        my %short = (%log, window => $now - $times->[0]);
        ask($kind, %short);
        for (1 .. 100) {
            $now += int rand 4;
            $clock->set($now);
            $before = written();
            ask($kind, %short);
            my $bytes = written() - $before;
            $most = $bytes if $bytes > $most;
        }
        cmp_ok($most, '<', FEW, "$about: a denial writes little if entries have left");

        my %held = (key => "held $about", limit => ENTRIES - 3000, options => "delay=${\WINDOW} ahead=${\WINDOW}", requests => 100);
        fill($held{key}, $has_runs, 0);
        $read = bytes_read(sub { $reply = ask($kind, %held) });
        is($reply->[0][0], 100, "$about: a call holds 100 requests");
        cmp_ok($read, '<', 3000 + 100 * 80, "$about: it walks over what is reserved once");

        # an entry has two neighbours at most 3 ms away, and one in four is of the time of the one before
        my %back = (key => "back $about", limit => 2 * ENTRIES, options => '');
        $times = fill($back{key}, $has_runs, 0);
        $most  = 0;
        for my $at (map { $times->[100 + int rand ENTRIES - 200] } 1 .. 200) {
            $before = written();
            my $left = ask($kind, %back, words => Testbed::Script::taking_back({ now => '', logged => $at, taken => $at }));
            my $bytes = written() - $before;
            $most = $bytes if $left && $bytes > $most;
        }
        cmp_ok($most, '<', FEW, "$about: a give-back writes little, whatever came since");

        # the next version writes marks; a give-back may clear those near it, so each finds them as they were
        $times = fill('marked', $has_runs, 0, 1);
        my $back = 0;
        ($read, $most) = (0, 0);
        for my $at (map { $times->[200 + int rand ENTRIES - 400] } 1 .. 50) {
            $client->call('COPY', 'marked', $back{key}, 'REPLACE');
            $before = written();
            my $bytes = bytes_read(sub { $back += ask($kind, %back, words => Testbed::Script::taking_back({ now => '', logged => $at, taken => $at })) });
            $read = $bytes if $bytes > $read;
            $bytes = written() - $before;
            $most = $bytes if $bytes > $most;
        }
        cmp_ok($back, '>', 40, "$about: with marks $back of 50 requests are given back");
        cmp_ok($read, '<', 4000, "$about: it reads what is near a mark");
        cmp_ok($most, '<', FEW, "$about: it writes little, also to clear a mark");
    }
}

# What stands for nothing leaves with the number behind it: else a log of one entry has bytes, as none of ours does.
for my $kind (qw(lua native)) {
    my %last  = (key => "last $kind", limit => 9, options => '');
    my @times = ($now - WINDOW + 10, $now - 100, $now - 50);
    my $log   = log_of(\@times, runs => 1, spare => 60);
    my ($size, $begin, $filled) = unpack 'x23 NNN', $log;
    substr $log, 31, 4, pack 'N', $filled + 2;
    substr $log, 37 + 64, $size, substr(substr($log, 37 + 64, $filled - 1) . "\x80\0" . substr($log, 37 + 64 + $filled - 1, 1) . "\xff" x $size, 0, $size);
    $client->call('SET', $last{key}, $log, 'PX', 2 * WINDOW);
    is(join('|', @{ times_of($log) }), join('|', @times), "$kind: a log with such bytes in front of its newest number");
    is(ask($kind, %last, words => Testbed::Script::taking_back({ now => '', logged => $times[2], taken => $times[2] })), 1, "$kind: the newest entry is given back");
    is(join('|', @{ times_of($client->call('GET', $last{key})) }), join('|', @times[0, 1]), "$kind: the others stay");
    $clock->set($now += 20);
    for my $time (qw(first second)) {
        my $reply = ask($kind, %last, limit => 1);
        is(ref $reply eq 'ARRAY' && ref $reply->[0] ? "@{ $reply->[0] }[0, 2]" : "@{ ref $reply ? $reply : [$reply] }", '0 0', "$kind: when all but one have left, a limit of 1 denies the $time time");
    }
}
$bed->done;
