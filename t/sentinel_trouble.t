# The old master hangs while another takes its place; no Sentinel is left; Sentinel's password is wrong.

use strict;
use warnings;
use Test::More;
use Testbed qw(wait_until);
use Testbed::Guarded;
use Testbed::Load;
use Time::HiRes qw(time);

my $bed = Testbed->new;
my $world = Testbed::Guarded->new($bed);
my ($first, $second) = $world->redis;
my $nginx = $world->nginx;

sub connections { my ($redis) = @_; return scalar grep { /cmd=(?:evalsha|config|info)/ } split /\n/, $redis->cli(qw(CLIENT LIST TYPE normal)) }

# it does not close its connections: only +switch-master tells
$world->both_serve('both workers are served');
$world->fails_over('a fail-over while the old master hangs', sub { $first->pause }, $second);
$first->resume;
ok($world->wait_settled($second), 'it wakes up, and is a replica');
$world->both_serve('  both workers are served');
ok(wait_until('its connections to be gone', 5, sub { connections($first) == 0 }), '  and keep no connection to it');

# the master lives on without any Sentinel; new workers cannot find it
$_->kill for $world->sentinels;
my $load  = Testbed::Load->start($bed, $nginx->port, paths => ['/deny?k=%d'], rate => 100);
my $until = time + 1;
wait_until('a while without Sentinels', 5, sub { time > $until });
my $alone = $load->stop;
is($alone->that(source => 'redis', status => 200)->count, $alone->count, 'no Sentinel is left: the master is asked on');
cmp_ok($nginx->logged(qr/\[error\].*sliding_log_redis/), '<', 60, '  without a flood in the log');
$nginx->reload;
ok(wait_until('new workers', 10, sub { ($world->ask('/deny?k=new'))[0] == 503 }), 'a reload without Sentinels: on_error decides');
is(($world->ask('/local?k=new'))[1], 'local', '  the local log, too');
ok(wait_until('the cause', 5, sub { $nginx->logged(qr/\(limits\): is down: no Sentinel knows the master: /) }), '  the log names the cause');
$_->start for $world->sentinels;
$world->both_serve('  until Sentinels are back');

# a wrong password for Sentinel is named, not told
$nginx->{values}{SENTINEL_PASSWORD} = 'wrong-pass';
$nginx->configure($world->conf)->reload(gone => 1);
ok(wait_until('the refusal', 10, sub { $world->ask('/deny?k=x'); $nginx->logged(qr/no Sentinel knows the master: WRONGPASS/) }), 'a wrong sentinel_password is named');
is($nginx->logged(qr/wrong-pass|watch-pass|redis-pass/), 0, '  and no secret told');

$bed->done;
