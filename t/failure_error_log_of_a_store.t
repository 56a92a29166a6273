# Messages of a store in the error log: the server, the cause, and what decides meanwhile. One cause does not hide
# another, the same cause is logged once a second, and a policy that may evict logs causes one line. Bad news and their
# end have the level error.

use strict;
use warnings;
use Test::More;
use Testbed qw(conf slow wait_until);
use Testbed::Http qw(connect_to get);
use Testbed::Load;
use Time::HiRes qw(sleep);

my $bed   = Testbed->new;
my $redis = $bed->redis(args => ['--maxmemory-policy', 'allkeys-lru']);
my $conf  = conf(
    store  => 'server %%REDIS%%; timeout 1s; connect_timeout 1s; reconnect 20ms 50ms;',
    http   => 'sliding_log_on_error deny;',
    server => <<'END',
    location / { sliding_log_limit a key=$arg_k limit=100000 window=1h; empty_gif; }
    location /more  { %%MORE%% sliding_log_limit more key=$arg_k limit=9 window=1h; empty_gif; }
    location /other { %%OTHER%% sliding_log_limit more key=$arg_k limit=9 window=1h; empty_gif; }
END
);
my $nginx = $bed->nginx($conf, REDIS => $redis->address, MORE => '', OTHER => '');
my $port = $nginx->port;
my $key  = 0;
sub served { my ($path) = @_; return get($port, $path // '/?k=' . $key++)->{status} == 200 }
my $unsafe = qr/\[error\].*maxmemory-policy "allkeys-\w+" can evict live logs/;

for (1 .. 20) {
    my $connects = $redis->info('total_connections_received');
    $redis->cli(qw(CLIENT KILL TYPE normal));
    wait_until('a new connection', 5, sub { $redis->info('total_connections_received') > $connects + 2 && served() });
}
is($nginx->logged($unsafe), 1, 'a policy that may evict logs, and twenty connects: one line');
for (1 .. 5) {
    for my $policy (qw(noeviction allkeys-lfu)) {
        $redis->cli(qw(CONFIG SET maxmemory-policy), $policy);
        $redis->cli(qw(CLIENT KILL TYPE normal));
        wait_until('a new connection', 5, sub { $redis->connections(cmd => 'evalsha') || !served() });
    }
}
is($nginx->logged($unsafe), 1, 'a policy that may evict logs comes and goes: at most one line a minute');

# one lasting cause, and others beside it
$redis->cli(qw(CONFIG SET maxmemory-policy noeviction));
$redis->cli(qw(SET rl:sliding:a:{text} x));
served('/?k=known');
my $load = Testbed::Load->start($bed, $port, paths => ['/?k=text'], rate => 200);
my $told = sub { my ($cause) = @_; return $nginx->logged(qr/answered: $cause/) };
ok(wait_until('WRONGTYPE', 5, sub { $told->('WRONGTYPE') }), 'a key of a wrong type is logged');
my %soon = (
    OOM      => [[qw(CONFIG SET maxmemory 1)],                [qw(CONFIG SET maxmemory 0)]],
    NOPERM   => [[qw(ACL SETUSER default resetkeys ~other*)], [qw(ACL SETUSER default allkeys)]],
    READONLY => [[qw(REPLICAOF 127.0.0.1 1)],                 [qw(REPLICAOF NO ONE)]],
);
for my $cause (sort keys %soon) {
    my $same = $told->('WRONGTYPE');
    wait_until('the same again', 5, sub { $told->('WRONGTYPE') > $same });    # so its second has just begun
    my ($fault, $mend) = @{ $soon{$cause} };
    my $before = $told->($cause);
    $redis->cli(@$fault);
    served('/?k=known' . $key++);
    ok(wait_until($cause, 0.2, sub { $told->($cause) > $before }), "$cause in the same second as WRONGTYPE: it is told");
    $redis->cli(@$mend);
    ok(wait_until('the end of it', 10, sub { served() }), "$cause is mended: Redis decides again");
}
$load->stop;
is(join("\n", $nginx->repeated_troubles), '', 'nothing is logged twice a second');

# a connection that is lost
my $lost     = sub { my ($level) = @_; return $nginx->logged(qr/\[$level\].* connection lost/) };
my $returned = sub { return $nginx->logged(qr/\[error\].* sliding_log_redis "default" \(.*\): connected again$/) };
my @before   = ($lost->('warn'), $lost->('error'), $returned->());
sleep 1.1;    # the same causes are told again
$redis->cli(qw(CLIENT KILL TYPE normal));
ok(wait_until('the loss', 5, sub { served() && $lost->('warn') > $before[0] }), 'an idle connection is lost: a warning');
is(join(' ', $lost->('error'), $returned->()), "$before[1] $before[2]", 'an idle connection is lost: no error, and no end of one');
sleep 1.1;
$redis->cli(qw(CLIENT PAUSE 5000 WRITE));
my $socket = connect_to($port);
print {$socket} "GET /?k=waits HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
wait_until('the call', 5, sub { $redis->info('blocked_clients') > 0 });
$redis->cli(qw(CLIENT KILL TYPE normal));
$redis->cli(qw(CLIENT UNPAUSE));
ok(wait_until('the loss', 5, sub { $lost->('error') > $before[1] }), 'a connection is lost while a request waits: an error');
ok(wait_until('the return', 5, sub { served() && $returned->() > $before[2] }), 'the return is told at the same level');

$redis->kill;
my $returns = $returned->();
ok(wait_until('the refusal', 10, sub { !served('/?k=down') && $nginx->logged(qr/is down: Connection refused/) }), 'Redis is down: on_error decides');
my $address = quotemeta $redis->address;
like((grep { /is down: Connection refused/ } split /\n/, $nginx->error_log)[-1], qr/\[error\] \S+ sliding_log_redis "default" \($address\): is down: Connection refused; on_error deny decides$/,
    'Redis is down: the line has the server, the cause and the deciding on_error');
@{ $nginx->{values} }{qw(MORE OTHER)} = ('sliding_log_on_error allow;', 'sliding_log_on_error local;');
$nginx->configure($conf)->reload(gone => 1);
ok(wait_until('the refusal', 10, sub { served('/?k=down'); $nginx->logged(qr/on_error allow, deny or local decides$/) }),
    'several values of on_error for one store: the line has each');
@{ $nginx->{values} }{qw(MORE OTHER)} = ('sliding_log_on_error local;', '');
$nginx->configure($conf)->reload(gone => 1);
ok(wait_until('the refusal', 10, sub { served('/?k=down'); $nginx->logged(qr/is down: Connection refused; on_error deny or local decides$/) }),
    'two values of on_error for one store: the line has both');

$redis->start;
ok(wait_until('the return', 10, sub { served() && $returned->() > $returns }), 'Redis is back: told at level error');

$bed->done;
