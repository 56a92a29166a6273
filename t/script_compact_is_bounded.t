# A call reads and writes a small part of a long log of algorithm=compact: a blocked log is not read whole to deny a
# request, the requests that a call holds walk over the reservations once, together, and a give-back of an old request
# writes a few bytes. Bytes are counted, not times: those that a script reads, and those in the AOF of both the script
# and the native module.

use strict;
use warnings;
use List::Util qw(sum0);
use Test::More;
use Testbed;
use Testbed::Clock;
use Testbed::Native qw(native_module);
use Testbed::Script;

my $seed = $ENV{TEST_SEED} // time;
srand $seed;
note "TEST_SEED=$seed";

use constant { ENTRIES => 20_000, FEW => 600, WINDOW => 3_600_000 };

my $now    = 1_800_000_000_000;
my $bed    = Testbed->new;
my $clock  = Testbed::Clock->new($bed->dir, standing => 1)->set($now);
my $redis  = $bed->redis(clock => $clock, args => ['--loadmodule', native_module(), '--appendonly', 'yes', '--appendfsync', 'no', '--auto-aof-rewrite-percentage', 0]);
my %script = map { ($_ => Testbed::Script->new($redis, 'compact_log', native => $_ eq 'native')) } qw(lua native);
my $client = $script{lua};

sub six { my ($ms) = @_; return substr pack('Q>', $ms), 2 }
sub five { my ($number) = @_; return substr pack('Q>', $number), 3 }
sub number { my ($ms) = @_; my $bytes = chr $ms % 128; $bytes = chr(128 + $ms % 128) . $bytes while $ms = int $ms / 128; return $bytes }

# Entries some ms apart, the newest now. Returns their times.
sub fill {
    my ($key, $has_runs, $is_blocked) = @_;
    my @apart   = map { int rand 4 } 2 .. ENTRIES;
    my $oldest  = $now - sum0 @apart;
    my $numbers = join '', map { number($_) } @apart;
    my $ends    = six($oldest) . ($has_runs ? five($now - $oldest) . five(ENTRIES) : six($now) . pack 'N', ENTRIES);
    my $value   = $is_blocked ? chr($has_runs ? 4 : 2) . six($now + WINDOW) . six(WINDOW) . $ends . $numbers
        : chr($has_runs ? 3 : 1) . $ends . six($now) . pack('NNNCC', length($numbers) + 500, 0, length $numbers, 0, 0) . "\0" x 64 . $numbers . "\0" x 500;
    $client->call('SET', $key, $value, 'PX', 2 * WINDOW);
    my @times = ($oldest);
    push @times, $times[-1] + $_ for @apart;
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

        # each attempt counts, and the oldest entry leaves
        ask($kind, %log, cap => ENTRIES, options => 'count=all block=1000');
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
    }
}
$bed->done;
