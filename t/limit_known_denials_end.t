# A known denial ends: at once if entries leave its log through this node, or if the configuration is changed; within a
# second if anything else has changed the log, or Redis.

use strict;
use warnings;
use Test::More;
use Testbed qw(answers_as_told conf wait_until);
use Testbed::Http qw(get field connect_to parse);
use Testbed::Stopwatch;
use Testbed::Tool qw(tool);
use Time::HiRes qw(sleep time);

my $bed   = Testbed->new;
my $redis = $bed->redis;
my $other = $bed->redis;
my $conf  = conf(
    workers => 2,
    listen  => 'reuseport',
    http    => answers_as_told(204, 404) . <<'HTTP',
    sliding_log_redis one { server %%ONE%%; timeout %%TIMEOUT%%; connect_timeout 5s; reconnect 10ms 50ms; }
    sliding_log_redis two { server %%TWO%%; timeout 5s; connect_timeout 5s; reconnect 10ms 50ms; }
    sliding_log_on_error deny;
    add_header X-Source "$sliding_log_source" always;
HTTP
    server  => <<'END',
    location /hour { sliding_log_limit hour key=$arg_k limit=%%LIMIT%% window=%%WINDOW%% algorithm=%%ALGORITHM%%; empty_gif; }
    location /refund { sliding_log_limit refund key=$arg_k limit=1 window=1h refund=404; proxy_pass http://127.0.0.1:%%PORT2%%; }
    location /x { sliding_log_limit shared key=$arg_k limit=1 window=1h; empty_gif; }
    location /y { sliding_log_limit shared key=$arg_k limit=2 window=1h; root %%DIR%%; try_files /none @z; }
    location @z { sliding_log_limit later key=$arg_k limit=0 window=1h store=two; empty_gif; }
END
);
my %usual = (ONE => $redis->address, TWO => $other->address, TIMEOUT => '5s', LIMIT => 1, WINDOW => '1h', ALGORITHM => 'log');
my ($here, $there) = map { $bed->nginx($conf, %usual) } 1 .. 2;
my $port = $here->port;

sub change {
    my ($nginx, %values) = @_;
    $nginx->{values} = { %usual, %values };
    return $nginx->configure($conf)->reload(gone => 1);
}

sub source { return field($_[0], 'X-Source') // '' }

# The node knows that the key is denied.
sub make_known {
    my ($path) = @_;
    return wait_until("$path to be known", 5, sub { source(get($port, $path)) eq 'cache' });
}

# Requests for the key all the time: this node admits them at the latest a second after the code made room.
sub is_felt {
    my ($what, $path, $code) = @_;
    make_known($path) or return fail($what);
    $code->();
    my $watch = Testbed::Stopwatch->start;
    ok(wait_until('room', 5, sub { get($port, $path)->{status} != 429 }), "$what is felt") or return;
    return cmp_ok($watch->net, '<', 1.1, "$what is felt within a second");
}

# ---- from elsewhere

get($port, '/hour?k=del');
is_felt('DEL', '/hour?k=del', sub { $redis->cli(qw(DEL rl:sliding:hour:{del})) });

get($port, '/hour?k=flush');
is_felt('FLUSHALL', '/hour?k=flush', sub { $redis->cli('FLUSHALL') });

get($port, '/hour?k=reset');
is_felt('a reset by the tool', '/hour?k=reset',
    sub { is(tool(qw(reset hour reset --server), $redis->address)->{status}, 0, 'the tool resets a log') });

# the entry of another node's request is in the log until a backend has answered
$redis->cli('ZADD', 'rl:sliding:refund:{node}', time * 1000, 'a request that is under way');
is_felt("another node's refund", '/refund?k=node', sub {
    $redis->cli(qw(DEL rl:sliding:refund:{node}));
    get($there->port, '/refund?k=node&status=404');
});

get($port, '/hour?k=raised');
make_known('/hour?k=raised');
change($there, LIMIT => 2);
is(get($there->port, '/hour?k=raised')->{status}, 200, 'a limit raised on another node admits there');
is(get($port, '/hour?k=raised')->{status}, 429, 'a limit raised on another node is not raised here');

# ---- from here

# the entry of /y stays in the log while its error page waits for the other store
get($port, '/hour?k=warm') for 1 .. 4;
$other->pause;
my $waiting = connect_to($port);
$waiting->syswrite("GET /y?k=a HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
ok(wait_until('the entry to be there', 5, sub { $redis->cli(qw(ZCARD rl:sliding:shared:{a})) == 1 }),
    'a request that waits for the other store has an entry');
make_known('/x?k=a');
$other->resume;
is(parse(Testbed::Http::read_all($waiting, 5))->{status}, 429, 'the request with the entry is denied after a redirect');
ok(wait_until('the entry to be gone', 5, sub { $redis->cli(qw(ZCARD rl:sliding:shared:{a})) == 0 }),
    'the entry of a request that is denied after a redirect is given back');
is(get($port, '/x?k=a')->{status}, 200, 'an entry given back: another limit of this log has room at once');

# ---- a changed configuration

sub first_after {
    my ($key, $changed, %values) = @_;
    $redis->cli('FLUSHALL');
    get($port, "/hour?k=$key");
    make_known("/hour?k=$key");
    $redis->cli('FLUSHALL') if $changed;
    change($here, %values);
    my $first = get($port, "/hour?k=$key");
    change($here);
    return $first;
}

like(source(first_after('window', 0, WINDOW => '2h')), qr/redis/, 'a reload with another window: Redis decides');
is(first_after('algorithm', 1, ALGORITHM => 'compact')->{status}, 200, 'a reload with another algorithm: a request has room');
is(first_after('store', 0, ONE => $other->address)->{status}, 200, 'a reload with another Redis: a request has room');

# ---- while Redis is in trouble

change($here, TIMEOUT => '300ms');
get($port, '/hour?k=stopped');
wait_until('Redis to be asked', 5, sub { source(get($port, '/hour?k=stopped')) eq 'redis' });
my $learned = Testbed::Stopwatch->start;
$redis->pause;
my ($latest, $longest, %seen) = (0, 0);
while ($learned->elapsed < 2) {
    my $answer = get($port, '/hour?k=stopped');
    $seen{ $answer->{status} . ' ' . source($answer) }++;
    $latest  = $learned->elapsed - $answer->{disturbed} if source($answer) eq 'cache';
    $longest = $answer->{time} - $answer->{disturbed} if $answer->{time} - $answer->{disturbed} > $longest;
}
cmp_ok($latest, '<', 1.1, 'Redis stopped: a known denial is valid for its second');
cmp_ok($longest, '<', 0.4, 'Redis stopped: the request that asks for all waits no longer than timeout');
is(join(', ', sort keys %seen), '429 cache, 503 error', 'Redis stopped: on_error decides without a known denial');
$redis->resume;
ok(wait_until('Redis to be asked', 5, sub { source(get($port, '/hour?k=stopped')) eq 'redis' }), 'Redis continued: Redis decides');

# the client whose request asks for all leaves: the second ends nevertheless
change($here);
get($port, '/hour?k=left');
wait_until('Redis to be asked', 5, sub { source(get($port, '/hour?k=left')) eq 'redis' });
$learned = Testbed::Stopwatch->start;
$redis->cli(qw(DEL rl:sliding:hour:{left}));
sleep 0.5;
$redis->pause;
while ($learned->elapsed < 0.99) {
    connect_to($port)->syswrite("GET /hour?k=left HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    sleep 0.005;
}
$redis->resume;
ok(wait_until('room', 5, sub { get($port, '/hour?k=left')->{status} == 200 || $redis->cli(qw(ZCARD rl:sliding:hour:{left})) == 1 }),
    'clients leave while one asks for all: Redis is asked');
cmp_ok($learned->net, '<', 1.3, 'clients leave while one asks for all: no request waits longer');

$bed->done;
