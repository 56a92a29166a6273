# All workers of the node deny what Redis denied without a call, until there is room again, and for a second at most.
# Then one request asks for all. limit_known_denials_end.t tests what ends a known denial before.

use strict;
use warnings;
use Test::More;
use Testbed qw(conf slow wait_until);
use Testbed::Http qw(get many field statuses);
use Time::HiRes qw(time);

my $bed   = Testbed->new;
my $redis = $bed->redis;
my $other = $bed->redis;
my $conf  = conf(
    workers => 4,
    listen  => 'reuseport',
    http    => <<'HTTP',
    sliding_log_redis one { server %%REDIS%%; timeout 5s; connect_timeout 5s; reconnect 10ms 50ms; }
    sliding_log_redis two { server %%OTHER%%; timeout 5s; connect_timeout 5s; reconnect 10ms 50ms; }
    add_header X-Source "$sliding_log_source $sliding_log_name $sliding_log_retry_after" always;
HTTP
    server  => <<'END',
    location /hour  { sliding_log_limit hour key=$arg_k limit=%%LIMIT%% window=1h; empty_gif; }
    location /short { sliding_log_limit short key=$arg_k limit=1 window=500ms; empty_gif; }
    location /vary  { sliding_log_limit vary key=$arg_k limit=$arg_l window=1h; empty_gif; }
    location /zero  { sliding_log_limit zero key=$arg_k limit=0 window=1h; empty_gif; }
    location /two   { sliding_log_limit a key=$arg_k limit=2 window=1h; sliding_log_limit b key=$arg_k limit=9 window=1d; empty_gif; }
    location /apart {
        sliding_log_limit near key=$arg_k limit=9 window=1h store=one;
        sliding_log_limit far key=$arg_k limit=2 window=1h store=two;
        sliding_log_limit here key=$arg_k limit=9 window=1h store=local;
        empty_gif;
    }
    location /counted {
        sliding_log_limit counts key=$arg_k limit=9 window=1h store=one count=all cap=100;
        sliding_log_limit denies key=$arg_k limit=2 window=1h store=two;
        empty_gif;
    }
    location /all    { sliding_log_limit all key=$arg_k limit=2 window=1h count=all cap=1000; empty_gif; }
    location /refund { sliding_log_limit refund key=$arg_k limit=2 window=1h refund=404; empty_gif; }
    location /block  { sliding_log_limit block key=$arg_k limit=2 window=1h block=10m; empty_gif; }
    location /delay  { sliding_log_limit delay key=$arg_k limit=2 window=1h delay=1s; empty_gif; }
    location /soon   { sliding_log_limit soon key=$arg_k limit=1 window=800ms delay=400ms; empty_gif; }
END
);
my $nginx = $bed->nginx($conf, REDIS => $redis->address, OTHER => $other->address, LIMIT => 3);
my $port  = $nginx->port;

sub flood { my ($path, $times) = @_; return many([map { [$port, $path] } 1 .. $times], at_once => 100) }

# The calls that the code causes for a denied key, and their maximum: one in 950 ms, and one of each worker if the
# machine stood still at the end of the second.
sub calls_of {
    my ($server, $code) = @_;
    my ($before, $start) = ($server->calls('evalsha'), time);
    $code->();
    return ($server->calls('evalsha') - $before, (time - $start) * 1.1 + 4);
}

get($port, '/hour?k=a') for 1 .. 4;
my @answers;
my ($calls, $most) = calls_of($redis, sub { @answers = flood('/hour?k=a', 1000) });
is(statuses(@answers), '429:1000', 'a flood on a denied key is denied');
cmp_ok($calls, '<=', $most, 'a flood on a denied key makes one call a second');
my ($known) = grep { field($_, 'X-Source') =~ /^cache/ } @answers;
is(field($known, 'X-Source'), 'cache hour ' . field($known, 'Retry-After'), 'a denial from memory: the variables name the cache, the limit and the wait');
like(field($answers[-1], 'RateLimit'), qr/^"hour";r=0;t=(3600|359\d)$/, 'a denial from memory: the fields are those of the denial');
is(get($port, '/hour?k=b')->{status}, 200, 'another key than the denied one passes');

get($port, '/zero?k=a');
($calls, $most) = calls_of($redis, sub { is(statuses(flood('/zero?k=a', 200)), '429:200', 'a limit of 0 denies a flood') });
cmp_ok($calls, '<=', $most, 'a limit of 0: a flood makes one call a second');

get($port, '/two?k=a') for 1 .. 3;
($calls, $most) = calls_of($redis, sub { @answers = flood('/two?k=a', 100) });
is(statuses(@answers), '429:100', 'two limits of one stage deny a flood');
cmp_ok($calls, '<=', $most, 'two limits of one stage: a flood makes one call a second');
like(field($answers[-1], 'RateLimit'), qr/^"a";r=0;t=\d+, "b";r=7;t=\d+$/, 'two limits of one stage: the fields list each');

# never longer than the log is full
my ($admitted, $start) = (0, time);
while (time - $start < 3) {
    $admitted++ if get($port, '/short?k=a')->{status} == 200;
}
cmp_ok($admitted, '>=', 5, 'a flooded key is admitted whenever there is room');
cmp_ok($admitted, '<=', 7, 'a flooded key is not admitted before there is room');

# other limits of the same log
get($port, '/vary?k=a&l=2') for 1 .. 3;
is(get($port, '/vary?k=a&l=2')->{status}, 429, 'a limit from a variable: a request is denied at 2');
is(get($port, '/vary?k=a&l=3')->{status}, 200, 'a limit from a variable: a denial at 2 does not apply to a limit of 3');
$nginx->{values}{LIMIT} = 5;
$nginx->configure($conf)->reload(gone => 1);
is(join(' ', map { get($port, '/hour?k=a')->{status} } 1 .. 3), '200 200 429', 'a raised limit ends a denial');

# many blocked clients: one request of the node asks for all, again and again
get($port, '/hour?k=crowd') for 1 .. 6;
($calls, $most) = calls_of($redis, sub {
    my $end = time + 4;
    @answers = ();
    push @answers, flood('/hour?k=crowd', 100) while time < $end;
});
is(statuses(grep { $_->{status} != 429 } @answers), '', 'many clients are blocked for seconds');
cmp_ok($calls, '<=', $most, 'many blocked clients make one call a second');
cmp_ok($calls, '>=', 3, 'Redis is asked for many blocked clients every second');

# a refund ends a known denial, so limits with refunds have known denials too
for my $limit (qw(refund block delay)) {
    get($port, "/$limit?k=a") for 1 .. 3;
    ($calls, $most) = calls_of($redis, sub { is(statuses(flood("/$limit?k=a", 200)), '429:200', "a limit with $limit= denies a flood") });
    cmp_ok($calls, '<=', $most, "a limit with $limit=: one call a second of a flood reaches Redis");
}
get($port, '/all?k=a') for 1 .. 3;
is(statuses(flood('/all?k=a', 50)) . ' ' . $redis->cli(qw(ZCARD rl:sliding:all:{a})), '429:50 53', 'count=all: Redis is asked for each denied request');

# several stores: none is asked and nothing is logged if one has a known denial
get($port, '/apart?k=a') for 1 .. 3;
($calls, $most) = calls_of($redis, sub { is(statuses(flood('/apart?k=a', 200)), '429:200', 'limits of three stages deny') });
cmp_ok($calls, '<=', 3 * $most, 'a denial in one stage makes no calls in another');
is($redis->cli(qw(ZCARD rl:sliding:near:{a})), 2, 'a denial in one stage leaves no entry in another');
like(field((flood('/apart?k=a', 1))[0], 'RateLimit'), qr/"far";r=0;t=\d+/, 'limits of three stages: the fields show the one that denies');
get($port, '/counted?k=a') for 1 .. 3;
flood('/counted?k=a', 20);
is($redis->cli(qw(ZCARD rl:sliding:counts:{a})), 23, 'a denial in one stage: another with count=all is asked for each request');

# with a delay requests are admitted earlier, so the known denial ends earlier
($admitted, $start) = (0, time);
while (time - $start < 4) {
    $admitted++ if get($port, '/soon?k=a')->{status} == 200;
}
cmp_ok($admitted, '>=', 4, 'a flooded key with delay= gets each reservation');
cmp_ok($admitted, '<=', 6, 'a flooded key with delay= gets no more than the limit');

# a known denial is valid while Redis is down, but no longer
get($port, '/hour?k=gone') for 1 .. 6;
ok(wait_until('Redis to be asked', 5, sub { (field(get($port, '/hour?k=gone'), 'X-Source') // '') =~ /^redis/ }),
    'a denied key: Redis is asked when the second is over');
$redis->kill;
like(field(get($port, '/hour?k=gone'), 'X-Source'), qr/^cache/, 'Redis is down: a known denial is valid');
ok(wait_until('the denial to be over', 2, sub { (field(get($port, '/hour?k=gone'), 'X-Source') // '') =~ /^local/ }),
    'Redis is down: this node decides when the second is over');

$bed->done;
