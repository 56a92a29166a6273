# The Sentinel that leads a fail-over publishes +switch-master when all replicas follow the new master, and
# +promoted-slave when that is the master. The module listens to both, and does without the second if its user may not.

use strict;
use warnings;
use Test::More;
use Testbed qw(wait_until slow);
use Testbed::FakeSentinel qw(address asked_by_nginx confirmed message switched);
use Testbed::Http qw(get);
use Testbed::Stopwatch;
use Time::HiRes qw(sleep);

my $bed = Testbed->new;
my ($old, $new) = map { $bed->redis } 1 .. 2;

sub promoted { my ($master) = @_; return message('+promoted-slave', 'slave 127.0.0.1:' . $new->port . ' 127.0.0.1 ' . $new->port . " \@ $master 127.0.0.1 " . $old->port) }
my @both = (confirmed('+switch-master', 1), confirmed('+promoted-slave', 2));
my $refused = "-NOPERM this user has no permissions to access one of the channels used as arguments\r\n";

sub guarded {
    my ($masters, $subscriptions) = @_;
    $_->cli(qw(CONFIG RESETSTAT)) for $old, $new;
    return asked_by_nginx($bed, masters => $masters, subscriptions => $subscriptions,
        times => 'timeout 300ms; connect_timeout 1s; reconnect 50ms 5s;');
}
sub decided_by { my ($nginx, $redis) = @_; my $calls = $redis->calls('evalsha'); return get($nginx->port, '/?k=1')->{status} == 200 && $redis->calls('evalsha') > $calls }

my $watch = Testbed::Stopwatch->start;
my $nginx = guarded([address($old), address($new)], [$both[0], $both[1] . promoted('limits'), @both]);
ok(wait_until('the new master', 10, sub { decided_by($nginx, $new) }), '+promoted-slave: the new master is asked');
cmp_ok($watch->net, '<', 1 + slow(), '+promoted-slave: it is asked at once');

$nginx = guarded([address($old), address($new)], [$both[0], $both[1] . promoted('others') . message('+promoted-slave', 'slave limits') . message('+promoted-slave', ''), @both]);
ok(wait_until('the master', 10, sub { decided_by($nginx, $old) }), '+promoted-slave of another master: the master is asked');
sleep 0.3;
ok(decided_by($nginx, $old), '+promoted-slave of another master: the master is asked on');
is($nginx->logged(qr/is left/), 0, '+promoted-slave of another master: it is not left');

# refused: then a Sentinel replies as for +switch-master alone
$nginx = guarded([address($old), address($old), address($new)], [$both[0], $refused, $both[0] . switched($old, $new), $both[0]]);
ok(wait_until('the new master', 10, sub { decided_by($nginx, $new) }), '+promoted-slave is refused: +switch-master is heard');
is($nginx->logged(qr/\[error\].*"default": SUBSCRIBE \+promoted-slave answered: NOPERM/), 1, '+promoted-slave is refused: that is logged once');
is($nginx->logged(qr/\[error\]/), 1, '+promoted-slave is refused: nothing else is an error');

$bed->done;
