# A deposed primary at the same address, or behind a proxy. on_error decides. The worker tries again with growing delays
# and few bytes until the server accepts writes, whether its user may run ROLE or not.

use strict;
use warnings;
use Test::More;
use Testbed qw(conf slow);
use Testbed::Load;
use Time::HiRes qw(sleep);

my $bed = Testbed->new;
my %redis = map { $_ => $bed->redis } qw(open closed);
$redis{closed}->cli(qw(ACL SETUSER limiter on >us3rpass ~* -@all +evalsha +script|load +time +zrange +zrangebyscore +zremrangebyscore),
    qw(+zremrangebyrank +zcard +zadd +zrem +pexpire +config|get +info));

my $conf = conf(
    workers => 2,
    listen  => 'reuseport',
    store   => 'server %%REDIS%%; %%USER%% timeout 300ms; connect_timeout 300ms; reconnect 20ms 1s;',
    http    => 'sliding_log_on_error deny;',
    how     => '$sliding_log_source $pid $sliding_log_latency',
    server  => 'location / { sliding_log_limit a key=$arg_k limit=100000 window=1h; empty_gif; }',
);

for my $case (['open', 'with a user that may run ROLE', ''], ['closed', 'with a user that may not run ROLE', 'username limiter; password us3rpass;']) {
    my ($name, $what, $user) = @$case;
    my $redis = $redis{$name};
    my $nginx = $bed->nginx($conf, REDIS => $redis->address, USER => $user);
    my $served = sub { return $nginx->all_serve('/?k=a', 2) };
    ok($served->(), "a server $what: it decides");

    $redis->cli(qw(REPLICAOF 127.0.0.1 1));
    my %before = map { $_ => $redis->info($_) } qw(total_connections_received total_net_input_bytes);
    my $load = Testbed::Load->start($bed, $nginx->port, paths => ['/?k=%d'], rate => 200);
    sleep 4;
    my %spent = map { $_ => $redis->info($_) - $before{$_} } keys %before;
    my $record = $load->stop;
    note($record->count . ' requests; ' . join ', ', map { "$_ $spent{$_}" } sort keys %spent);

    # delays of at most 20, 40, 80, 160, 320, 640, 1000 ms, on average two thirds of that: about ten attempts each
    cmp_ok($spent{total_connections_received}, '<', 2 * 20, "a replica $what: it is tried with delays");
    cmp_ok($spent{total_net_input_bytes}, '<', 100_000, "a replica $what: it is tried with few bytes");
    is($record->that(status => 503)->count, $record->count, "a replica $what: on_error decides all");
    cmp_ok($record->longest_wait, '<', 0.3 + 0.1 * slow(), "a replica $what: no request waits longer than the timeout");
    ok($nginx->logged($name eq 'open' ? qr/is down: ROLE answered: slave/ : qr/is down: it takes no writes/),
        "a replica $what: the error log has the cause");
    is(join("\n", $nginx->repeated_troubles), '', "a replica $what: the error log has the cause about once a second");

    $redis->cli(qw(REPLICAOF NO ONE));
    ok($served->(), "a replica $what, made a master: it decides");
    is($nginx->logged(qr/ROLE answered: NOPERM/), $name eq 'open' ? 0 : 1, "a server $what: the missing right is logged once") if $name eq 'closed';
}

$bed->done;
