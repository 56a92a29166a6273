# sliding-log reads logs of algorithm=inflight. Their form is that of algorithm=log; --lease, or nginx's configuration,
# tells which one it is. The next renewal enters again what reset has removed.

use strict;
use warnings;
use IO::Socket::INET;
use Test::More;
use Testbed qw(conf wait_until);
use Testbed::Http qw(connect_to);
use Testbed::Tool qw(tool tool_json);

my $bed    = Testbed->new;
my $redis  = $bed->redis;
my $silent = IO::Socket::INET->new(Listen => 20, LocalAddr => '127.0.0.1', Timeout => 20) or die "listen: $!";
my $nginx  = $bed->serve(
    REDIS => $redis->address, SILENT => $silent->sockport,
    store  => 'server %%REDIS%%; timeout 5s; connect_timeout 5s;',
    server => 'location / { sliding_log_limit at key=$arg_k limit=3 algorithm=inflight lease=3s; proxy_pass http://127.0.0.1:%%SILENT%%; }',
);
my @at   = ('--server', $redis->address);
my $file = $bed->write_file('settings.conf', 'http { sliding_log_redis { server ' . $redis->address . '; } sliding_log_limit at key=a limit=3 algorithm=inflight lease=3s; sliding_log_limit b key=a limit=3 algorithm=inflight; }');

my @clients = map {
    my $client = connect_to($nginx->port);
    $client->syswrite("GET /?k=acct HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    [$client, scalar $silent->accept];
} 1 .. 3;

for my $told (tool_json('inspect', 'at', 'acct', @at, '--lease', '3s', '--limit', 3), tool_json('inspect', 'at', 'acct', '--nginx-conf', $file)) {
    is(join(' ', @$told{qw(algorithm lease_ms lease_is_guessed used remaining)}), 'inflight 3000 0 3 0', 'inspect tells how many are under way');
}
my $human = tool('inspect', 'at', 'acct', '--nginx-conf', $file)->{out};
like($human, qr/^lease +3 s$/m, 'and for people the lease');
like($human, qr/^retry +when a request ends$/m, 'when there is room, nobody knows');
is(tool_json('inspect', 'at', 'acct', @at)->{algorithm}, 'log', 'without either it looks like a log');
like(tool('top', 'at', @at)->{out}, qr/^rl:sliding:at:\{acct\} +\w+ +3 /m, 'top lists it');
like(tool('acl', '--algorithms', 'inflight', '--user', 'limiter')->{out}, qr/\+zadd\b.*\+zrem\b/s, 'acl knows what it needs');
is((grep { $_->{check} eq 'scripts' } @{ tool_json('doctor', @at, '--algorithms', 'inflight')->{checks} })[0]{status}, 'ok', 'doctor tries its script');
my ($measured) = grep { $_->{algorithm} eq 'inflight' } @{ tool_json('size', @at, '--keys', 10, '--entries', 100)->{algorithms} };
ok($measured, 'size measures it');

is(tool('reset', 'at', 'acct', @at)->{status}, 0, 'reset removes the entries');
ok(wait_until('the renewal', 5, sub { $redis->cli('ZCARD', 'rl:sliding:at:{acct}') == 3 }), 'those under way are entered again');
close $_ for map { @$_ } @clients;
ok(wait_until('their end', 5, sub { $redis->cli('EXISTS', 'rl:sliding:at:{acct}') == 0 }), 'until they end');
is(tool_json('inspect', 'at', 'acct', @at)->{entries}, 0, 'then there is no log');

$bed->done;
