# What the metrics tell of stores: errors by their reason, who is up, what Redis says of its memory, each node of a
# cluster; names of any kind; and a zone too small for all of it.

use strict;
use warnings;
use Test::More;
use Testbed qw(wait_until);
use Testbed::Acl qw(documented_rule);
use Testbed::Http qw(get many);
use Testbed::Metrics qw(scrape promtool);

my $bed   = Testbed->new;
my $redis = $bed->redis(args => ['--maxmemory', '100mb', '--maxmemory-policy', 'allkeys-lru']);
my $quiet = $bed->redis(stopped => 1);
my $nginx = $bed->nginx(<<'END', REDIS => $redis->address, QUIET => $quiet->address);
%%GLOBALS%%
worker_processes 2;
events { worker_connections 1024; }
http {
    %%HTTP%%
    access_log off;
    sliding_log_redis one { server %%REDIS%%; timeout 1s; connect_timeout 1s; reconnect 20ms 100ms; }
    sliding_log_redis 'a "b" \\ c' { server %%QUIET%%; reconnect 20ms 100ms; }
    sliding_log_on_error allow;
    server {
        listen 127.0.0.1:%%PORT%%;
        location /one   { sliding_log_limit one key=$arg_k limit=1000 window=1h; empty_gif; }
        location /local { sliding_log_limit local key=$arg_k limit=1000 window=1h; sliding_log_on_error local; empty_gif; }
        location /odd   { sliding_log_limit odd key=$arg_k limit=1000 window=1h 'store=a "b" \\ c'; empty_gif; }
        location /odder { sliding_log_limit odder key=$arg_k limit=1000 window=1h 'store=a "b" \\ c'; sliding_log_on_error deny; empty_gif; }
        location /metrics { sliding_log_metrics; }
    }
}
END
my $port = $nginx->port;
my @one  = (store => 'one', node => $redis->address);
my @odd  = (store => 'a "b" \\ c', node => $quiet->address);
sub value { return scrape($port)->value(@_) }
sub errors { my ($reason, @of) = @_; return value('sliding_log_store_errors_total', @of ? @of : @one, reason => $reason) }
sub up { my (@of) = @_; return wait_until("up to be $of[0]", 10, sub { (value('sliding_log_store_up', @of[1 .. $#of]) // '') eq $of[0] }) }

# ---- health

ok(up(1, @one), 'a store that is up');
ok(up(0, @odd), 'one that is not');
ok(wait_until('its health', 5, sub { value('sliding_log_redis_memory_used_bytes', @one) }), 'what Redis says of its memory');
my $now = scrape($port);
cmp_ok($now->value('sliding_log_redis_memory_used_bytes', @one), '>', 500_000, '  used');
is($now->value('sliding_log_redis_memory_max_bytes', @one), 100 * 1024 * 1024, '  its bound');
is($now->value('sliding_log_redis_evicted_keys_total', @one), 0, '  evicted keys');
is($now->value('sliding_log_redis_eviction_unsafe', @one), 1, '  and an unsafe policy');
is($now->value('sliding_log_redis_memory_used_bytes', @odd), undef, 'nothing is said of one that is down');
my ($status, $said) = promtool($bed, $now->text, 'check metrics');
is("$status$said", '0', 'promtool finds no fault with names that want escapes');

# ---- errors

is(get($port, '/odd?k=1')->{status}, 200, 'down, allow');
is(get($port, '/odder?k=1')->{status}, 503, 'down, deny');
is(errors('down', @odd), 2, '  two errors');
is(scrape($port)->results('odd') . ' ' . scrape($port)->results('odder'), 'passed/error:1 rejected/error:1', '  what became of the requests');
is(value('sliding_log_store_calls_total', @odd), 0, '  and no call');
$quiet->start;
ok(up(1, @odd), 'it comes up');
is(get($port, '/odder?k=1')->{status}, 200, '  and decides');
is(scrape($port)->results('odder'), 'passed/redis:1 rejected/error:1', '  which is counted');

$redis->cli('SET', 'rl:sliding:one:{text}', 'x');
get($port, '/one?k=text') for 1 .. 3;
is(errors('wrong_type'), 3, 'a key of another type');
$redis->cli('CONFIG', 'SET', 'maxmemory-policy', 'noeviction');
$redis->cli('CONFIG', 'SET', 'maxmemory', '1');
get($port, '/local?k=oom') for 1 .. 2;
is(errors('out_of_memory'), 2, 'a Redis that is full');
is(scrape($port)->results('local'), 'passed/local:2', '  where the local log decides');
$redis->cli('CONFIG', 'SET', 'maxmemory', '0');
$redis->pause;
my @answers = many([map { [$port, "/one?k=$_"] } 1 .. 5]);
$redis->resume;
my $lost = errors('timeout') + errors('down');
is($lost, 5, 'five requests to a Redis that hangs');
cmp_ok(errors('timeout'), '>', 0, '  timed out');
ok(up(1, @one), '  and it is up again');
is(scrape($port)->value('sliding_log_requests_total', limit => 'one', source => 'error'), 3 + 5, 'each of them was let through by on_error');
$redis->kill;
ok(up(0, @one), 'Redis is killed: down');

# ---- a user who may not ask for it

$quiet->cli('ACL', 'SETUSER', 'limiter', split(' ', documented_rule('limiter', 'us3rpass')), '-info');
my $silent = $bed->nginx(<<'END', REDIS => $quiet->address);
%%GLOBALS%%
worker_processes 2;
events { }
http {
    %%HTTP%%
    access_log off;
    sliding_log_redis { server %%REDIS%%; username limiter; password us3rpass; timeout 3s; connect_timeout 3s; }
    server {
        listen 127.0.0.1:%%PORT%%;
        location / { sliding_log_limit t key=$arg_k limit=10 window=1h; empty_gif; }
        location /metrics { sliding_log_metrics; }
    }
}
END
$port = $silent->port;
ok(wait_until('the refusal', 5, sub { $quiet->cli('ACL', 'LOG') =~ /^info$/m }), 'no right to INFO');
ok(up(1, node => $quiet->address), '  the store is up all the same');
is(get($port, '/?k=1')->{status}, 200, '  and decides');
my $until = time + 3;
wait_until('some looks at it', 5, sub { time > $until });
is($quiet->cli('ACL', 'LOG') =~ /^count\n(\d+)\nreason\ncommand\n/m ? $1 : 0, 1, '  it is asked once');
is(scrape($port)->those('sliding_log_redis_memory_used_bytes'), 0, '  nothing is told');
is($silent->logged(qr/\[(?:warn|error)\]/), 0, '  and nothing said');

# ---- a cluster

my $cluster = $bed->cluster(masters => 2);
my ($first, $second) = $cluster->nodes;
my $in_cluster = $bed->nginx(<<'END', SEED => $first->address);
%%GLOBALS%%
worker_processes 2;
events { worker_connections 1024; }
http {
    %%HTTP%%
    access_log off;
    sliding_log_redis { mode cluster; server %%SEED%%; timeout 3s; connect_timeout 3s; reconnect 20ms 200ms; }
    sliding_log_on_error deny;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / { sliding_log_limit t key=$arg_k limit=100000 window=1h; empty_gif; }
        location /metrics { sliding_log_metrics; }
    }
}
END
$port = $in_cluster->port;
my %tag = map { $_->address => $cluster->tag_on($_) } $first, $second;
many([map { [$port, "/?k=$tag{ $first->address }"] } 1 .. 30]);
many([map { [$port, "/?k=$tag{ $second->address }"] } 1 .. 20]);
$now = scrape($port);
is($now->value('sliding_log_store_requests_total', store => 'default', node => $first->address), 30, 'a cluster: what one node was asked');
is($now->value('sliding_log_store_requests_total', store => 'default', node => $second->address), 20, '  and the other one');
is($now->value('sliding_log_store_calls_total', node => $_->address), $_->calls('evalsha'), '  in as many calls as it counts') for $first, $second;
ok(wait_until('their health', 5, sub { 2 == grep { value('sliding_log_redis_memory_used_bytes', node => $_->address) } $first, $second }), '  the health of each');
my @polled = map { $_->calls('info') } $first, $second;    # redis-cli asks, too: what is above, and this
cmp_ok($polled[0], '<', 12, '  is asked for by one worker, once in a while') or diag("@polled");

# a slot on its way: the call is counted where it goes
my $slot = $cluster->slot_of($tag{ $first->address });
$cluster->move($slot, $first, $second);
is(get($port, "/?k=$tag{ $first->address }")->{status}, 200, 'a slot moves');
is(scrape($port)->value('sliding_log_store_requests_total', node => $second->address), 21, '  and so does the count');

# ---- a small zone, and many limits

my $limits = join "\n", map { "location /$_ { sliding_log_limit limit$_ key=\$arg_k limit=10 window=1h; empty_gif; }" } 1 .. 30;
my $small = $bed->nginx(<<"END", QUIET => $quiet->address);
%%GLOBALS%%
worker_processes 2;
events { worker_connections 1024; }
http {
    %%HTTP%%
    access_log off;
    sliding_log_zone 32k;
    sliding_log_redis { server %%QUIET%%; timeout 3s; connect_timeout 3s; }
    server { listen 127.0.0.1:%%PORT%%; $limits location /metrics { sliding_log_metrics; } }
}
END
$port = $small->port;
is(join(' ', map { get($port, "/$_?k=1")->{status} } 1 .. 30), join(' ', (200) x 30), 'a zone of 32k: limits decide as ever');
$now = scrape($port);
my @shown = grep { defined $now->value('sliding_log_requests_total', limit => "limit$_") } 1 .. 30;
cmp_ok(scalar @shown, '>=', 5, '  some of them are shown');
cmp_ok(scalar @shown, '<', 30, '  and some left out');
is($now->value('sliding_log_requests_total', limit => "limit$_", result => 'passed'), 1, "  what is shown is right: limit$_") for @shown[0, -1];
is($small->logged(qr/\[warn\].*"sliding_log_zone" has no room for the metrics of "limit\d+"/), 1, '  and the log says so, once');
($status, $said) = promtool($bed, $now->text, 'check metrics');
is("$status$said", '0', '  promtool finds no fault');

# ---- no limit at all

my $bare = $bed->nginx(<<'END');
%%GLOBALS%%
events { }
http { %%HTTP%% access_log off; server { listen 127.0.0.1:%%PORT%%; location / { sliding_log_metrics; } } }
END
is(scrape($bare->port, '/')->those('sliding_log_store_up'), 0, 'without a limit there is nothing to show');
($status, $said) = promtool($bed, scrape($bare->port, '/')->text, 'check metrics');
is("$status$said", '0', '  which promtool takes');

$bed->done;
