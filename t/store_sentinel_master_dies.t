# The master dies under load, with a reload in the middle. It comes back as a master until the Sentinels make it a
# replica, and is never asked.

use strict;
use warnings;
use Test::More;
use Testbed;
use Testbed::Guarded;

my $bed   = Testbed->new;
my $world = Testbed::Guarded->new($bed);
my ($first, $second) = $world->redis;

$world->both_serve('at the start both workers are served');
$world->fails_over('a fail-over by death', sub { $first->kill; $world->nginx->reload }, $second);
my $master = quotemeta $first->address;
ok($world->nginx->logged(qr/sliding_log_redis "default" \($master, master of "limits"\): /), 'the error log has the server, and the name of the master');
$first->start;
like($first->cli('ROLE'), qr/^master/, 'the old master comes back as a master');
$world->both_serve('the old master is still a master: both workers are served');
$world->nginx->reload(gone => 1);
$world->both_serve('the old master is still a master: new workers are served');
ok($world->wait_agreed($second), 'the old master is made a replica');
$world->both_serve('the old master is a replica: both workers are served');
is($first->calls('evalsha'), 0, 'the old master gets no calls after it came back');
cmp_ok($world->nginx->logged(qr/\[error\].*sliding_log_redis/), '<', 60, 'the error log has about one line a second and worker');

$bed->done;
