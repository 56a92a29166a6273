# A Redis, a Sentinel and a cluster by host name. With a resolver in nginx, a name that moves is found without a reload,
# and no request waits for the name server. Without one, the addresses of the configuration are kept.

use strict;
use warnings;
use Test::More;
use Testbed qw(conf slow wait_until);
use Testbed::Dns;
use Testbed::Http qw(get);
use Time::HiRes qw(time);

my $bed   = Testbed->new;
my $dns   = Testbed::Dns->new($bed, '127.0.0.1');
my $first = $bed->redis(args => ['--bind', '127.0.0.1', '-::1']);    # localhost may be either of these
my $moved = $bed->redis(host => '127.0.0.2', port => $first->port);
my $conf  = conf(
    connections => 256,
    store       => 'server localhost:%%REDIS%%; timeout 300ms; connect_timeout 300ms; reconnect 20ms 200ms;',
    http        => '%%RESOLVER%%',
    server      => <<'END',
    location / { sliding_log_limit load key=$arg_k limit=100000 window=1h; sliding_log_on_error deny; empty_gif; }
END
);
my $with    = $bed->nginx($conf, REDIS => $first->port, RESOLVER => 'resolver ' . $dns->address . ' valid=1s ipv6=off;');
my $without = $bed->nginx($conf, REDIS => $first->port, RESOLVER => '');
sub serves { my ($nginx) = @_; return get($nginx->port, '/?k=x')->{status} == 200 }

ok(wait_until('the first', 5, sub { serves($with) && serves($without) }), 'the address of the configuration is used');
is($dns->asked, 0, 'the address of the configuration is not asked for again');

$dns->answers('127.0.0.2');
$first->cli(qw(CLIENT KILL TYPE normal));
ok(wait_until('the move', 10, sub { serves($with) && $moved->calls('evalsha') > 0 }), 'the name moves: the new address is found');
cmp_ok($dns->asked, '>', 0, 'the name moves: the resolver is asked');
my $calls = $moved->calls('evalsha');
ok(wait_until('the other to be connected again', 5, sub { serves($without) }), 'no resolver: the address of the configuration is kept');
is($moved->calls('evalsha'), $calls, 'no resolver: the new address is not used');

# the name server is down: known addresses are used, and no request waits
$dns->answers('mute');
$moved->cli(qw(CLIENT KILL TYPE normal));
ok(wait_until('the connection', 10, sub { serves($with) }), 'the name server does not answer: the latest address is used');
$moved->kill;
wait_until('the loss', 10, sub { !serves($with) });
my $start = time;
get($with->port, '/?k=x') for 1 .. 20;
cmp_ok(time - $start, '<', 0.5 * slow(), 'name server and Redis are down: no request waits for either');
$with->signal('QUIT');
ok($with->wait_end(2 * slow()), 'name server and Redis are down: a quit does not wait');

# a cluster and a Sentinel whose answers are names
my $cluster = $bed->cluster(masters => 2, args => [qw(--cluster-announce-hostname redis.example --cluster-preferred-endpoint-type hostname)]);
my $master  = $bed->redis;
my $watcher = $bed->sentinel(master => $master, host => 'localhost', conf => ['sentinel resolve-hostnames yes', 'sentinel announce-hostnames yes']);
$dns->answers('127.0.0.1');
$conf = $conf =~ s/server localhost.*?;/%%BLOCK%%/r;
for my $case (
    ['a cluster',             'server ' . ($cluster->nodes)[0]->address . '; mode cluster;', 'RESOLVER'],
    ['a cluster, no resolver', 'server ' . ($cluster->nodes)[0]->address . '; mode cluster;'],
    ['a Sentinel',            'server ' . $watcher->address . '; mode sentinel limits;', 'RESOLVER'],
    ['a Sentinel, no resolver', 'server localhost:' . $watcher->port . '; mode sentinel limits;'],
) {
    my ($what, $block, $resolver) = @$case;
    my $nginx = $bed->nginx($conf, BLOCK => $block, RESOLVER => $resolver ? 'resolver ' . $dns->address . ' ipv6=off;' : '');
    ok(wait_until($what, 10, sub { my $bad = grep { get($nginx->port, "/?k=$_")->{status} != 200 } 1 .. 10; !$bad }), "$what that answers with names is found");
}
my $lost = $bed->nginx($conf, BLOCK => 'server ' . $watcher->address . '; mode sentinel limits;', RESOLVER => '');
ok(wait_until('the cause', 10, sub { get($lost->port, '/?k=x'); $lost->logged(qr/no Sentinel knows the master: .*no "resolver" in http/) }), 'a name that cannot be resolved: the error log has the missing resolver');

$bed->done;
