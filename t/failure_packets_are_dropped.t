# The network drops the packets to Redis, from Redis, or both, under load. No request waits longer than the timeout, and
# Redis decides again soon after.

use strict;
use warnings;
use Test::More;
use Testbed;
use Testbed::Partition;
use Testbed::Trial;

Testbed::Partition::enter();
my ($nginx, $redis) = ('127.0.0.1', '127.0.0.2');

my $bed   = Testbed->new;
my $trial = Testbed::Trial->new($bed, connect => '100ms', redis => { host => $redis, args => ['--protected-mode', 'no', '--bind-source-addr', $redis] });

$trial->try('packets to Redis are dropped', lasts => 2, logged => qr/timed out/,
    fault => sub { Testbed::Partition::drop($nginx, $redis) }, mend => \&Testbed::Partition::heal);
$trial->try('packets from Redis are dropped', lasts => 2, logged => qr/timed out/,
    fault => sub { Testbed::Partition::drop($redis, $nginx) }, mend => \&Testbed::Partition::heal);
$trial->try('packets of both directions are dropped', lasts => 2, logged => qr/timed out/,
    fault => sub { Testbed::Partition::cut($redis, $nginx) }, mend => \&Testbed::Partition::heal);

$bed->done;
