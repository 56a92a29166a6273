# Every request is counted once for each of its limits, over all workers, through reloads and lost workers. Prometheus's
# own tool accepts the page.

use strict;
use warnings;
use Test::More;
use Testbed qw(conf wait_until);
use Testbed::Http qw(get many request field load_while);
use Testbed::Metrics qw(scrape promtool);

my $bed   = Testbed->new;
my $redis = $bed->redis;
my $conf  = conf(
    workers => 4,
    listen  => 'reuseport',
    store   => 'server %%REDIS%%; timeout 5s; connect_timeout 5s; reconnect 10ms 100ms;',
    http    => 'sliding_log_limit everything key=all limit=3 window=1h store=local;',
    server  => <<'END',
    location /a    { sliding_log_limit a key=$arg_k limit=500 window=1h; empty_gif; }
    location /loc  { sliding_log_limit loc key=$arg_k limit=500 window=1h store=local; empty_gif; }
    location /two  {
        sliding_log_limit strict key=$arg_k limit=5 window=1h;
        sliding_log_limit lax    key=$arg_k limit=50 window=1h;
        empty_gif;
    }
    location /stages {
        sliding_log_limit first  key=$arg_k limit=5 window=1h store=local;
        sliding_log_limit second key=$arg_k limit=50 window=1h;
        empty_gif;
    }
    location /slow { sliding_log_limit slow key=$arg_k limit=2 window=2s delay=9s store=local; sliding_log_dry_run %%DRY%%; empty_gif; }
    location /dry  { sliding_log_limit dry key=$arg_k limit=2 window=1h; sliding_log_dry_run on; empty_gif; }
    location /var  { sliding_log_limit var key=$arg_k limit=$arg_l window=1h; sliding_log_on_error %%ON_ERROR%%; empty_gif; }
    location /metrics  { sliding_log_metrics; }
    location /limited  { sliding_log_limit scrapes key=all limit=1 window=1h; sliding_log_metrics; }
END
);
my $nginx = $bed->nginx($conf, REDIS => $redis->address, ON_ERROR => 'deny', DRY => 'off');
my $port  = $nginx->port;
sub ask { my ($path, $times) = @_; return many([map { [$port, $path] } 1 .. $times]) }
sub results { return scrape($port)->results(@_) }

# ---- the page

ok(wait_until('the store', 5, sub { scrape($port)->value('sliding_log_redis_memory_used_bytes') }), 'the store and its health are known');
my $page = get($port, '/metrics');
is(field($page, 'Content-Type'), 'text/plain; version=0.0.4; charset=utf-8', 'the metrics have the content type of Prometheus');
is(field($page, 'Cache-Control'), 'no-store', 'the metrics are not cached');
my $head = request($port, '/metrics', method => 'HEAD');
is("$head->{status}$head->{body}", '200', 'HEAD: the answer has no body');
is(field($head, 'Content-Length'), length $page->{body}, 'HEAD: the answer has the length of the body');
is(request($port, '/metrics', method => 'POST', body => 'x')->{status}, 405, 'POST: the answer is 405');
is(join(' ', map { get($port, '/metrics')->{status} } 1 .. 10), join(' ', (200) x 10), 'limits of an outer level do not apply to the metrics');
is(results('everything'), '', 'limits of an outer level do not count requests for the metrics');
is(join(' ', map { get($port, '/limited')->{status} } 1 .. 2), '200 429', 'a limit of its own level applies to the metrics');
my ($status, $said) = promtool($bed, scrape($port)->text, 'check metrics');
is("$status$said", '0', 'promtool accepts the metrics');

# ---- sums

ask('/a?k=1', 2000);
my $now = scrape($port);
is($now->value('sliding_log_requests_total', limit => 'a', result => 'passed', source => 'redis'), 500,
    'four workers: requests that passed are counted exactly');
is($now->value('sliding_log_requests_total', limit => 'a', result => 'rejected'), 1500, 'four workers: requests that were rejected are counted exactly');
is($now->value('sliding_log_requests_total', limit => 'a'), 2000, 'four workers: each request is counted once');
is($now->value('sliding_log_near_limit_total', limit => 'a'), 101, 'requests from the 400th of 500 on are near the limit');
is($now->value('sliding_log_new_logs_total', limit => 'a'), 1, 'one of the requests was the first one in its log');
my $cached = $now->value('sliding_log_requests_total', limit => 'a', source => 'cache');
cmp_ok($cached, '>', 0, 'some denials are from the cache');
my $scraped = 2;    # from /limited, above
is($now->value('sliding_log_store_requests_total', store => 'default', node => $redis->address), 2000 - $cached + $scraped,
    'the calls have the requests that the cache did not decide');
is($now->value('sliding_log_store_calls_total'), $redis->calls('evalsha'), 'the number of calls is that of Redis');
is($now->value('sliding_log_store_latency_seconds_count'), $redis->calls('evalsha'), 'each call is counted with its latency');
is($now->value('sliding_log_store_latency_seconds_bucket', le => '+Inf'), $redis->calls('evalsha'), 'each call is counted in the last bucket of latencies');
cmp_ok($now->value('sliding_log_store_latency_seconds_sum'), '>', 0, 'the sum of latencies is above zero');

ask('/loc?k=1', 600);
is(results('loc'), 'passed/local:500 rejected/local:100', 'a limit of the local store is counted');

ask('/two?k=1', 12);
get($port, '/two?k=1') for 1 .. 3;
my %strict = map { split /:/ } split / /, results('strict');
is($strict{'passed/redis'}, 5, 'two limits: the one that denies counts passed requests');
is(($strict{'rejected/redis'} // 0) + ($strict{'rejected/cache'} // 0), 10, 'two limits: the one that denies counts its denials');
is(scrape($port)->value('sliding_log_requests_total', limit => 'lax', result => 'passed'), 15, 'two limits: the other one counts requests with room');
is(scrape($port)->value('sliding_log_near_limit_total', limit => 'strict'), 2, 'two limits: two of the admitted requests were near the limit');

is(join(' ', map { scrape($port)->value('sliding_log_new_logs_total', limit => $_) } qw(strict lax loc)), '1 1 1', 'two limits, local store: each log is counted once');
ask("/two?k=new$_", 3) for 1 .. 20;
ask("/loc?k=new$_", 3) for 1 .. 20;
is(join(' ', map { scrape($port)->value('sliding_log_new_logs_total', limit => $_) } qw(strict lax loc)), '21 21 21', 'twenty new keys are twenty logs of each limit');
$redis->cli('FLUSHALL');
ask('/two?k=new1', 2);
is(scrape($port)->value('sliding_log_new_logs_total', limit => 'strict'), 22, 'a log that was removed begins again');

ask('/stages?k=1', 12);
is(results('first'), 'passed/local:5 rejected/local:7', 'stages: the limit that is asked first counts its denials');
is(results('second'), 'passed/redis:5', 'stages: the second limit is not asked for requests that the first one denied');

get($port, '/dry?k=1') for 1 .. 5;
is(results('dry'), 'passed/redis:2 rejected_dry_run/cache:2 rejected_dry_run/redis:1', 'dry run: denials are counted as rejected_dry_run');

ask('/slow?k=1', 5);
is(results('slow'), 'delayed/local:3 passed/local:2', 'requests that are held are counted as delayed');

get($port, "/var?k=1&l=$_") for 1, 0, 'x', '';
is(results('var'), 'passed/redis:1 rejected/invalid:1 rejected/redis:1',
    'an invalid limit is counted as invalid, an empty one is not counted');

# ---- a reload and a lost worker

@{ $nginx->{values} }{qw(ON_ERROR DRY)} = qw(allow on);
$nginx->configure($conf)->reload(gone => 1);
is(results('loc'), 'passed/local:560 rejected/local:100', 'reload: the counts are kept');
get($port, '/var?k=1&l=x');
is(results('var'), 'passed/redis:1 rejected/invalid:2 rejected/redis:1', 'reload: requests are counted further');
is(scrape($port)->value('sliding_log_store_calls_total'), $redis->calls('evalsha'), 'reload: calls are counted further');
get($port, '/slow?k=2') for 1 .. 3;
is(results('slow'), 'delayed/local:3 delayed_dry_run/local:1 passed/local:4', 'dry run: requests that would be held are counted as delayed_dry_run');

my ($seen) = load_while([map { [$port, "/loc?k=load$_"] } (0 .. 9) x 10], sub { $nginx->reload(gone => 1) for 1 .. 3 });
my %seen = map { split /:/ } split / /, $seen;
is(scrape($port)->value('sliding_log_requests_total', limit => 'loc'), 660 + $seen{200} + ($seen{429} // 0),
    'three reloads under load: each request is counted once');

my $known = scrape($port)->value('sliding_log_requests_total', limit => 'loc');
$nginx->expect_kills;
my @old = $nginx->workers;
kill KILL => $_ for @old;
ok(wait_until('new workers', 10, sub { my %is = map { $_ => 1 } $nginx->workers; keys %is == 4 && !grep { $is{$_} } @old }),
    'new workers replace those that were killed');
is(scrape($port)->value('sliding_log_requests_total', limit => 'loc'), $known, 'workers that were killed: the counts are kept');

$bed->done;
