# algorithm=inflight counts what lives long as long as it does: a WebSocket until one of its ends closes it, a stream of
# gRPC until its last message, or until the client cancels it.

use strict;
use warnings;
use IO::Select;
use IO::Socket::INET;
use Test::More;
use Testbed qw(wait_until);
use Testbed::Grpc;
use Testbed::Http qw(connect_to);

use constant LEASE => 3;    # seconds

Testbed::Grpc::needs_grpc();
my @stores = qw(default local);
my $bed    = Testbed->new;
my $redis  = $bed->redis;
my $app    = IO::Socket::INET->new(Listen => 100, LocalAddr => '127.0.0.1', Timeout => 20) or die "listen: $!";
my $at     = sub { my ($store) = @_; return "sliding_log_limit $store key=\$uri limit=2 algorithm=inflight lease=@{[LEASE]}s store=$store;" };
my $nginx  = $bed->serve(
    redis  => $redis,
    APP    => $app->sockport,
    GRPC   => Testbed::Grpc->new($bed, 'serve')->port,
    http   => 'server { listen 127.0.0.1:%%PORT2%% http2; sliding_log_answer problem; ' . join(' ', map { "location = /$_/both { " . $at->($_) . ' grpc_pass grpc://127.0.0.1:%%GRPC%%; }' } @stores) . ' }',
    server => join(' ', map { "location = /$_/socket { " . $at->($_) . ' proxy_http_version 1.1; proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection upgrade; proxy_pass http://127.0.0.1:%%APP%%; }' } @stores),
);

sub read_until {
    my ($socket, $end) = @_;
    my $text = '';
    while (index($text, $end) < 0 && sysread $socket, my $more, 4096) { $text .= $more }
    return $text;
}

# A WebSocket that was asked for; app: its other end, if it was not denied.
sub websocket {
    my ($path) = @_;
    my $client = connect_to($nginx->port);
    $client->syswrite("GET $path HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: x3JJHMbDL1EzLkh9GBhXDw==\r\nSec-WebSocket-Version: 13\r\n\r\n");
    my $one = { client => $client };
    if (IO::Select->new($app, $client)->can_read(20) && IO::Select->new($app)->can_read(0)) {
        $one->{app} = $app->accept;
        read_until($one->{app}, "\r\n\r\n");
        $one->{app}->syswrite("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n");
    }
    ($one->{status}) = read_until($client, "\r\n\r\n") =~ m{\AHTTP/1\.1 (\d+)};
    return $one;
}

sub opens { my ($path) = @_; my $one; wait_until('a place', 5, sub { $one = websocket($path); $one->{status} == 101 }); return $one }

for my $store (@stores) {
    my $path = "/$store/socket";
    my @open = map { websocket($path) } 1 .. 3;
    is(join(' ', map { $_->{status} } @open), '101 101 429', "$store: two WebSockets are open, and no more");
    $open[0]{client}->syswrite("question\n");
    is(read_until($open[0]{app}, "\n"), "question\n", 'the client speaks through one');
    $open[0]{app}->syswrite("answer\n");
    is(read_until($open[0]{client}, "\n"), "answer\n", 'and gets an answer');
    sleep 1 + LEASE;
    is(websocket($path)->{status}, 429, 'it counts after its lease, too: it was renewed');
    close $open[0]{client};
    ok($open[0] = opens($path), 'the client closes one: another may be open');
    close $open[1]{app};
    ok($open[1] = opens($path), 'the application closes one: another may be open');
    is(websocket($path)->{status}, 429, 'and no more');
}

for my $store (@stores) {
    my $streams = Testbed::Grpc::open_streams($nginx->port('PORT2'), "/$store/both");
    my $open    = sub { return $streams->open_stream(@_) };
    is(join(' ', map { $open->($_) } qw(a b c)), 'OK OK RESOURCE_EXHAUSTED', "$store: two streams are open, and no more");
    $streams->tell('end', 'a');
    ok(wait_until('a place', 5, sub { $open->('d') eq 'OK' }), 'one has ended: another may be open');
    $streams->tell('cancel', 'b');
    ok(wait_until('a place', 5, sub { $open->('e') eq 'OK' }), 'the client cancels one: another may be open');
    is($open->('f'), 'RESOURCE_EXHAUSTED', 'and no more');
    $streams->finish;
}
ok(wait_until('all places', 5, sub { $redis->cli(qw(ZCARD rl:sliding:default:{/default/both})) eq '0' }), 'nothing of the streams is left when the client has gone');
$bed->done;
