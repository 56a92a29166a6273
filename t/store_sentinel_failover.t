# A fail-over by command under load: the old master becomes a replica and is not asked.

use strict;
use warnings;
use Test::More;
use Testbed qw(wait_until);
use Testbed::Guarded;

my $bed = Testbed->new;
my $world = Testbed::Guarded->new($bed);
my ($first, $second) = $world->redis;

$world->both_serve('the master is found by way of the Sentinels that know it');
is($second->calls('evalsha'), 0, 'the replica is not asked');

$world->fails_over('a fail-over by command', sub {
    ok(($world->sentinels)[0]->begin_failover, 'a fail-over by command: the Sentinel begins it');
}, $second);
ok($world->wait_agreed($second), 'a fail-over by command: the old master is a replica');
$world->both_serve('a fail-over by command: both workers find the new master');
my $calls = $first->calls('evalsha');
$world->both_serve('a fail-over by command: both workers stay with the new master');
is($first->calls('evalsha'), $calls, 'a fail-over by command: the old master gets no calls');

$bed->done;
