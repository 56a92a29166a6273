# A Sentinel names the master by a host name, and the name server is silent while the master's own connection is lost.
# The new discovery ignores the result of the previous one.

use strict;
use warnings;
use Test::More;
use Testbed qw(wait_until);
use Testbed::Dns;
use Testbed::FakeRedis;
use Testbed::Http qw(get);
use Time::HiRes qw(time);

my $bed    = Testbed->new;
my $master = $bed->redis;
my $dns    = Testbed::Dns->new($bed, '127.0.0.1');
my ($name, $port) = ('master.test', $master->port);
my %answers = (
    SENTINEL  => "*2\r\n\$" . length($name) . "\r\n$name\r\n\$" . length($port) . "\r\n$port\r\n",
    SUBSCRIBE => "*3\r\n\$9\r\nsubscribe\r\n\$14\r\n+switch-master\r\n:1\r\n",
);
my $sentinel = Testbed::FakeRedis->new($bed, answers => \%answers);
my $nginx    = $bed->serve(
    SENTINEL => '127.0.0.1:' . $sentinel->port, DNS => $dns->address,
    store    => 'mode sentinel limits; server %%SENTINEL%%; timeout 1s; connect_timeout 1s; reconnect 20ms 200ms;',
    http     => <<'HTTP',
    resolver %%DNS%% valid=1s ipv6=off;
    sliding_log_on_error deny;
HTTP
    server   => 'location / { sliding_log_limit named key=$arg_k limit=100000 window=1h; empty_gif; }',
);
my $key = 0;
sub decides { return get($nginx->port, '/?k=' . $key++)->{status} == 200 }

ok(wait_until('the master', 5, \&decides), 'the master is found by its name');
my @workers = $nginx->workers;
my $asked   = 0;
ok(wait_until('the name to be asked again', 5, sub { my $more = $dns->asked > $asked; $asked = $dns->asked; !$more }), 'the name server is asked no more');
select undef, undef, undef, 2.2;    # the answer is valid for one second, and the rest of another
$dns->answers('mute');
$sentinel->kill;
my $silent = Testbed::FakeRedis->new($bed, port => $sentinel->port, answers => \%answers);
ok(wait_until('the name to be asked', 5, sub { $dns->asked > $asked }), 'the name is looked up again without success');
$silent->signal('STOP');
$master->cli(qw(CLIENT KILL TYPE normal));
my $begin = time;
wait_until('connect_timeout to pass', 10, sub { time - $begin > 1.5 });    # for the previous name
$silent->signal('CONT');
$dns->answers('127.0.0.1');
ok(wait_until('the master', 10, \&decides), 'the master is found again');
is(join(' ', $nginx->workers), join(' ', @workers), 'the worker survives');

$bed->done;
