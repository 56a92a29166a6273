# +switch-master arrives while the worker connects to a lost master, and is not ignored.

use strict;
use warnings;
use Test::More;
use Testbed qw(wait_until slow);
use Testbed::FakeSentinel qw(address asked_by_nginx confirmed switched);
use Testbed::Http qw(get);
use Testbed::Relay;
use Testbed::Stopwatch;

my $bed  = Testbed->new;
my $new  = $bed->redis;
my $gone = Testbed::Relay->new($bed, to => $new->port, deaf => 1);    # as if its host was off

my $watch = Testbed::Stopwatch->start;
my $nginx = asked_by_nginx($bed, masters => [address($gone), address($new)],
    subscriptions => confirmed('+switch-master', 1) . switched($gone, $new),
    times => 'timeout 200ms; connect_timeout 10s; reconnect 5s 10s;');
ok(wait_until('the new master', 20, sub { get($nginx->port, '/?k=1')->{status} == 200 }), '+switch-master while the worker connects: the new master is asked');
cmp_ok($watch->net, '<', 1 + slow(), '+switch-master while the worker connects: the new master is asked at once');

$bed->done;
