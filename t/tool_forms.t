# sliding-log inspect computes as the scripts do: for random logs of every algorithm, with costs, reservations and
# blocks, it prints the reply of the script at the same time.

use strict;
use warnings;
use Test::More;
use Testbed qw(seed);
use Testbed::Algorithm qw(@ALGORITHMS %SCRIPTS);
use Testbed::Script;
use Testbed::Tool qw(tool tool_json);
use Time::HiRes qw(time);

seed();

my $rounds = Testbed::operations(60, 3);    # of each algorithm; with a fifth, some seeds have no record
my $bed    = Testbed->new;
my $redis  = $bed->redis;
my %scripts = map { ($_ => Testbed::Script->new($redis, $SCRIPTS{$_})) } @ALGORITHMS;

my $burst = 1;    # of a bucket

sub record {
    my ($what, $until) = @_;
    return "$what until=$until since=" . int(time * 1000) . ' by=somebody why=any text';
}

# What a record beside the log may say; undef: there is none.
sub any_record {
    my ($limit) = @_;
    return if rand() < 0.4;
    my $now  = int(time * 1000);
    my $what = ('allow', 'deny', 'limit=' . int rand 2 * $limit, 'limit=many')[rand 4];
    return record($what, (0, $now + 3_600_000, $now - 1)[rand 3]);
}

# The reply to one request: admitted, now, remaining, reset, retry.
sub asked {
    my ($algorithm, $key, $now, $limit, $window, @options) = @_;
    push @options, "burst=$burst" if $algorithm eq 'bucket';
    push @options, 'sample=10'    if $algorithm eq 'sampled';
    my %log   = (key => $key, limit => $limit, window => $window, ttl => 2 * $window + 60_000, options => "@options");
    my $reply = $scripts{$algorithm}->call($scripts{$algorithm}->words($now, [1, \%log]));
    return ref $reply && ref $reply->[0] ? @{ $reply->[0] } : die "$algorithm: no answer\n";
}

for my $algorithm (@ALGORITHMS) {
    my ($differ, $full, $ahead, $obeyed) = (0, 0, 0, 0);
    for my $round (1 .. $rounds) {
        my $key    = "rl:sliding:$algorithm:{$round}";
        my $crowded = $round == 1;    # has reservations for sure
        $burst = 1 + int rand 2 * 30;
        my $end    = int(time * 1000);
        my $middle = int $end / (int($end / 3_600_000) + 0.5);    # an hour or so: now is in the middle of two blocks of a counter
        my $window = $crowded ? $middle : (2000, 7000, 60_000, 3_600_000)[rand 4];
        my $limit  = $crowded ? 10 + int rand 20 : 1 + int rand 30;
        my $delay  = $crowded || rand() < 0.5 ? $window : 0;
        my @delay  = $delay ? ("delay=$delay", "ahead=$delay") : ();
        my $spread = $crowded ? 1000 : 2 * $window;
        my $at     = $end - int(0.75 * $spread);
        my $requests = $crowded ? 4 * $limit : 1 + int rand 4 * $limit;
        for (1 .. $requests) {
            $at += int rand $spread / $requests;
            last if $at > $end;
            asked($algorithm, $key, $at, $limit, $window, rand() < 0.2 ? 'cost=' . (1 + int rand 3) : (), @delay);
        }
        my @more = $algorithm eq 'sampled' ? ('--sample', 10) : $algorithm eq 'bucket' ? ('--burst', $burst) : ();
        my $record = $obeyed ? any_record($limit) : record("limit=$limit", 0);
        $redis->cli('SET', "$key:override", $record) if $record;
        my $told = tool_json('inspect', $algorithm, $round, '--server', $redis->address, '--limit', $limit, '--window', "${window}ms", @more);
        next if !defined $told->{algorithm};    # none of its requests is logged
        $obeyed++ if $told->{override} && $told->{override}{obeyed};
        # a request of cost 0 or a denied one is not logged
        my (undef, undef, $remaining) = asked($algorithm, $key, $told->{now_ms}, $limit, $window, 'cost=0', 'override', @delay ? "ahead=$delay" : ());
        my $retry = $remaining > 0 ? 0 : (asked($algorithm, $key, $told->{now_ms}, $limit, $window, 'override', @delay ? "ahead=$delay" : ()))[4];
        $full++ if $remaining == 0;
        $ahead++ if ($told->{newest_ms} // 0) > $told->{now_ms};
        next if $told->{algorithm} eq $algorithm && $told->{remaining} == $remaining && $told->{retry_ms} == $retry;
        $differ++;
        diag(($record // 'no record') . ": $key, limit $limit in $window ms: $told->{algorithm} $told->{remaining} $told->{retry_ms}, the script: $remaining $retry");
    }
    is($differ, 0, "$algorithm: inspect tells what the script says of $rounds logs, $full of them full");
    cmp_ok($obeyed, '>', 0, "$algorithm: some logs have a record");
    cmp_ok($full, '>', 0, "$algorithm: some logs are full");
    cmp_ok($ahead, '>', 0, "$algorithm: some logs have reservations") if $algorithm =~ /log|compact|counter/;
}

# ---- counts far ahead, which a clock or a hand has set: no window up to them is gone through

for my $fields (['999999999999999', 5], ['999999999999999', 5, '1', 3], ['999999999999999', '9007199254740991'], ['9223372036854775807', 5, int(time * 1000), 5], ['-5', 7, int(time * 1000), 5]) {
    $redis->cli('DEL', 'rl:sliding:counter:{far}');
    $redis->cli('HSET', 'rl:sliding:counter:{far}', @$fields);
    my $before = time;
    my $far    = tool('inspect', 'counter', 'far', '--server', $redis->address, '--limit', 3, '--window', '1s');
    is($far->{status}, 0, "counter: inspect of @$fields");
    cmp_ok(time - $before, '<', 5, 'takes no long time');
}

# ---- blocks

$burst = 1;

for my $algorithm (@ALGORITHMS) {
    my $key = "rl:sliding:$algorithm:{blocked}";
    my $now = int(time * 1000);
    my $reply = [asked($algorithm, $key, $now, 1, 60_000, 'cost=5', 'block=600000')];
    is($reply->[0], 0, "$algorithm: a request is denied, and blocked");
    my $told = tool_json('inspect', $key, '--server', $redis->address);
    ok($told->{blocked_ms} > 500_000 && $told->{blocked_ms} <= 600_000, "$algorithm: inspect tells how long the block is") or diag(explain($told));
    my $human = tool('inspect', $key, '--server', $redis->address);
    like($human->{out}, qr/^blocked +for 9 m 5\d s$/m, "$algorithm: inspect tells people how long the block is");
    like($human->{out}, qr/^retry +in 9 m .*when the block ends$/m, "$algorithm: inspect shows that the retry is not before the end of the block");
    is(tool('reset', $key, '--server', $redis->address)->{status}, 0, "$algorithm: reset of a blocked log exits with 0");
    is((asked($algorithm, $key, $now, 1, 60_000))[0], 1, "$algorithm: the client is admitted after reset");
}

is(tool('inspect', 'rl:sliding:counter:{blocked}', '--server', $redis->address, '--sample', 10)->{status}, 3,
    '--sample is refused for a log of another algorithm');

$bed->done;
