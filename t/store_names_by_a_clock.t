# nginx's resolver keeps an address by the wall clock of the node: after this clock was set back, a name that moves is
# not asked for until the clock is where it was. A reload asks at once.

use strict;
use warnings;
use Test::More;
use Testbed qw(conf wait_until);
use Testbed::Clock;
use Testbed::Dns;
use Testbed::Http qw(get);
use Testbed::Stopwatch;

my $bed   = Testbed->new;
my $dns   = Testbed::Dns->new($bed, '127.0.0.1');
my $first = $bed->redis(args => ['--bind', '127.0.0.1', '-::1']);    # localhost may be either of these
my $moved = $bed->redis(host => '127.0.0.2', port => $first->port);
my $clock = Testbed::Clock->new($bed->dir);
my $conf  = conf(
    store  => 'server localhost:%%REDIS%%; timeout 5s; connect_timeout 5s; reconnect 20ms 100ms;',
    http   => 'resolver %%RESOLVER%% valid=1s ipv6=off;',
    server => 'location / { sliding_log_limit named key=$arg_k limit=100000 window=1h; sliding_log_on_error deny; empty_gif; }',
);
my $nginx = $bed->nginx($conf, REDIS => $first->port, RESOLVER => $dns->address, CLOCK => $clock);

sub serves { return get($nginx->port, '/?k=x')->{status} == 200 }
sub lose_connections { return $_[0]->cli(qw(CLIENT KILL TYPE normal)) }

ok(wait_until('the address of the configuration', 5, \&serves), 'the address of the configuration is used');
lose_connections($first);
ok(wait_until('a question', 10, sub { serves() && $dns->asked }), 'the name server is asked');

$clock->set(-3600);
$dns->answers('127.0.0.2');
my $asked = $dns->asked;
for (my $watch = Testbed::Stopwatch->start; $watch->elapsed < 2.5;) {
    lose_connections($first);
    wait_until('a connection', 5, \&serves) or fail('Redis is connected again');
}
is($dns->asked, $asked, 'the clock was set back: the name is not asked for after its time');
is($moved->calls('evalsha'), 0, 'the clock was set back: the former address is used');

$nginx->reload(gone => 1);
ok(wait_until('the new address', 10, sub { lose_connections($first); serves() && $moved->calls('evalsha') > 0 }), 'a reload: the new address is used');

$bed->done;
