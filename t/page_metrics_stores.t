# Metrics of stores: errors by their reason, servers that are up, Redis's information about its memory, each node of a
# cluster; names of any kind; a zone that is too small; and a store that was replaced while a request lasts.

use strict;
use warnings;
use Test::More;
use Testbed qw(conf wait_until);
use Testbed::Acl qw(documented_rule);
use Testbed::Http qw(get many);
use Testbed::Metrics qw(scrape promtool);
use Testbed::UnderWay;

my $bed   = Testbed->new;
my $redis = $bed->redis(args => ['--maxmemory', '100mb', '--maxmemory-policy', 'allkeys-lru']);
my $quiet = $bed->redis(stopped => 1);
my $nginx = $bed->serve(
    REDIS => $redis->address, QUIET => $quiet->address,
    workers => 2,
    http    => <<'HTTP',
    sliding_log_redis one { server %%REDIS%%; timeout 1s; connect_timeout 1s; reconnect 20ms 100ms; }
    sliding_log_redis 'a "b" \\ c' { server %%QUIET%%; reconnect 20ms 100ms; }
    sliding_log_on_error allow;
HTTP
    server  => <<'END',
    location /one   { sliding_log_limit one key=$arg_k limit=1000 window=1h; empty_gif; }
    location /local { sliding_log_limit local key=$arg_k limit=1000 window=1h; sliding_log_on_error local; empty_gif; }
    location /odd   { sliding_log_limit odd key=$arg_k limit=1000 window=1h 'store=a "b" \\ c'; empty_gif; }
    location /odder { sliding_log_limit odder key=$arg_k limit=1000 window=1h 'store=a "b" \\ c'; sliding_log_on_error deny; empty_gif; }
    location /metrics { sliding_log_metrics; }
END
);
my $port = $nginx->port;
my @one  = (store => 'one', node => $redis->address);
my @odd  = (store => 'a "b" \\ c', node => $quiet->address);
sub value { return scrape($port)->value(@_) }
sub errors { my ($reason, @of) = @_; return value('sliding_log_store_errors_total', @of ? @of : @one, reason => $reason) }
sub up { my (@of) = @_; return wait_until("up to be $of[0]", 10, sub { (value('sliding_log_store_up', @of[1 .. $#of]) // '') eq $of[0] }) }

# ---- health

ok(up(1, @one), 'the metrics show a store that is up');
ok(up(0, @odd), 'the metrics show a store that is down');
ok(wait_until('its health', 5, sub { value('sliding_log_redis_memory_used_bytes', @one) }), 'the metrics have the memory values of Redis');
my $now = scrape($port);
cmp_ok($now->value('sliding_log_redis_memory_used_bytes', @one), '>', 500_000, 'the metrics have the memory that Redis uses');
is($now->value('sliding_log_redis_memory_max_bytes', @one), 100 * 1024 * 1024, 'the metrics have the bound of the memory');
is($now->value('sliding_log_redis_evicted_keys_total', @one), 0, 'the metrics have the evicted keys');
is($now->value('sliding_log_redis_eviction_unsafe', @one), 1, 'the metrics show an unsafe eviction policy');
is($now->value('sliding_log_redis_memory_used_bytes', @odd), undef, 'a store that is down has no metrics of memory');
my ($status, $said) = promtool($bed, $now->text, 'check metrics');
is("$status$said", '0', 'promtool accepts names that need escapes');

# ---- errors

is(get($port, '/odd?k=1')->{status}, 200, 'a store that is down: on_error allow lets a request pass');
is(get($port, '/odder?k=1')->{status}, 503, 'a store that is down: on_error deny denies a request');
is(errors('down', @odd), 2, 'a store that is down: two requests are two errors');
is(scrape($port)->results('odd') . ' ' . scrape($port)->results('odder'), 'passed/error:1 rejected/error:1',
    'a store that is down: the results are counted as errors');
is(value('sliding_log_store_calls_total', @odd), 0, 'a store that is down: no call is counted');
$quiet->start;
ok(up(1, @odd), 'a store that comes up is shown as up');
is(get($port, '/odder?k=1')->{status}, 200, 'a store that came up decides');
is(scrape($port)->results('odder'), 'passed/redis:1 rejected/error:1', 'a decision of a store that came up is counted');

$redis->cli('SET', 'rl:sliding:one:{text}', 'x');
get($port, '/one?k=text') for 1 .. 3;
is(errors('wrong_type'), 3, 'a key of another type is an error wrong_type');
$redis->cli('CONFIG', 'SET', 'maxmemory-policy', 'noeviction');
$redis->cli('CONFIG', 'SET', 'maxmemory', '1');
get($port, '/local?k=oom') for 1 .. 2;
is(errors('out_of_memory'), 2, 'a Redis that is full is an error out_of_memory');
is(scrape($port)->results('local'), 'passed/local:2', 'a Redis that is full: the local log decides');
$redis->cli('CONFIG', 'SET', 'maxmemory', '0');
$redis->pause;
my @answers = many([map { [$port, "/one?k=$_"] } 1 .. 5]);
$redis->resume;
my $lost = errors('timeout') + errors('down');
is($lost, 5, 'five requests to a Redis that hangs are five errors');
cmp_ok(errors('timeout'), '>', 0, 'requests to a Redis that hangs time out');
ok(up(1, @one), 'a Redis that hung is up again');
is(scrape($port)->value('sliding_log_requests_total', limit => 'one', source => 'error'), 3 + 5, 'on_error admitted each request with an error');
$redis->kill;
ok(up(0, @one), 'a Redis that is killed is shown as down');

# ---- a user without the right

$quiet->cli('ACL', 'SETUSER', 'limiter', split(' ', documented_rule('limiter', 'us3rpass')), '-info');
my $silent = $bed->serve(
    REDIS   => $quiet->address,
    workers => 2,
    store   => 'server %%REDIS%%; username limiter; password us3rpass; timeout 3s; connect_timeout 3s;',
    server  => <<'END',
    location / { sliding_log_limit t key=$arg_k limit=10 window=1h; empty_gif; }
    location /metrics { sliding_log_metrics; }
END
);
$port = $silent->port;
ok(wait_until('the refusal', 5, sub { $quiet->cli('ACL', 'LOG') =~ /^info$/m }), 'a user without the right to INFO is refused');
ok(up(1, node => $quiet->address), 'no right to INFO: the store is up');
is(get($port, '/?k=1')->{status}, 200, 'no right to INFO: the store decides');
my $until = time + 3;
wait_until('some health checks', 5, sub { time > $until });
is($quiet->cli('ACL', 'LOG') =~ /^count\n(\d+)\nreason\ncommand\n/m ? $1 : 0, 1, 'no right to INFO: Redis is asked once');
is(scrape($port)->those('sliding_log_redis_memory_used_bytes'), 0, 'no right to INFO: the metrics have no memory values');
is($silent->logged(qr/\[(?:warn|error)\]/), 0, 'no right to INFO: nothing is logged');

# ---- a cluster

my $cluster = $bed->cluster(masters => 2);
my ($first, $second) = $cluster->nodes;
my $in_cluster = $bed->serve(
    SEED    => $first->address,
    workers => 2,
    store   => 'mode cluster; server %%SEED%%; timeout 3s; connect_timeout 3s; reconnect 20ms 200ms;',
    http    => 'sliding_log_on_error deny;',
    server  => <<'END',
    location / { sliding_log_limit t key=$arg_k limit=100000 window=1h; empty_gif; }
    location /metrics { sliding_log_metrics; }
END
);
$port = $in_cluster->port;
my %tag = map { $_->address => $cluster->tag_on($_) } $first, $second;
many([map { [$port, "/?k=$tag{ $first->address }"] } 1 .. 30]);
many([map { [$port, "/?k=$tag{ $second->address }"] } 1 .. 20]);
$now = scrape($port);
is($now->value('sliding_log_store_requests_total', store => 'default', node => $first->address), 30, 'cluster: requests of the first node are counted');
is($now->value('sliding_log_store_requests_total', store => 'default', node => $second->address), 20, 'cluster: requests of the second node are counted');
is($now->value('sliding_log_store_calls_total', node => $_->address), $_->calls('evalsha'),
    'cluster: the number of calls is that of the node') for $first, $second;
ok(wait_until('their health', 5, sub { 2 == grep { value('sliding_log_redis_memory_used_bytes', node => $_->address) } $first, $second }),
    'cluster: the health of each node is known');
my @polled = map { $_->calls('info') } $first, $second;    # the commands of redis-cli count: those above, and this one
cmp_ok($polled[0], '<', 12, 'cluster: one worker asks for the health at intervals') or diag("@polled");

# a slot on its way: the call is counted where it goes
my $slot = $cluster->slot_of($tag{ $first->address });
$cluster->move($slot, $first, $second);
is(get($port, "/?k=$tag{ $first->address }")->{status}, 200, 'cluster: a request for a slot that moved passes');
is(scrape($port)->value('sliding_log_store_requests_total', node => $second->address), 21, 'cluster: a request for a slot that moved is counted where it went');

# ---- a small zone, and many limits

my $limits = join "\n", map { "location /$_ { sliding_log_limit limit$_ key=\$arg_k limit=10 window=1h; empty_gif; }" } 1 .. 30;
my $small = $bed->serve(
    QUIET   => $quiet->address,
    workers => 2,
    store   => 'server %%QUIET%%; timeout 3s; connect_timeout 3s;',
    http    => 'sliding_log_zone 32k;',
    server  => "$limits location /metrics { sliding_log_metrics; }",
);
$port = $small->port;
is(join(' ', map { get($port, "/$_?k=1")->{status} } 1 .. 30), join(' ', (200) x 30), 'a zone of 32k: limits decide as usual');
$now = scrape($port);
my @shown = grep { defined $now->value('sliding_log_requests_total', limit => "limit$_") } 1 .. 30;
cmp_ok(scalar @shown, '>=', 5, 'a zone of 32k: some of the limits are shown');
cmp_ok(scalar @shown, '<', 30, 'a zone of 32k: some of the limits are left out');
is($now->value('sliding_log_requests_total', limit => "limit$_", result => 'passed'), 1, "a zone of 32k: the numbers of limit$_ are correct") for @shown[0, -1];
is($small->logged(qr/\[error\].*"sliding_log_zone" has no room for the metrics of "limit\d+"/), 1, 'a zone of 32k: the error log has the lack of room once');
($status, $said) = promtool($bed, $now->text, 'check metrics');
is("$status$said", '0', 'a zone of 32k: promtool accepts the metrics');

# ---- a store that is replaced while a request of an old worker lasts

my ($before, $after) = map { $bed->redis } 1, 2;
my $silent_one = Testbed::UnderWay->new;
my $replaced   = conf(
    store  => 'server %%REDIS%%; reconnect 20ms 100ms;',
    server => <<'END',
    location /long { sliding_log_limit t key=$arg_k limit=10 algorithm=inflight; proxy_pass http://127.0.0.1:%%SILENT%%; }
    location /metrics { sliding_log_metrics; }
END
);
my $changed = $bed->nginx($replaced, REDIS => $before->address, SILENT => $silent_one->port);
$port = $changed->port;
ok(up(1, node => $before->address), 'a store to be replaced is up');
my $long = $silent_one->begin($port, '/long?k=a');
$before->kill;
$changed->{values}{REDIS} = $after->address;
$changed->configure($replaced)->reload;
ok(up(1, node => $after->address), 'the store that replaces it is up');
$until = time + 3;
my @gone;
while (time < $until) {
    push @gone, scrape($port)->value('sliding_log_store_up', node => $before->address) // ();
    select undef, undef, undef, 0.1;
}
is("@gone", '', 'the store that was replaced is not shown while an old worker has a request');
ok(kill(0, $changed->workers) >= 2, 'the old worker lives');
$changed->{values}{REDIS} = $before->address;
$before->start;
$changed->configure($replaced)->reload;
ok(up(1, node => $before->address), 'a store that comes back to the configuration is shown');
Testbed::UnderWay::end($long);

# ---- no limit at all

my $bare = $bed->serve(server => 'location / { sliding_log_metrics; }');
is(scrape($bare->port, '/')->those('sliding_log_store_up'), 0, 'without a limit no store is shown');
($status, $said) = promtool($bed, scrape($bare->port, '/')->text, 'check metrics');
is("$status$said", '0', 'without a limit promtool accepts the metrics');

$bed->done;
