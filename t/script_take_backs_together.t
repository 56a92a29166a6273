# Several requests are taken back, or settled, in one call: each has the reply and the effect of a call of its own, by
# both clocks, whatever the others do. Random histories of two copies of a log; then errors in between, and logs that a
# cluster is about to move.

use strict;
use warnings;
use List::Util qw(shuffle);
use Test::More;
use Testbed qw(seed);
use Testbed::Algorithm qw(%ALL_SCRIPTS);
use Testbed::CompactLog qw(times_of);
use Testbed::Script;

seed();
use constant ROUNDS => Testbed::operations(150);

my $bed     = Testbed->new;
my $redis   = $bed->redis;
my @named   = grep { $_ ne 'inflight' } sort keys %ALL_SCRIPTS;
my %script  = map { $_ => Testbed::Script->new($redis, $ALL_SCRIPTS{$_}) } @named;
my %settles = map { $_ => 1 } qw(compact counter bucket quota);

# Logs of many entries: most of them are in the ring, also of short ones with a small front.
my $front = $ENV{TEST_NATIVE} ? 64 : 14;
my %long  = (compact => Testbed::Script->new($redis, 'compact_log', $ENV{TEST_NATIVE} ? () : (front => $front)), log => $script{log});

# What a log has. One of compact: its times, since one place of a time is as good as another.
sub contents {
    my ($algorithm, $script, $key, $its_front) = @_;
    return $script->call('DUMP', $key) // '' if $algorithm ne 'compact';
    my $log = $script->call('GET', $key) // return '';
    return join ' ', $script->call('PTTL', $key) > 0 ? 'expires' : 'stays', @{ times_of($log, $its_front) };
}

sub any { return $_[int rand @_] }

sub log_of {
    my ($algorithm, $limit, $key, @options) = @_;
    push @options, 'burst=30' if $algorithm eq 'bucket';
    push @options, 'sample=1' if $algorithm eq 'sampled';
    return { key => $key, limit => $limit, window => 5000, ttl => 3_600_000, options => join ' ', @options };
}

for my $world ((map { [$_, 30, $script{$_}] } @named), map { [$_, 400, $long{$_}] } sort keys %long) {
    my ($algorithm, $limit, $script) = @$world;
    my $about = "$algorithm, limit=$limit";
    my ($wrong, $changed, $together) = ('', 0, 0);
    for my $round (1 .. ROUNDS) {
        my $now    = 1_800_000_000_000 + int rand 1e6;
        my @blocks = rand() < 0.3 && $algorithm ne 'quota' ? ('block=400') : ();
        my %copy   = map { my $copy = $_; ($copy => sub { return map { log_of($algorithm, $limit, "{$about $round $copy}$_", @_) } 1, 2 }) } qw(apart together);
        my @under_way;
        for my $number (1 .. 5 + rand $limit) {
            $now += any(0, 0, 1, int rand 40, int rand 18_000 / $limit);
            my $cost = any(1, 1, 2, int rand 9);
            my @told = map { my @logs = $copy{$_}->("cost=$cost", @blocks); $script->ask_groups($now, [["r$number"], @logs]) } qw(apart together);
            $wrong ||= "two copies decide unlike: @told" if $told[0] ne $told[1];
            push @under_way, { name => "r$number", cost => $cost, logged => $now, taken => $now } if $told[0] =~ /^1/;
        }
        $now += any(0, int rand 100, int rand 4000);
        my $ended = $limit > 100 ? 0.1 : 0.6;
        my @ended = map { +{ %$_, settle => $settles{$algorithm} ? any(undef, 0, int rand 12, int rand 40) : undef } }
            grep { rand() < $ended } shuffle(@under_way);
        next if @ended < 2;
        my $ask = sub {
            my ($copy) = @_;
            return map {
                my $ended = $_;
                +{ %$ended, logs => [$copy{$copy}->("cost=$ended->{cost}", @blocks, defined $ended->{settle} ? ("settle=$ended->{settle}", 'ended=000000000003') : ())] }
            } @ended;
        };
        my @apart    = map { $script->take_back_all($now, $_) } $ask->('apart');
        my $replies  = $script->take_back_all($now, $ask->('together'));
        $wrong ||= "round $round: (@{[ref $replies ? @$replies : $replies]}), and (@apart) apart" if !ref $replies || "@$replies" ne "@apart";
        for my $i (1, 2) {
            my ($left, $right) = map { contents($algorithm, $script, "{$about $round $_}$i", $limit > 100 ? $front : 64) } qw(apart together);
            $wrong ||= "round $round: log $i has other contents" if $left ne $right;
        }
        $changed += $_ for @apart;
        $together += @ended;
        last if $wrong;
    }
    is($wrong, '', "$about: $together requests are taken back as if each had its own call");
    cmp_ok($changed, '>', ROUNDS, "$about: they leave their logs");
}

# ---- errors

for my $algorithm (@named) {
    my $script = $script{$algorithm};
    my $now    = 1_800_000_000_000;
    my @logs   = map { log_of($algorithm, 30, "{errors $algorithm}$_", 'cost=2') } 1 .. 3;
    for my $i (0 .. 2) {
        $script->ask_groups($now, [["e$i"], $logs[$i]]);
    }
    $redis->cli('SET', $logs[1]{key}, 'nothing of ours');
    my @requests = map { +{ name => "e$_", logged => $now, taken => $now, logs => [$logs[$_]] } } 0 .. 2;
    my $reply = $script->take_back_all($now + 1, @requests);
    is(ref $reply ? join(' ', map { s/^(error \w+).*/$1/r } @$reply) : $reply, $algorithm eq 'compact' ? '1 0 1' : '1 error WRONGTYPE 1',
        "$algorithm: a key that is no log fails alone");
    like($script->take_back_all($now + 1, $requests[0]), qr/^[01]$/, "$algorithm: a call of one has a plain reply");
}

# ---- a slot that is being moved

my $cluster = $bed->cluster(masters => 2);
my ($from, $to) = $cluster->nodes;
for my $algorithm (@named) {
    my $script = Testbed::Script->new($from, $ALL_SCRIPTS{$algorithm});
    my $tag    = $cluster->tag_on($from);
    my $log    = log_of($algorithm, 30, "{$tag}$algorithm");
    my $now    = 1_800_000_000_000;
    $script->ask_groups($now, [["m$_"], $log]) for 1, 2;
    $cluster->begin_move($cluster->slot_of($tag), $from, $to);
    my $reply = $script->take_back_all($now + 1, map { +{ name => "m$_", logged => $now, taken => $now, logs => [$log] } } 1, 2, 3);
    my $last = $algorithm eq 'bucket' ? 1 : 0;    # a bucket stays
    like(ref $reply ? join(' ', @$reply) : $reply, qr/^1 1 (?:$last|error .*ttempted to access a non local key.*)$/,
        "$algorithm: what follows the one that empties a log that is about to move is not done, or finds nothing");
}

$bed->done;
