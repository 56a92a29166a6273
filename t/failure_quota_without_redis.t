# algorithm=quota while Redis is away: each node counts its share of the period, and keeps the take-backs. Redis then goes
# on with its own count, which an AOF has kept over a restart.

use strict;
use warnings;
use IO::Socket::INET;
use Test::More;
use Testbed qw(wait_until slow);
use Testbed::Http qw(get field connect_to);

my $bed    = Testbed->new;
my $redis  = $bed->redis(args => [qw(--appendonly yes --appendfsync always --maxmemory-policy noeviction)]);
my $silent = IO::Socket::INET->new(Listen => 20, LocalAddr => '127.0.0.1', Timeout => 20) or die "listen: $!";
my $limit  = 'sliding_log_limit plan key=$arg_k limit=9 algorithm=quota period=month';
my $nginx  = $bed->serve(
    REDIS  => $redis->address, SILENT => $silent->sockport,
    store  => 'server %%REDIS%%; timeout 200ms; connect_timeout 200ms; reconnect 20ms 200ms;',
    how    => '$sliding_log_status $sliding_log_source',
    server => <<"END",
    location /share  { $limit; sliding_log_on_error local nodes=2; empty_gif; }
    location /local  { $limit; empty_gif; }
    location /deny   { $limit; sliding_log_on_error deny; empty_gif; }
    location /look   { $limit cost=\$arg_cost; sliding_log_on_error deny; empty_gif; }
    location /allow  { $limit; sliding_log_on_error allow; empty_gif; }
    location /refund { $limit refund=5xx; proxy_pass http://127.0.0.1:%%SILENT%%; }
    location /two {
        $limit;
        sliding_log_limit pace key=\$arg_k limit=1 window=1h store=local;
        empty_gif;
    }
END
);
my $port = $nginx->port;

sub asked { my ($path, $times) = @_; return join ' ', map { my $answer = get($port, $path); "$answer->{status}/" . (split / /, field($answer, 'X-How') // '')[1] } 1 .. $times }
sub left { return (field(get($port, "/look?k=$_[0]&cost=0"), 'RateLimit') // '') =~ /;r=(\d+)/ ? $1 : 'unknown' }

ok(wait_until('Redis to decide', 10, sub { get($port, '/deny?k=ready')->{status} == 200 }), 'Redis decides');
is(asked('/share?k=a', 4), join(' ', ('200/redis') x 4), 'Redis counts');
my @under_way = map {
    my $client = connect_to($port);
    $client->syswrite("GET /refund?k=b HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    { client => $client, backend => scalar $silent->accept };
} 1 .. 3;
my $before = get($port, '/deny?k=b');
like(field($before, 'RateLimit'), qr/;r=5;/, 'three requests under way are counted');

$redis->kill;
ok(wait_until('the loss to be noticed', 10, sub { asked('/share?k=other', 1) =~ /local/ }), 'Redis is away');
is(asked('/share?k=a', 6), join(' ', ('200/local') x 5, '429/local'), 'on_error local nodes=2: half of the quota, rounded up');
my $denied = get($port, '/share?k=a');
my ($t) = field($denied, 'RateLimit') =~ /;t=(\d+)/;
is(field($denied, 'Retry-After'), $t, 'the denial tells the end of the month');
like(field($denied, 'RateLimit-Policy'), qr/^"plan";q=5;w=(?:2419200|2505600|2592000|2678400)$/, 'the policy tells the share, and the length of the month');
is(asked('/local?k=c', 10), join(' ', ('200/local') x 9, '429/local'), 'on_error local: the whole quota');
is(asked('/deny?k=a', 1),  '503/error', 'on_error deny');
is(asked('/allow?k=a', 1), '200/error', 'on_error allow');
is(asked('/two?k=d', 2), '200/local 429/local', 'with another limit');
for my $one (@under_way) {
    syswrite $one->{backend}, "HTTP/1.0 500 Error\r\nContent-Length: 0\r\n\r\n";
    close $one->{backend};
    Testbed::Http::read_all($one->{client}, 10);
}

$redis->start;
ok(wait_until('Redis to decide', 10, sub { asked('/deny?k=back', 1) eq '200/redis' }), 'Redis is back');
like(field(get($port, '/share?k=a'), 'RateLimit'), qr/;r=4;/, 'Redis goes on with its own count: 4, and this request');
ok(wait_until('refunds', 10, sub { left('b') eq '8' }), 'what was to be given back is given back') or diag(left('b'));
is($nginx->logged(qr/could not be taken back/), 0, 'nothing is lost');

$bed->done;
