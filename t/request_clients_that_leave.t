# Clients that leave while their request waits for Redis: nothing is leaked, and others are served. Clients that only
# close their own side get their answer.

use strict;
use warnings;
use Socket qw(SOL_SOCKET SO_LINGER);
use Test::More;
use Testbed qw(wait_until);
use Testbed::Http qw(get connect_to parse);

my $bed   = Testbed->new;
my $redis = $bed->redis;
my $nginx = $bed->serve(
    REDIS  => $redis->address,
    store  => 'server %%REDIS%%; timeout 20s; connect_timeout 5s;',
    http   => <<'HTTP',
    log_format status '$arg_k $status $sliding_log_status';
    access_log %%DIR%%/access.log status;
    sliding_log_on_error deny;
    server { listen 127.0.0.1:%%PORT2%%; location / { return 200 $http_content_length; } }
HTTP
    server => <<'END',
    keepalive_timeout 0;
    location / {
        sliding_log_limit gone key=$arg_k limit=500 window=1h;
        sliding_log_limit also key=$arg_k limit=500 window=1h;
        empty_gif;
    }
    location /free { empty_gif; }
    location /upload { sliding_log_limit upload key=$arg_k limit=500 window=1h; proxy_pass http://127.0.0.1:%%PORT2%%; }
END
);
my $port = $nginx->port;

sub zcard { return $redis->cli('ZCARD', "rl:sliding:$_[0]") }

get($port, '/?k=first');
my ($worker) = $nginx->workers;
my $sockets = $nginx->sockets;

# The worker handles events in order: once it has answered this, it has read what was sent before.
sub all_was_read { return get($port, '/free')->{status} == 200 }

# [how they leave, code]
my @ways = (
    [close => sub { close $_[0] }],
    [reset => sub { setsockopt $_[0], SOL_SOCKET, SO_LINGER, pack 'ii', 1, 0; close $_[0] }],
    [half  => sub { shutdown $_[0], 1 }],
);
for my $way (@ways) {
    my ($name, $leave) = @$way;
    $redis->pause;
    my @clients = map { connect_to($port) } 1 .. 300;
    $_->syswrite("GET /?k=$name HTTP/1.1\r\nHost: x\r\n\r\n") for @clients;
    my $stays = connect_to($port);
    $stays->syswrite("GET /?k=$name HTTP/1.1\r\nHost: x\r\n\r\n");
    all_was_read();
    is($nginx->sockets, $sockets + 301, "$name: 301 requests wait");
    $leave->($_) for @clients;
    $redis->resume;
    is(parse(Testbed::Http::read_all($stays, 10))->{status}, 200, "$name: the client that stays is answered");
    if ($name eq 'half') {
        is(scalar(grep { parse(Testbed::Http::read_all($_, 10))->{status} == 200 } @clients), 300, "$name: all who only closed their side are answered");
    }
    @clients = ();
    close $stays;
    ok(wait_until('the sockets to be closed', 5, sub { $nginx->sockets == $sockets }), "$name: no socket is left");
    my $logged = zcard("gone:{$name}");
    is($logged, zcard("also:{$name}"), "$name: both logs agree");
    $name eq 'half' ? is($logged, 301, "$name: both logs count all requests") : cmp_ok($logged, '<=', 301, "$name: no request is counted twice");
    is(get($port, "/?k=after$name")->{status}, 200, "$name: the next client is served");
}

# in the middle of a body, in the middle of a header
$redis->pause;
my @clients = map { connect_to($port) } 1 .. 100;
$_->syswrite("POST /upload?k=body HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n" . 'x' x 5000) for @clients[0 .. 49];
$_->syswrite("GET /?k=head HTTP/1.1\r\nHost:") for @clients[50 .. 99];
all_was_read();
is($nginx->sockets, $sockets + 100, '100 clients wait in the middle of a body or a header');
close $_ for @clients;
$redis->resume;
ok(wait_until('the sockets to be closed', 5, sub { $nginx->sockets == $sockets }), 'clients that leave in the middle of a body or a header leave no socket');
is(zcard('head:{head}'), 0, 'half a header is no request');

# clients come and leave continuously while Redis answers
for my $round (1 .. 500) {
    my $socket = connect_to($port);
    $socket->syswrite("GET /?k=busy HTTP/1.1\r\nHost: x\r\n\r\n");
    setsockopt $socket, SOL_SOCKET, SO_LINGER, pack 'ii', 1, 0 if $round % 2;
    close $socket;
}
is(get($port, '/?k=last')->{status}, 200, '500 clients come and leave: the next client is served');
ok(wait_until('the sockets to be closed', 5, sub { $nginx->sockets == $sockets }), '500 clients come and leave: no socket is left');
is(join(' ', $nginx->workers), $worker, 'clients that leave: the worker stays');
is($redis->connections, 1, 'clients that leave: the worker has one connection to Redis');

$bed->done;
