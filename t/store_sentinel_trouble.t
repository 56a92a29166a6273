# The old master hangs while another takes over; no Sentinel is left; the password of Sentinel is wrong.

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

# it does not close its connections: only +switch-master shows the change
$world->both_serve('at the start both workers are served');
$world->fails_over('a fail-over while the old master hangs', sub { $first->pause }, $second);
$first->resume;
ok($world->wait_agreed($second), 'the old master wakes up: it is a replica');
$world->both_serve('the old master wakes up: both workers are served');
ok(wait_until('its connections to be gone', 5, sub { connections($first) == 0 }), 'the old master wakes up: all connections to it are closed');

# the master lives on without any Sentinel; new workers cannot find it
$_->kill for $world->sentinels;
my $load  = Testbed::Load->start($bed, $nginx->port, paths => ['/deny?k=%d'], rate => 100);
my $until = time + 1;
wait_until('a while without Sentinels', 5, sub { time > $until });
my $alone = $load->stop;
is($alone->that(source => 'redis', status => 200)->count, $alone->count, 'no Sentinel is left: the master is still asked');
cmp_ok($nginx->logged(qr/\[error\].*sliding_log_redis/), '<', 60, 'no Sentinel is left: the error log stays short');
$nginx->reload(gone => 1);    # an old worker still knows the master
ok(wait_until('new workers', 10, sub { ($world->ask('/deny?k=new'))[0] == 503 }), 'a reload without Sentinels: on_error decides');
is(($world->ask('/local?k=new'))[1], 'local', 'a reload without Sentinels: the local log decides');
ok(wait_until('the cause', 5, sub { $nginx->logged(qr/\(master of "limits"\): is down: no Sentinel knows the master: .*; on_error deny or local decides$/) }),
    'a reload without Sentinels: the error log has the cause');
$_->start for $world->sentinels;
$world->both_serve('Sentinels are back: both workers are served');

# a wrong password for Sentinel is reported, not printed
$nginx->{values}{SENTINEL_PASSWORD} = 'wrong-pass';
$nginx->configure($world->conf)->reload(gone => 1);
ok(wait_until('the refusal', 10, sub { $world->ask('/deny?k=x'); $nginx->logged(qr/no Sentinel knows the master: (?=.*Connection refused)(?=.*WRONGPASS)/) }),
    'a wrong sentinel_password: the error log has the cause, and that of the Sentinel that is away');
is($nginx->logged(qr/wrong-pass|watch-pass|redis-pass/), 0, 'a wrong sentinel_password: the error log has no secret');

$bed->done;
