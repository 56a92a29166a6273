# Redis answers, but later than any request waits. on_error decides at once, the connection stays, and what is on its way
# is neither lost nor sent again. When Redis is fast again, a probe on the same connection finds it out. When it falls
# silent, the connection is closed.

use strict;
use warnings;
use Test::More;
use Testbed qw(wait_until);
use Testbed::Http qw(get field);
use Testbed::Metrics qw(scrape);

local $ENV{TMPDIR} = '/dev/shm' if -w '/dev/shm';    # the disk of this machine must not be slow, too
my $bed   = Testbed->new;
my $redis = $bed->redis(args => [qw(--appendonly yes --appendfsync always --enable-debug-command yes)]);
my $nginx = $bed->serve(
    workers => 1,
    store   => "server @{[$redis->address]}; timeout 400ms; connect_timeout 5s; reconnect 20ms 100ms;",
    http    => 'sliding_log_on_error allow;',
    server  => <<'END',
    location /one { sliding_log_limit one key=k limit=100000 window=1h refund=404; add_header X-How $sliding_log_source always; empty_gif; }
    location /none { sliding_log_limit one key=k limit=100000 window=1h refund=404; add_header X-How $sliding_log_source always; try_files /none =404; }
    location /metrics { sliding_log_metrics; }
END
);

sub flushes_in { my ($ms) = @_; return $redis->cli(qw(DEBUG AOF-FLUSH-SLEEP), 1000 * $ms) }
sub how        { my ($path) = @_; return field(get($nginx->port, $path), 'X-How') }

# The connections that have decided something: those of the worker.
sub connections { return join ' ', map { /^id=(\d+).* cmd=(?:evalsha|sliding_log\.\d|info)/m ? $1 : () } split /\n/, $redis->cli(qw(CLIENT LIST)) }

is(how('/one'), 'redis', 'Redis decides');
my $first = connections();
like($first, qr/^\d+$/, 'by one connection');

is(flushes_in(500), 'OK', 'Redis answers after half a second');
ok(wait_until('late answers', 30, sub { get($nginx->port, '/none'); $nginx->logged(qr/is down: answers later than "timeout"/) }), 'it is given up, since it answers late')
    or diag($nginx->error_log);
my $begin = time;
is(how('/one'), 'error', 'on_error decides') for 1 .. 5;
cmp_ok(time - $begin, '<=', 1, 'and at once');

flushes_in(0);
ok(wait_until('Redis', 20, sub { how('/one') eq 'redis' }), 'Redis is fast again, and decides');
is(connections(), $first, 'by the same connection');
is($nginx->logged(qr/connection lost/), 0, 'which was not closed');
is(scrape($nginx->port)->value('sliding_log_store_take_backs_lost_total'), 0, 'no take-back is lost');

flushes_in(500);
ok(wait_until('late answers', 30, sub { get($nginx->port, '/none'); $nginx->logged(qr/is down: answers later than "timeout"/) >= 2 }), 'it answers late again');
$redis->pause;
ok(wait_until('the silence', 30, sub { $nginx->logged(qr/is down: no answer inside "timeout"/) }), 'and then nothing: the connection is closed') or diag($nginx->error_log);
$redis->resume;
flushes_in(0);
ok(wait_until('Redis', 20, sub { how('/one') eq 'redis' }), 'Redis goes on, and decides');
isnt(connections(), $first, 'by another connection');

$bed->done;
