# Keys with contents that no log has: random contents, and logs that were changed. An error of one key does not affect
# others: the other logs of the call are decided as usual. The reply has possible numbers, or an error. First the
# scripts alone, then through nginx, which keeps its connection.

use strict;
use warnings;
use List::Util qw(max min);
use Test::More;
use Testbed qw(seed slow);
use Testbed::Algorithm qw(@ALGORITHMS %SCRIPTS);
use Testbed::Corrupt qw(any block mutate %random);
use Testbed::Http qw(many field);
use Testbed::Metrics qw(scrape);
use Testbed::Script;
use Time::HiRes qw(time);

seed();
my $rounds = Testbed::operations(300);    # of each algorithm

use constant {
    LONGEST_TIME => 366 * 86_400_000,
    LONGEST_WAIT => 999_999_999_999_999,
    LATEST       => 999_999_999_999_999,
};

my $bed   = Testbed->new;
my $redis = $bed->redis;
$redis->cli('CONFIG', 'SET', 'lua-time-limit', 500);

# ---- possible calls and replies

sub options {
    my ($algorithm, $window, $limit) = @_;
    my $delay = rand() < 0.3 ? int rand 2 * $window : 0;
    my %asked = (cost => rand() < 0.3 ? 0 : rand() < 0.5 ? 1 : 1 + int rand 12, count => rand() < 0.25, delay => $delay, ahead => $delay,
        block => rand() < 0.2 ? 1000 : 0, burst => 1 + int rand 20);
    $asked{ahead} += int rand $window if $delay && rand() < 0.5;
    my $text = join ' ', $asked{cost} != 1 ? "cost=$asked{cost}" : (), $asked{count} ? 'count=all' : (), (map { $asked{$_} ? "$_=$asked{$_}" : () } qw(delay ahead block)),
        $algorithm eq 'bucket' ? "burst=$asked{burst}" : (), $algorithm eq 'sampled' ? 'sample=3' : ();
    return ($text, %asked);
}

# Why that is no possible reply to that call; '' if it is, as in src/redis/reply.cpp.
sub wrong {
    my ($reply, $algorithm, $requests, $window, $limit, %asked) = @_;
    return $reply =~ /^error (?:WRONGTYPE|ERR) / ? '' : "error: $reply" if !ref $reply;
    my ($admitted, $now, $remaining, $reset, $retry, @held) = @$reply;
    my $capacity = $algorithm eq 'bucket' ? $asked{burst} : $limit;
    return 'numbers missing' if !defined $retry;
    return "$admitted of $requests admitted" if $admitted < 0 || $admitted > $requests;
    return "now $now" if $now < 0 || $now > LATEST;
    my $latest = 1;
    for (@held) {
        return "held for $_" if $_ < $latest || $_ > $asked{delay};
        $latest = $_;
    }
    my $taken = $algorithm eq 'sampled' ? 0 : ($admitted - @held) * $asked{cost};
    return "remaining $remaining" if $remaining < 0 || $remaining > $capacity - $taken;
    my $permits = $algorithm =~ /counter|bucket/ ? 0 : max(1, min(1000, int $window / 100));    # they may be so far ahead
    my $furthest = ($algorithm =~ /counter|bucket/ ? 2 : 1) * $window + max($asked{ahead}, $permits);
    my $most = $algorithm eq 'bucket' && $admitted < $requests && $remaining == 0 ? LONGEST_WAIT : $furthest;
    return "reset $reset" if $reset < 0 || $reset > $most;
    my $never = $limit < 1 || $asked{cost} > $capacity;
    return "never $retry" if $never && ($admitted > 0 || $retry != -1);
    my $longest = max($algorithm eq 'bucket' ? LONGEST_WAIT : $furthest, LONGEST_TIME);
    return "retry $retry" if !$never && $retry != 0 && ($retry < 1 || $retry > $longest);
    return "retry $retry, $admitted of $requests admitted" if ($retry == 0) != ($admitted == $requests);
    return '';
}

for my $algorithm (@ALGORITHMS) {
    my $script = Testbed::Script->new($redis, $SCRIPTS{$algorithm});
    my (@wrong, %met);
    my $slowest = 0;
    my $ask     = sub {
        my $begin = time;
        local $SIG{ALRM} = sub { die "the script does not end\n" };
        alarm 20;
        my $reply = $script->call(@_);
        alarm 0;
        $slowest = max($slowest, time - $begin);
        return $reply;
    };
    my $more = $algorithm eq 'bucket' ? 'burst=50' : $algorithm eq 'sampled' ? 'sample=1' : '';
  ROUND: for my $round (1 .. $rounds) {
        my $window = any(1, 20, 1000, 10_000, 86_400_000);
        my $own    = rand() < 0.3;
        my $now    = $own ? int 1000 * time : 1_800_000_000_000 + int rand 1e6;
        my $key    = "$algorithm $round";
        my $limit  = any(0, 1, 5, 40, 400);
        my %log    = (key => $key, limit => $limit, window => $window, cap => any(0, $limit + 1), ttl => 3 * $window + 60_000);
        my @made;
        if (rand() < 0.5) {
            my $at = $now - int rand 1.2 * $window;
            for (1 .. any(1, 3, 12, 150)) {
                $ask->($script->words($at, [1, { %log, limit => 1e6, options => $algorithm eq 'bucket' ? 'burst=1000' : $algorithm eq 'sampled' ? 'sample=3' : any('', 'cost=3') }]));
                $at += int rand $window / 50 + 1;
            }
            @made = mutate($script, $algorithm, $key, $now, $window);
        }
        @made = $random{$algorithm}->($key, $now, $window) if !@made;
        $script->call(@$_) for @made;
        for my $step (1 .. 4) {
            my ($text, %asked) = options($algorithm, $window, $limit);
            my $what = join ', ', "round $round, step $step", $text, "limit $limit in $window", "now $now";
            my $at   = $own ? '' : $now;
            if (rand() < 0.25) {
                my $taken = $now - int rand 3;
                my $reply = $ask->($script->words(['take back', $at, $now - int rand any(3, $window), $taken],
                    [['u1'], { key => "$key beside", limit => 5, window => 1000, options => $more }, { %log, options => $text }]));
                push @wrong, "$what: taken back $reply" and last ROUND if $reply !~ /^(?:[012]$|error (?:WRONGTYPE|ERR) )/;
                next;
            }
            my $requests = any(1, 1, 3);
            my $reply = $ask->($script->words($at, map { [@$_] } [1, { key => "$key a $step", limit => 50, window => 10_000, options => $more }],
                [$requests, { %log, options => $text }], [1, { key => "$key b $step", limit => 50, window => 10_000, options => $more }]));
            my $reason = !ref $reply ? $reply : @$reply != 3 ? scalar(@$reply) . ' replies' : wrong($reply->[1], $algorithm, $requests, $window, $limit, %asked);
            $reason ||= 'a neighbour was not admitted' if !ref $reply->[0] || "$reply->[0][0] $reply->[0][2] $reply->[2][0] $reply->[2][2]" ne '1 49 1 49';
            push @wrong, "$what: $reason" and last ROUND if $reason;
            $met{ ref $reply->[1] ? $reply->[1][0] == $requests ? 'admitted' : 'denied' : $reply->[1] =~ s/^error (\w+).*/$1/sr }++;
            $now += int rand any(2, $window) if !$own;
        }
    }
    is("@wrong", '', "$algorithm: whatever a key holds, its reply is one that can be, and its neighbours are admitted");
    cmp_ok($slowest, '<', 0.2 * slow(), "$algorithm: no call takes long");
    cmp_ok($met{WRONGTYPE} // 0, '>', $rounds / 20, "$algorithm: keys that are no logs are told");
    note "$algorithm: ", join ', ', map { "$_ $met{$_}" } sort keys %met;
}

# ---- the extremes of all parameters give possible replies, on logs that other nodes have written

my %most_cost = (log => 1000, sampled => 1000, compact => 1e12, counter => 1e12, bucket => 1e12);
for my $algorithm (@ALGORITHMS) {
    my $script = Testbed::Script->new($redis, $SCRIPTS{$algorithm});
    my @wrong;
    for my $round (1 .. $rounds / 3) {
        my $window = any(1, 2, 1000, LONGEST_TIME);
        my $ahead  = any(0, 0, 1, $window, LONGEST_TIME);
        my $now    = 1_800_000_000_000 + int rand 1e12;
        for my $step (1 .. 12) {
            my $limit = any(0, 1, 1, 2, 1000, 1e12);
            my %asked = (cost => any(0, 1, 1, 2, 7, 999, 1e3, 99_999, 1e5, 1e12 - 1, 1e12), count => any(0, 0, 1), delay => any(0, 1, $ahead), ahead => $ahead,
                block => any(0, 0, 0, 1, LONGEST_TIME), burst => any(1, 2, 1e5, 1e12));
            $asked{delay} = $ahead if $asked{delay} > $ahead;
            $asked{cost}  = any(0, 1, 3) if $asked{cost} > $most_cost{$algorithm} || $asked{count} && $algorithm =~ /log|compact|sampled/;
            my $options = join ' ', (map { sprintf '%s=%d', $_, $asked{$_} } grep { $asked{$_} || $_ eq 'cost' } 'cost'), $asked{count} ? 'count=all' : (),
                (map { $asked{$_} ? sprintf '%s=%d', $_, $asked{$_} : () } qw(delay ahead block)),
                $algorithm eq 'bucket' ? sprintf 'burst=%d', $asked{burst} : (), $algorithm eq 'sampled' ? 'sample=3' : ();
            my $requests = any(1, 1, 4);
            my $reply    = $script->call($script->words($now, [$requests, { key => "extreme $algorithm $round", limit => sprintf('%d', $limit),
                window => $window, cap => sprintf('%d', any(0, $limit, 1e12)), ttl => 2 * $window + $ahead, options => $options }]));
            my $reason = !ref $reply ? $reply : !ref $reply->[0] ? $reply->[0] : wrong($reply->[0], $algorithm, $requests, $window, $limit, %asked);
            push @wrong, "round $round, step $step, limit $limit in $window, $options, $requests requests: $reason" if $reason;
            $now += int rand any(1, 5, $window, 3 * $window);
        }
    }
    is(join("\n", @wrong), '', "$algorithm: whatever is allowed, its reply is one that can be");
}
my $far = 1_800_000_000_000 + LONGEST_TIME - 1;
$redis->cli('HSET', 'far', $far, 5);
my $begin = time;
is(Testbed::Script->new($redis, 'sliding_counter', own_clock => 1)->ask($far - LONGEST_TIME + 1, { key => 'far', limit => 1, window => 1, options => 'ahead=' . LONGEST_TIME }),
    '0 0 ' . (LONGEST_TIME + 1) . ' ' . (LONGEST_TIME + 1), 'counter: a reservation is 366 days and as many windows ahead');
cmp_ok(time - $begin, '<', 0.2 * slow(), 'counter: windows without a count take no time');

# ---- through nginx

my %kinds = (plain => '', look => 'cost=0', large => 'cost=3', all => 'count=all cap=12', delay => 'delay=50ms', block => 'block=1s', refund => 'refund=2xx');
my $locations = '';
for my $algorithm (@ALGORITHMS) {
    for my $kind (sort keys %kinds) {
        $locations .= "location /$kind/$algorithm { sliding_log_limit $algorithm-$kind key=\$arg_k limit=10 window=1m algorithm=$algorithm $kinds{$kind}; empty_gif; }\n";
    }
}
my $nginx = $bed->serve(
    PORT_OF_REDIS => $redis->port, LOCATIONS => $locations,
    workers       => 1,    # so its requests of one turn are in one call
    store         => 'server 127.0.0.1:%%PORT_OF_REDIS%%; timeout 5s; connect_timeout 5s;',
    http          => 'sliding_log_on_error allow;',
    how           => '$sliding_log_source',
    server        => 'location = /metrics { sliding_log_metrics; } %%LOCATIONS%%',
);
my $client = Testbed::Script->new($redis, 'sliding_log');
my (%sources, @lost);
for my $batch (1 .. 30) {
    my $now = int 1000 * time;
    my @paths;
    for my $algorithm (@ALGORITHMS) {
        for my $kind (sort keys %kinds) {
            my $key = "rl:sliding:$algorithm-$kind:{c$batch}";
            $client->call(@$_) for $random{$algorithm}->($key, $now, 60_000);
            push @paths, "/$kind/$algorithm?k=c$batch", "/$kind/$algorithm?k=h$batch", "/$kind/$algorithm?k=c$batch";
        }
    }
    my @answers = many([map { [$nginx->port, $_] } @paths], at_once => 105);
    for my $i (0 .. $#paths) {
        my $how = field($answers[$i], 'X-How') // '';
        $sources{ $paths[$i] =~ /k=c/ ? 'corrupt' : 'healthy' }{$how}++;
        push @lost, $paths[$i] if $paths[$i] =~ /k=h/ && $how ne 'redis';
    }
}
is("@lost", '', 'requests of other keys are decided by Redis');
cmp_ok($sources{corrupt}{error} // 0, '>', 500, 'corrupt keys: on_error decides');
note join ', ', map { my $which = $_; map { "$which $_ $sources{$which}{$_}" } sort keys %{ $sources{$which} } } sort keys %sources;
my $metrics = scrape($nginx->port);
is($metrics->value('sliding_log_store_errors_total', reason => $_) // 0, 0, "no error is counted as $_") for qw(unexpected down timeout);
cmp_ok($metrics->value('sliding_log_store_errors_total', reason => 'wrong_type'), '>', 500, 'corrupt keys are counted as of a wrong type');
is($nginx->logged(qr/unexpected reply|connection lost|is down/), 0, 'the connection is never closed');

$bed->done;
