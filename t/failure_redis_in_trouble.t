# Redis is down, dies, restarts, hangs, refuses. on_error decides, no request waits longer than the timeout, and the
# error log stays short.

use strict;
use warnings;
use Test::More;
use Testbed qw(wait_until slow);
use Testbed::Http qw(get many slowest field statuses);
use Testbed::Stopwatch;
use Time::HiRes qw(sleep);

my $bed   = Testbed->new;
my $redis = $bed->redis(stopped => 1, args => ['--maxmemory-policy', 'noeviction']);
my $nginx = $bed->serve(
    REDIS  => $redis->address,
    store  => 'server %%REDIS%%; timeout 200ms; connect_timeout 200ms; reconnect 20ms 300ms;',
    http   => <<'HTTP',
    log_format waits '$uri $status $sliding_log_source $sliding_log_latency';
    access_log %%DIR%%/access.log waits;
HTTP
    server => <<'END',
    location /allow { sliding_log_limit a key=$arg_k limit=1000 window=1h; sliding_log_on_error allow; empty_gif; }
    location /deny  { sliding_log_limit a key=$arg_k limit=1000 window=1h; sliding_log_on_error deny; empty_gif; }
    location /local { sliding_log_limit l key=$arg_k limit=3 window=1h; empty_gif; }
    location /share { sliding_log_limit s key=$arg_k limit=5 window=1h; sliding_log_on_error local nodes=3; empty_gif; }
    location /bucket { sliding_log_limit b key=$arg_k limit=5 window=1h algorithm=bucket burst=12; sliding_log_on_error local nodes=3; empty_gif; }
    location /dry   { sliding_log_limit a key=$arg_k limit=1000 window=1h; sliding_log_on_error deny; sliding_log_dry_run on; empty_gif; }
    location /zero  { sliding_log_limit z key=$arg_k limit=0 window=1h; sliding_log_on_error allow; empty_gif; }
END
);
my $port = $nginx->port;
my $late = 0.2 + 0.15 * slow();    # the timeout, and the delay of a busy machine

sub answers_again {
    my ($what) = @_;
    my $watch = Testbed::Stopwatch->start;
    ok(wait_until("$what to be over", 10, sub { get($port, '/deny?k=again')->{status} == 200 }), "$what: Redis decides again");
    cmp_ok($watch->net, '<', 0.3 + 0.5 * slow(), "$what: Redis decides again within the longest back-off");
}

# down at start
my @answers = many([map { [$port, '/deny?k=x'] } 1 .. 50]);
is(statuses(@answers), '503:50', 'down at start, deny: 503');
is(field($answers[-1], 'Retry-After'), 1, 'down at start, deny: Retry-After is 1');
is(field($answers[-1], 'RateLimit-Policy'), '"a";q=1000;w=3600', 'down at start, deny: the fields have the policy');
is(field($answers[-1], 'RateLimit'), undef, 'down at start, deny: the fields have no state of the limit');
is(get($port, '/allow?k=x')->{status}, 200, 'down at start, allow: admitted');
is(join(' ', map { get($port, '/local?k=x')->{status} } 1 .. 4), '200 200 200 429', "down at start, local, the default: the log of this node decides");
like(field(get($port, '/local?k=x'), 'RateLimit'), qr/^"l";r=0;t=\d+$/, 'down at start, local: the fields have the state of the limit');
is(join(' ', map { get($port, '/share?k=x')->{status} } 1 .. 3), '200 200 429', 'down at start, local nodes=3: a third of 5, rounded up');
is(join(' ', map { get($port, '/bucket?k=x')->{status} } 1 .. 5), '200 200 200 200 429', 'down at start, local nodes=3: a third of a bucket of 12');
is(get($port, '/dry?k=x')->{status},   200, 'down at start, dry run: admitted');
is(get($port, '/zero?k=x')->{status},  429, 'down at start, a limit of 0: denied');
cmp_ok(slowest(many([map { [$port, '/deny?k=x'] } 1 .. 50])), '<', 0.1 * slow(), 'down at start: on_error decides at once, not after a timeout');
cmp_ok($nginx->logged(qr/is down: .*refused/), '>=', 1, 'down at start: the error log has the cause');

$redis->start;
answers_again('down at start');

# dies and comes back
$redis->kill;
wait_until('the loss to be seen', 5, sub { get($port, '/deny?k=x')->{status} == 503 });
@answers = many([map { [$port, '/allow?k=x'] } 1 .. 100]);
is(statuses(@answers), '200:100', 'killed, allow: admitted');
cmp_ok(slowest(@answers), '<', 0.15 * slow(), 'killed, allow: no request waits');
$redis->start;
answers_again('killed');

# hangs: the first requests wait for the timeout, then only probes are sent
$redis->pause;
@answers = many([map { [$port, "/deny?k=$_"] } 1 .. 30]);
is(statuses(@answers), '503:30', 'stopped: on_error decides');
cmp_ok(slowest(@answers), '<', $late, 'stopped: on_error decides no later than the timeout');
wait_until('the connection to be given up', 5, sub { get($port, '/deny?k=x')->{time} < 0.1 * slow() && get($port, '/deny?k=x')->{time} < 0.1 * slow() });
@answers = many([map { [$port, "/deny?k=$_"] } 1 .. 30]);
cmp_ok(slowest(@answers), '<', 0.1 * slow(), 'stopped: on_error decides at once when the connection is closed');
$redis->resume;
answers_again('stopped');

# clients that leave while Redis hangs
$redis->pause;
for (1 .. 300) {
    my $socket = Testbed::Http::connect_to($port);
    $socket->syswrite("GET /deny?k=gone HTTP/1.1\r\nHost: x\r\n\r\n");
    close $socket;
}
$redis->resume;
answers_again('clients that left');
is(scalar $nginx->workers, 1, 'clients that left: the worker survives');

# a slow script in Redis, then error replies
$redis->cli('CONFIG', 'SET', 'busy-reply-threshold', '1');
@answers = ();
if (my $pid = fork) {
    sleep 0.1;
    @answers = map { get($port, '/deny?k=busy') } 1 .. 10;
    waitpid $pid, 0;
}
else {
    $redis->cli('EVAL', "local t=redis.call('TIME') local e=t[1]*1000000+t[2]+1000000 repeat t=redis.call('TIME') until t[1]*1000000+t[2]>e", 0);
    POSIX::_exit(0);
}
cmp_ok(slowest(@answers), '<', $late, 'BUSY: no request is answered later than the timeout');
answers_again('BUSY');

$redis->cli('SET', 'rl:sliding:a:{text}', 'x');
is(get($port, '/deny?k=text')->{status}, 503, 'WRONGTYPE: on_error decides');
ok(wait_until('the cause', 3, sub { get($port, '/deny?k=text'); $nginx->logged(qr/answered: WRONGTYPE/) }),
    'WRONGTYPE: the error log has the cause');
get($port, '/deny?k=text') for 1 .. 200;
cmp_ok($nginx->logged(qr/answered: WRONGTYPE/), '<', 5 * slow(), 'WRONGTYPE: the error log has one line a second at most');

$redis->cli('CONFIG', 'SET', 'maxmemory', '1');
is(get($port, '/deny?k=oom')->{status}, 503, 'OOM: on_error decides');
$redis->cli('CONFIG', 'SET', 'maxmemory', '0');
is(get($port, '/deny?k=oom')->{status}, 200, 'OOM: Redis decides again');

$redis->cli('CONFIG', 'SET', 'requirepass', 'hidden');
$redis->cli('-a', 'hidden', 'CLIENT', 'KILL', 'TYPE', 'normal');
ok(wait_until('NOAUTH', 5, sub { get($port, '/deny?k=x')->{status} == 503 }), 'NOAUTH: on_error decides');
ok(wait_until('the cause', 5, sub { $nginx->logged(qr/NOAUTH/) }), 'NOAUTH: the error log has the cause');
$redis->cli('-a', 'hidden', 'CONFIG', 'SET', 'requirepass', '');
answers_again('NOAUTH');

# a policy that may evict live logs
$redis->cli('CONFIG', 'SET', 'maxmemory-policy', 'allkeys-lru');
$redis->cli('CLIENT', 'KILL', 'TYPE', 'normal');
ok(wait_until('the warning', 5, sub { get($port, '/deny?k=x'); $nginx->logged(qr/\[error\].*maxmemory-policy "allkeys-lru" can evict live logs/) }), 'an unsafe policy causes a warning');

is(join("\n", $nginx->repeated_troubles), '', 'the store writes about one line a second of each cause');

my @waits = map { /(\d+\.\d+)$/ ? $1 : () } split /\n/, Testbed::Process::slurp($nginx->dir . '/access.log');
cmp_ok((sort { $b <=> $a } @waits)[0], '<=', $late, '$sliding_log_latency never exceeds the timeout');

$bed->done;
