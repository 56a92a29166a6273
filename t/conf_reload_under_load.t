# Five reloads, SCRIPT FLUSH and lost connections under load: no request fails, no connection is left, no alert is
# logged. A graceful quit answers the requests that wait.

use strict;
use warnings;
use Test::More;
use Testbed qw(wait_until);
use Testbed::Http qw(get load_while connect_to parse);

my $bed   = Testbed->new;
my $redis = $bed->redis;
my $nginx = $bed->serve(
    REDIS       => $redis->address,
    workers     => 2,
    connections => 512,
    store       => 'server %%REDIS%%; timeout 5s; connect_timeout 5s; reconnect 10ms 100ms;',
    http        => 'sliding_log_on_error deny;',
    server      => 'location / { sliding_log_limit load key=$arg_k limit=1000000 window=1h; empty_gif; }',
);
my $port = $nginx->port;

my @load = map { [$port, "/?k=$_"] } (0 .. 9) x 10;

sub logged { my $sum = 0; $sum += $redis->cli('ZCARD', "rl:sliding:load:{$_}") for 0 .. 9; return $sum }

my ($seen) = load_while(\@load, sub { $nginx->reload(gone => 1) for 1 .. 5 });
like($seen, qr/^200:(\d+)$/, 'five reloads: every request is admitted');
is(logged(), ($seen =~ /^200:(\d+)$/)[0], 'five reloads: every request is logged once');
is($redis->connections, 2, 'five reloads: one connection per worker is left');

$redis->cli('FLUSHALL');
($seen) = load_while(\@load, sub { for (1 .. 20) { $redis->cli('SCRIPT', 'FLUSH'); select undef, undef, undef, 0.02 } });
like($seen, qr/^200:(\d+)$/, 'SCRIPT FLUSH, twenty times: every request is admitted');
is(logged(), ($seen =~ /^200:(\d+)$/)[0], 'SCRIPT FLUSH, twenty times: every request is logged once');

# a lost connection affects only the requests on it
($seen) = load_while(\@load, sub { for (1 .. 5) { $redis->cli(qw(CLIENT KILL TYPE normal SKIPME yes)); select undef, undef, undef, 0.1 } });
my %seen = map { split /:/ } split / /, $seen;
cmp_ok($seen{503} // 0, '<=', 5 * 20, 'connections killed: on_error decides only requests in flight');
is(join(' ', grep { !/^(200|503)$/ } keys %seen), '', 'connections killed: every request is admitted or decided by on_error');
wait_until('both workers to be connected', 5, sub { get($port, '/?k=1'); $redis->connections == 2 });
is($redis->connections, 2, 'connections killed: the workers connect again, once');

# a waiting request is answered after the worker was told to quit
$redis->pause;
my $waiting = connect_to($port);
$waiting->syswrite("GET /?k=quit HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
select undef, undef, undef, 0.1;
$nginx->reload;
$redis->resume;
is(parse(Testbed::Http::read_all($waiting, 10))->{status}, 200, 'reload: a request that waits is answered');
ok(wait_until('the old generation to end', 10, sub { $nginx->workers == 2 }), 'reload: the old workers end');

$redis->pause;
$waiting = connect_to($port);
$waiting->syswrite("GET /?k=quit HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
select undef, undef, undef, 0.1;
$nginx->signal('QUIT');
$redis->resume;
is(parse(Testbed::Http::read_all($waiting, 10))->{status}, 200, 'quit: a request that waits is answered');

$bed->done;
