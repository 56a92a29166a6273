# A full Redis under each maxmemory-policy. Policies that may evict live logs cause a warning and show in the metrics.
# Redis decides all requests, and a limit loses entries only under such a policy. noeviction refuses new logs.

use strict;
use warnings;
use Test::More;
use Testbed qw(wait_until slow);
use Testbed::Http qw(get field many);
use Testbed::Metrics qw(scrape);

use constant { LIMIT => 30, FILLERS => 1500 };

my $bed   = Testbed->new;
my $redis = $bed->redis;
my $nginx = $bed->serve(
    REDIS       => $redis->address,
    workers     => 2,
    connections => 2048,
    store       => 'server %%REDIS%%; timeout 1s; connect_timeout 1s; reconnect 20ms 200ms;',
    http        => 'sliding_log_on_error deny;',
    how         => '$sliding_log_source',
    server      => <<'END',
    location /hot    { sliding_log_limit hot key=$arg_k limit=30 window=1h; empty_gif; }
    location /filler { sliding_log_limit filler key=$arg_k limit=10 window=10m; empty_gif; }
    location /metrics { sliding_log_metrics; }
END
);
my $port = $nginx->port;

# Requests for new logs, with room for few of them.
my $number = 0;
sub fill { return many([map { [$port, '/filler?k=f' . $number++] } 1 .. $_[0]], at_once => 50) }
sub count { my ($what, @answers) = @_; return scalar grep { "$_->{status} " . (field($_, 'X-How') // '') eq $what } @answers }

for my $policy (qw(noeviction volatile-ttl volatile-lru volatile-lfu volatile-random allkeys-lru allkeys-lfu allkeys-random)) {
    $redis->cli(qw(FLUSHALL));
    $redis->cli(qw(CONFIG RESETSTAT));
    $redis->cli(qw(CONFIG SET maxmemory 0));
    $redis->cli('CONFIG', 'SET', 'maxmemory-policy', $policy);
    my $forgets   = $policy !~ /noeviction|volatile-ttl/;
    my $is_unsafe = $policy =~ /allkeys/;    # evicts logs with any time to live
    # the warning is repeated for another policy after a minute; by new workers at once
    $nginx->reload(gone => 1);
    my $warnings = sub { return $nginx->logged(qr/maxmemory-policy "\Q$policy\E" can evict live logs/) };
    my @hot = map { get($port, "/hot?k=$policy") } 1 .. LIMIT;
    is(count('200 redis', @hot), LIMIT, "$policy: the limit is reached");
    $redis->cli('CONFIG', 'SET', 'maxmemory', $redis->info('used_memory') + 150_000);

    my @filled = fill(FILLERS);
    my $evicted = $redis->info('evicted_keys');
    if ($policy eq 'noeviction') {
        is($evicted, 0, "$policy: nothing is evicted");
        cmp_ok(count('503 error', @filled), '>', 0, "$policy: new logs are on on_error");
        is(count('503 error', @filled) + count('200 redis', @filled), FILLERS, "$policy: the others are decided by Redis");
        ok($nginx->logged(qr/answered: OOM/), "$policy: the error log tells the cause");
    }
    else {
        cmp_ok($evicted, '>', 0, "$policy: logs are evicted ($evicted)");
        is(count('200 redis', @filled), FILLERS, "$policy: every new log is decided by Redis");
    }
    my @more = map { get($port, "/hot?k=$policy") } 1 .. LIMIT;
    my $admitted = count('200 redis', @more);
    note("$policy: $evicted evicted, $admitted admitted beyond the limit");
    if ($forgets) {
        cmp_ok($admitted, '<=', LIMIT, "$policy: at most a whole limit is forgotten");
        is($admitted + count('429 redis', @more) + count('429 cache', @more), LIMIT, "$policy: no request is on on_error")
            or diag(join ' ', map { "$_->{status}/" . (field($_, 'X-How') // '') } @more);
    }
    else {
        is($admitted, 0, "$policy: the limit is not forgotten");
    }
    is($warnings->(), $is_unsafe ? 1 : 0, "$policy: the error log " . ($is_unsafe ? 'warns once' : 'does not warn'));
    next if $policy ne 'allkeys-lru';
    $redis->cli('CONFIG', 'SET', 'maxmemory', '1gb');    # else each client that asks for the number may change it
    my $told = wait_until('the metrics', 15, sub {
        my $metrics = scrape($port);
        my $seen    = $metrics->value('sliding_log_redis_evicted_keys_total');
        return defined $seen && $seen == $redis->info('evicted_keys') && $metrics;
    });
    is($told && $told->value('sliding_log_redis_eviction_unsafe'), 1, "$policy: the metrics tell");
}

$bed->done;
