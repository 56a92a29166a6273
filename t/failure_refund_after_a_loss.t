# A log is lost while requests are in progress: flushed, deleted, or expired. Their refunds do not remove entries of
# others. A counter and a bucket have no names for what they count, so times are stored, in forms that older versions
# can read.

use strict;
use warnings;
use IO::Socket::INET;
use List::Util qw(sum0);
use Test::More;
use Testbed qw(seed wait_until);
use Testbed::Algorithm qw(@ALGORITHMS %SCRIPTS);
use Testbed::Http qw(get connect_to);
use Testbed::Script;

seed();

my $bed   = Testbed->new;
my $redis = $bed->redis;
my $T     = 1_800_000_003_000;    # 3 s into a window of 10 s

my %scripts = map { ($_ => Testbed::Script->new($redis, $SCRIPTS{$_}, own_clock => 1)) } @ALGORITHMS;    # only this clock steps back
my %options = (bucket => 'burst=20', sampled => 'sample=1');

sub any { return $_[int rand @_] }
sub limit_of { my ($algorithm, $key, $more) = @_; return { key => $key, limit => 20, window => 10_000, ttl => 60_000, options => join ' ', grep { length } $more, $options{$algorithm} } }
sub hash { return { @{ $scripts{counter}->call('HGETALL', $_[0]) } } }

for my $algorithm (@ALGORITHMS) {
    my $script = $scripts{$algorithm};
    my $ask  = sub { my ($now, $names, $more) = @_; return (split / /, $script->ask_groups($now, [$names, limit_of($algorithm, $algorithm, $more // '')]))[0] };
    my $back = sub { my ($now, $taken, $name, $more) = @_; return $script->take_back({ now => $now, logged => $taken, taken => $taken }, $name, limit_of($algorithm, $algorithm, $more // '')) };
    my $left = sub { my ($now) = @_; return (split / /, $script->ask($now, limit_of($algorithm, $algorithm, 'cost=0')))[1] };

    for my $loss (['FLUSHALL'], ['DEL', $algorithm], ['PEXPIRE', $algorithm, 0]) {
        $redis->cli('FLUSHALL');
        is($ask->($T, [map { "a$_" } 1 .. 20]), 20, "$algorithm, @$loss: twenty of twenty are admitted before");
        $redis->cli(@$loss);
        is($ask->($T + 5, [map { "b$_" } 1 .. 20]), 20, "$algorithm, @$loss: twenty of twenty are admitted afterwards");
        is(sum0(map { $back->($T + 10, $T, "a$_") } 1 .. 20), 0, "$algorithm, @$loss: nothing is given back of those before");
        is($ask->($T + 11, [map { "c$_" } 1 .. 20]), 0 + ($algorithm eq 'bucket' ? int 11 * 20 / 10_000 : 0), "$algorithm, @$loss: nobody is admitted for them");
        is(sum0(map { $back->($T + 12, $T + 5, "b$_") } 1 .. 5), 5, "$algorithm, @$loss: five are given back of those afterwards");
        is($ask->($T + 13, [map { "d$_" } 1 .. 20]), 5, "$algorithm, @$loss: five are admitted for those");
    }

    # nothing was lost
    $redis->cli('FLUSHALL');
    $ask->($T + $_, ["e$_"], 'cost=2') for 1 .. 5;
    is(sum0(map { $back->($T + 10, $T + $_, "e$_", 'cost=2') } 5, 1, 4, 2, 3), 5, "$algorithm: in any order what was taken is given back");
    is($left->($T + 10), 20, "$algorithm: nothing is left of what was given back");

    # the clock steps back after a request, and before another
    $redis->cli('FLUSHALL');
    $ask->($T, ['f1']);
    $ask->($T - 2000, ['f2']);
    is($back->($T - 1999, $T, 'f1') + $back->($T - 1998, $T - 2000, 'f2'), 2, "$algorithm, clock back by two seconds: both requests are given back");
    is($left->($T - 1997), 20, "$algorithm, clock back by two seconds: nothing is left of them");
}

# returned tokens are not given back again
my $bucket = sub { my ($key, @more) = @_; return { key => $key, limit => 20, window => 10_000, options => join ' ', @more, 'burst=20' } };
$scripts{bucket}->ask($T, $bucket->('refilled', 'cost=10'));
$scripts{bucket}->ask($T + 6000, $bucket->('refilled', 'cost=5'));
is($scripts{bucket}->take_back({ now => $T + 6001, logged => $T, taken => $T }, 'x', $bucket->('refilled', 'cost=10')), 0,
    'bucket: tokens that have returned are not given back');
is((split / /, $scripts{bucket}->ask($T + 6001, $bucket->('refilled', 'cost=0')))[1], 15, 'bucket: the tokens of a later request stay taken');

# reservations
my $counter = sub { my ($key, @more) = @_; return { key => $key, limit => 2, window => 10_000, ttl => 60_000, options => "@more" } };
my $held    = sub { my ($now) = @_; return $scripts{counter}->ask_groups($now, [3, $counter->('held', 'delay=15000', 'ahead=15000')]) };
my $return  = sub { my ($now, $taken, $at) = @_; return $scripts{counter}->take_back({ now => $now, logged => $at, taken => $taken }, 'x', $counter->('held', 'ahead=15000')) };
is($held->($T), '3 0 17000 0 12000', 'counter: the third of two waits for the next window');
$redis->cli('FLUSHALL');
is($held->($T + 1), '3 0 16999 0 11999', 'counter: a later request waits for it after the counts were lost');
is($return->($T + 2, $T, $T + 12000), 0, 'counter: a reservation that was lost is not given back');
is($return->($T + 2, $T + 1, $T + 12000), 1, 'counter: a reservation that was not lost is given back');
$held->($T + 2);
is($return->($T + 12500, $T + 2, $T + 12000), 1, 'counter: a reservation is given back when its window has come');

# ---- versions side by side

# written by a version that used only starts
my $start = $T - $T % 10_000;
$redis->cli('HSET', 'old', $start, 5);
is($scripts{counter}->ask($T, { %{ $counter->('old') }, limit => 10 }), '1 4 8667 0', 'counter: a count with the start of its window is read');
is($scripts{counter}->take_back($T, 'x', $counter->('old')), 1, 'counter: a request is given back from a count with the start of its window');
is_deeply(hash('old'), { $start => 5 }, 'counter: a count with the start of its window keeps its form');
$redis->cli('HSET', 'old bucket', 'used', 50_000, 'time', $T);
is($scripts{bucket}->ask($T, $bucket->('old bucket')), '1 14 500 0', 'bucket: a bucket with an unknown beginning is read');
is($scripts{bucket}->take_back({ now => $T, logged => $T - 1, taken => $T - 1 }, 'x', $bucket->('old bucket')), 1, 'bucket: a bucket with an unknown beginning takes tokens back');

# such a version can read what is written now: each name of a count is a number in its window, each count is whole,
# there is no other name, and the time of a bucket is still a number
my @wrong;
for my $round (1 .. 60) {
    my ($window, $now) = (any(1, 10, 1000, 10_000), $T + int rand 100_000);
    my @key = (key => "mixed $round", window => $window, ttl => 3 * $window + 60_000);
    my $sum = 0;
    for (1 .. 40) {
        my $delay = any(0, 2 * $window);
        my $cost  = any(1, 3);
        my %asked = (@key, limit => 12, options => join ' ', "cost=$cost", $delay ? ("delay=$delay", "ahead=$delay") : (), any('', 'block=50'));
        $scripts{counter}->ask($now, { %asked });
        $scripts{bucket}->ask($now, { %asked, key => "bucket $round", options => "$asked{options} burst=9" });
        $scripts{$_->[0]}->take_back({ now => $now, logged => $now, taken => $now - int rand 3 }, 'x', { %asked, key => "$_->[1] $round", options => "$asked{options} burst=9" })
            for grep { rand() < 0.1 } ['counter', 'mixed'], ['bucket', 'bucket'];
        $now += rand() < 0.05 ? -int rand 3 * $window : int rand any(2, $window);
        my $counts = hash("mixed $round");
        push @wrong, "$_ => $counts->{$_}" for grep { !/^\d+$/ && !/^(?:reserved|blocked until|blocked for)$/ || /^\d/ && $counts->{$_} !~ /^\d+$/ } keys %$counts;
        push @wrong, "reserved $counts->{reserved}" if exists $counts->{reserved} && $counts->{reserved} !~ /^\d{13}(?:\.00000\d{13})?$/;
        my $level = hash("bucket $round");
        push @wrong, map { "$_ => $level->{$_}" } grep { !/^(?:used|time|blocked until|blocked for)$/ || $level->{$_} !~ ($_ eq 'time' ? qr/^\d{13}(?:\.|\.00000\d{13})?$/ : qr/^\d+$/) } keys %$level;
    }
}
is(join("\n", @wrong), '', 'every field has a form that older versions can read');
for my $text ("$T.00000$T", "$T.") {
    is($redis->cli('EVAL', 'return tonumber(ARGV[1]) == tonumber(ARGV[2]) and 1 or 0', 0, $text, $T), 1, "$text reads as $T");
}

# ---- through nginx

my $silent = IO::Socket::INET->new(Listen => 100, LocalAddr => '127.0.0.1') or die "listen: $!";
my $limits = sub {
    my ($place, $more, $inside) = @_;
    return join "\n", map {
        my $algorithm = $_;
        "location /$place/$algorithm { sliding_log_limit $algorithm key=\$arg_k limit=10 window=1h algorithm=$algorithm $more"
            . ($algorithm eq 'sampled' ? ' sample=1' : '') . "; $inside }"
    } @ALGORITHMS;
};
my $nginx = $bed->serve(
    workers => 2,
    redis   => $redis,
    http    => 'sliding_log_on_error deny;',
    server  => $limits->('slow', 'refund=5xx', 'proxy_pass http://127.0.0.1:' . $silent->sockport . ';')
        . $limits->('fast', '', 'empty_gif;'),
);
sub statuses { my ($path, $times) = @_; my %count; $count{ get($nginx->port, $path)->{status} }++ for 1 .. $times; return join ' ', map { "$_: $count{$_}" } sort keys %count }

for my $algorithm (@ALGORITHMS) {
    my (@clients, @backends);
    for (1 .. 10) {
        push @clients, connect_to($nginx->port);
        $clients[-1]->syswrite("GET /slow/$algorithm?k=a HTTP/1.0\r\nHost: x\r\n\r\n");
        push @backends, scalar $silent->accept;
    }
    is(statuses("/fast/$algorithm?k=a", 1), '429: 1', "$algorithm: ten requests are under way, and the limit is reached");
    $redis->cli('FLUSHALL');
    ok(wait_until('a request of another key', 5, sub { get($nginx->port, "/fast/$algorithm?k=b")->{status} == 200 }), "$algorithm: Redis decides when it was flushed");
    my $admitted = 0;
    wait_until('ten others', 5, sub { $admitted += get($nginx->port, "/fast/$algorithm?k=a")->{status} == 200; $admitted == 10 });
    is($admitted, 10, "$algorithm: ten others are admitted when it was flushed");
    my ($errors, $refunds) = (0, 0);
    for my $i (0 .. $#clients) {
        my $calls = $redis->calls('evalsha');
        sysread $backends[$i], my $request, 65536;
        $backends[$i]->syswrite("HTTP/1.0 500 Internal Server Error\r\n\r\n");
        close $backends[$i];
        $errors  += readline($clients[$i]) =~ m{^HTTP/1.1 500};
        $refunds += wait_until('a refund', 5, sub { $redis->calls('evalsha') > $calls });
    }
    is($errors,  10, "$algorithm: the ten under way fail");
    is($refunds, 10, "$algorithm: each is to be given back");
    is(statuses("/fast/$algorithm?k=a", 10), '429: 10', "$algorithm: nobody is admitted for those that were lost");
}

$bed->done;
