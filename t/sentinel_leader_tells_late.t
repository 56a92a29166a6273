# The Sentinel that leads a fail-over says +switch-master when all replicas follow the new master, and +promoted-slave when
# that is the master: that is heard, too, and done without where the user may not.

use strict;
use warnings;
use Test::More;
use Testbed qw(wait_until slow);
use Testbed::FakeRedis;
use Testbed::Http qw(get);
use Testbed::Stopwatch;
use Time::HiRes qw(sleep);

my $bed = Testbed->new;
my ($old, $new) = map { $bed->redis } 1 .. 2;

sub text { my ($text) = @_; return '$' . length($text) . "\r\n$text\r\n" }
sub list { my (@items) = @_; return '*' . @items . "\r\n" . join '', @items }
sub at { my ($server) = @_; return list(text('127.0.0.1'), text($server->port)) }
sub confirmed { my ($channel, $nth) = @_; return list(text('subscribe'), text($channel), ":$nth\r\n") }
sub message { my ($channel, $text) = @_; return list(text('message'), text($channel), text($text)) }
sub promoted { my ($master) = @_; return message('+promoted-slave', 'slave 127.0.0.1:' . $new->port . ' 127.0.0.1 ' . $new->port . " \@ $master 127.0.0.1 " . $old->port) }
my @both = (confirmed('+switch-master', 1), confirmed('+promoted-slave', 2));
my $refused = "-NOPERM this user has no permissions to access one of the channels used as arguments\r\n";

# An nginx whose Sentinel answers so, as often as it is asked.
sub guarded {
    my ($where, $subscriptions) = @_;
    my $sentinel = Testbed::FakeRedis->new($bed, answers => { SENTINEL => $where, SUBSCRIBE => $subscriptions });
    $_->cli(qw(CONFIG RESETSTAT)) for $old, $new;
    my $nginx = $bed->nginx(<<'END', SENTINEL => $sentinel->port);
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    access_log off;
    sliding_log_redis { mode sentinel limits; server 127.0.0.1:%%SENTINEL%%; timeout 300ms; connect_timeout 1s; reconnect 50ms 5s; }
    sliding_log_on_error deny;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / { sliding_log_limit a key=$arg_k limit=100000 window=1h; empty_gif; }
    }
}
END
    return ($nginx, $sentinel);
}
sub decided_by { my ($nginx, $redis) = @_; my $calls = $redis->calls('evalsha'); return get($nginx->port, '/?k=1')->{status} == 200 && $redis->calls('evalsha') > $calls }

my $watch = Testbed::Stopwatch->start;
my ($nginx) = guarded([at($old), at($new)], [$both[0], $both[1] . promoted('limits'), @both]);
ok(wait_until('the new master', 10, sub { decided_by($nginx, $new) }), '+promoted-slave: the new master is asked');
cmp_ok($watch->net, '<', 1 + slow(), '+promoted-slave: it is asked at once');

($nginx) = guarded([at($old), at($new)], [$both[0], $both[1] . promoted('others') . message('+promoted-slave', 'slave limits') . message('+promoted-slave', ''), @both]);
ok(wait_until('the master', 10, sub { decided_by($nginx, $old) }), '+promoted-slave of another master: the master is asked');
sleep 0.3;
ok(decided_by($nginx, $old), '+promoted-slave of another master: the master is asked on');
is($nginx->logged(qr/is left/), 0, '+promoted-slave of another master: it is not left');

# refused: what follows is what a Sentinel says to whoever asks for +switch-master alone
my $switch = message('+switch-master', 'limits 127.0.0.1 ' . $old->port . ' 127.0.0.1 ' . $new->port);
($nginx, my $sentinel) = guarded([at($old), at($old), at($new)], [$both[0], $refused, $both[0] . $switch, $both[0]]);
ok(wait_until('the new master', 10, sub { decided_by($nginx, $new) }), '+promoted-slave is refused: +switch-master is heard');
is($nginx->logged(qr/\[warn\].*"default": SUBSCRIBE \+promoted-slave answered: NOPERM/), 1, '+promoted-slave is refused: that is told once');
is($nginx->logged(qr/\[error\]/), 0, '+promoted-slave is refused: it is no error');

$bed->done;
