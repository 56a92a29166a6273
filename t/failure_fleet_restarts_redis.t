# Two nodes of eight workers each, whose Redis is killed and started again under load. Each worker connects once, with
# few bytes, and few workers send the missing script.

use strict;
use warnings;
use Test::More;
use Testbed qw(wait_until slow);
use Testbed::Algorithm qw(%SCRIPTS);
use Testbed::Http qw(get field);
use Testbed::Load;
use Testbed::Script qw(source);

use constant { NODES => 2, WORKERS => 8, RATE => 400 };
use constant FLEET => NODES * WORKERS;
my $script = length source($SCRIPTS{log});

my $bed   = Testbed->new;
my $redis = $bed->redis(args => [qw(--user limiter on >us3rpass ~* +@all)]);
my @nginx = map { $bed->serve(
    REDIS => $redis->address, WORKERS => WORKERS,
    workers => '%%WORKERS%%',
    listen  => 'reuseport',
    store   => <<'STORE',
    server %%REDIS%%; username limiter; password us3rpass; timeout 1s; connect_timeout 1s;
    reconnect 50ms 300ms;
STORE
    how     => '$sliding_log_source $pid $sliding_log_latency',
    server  => 'location / { sliding_log_limit fleet key=$arg_k limit=100000 window=1h; empty_gif; }',
) } 1 .. NODES;

# Each connection logs in once.
sub logins { return $redis->calls('auth') }
sub asking { return $redis->connections(cmd => 'evalsha') }

my @loads = map { Testbed::Load->start($bed, $_->port, paths => ['/?k=%d'], rate => RATE / NODES) } @nginx;
ok(wait_until('all to ask', 20, sub { asking() == FLEET }), 'all workers ask Redis');
is(logins(), FLEET, 'all workers ask Redis: each has connected once');

for my $round (1 .. 3) {
    $redis->kill;
    $redis->start;
    ok(wait_until('all to ask again', 20, sub { asking() == FLEET }), "restart $round: all workers ask Redis again");
    ok(wait_until('the script', 20, sub { $redis->calls('script|load') }), "restart $round: the script is loaded");
    my %spent = (logins => logins(), loads => $redis->calls('script|load'), bytes => $redis->info('total_net_input_bytes'),
        calls => $redis->calls('evalsha'));
    note(join ', ', map { "$_ $spent{$_}" } sort keys %spent);
    # a busy machine may let a probe be late
    cmp_ok($spent{logins}, '<=', FLEET * slow(), "restart $round: each worker connects about once");
    cmp_ok($spent{loads}, '<', FLEET / 2, "restart $round: few workers load it");
    # a call with one log has some 250 bytes; the test's own commands are included
    cmp_ok($spent{bytes} - 400 * $spent{calls} - $script * $spent{loads}, '<', 200 * $spent{logins} + 20_000,
        "restart $round: connecting takes few bytes");
}
my @records = map { $_->stop } @loads;
is(scalar(grep { $_->that(status => 200)->count == $_->count } @records), NODES, 'every request is answered');
is(join("\n", map { $_->repeated_troubles } @nginx), '', 'each worker logs a cause about once a second');

$bed->done;
