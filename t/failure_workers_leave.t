# A worker exits in time, without an alert, while requests wait, however it is told to and whatever the state of Redis.
# Its connection to Redis is closed.

use strict;
use warnings;
use Test::More;
use Testbed qw(conf slow wait_until);
use Testbed::Http qw(get connect_to parse);
use Time::HiRes qw(time);

my $bed  = Testbed->new;
my @redis = map { $bed->redis } 1 .. 2;
my $conf = conf(
    workers => 2,
    main    => 'worker_shutdown_timeout %%SHUTDOWN%%;',
    store   => 'server %%REDIS%%; timeout 8s; connect_timeout 8s; reconnect 50ms 200ms;',
    http    => 'sliding_log_on_error deny;',
    server  => 'location / { sliding_log_limit leave key=$arg_k limit=1000 window=1h; empty_gif; }',
);
sub nginx { return $bed->nginx($conf, REDIS => $redis[0]->address, SHUTDOWN => '1m', @_) }
sub waiting {
    my ($nginx) = @_;
    my $socket = connect_to($nginx->port);
    $socket->syswrite("GET /?k=wait HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    return $socket;
}

# Waits until they are accepted: requests in the queue of the listening socket would go to the next workers.
sub twenty_waiting {
    my ($nginx) = @_;
    my $sockets = $nginx->sockets;
    my @waiting = map { waiting($nginx) } 1 .. 20;
    wait_until('the requests to be accepted', 10, sub { $nginx->sockets >= $sockets + 20 });
    return @waiting;
}
sub status { return parse(Testbed::Http::read_all($_[0], 10))->{status} }

# worker_shutdown_timeout ends requests that wait for a reply or for the connection
my $nginx = nginx(SHUTDOWN => '300ms');
is(get($nginx->port, '/?k=a')->{status}, 200, 'a request is answered');
$redis[0]->pause;
my @waiting = twenty_waiting($nginx);
my $begin = time;
$nginx->reload(gone => 1);
cmp_ok(time - $begin, '<', 0.3 + 3 * slow(), 'worker_shutdown_timeout: workers exit in time while requests wait for an answer');
is(join(' ', map { status($_) } @waiting), join(' ', (0) x 20), 'worker_shutdown_timeout: requests that wait for an answer are dropped');
@waiting = twenty_waiting($nginx);    # for the connection: Redis has not answered the handshakes of the new workers
$begin = time;
$nginx->reload(gone => 1);
cmp_ok(time - $begin, '<', 0.3 + 3 * slow(), 'worker_shutdown_timeout: workers exit in time while requests wait for the connection');
is(join(' ', map { status($_) } @waiting), join(' ', (0) x 20), 'worker_shutdown_timeout: requests that wait for the connection are dropped');
$redis[0]->resume;
ok(wait_until('the new ones to serve', 10, sub { get($nginx->port, '/?k=a')->{status} == 200 }), 'worker_shutdown_timeout: the new workers serve');
ok(wait_until('the old connections to be gone', 5, sub { $redis[0]->connections == 2 }), 'worker_shutdown_timeout: the old workers leave no connection');

# a reload that names another Redis
$nginx = nginx();
my $port = $nginx->port;
get($port, '/?k=b');
$nginx->{values}{REDIS} = $redis[1]->address;
$nginx->configure($conf)->reload(gone => 1);
is(get($port, '/?k=b')->{status}, 200, 'another Redis after a reload: a request is answered');
is($redis[1]->cli(qw(ZCARD rl:sliding:leave:{b})), 1, 'another Redis after a reload: the new one decides');
is($redis[0]->connections, 2, 'another Redis after a reload: the connections to the old one are closed');

# a reload while Redis is down, and one that is refused
$redis[1]->kill;
wait_until('the loss to be seen', 5, sub { get($port, '/?k=b')->{status} == 503 });
$begin = time;
$nginx->reload(gone => 1);
cmp_ok(time - $begin, '<', 2 * slow(), 'reload while Redis is down: no request waits, so the old workers exit at once');
is(get($port, '/?k=b')->{status}, 503, 'reload while Redis is down: on_error decides');
$redis[1]->start;
ok(wait_until('both workers to find Redis', 5, sub { $redis[1]->connections == 2 && get($port, '/?k=b')->{status} == 200 }),
    'reload while Redis is down: the new workers find Redis when it is back');
my ($worker) = $nginx->workers;
$nginx->expect_in_log(qr/\[emerg\].*invalid window "never"/);
$nginx->configure($conf =~ s/window=1h/window=never/r);
$nginx->signal('HUP');
ok(wait_until('the refusal', 5, sub { $nginx->logged(qr/invalid window "never"/) }), 'a wrong configuration is refused on reload');
is(get($port, '/?k=b')->{status}, 200, 'a reload that is refused: requests are served');
is(($nginx->workers)[0], $worker, 'a reload that is refused: the workers stay');

# a fast stop
$redis[1]->pause;
@waiting = map { waiting($nginx) } 1 .. 5;
$nginx->signal('TERM');
ok($nginx->wait_end(5 * slow()), 'fast stop: nginx ends while requests wait');
$redis[1]->resume;
ok(wait_until('its connections to be gone', 5, sub { $redis[1]->connections == 0 }), 'fast stop: no connection is left');

$bed->done;
