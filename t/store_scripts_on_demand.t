# A connection takes few bytes, and only a missing script is loaded: by the first of many workers that calls it. A request
# that may wait half of the timeout alone gets its answer, too. A server that refuses a script is asked to load it less and
# less often, however many requests there are.

use strict;
use warnings;
use Test::More;
use Testbed qw(wait_until slow);
use Testbed::Http qw(get field);
use Testbed::Load;
use Time::HiRes qw(sleep);

use constant WORKERS => 16;

my $bed   = Testbed->new;
my $redis = $bed->redis;
my $nginx = $bed->serve(
    REDIS => $redis->address, WORKERS => WORKERS,
    workers => '%%WORKERS%%',
    listen  => 'reuseport',
    store   => 'server %%REDIS%%; timeout 1s; connect_timeout 1s; reconnect 50ms 300ms;',
    http    => 'sliding_log_on_error deny;',
    how     => '$sliding_log_source $pid $sliding_log_latency',
    server  => <<'END',
    location /log     { sliding_log_limit log key=$arg_k limit=100000 window=1h; empty_gif; }
    location /compact { sliding_log_limit compact key=$arg_k limit=100000 window=1h algorithm=compact; empty_gif; }
END
);
sub loads { return $redis->calls('script|load') }

ok(wait_until('all to be connected', 10, sub { $redis->connections == WORKERS }), 'every worker is connected');
is(loads(), 0, 'every worker is connected: no script is loaded');
cmp_ok($redis->info('total_net_input_bytes'), '<', 500 * WORKERS + 10_000, 'every worker is connected: few bytes are sent');

is(get($nginx->port, '/log?k=a')->{status}, 200, 'a script is asked for: Redis decides');
is($redis->info('number_of_cached_scripts'), 1, 'a script is asked for: no other one is loaded');
is(loads(), 1, 'a script is asked for: it is loaded once');
is(get($nginx->port, '/compact?k=a')->{status}, 200, 'a second script is asked for: Redis decides');
is($redis->info('number_of_cached_scripts') . ' ' . loads(), '2 2', 'a second script is asked for: it is loaded once');

my $load = Testbed::Load->start($bed, $nginx->port, paths => ['/log?k=%d'], rate => 800);
my $before = loads();
my $asked  = $redis->calls('evalsha');
wait_until('the load', 10, sub { $redis->calls('evalsha') > $asked + 400 });
$redis->cli(qw(SCRIPT FLUSH));
sleep 1;
my $flushed = loads() - $before;
cmp_ok($flushed, '>=', 1, 'scripts flushed under load: the needed script is loaded');
cmp_ok($flushed, '<', WORKERS / 2, 'scripts flushed under load: few workers load scripts');
is($redis->info('number_of_cached_scripts'), 1, 'scripts flushed under load: only the script that is needed is loaded');

$redis->kill;
$redis->start;
ok(wait_until('all to be connected', 10, sub { $redis->connections(cmd => 'evalsha') == WORKERS }), 'the server restarted: every worker asks it');
cmp_ok(loads(), '<', WORKERS / 2, 'the server restarted: few workers load scripts');
my $record = $load->stop;
is($record->that(status => 0)->count, 0, 'every request is answered');
note("$flushed loads after the flush, " . loads() . ' after the restart');
ok($record->that(status => 503)->count < $record->count, 'Redis decides');

# A script has 100,000 bytes, so it must not go with each request.
{
    $redis->cli(qw(ACL SETUSER default -script|load));
    $redis->cli(qw(SCRIPT FLUSH));
    $redis->cli(qw(CONFIG RESETSTAT));
    my $refused = Testbed::Load->start($bed, $nginx->port, paths => ['/log?k=%d'], rate => 800);
    wait_until('many requests', 10, sub { $redis->calls('evalsha', 'failed') > 1600 });
    my $after = $refused->stop;
    my $tries = $redis->calls('script|load', 'rejected');
    cmp_ok($tries, '>', 0, 'SCRIPT LOAD is refused: it is tried');
    cmp_ok($tries, '<', 8 * WORKERS, 'SCRIPT LOAD is refused: it is not tried for each request');
    is($after->that(status => 503)->count, $after->count, 'SCRIPT LOAD is refused: on_error decides');
    note("$tries times for " . $after->count . ' requests');
    $redis->cli(qw(ACL SETUSER default +@all));
    ok(wait_until('a script', 20, sub { get($nginx->port, '/log?k=a')->{status} == 200 }), 'SCRIPT LOAD is permitted again: Redis decides');
}

# A dry run waits for half of the time at most. One of many may fail: the machine may stand still.
{
    use constant FLUSHES => 150;
    my $port = $bed->serve(
        REDIS  => $redis->address,
        store  => 'server %%REDIS%%; timeout 100ms; connect_timeout 1s; reconnect 50ms 300ms;',
        how    => '$sliding_log_source',
        server => 'location /dry { sliding_log_limit dry key=$arg_k limit=100000 window=1h dry_run=on; empty_gif; }',
    )->port;
    wait_until('it to be connected', 10, sub { field(get($port, '/dry?k=a'), 'X-How') eq 'redis' });
    my %source;
    for my $flush (1 .. FLUSHES) {
        $redis->cli(qw(SCRIPT FLUSH));
        $source{ field(get($port, '/dry?k=a'), 'X-How') }++;
    }
    cmp_ok($source{redis}, '>=', FLUSHES - 2, 'dry runs of scripts that are missing: Redis decides')
        or diag(join ' ', map { "$_:$source{$_}" } sort keys %source);
}

$bed->done;
