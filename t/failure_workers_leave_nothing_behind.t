# Entries that a request gives back are given back if its worker was told to quit meanwhile. The worker stays until
# Redis has the take-backs, at most `timeout`. Lost ones are counted and logged.

use strict;
use warnings;
use IO::Socket::INET;
use Test::More;
use Testbed qw(conf slow wait_until);
use Testbed::Http qw(get connect_to parse);
use Testbed::Metrics qw(scrape);
use Time::HiRes qw(time);

my $bed    = Testbed->new;
my %redis  = map { $_ => $bed->redis(args => [qw(--appendonly yes --appendfsync always)]) } qw(one two);
my $silent = IO::Socket::INET->new(Listen => 100, LocalAddr => '127.0.0.1', Timeout => 20) or die "listen: $!";
my $conf   = conf(
    main   => 'worker_shutdown_timeout %%SHUTDOWN%%;',
    http   => <<'HTTP',
    sliding_log_redis one { server %%ONE%%; timeout %%TIMEOUT%%; connect_timeout %%TIMEOUT%%; reconnect 50ms 200ms; }
    sliding_log_redis two { server %%TWO%%; timeout %%TIMEOUT%%; connect_timeout %%TIMEOUT%%; reconnect 50ms 200ms; }
    sliding_log_on_error deny;
HTTP
    server => <<'END',
    location / {
        proxy_pass http://127.0.0.1:%%SILENT%%;
        location /log     { sliding_log_limit log key=$arg_k limit=50 window=1h refund=200; proxy_pass http://127.0.0.1:%%SILENT%%; }
        location /compact { sliding_log_limit compact key=$arg_k limit=50 window=1h refund=200 algorithm=compact; proxy_pass http://127.0.0.1:%%SILENT%%; }
        location /both    {
            sliding_log_limit here key=$arg_k limit=50 window=1h refund=200;
            sliding_log_limit there key=$arg_k limit=50 window=1h refund=200 store=two;
            proxy_pass http://127.0.0.1:%%SILENT%%;
        }
    }
    location /aborted { sliding_log_limit aborted key=$arg_k limit=50 window=1h refund=499; proxy_pass http://127.0.0.1:%%SILENT%%; }
    location /costs   {
        sliding_log_limit costs key=$arg_k limit=50 window=1h refund=200 cost=7;
        sliding_log_limit places key=$arg_k limit=50 algorithm=inflight cost=5;
        proxy_pass http://127.0.0.1:%%SILENT%%;
    }
    location /held    { sliding_log_limit held key=$arg_k limit=1 window=20s delay=10m; empty_gif; }
    location /second  { sliding_log_limit near key=$arg_k limit=50 window=1h; sliding_log_limit far key=$arg_k limit=0 window=1h store=two; empty_gif; }
    location /mixed   { sliding_log_limit leaves key=$arg_k limit=50 window=1h refund=499; sliding_log_limit stays key=$arg_k limit=50 window=1h refund=404; empty_gif; }
    location /free    { sliding_log_limit free key=$arg_k limit=1000 window=1h; empty_gif; }
    location /permits { sliding_log_limit permits key=$arg_k limit=100000 window=1h algorithm=compact prefetch=100; empty_gif; }
    location /metrics { sliding_log_metrics; }
END
);

sub start { return $bed->nginx($conf, ONE => $redis{one}->address, TWO => $redis{two}->address, SILENT => $silent->sockport, SHUTDOWN => '1m', TIMEOUT => '5s', @_) }
my $nginx = start();
my $port  = $nginx->port;

sub zcard { my ($log, $redis) = @_; return $redis{ $redis // 'one' }->cli('ZCARD', "rl:sliding:$log") }

sub ask {
    my ($path) = @_;
    my $client = connect_to($port);
    $client->syswrite("GET $path HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    return $client;
}

# Requests that the backend holds.
sub under_way { return map { [ask($_), $silent->accept // die "no request for the backend\n"] } @_ }

sub answer { my ($request) = @_; syswrite $request->[1], "HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n"; close $request->[1]; return parse(Testbed::Http::read_all($request->[0], 10))->{status} }

# Tells the worker to quit; the returned code waits for its end.
sub reload_begins {
    my %old = map { $_ => 1 } $nginx->workers;
    $nginx->reload(told => 1);
    return sub { ok(wait_until('old workers to end', 15, sub { !grep { $old{$_} } $nginx->workers }), "$_[0]: the old worker ends") };
}

# requests that are answered by a worker that quits
for my $path (qw(/log /compact /both)) {
    for my $count (1, 1, 1, 1, 10) {
        my @requests = under_way(map { "$path?k=a" } 1 .. $count);
        my $ended    = reload_begins();
        is(join(' ', map { answer($_) } @requests), join(' ', (200) x $count), "$path: $count under way are answered");
        $ended->($path);
        is($path eq '/compact' ? $redis{one}->cli('EXISTS', 'rl:sliding:compact:{a}') : zcard($path eq '/log' ? 'log:{a}' : 'here:{a}') + zcard('there:{a}', 'two'), 0,
            "$path: the refunds of $count have reached Redis");
    }
}

# clients that leave a worker that quits
for my $count (1, 8) {
    my @requests = under_way(map { '/aborted?k=a' } 1 .. $count);
    my $ended    = reload_begins();
    close $_->[0] for @requests;
    $ended->("$count clients leave");
    is(zcard('aborted:{a}'), 0, "$count clients leave a worker that quits: 499 is refunded");
}
is(get($port, '/held?k=a')->{status}, 200, 'the first request of a window passes');
my @held = map { ask('/held?k=a') } 1 .. 4;
ok(wait_until('reservations', 5, sub { zcard('held:{a}') == 5 }), 'four more requests of the window are held');
my $ended = reload_begins();
close $_ for @held;
$ended->('held clients leave');
is(zcard('held:{a}'), 1, 'held clients leave a worker that quits: their reservations are given back');

# a denial that comes late
$redis{two}->pause;
my $client = ask('/second?k=a');
ok(wait_until('the first store', 5, sub { zcard('near:{a}') == 1 }), 'one store admits a request, the other is silent');
$ended = reload_begins();
$redis{two}->resume;
like(Testbed::Http::read_all($client, 10), qr{^HTTP/1.1 429}, 'the other store denies the request of a worker that quits');
$ended->('a late denial');
is(zcard('near:{a}'), 0, 'the entry of a request that another store denied late is taken back');

# worker_shutdown_timeout ends requests
$nginx->{values}{SHUTDOWN} = '300ms';
$nginx->configure($conf)->reload(gone => 1);
@held = map { ask('/held?k=a') } 1 .. 4;
ok(wait_until('reservations', 5, sub { zcard('held:{a}') == 5 }), 'worker_shutdown_timeout: four requests are held');
my $begin = time;
$nginx->reload(gone => 1);
cmp_ok(time - $begin, '<', 4 * slow(), 'worker_shutdown_timeout: the worker ends in time');
is(zcard('held:{a}'), 1, 'worker_shutdown_timeout: the reservations of the requests that it ends are given back');
close $_ for @held;
$redis{one}->pause;
my $asked = ask('/mixed?k=a');
my $all_ended = reload_begins();
is(Testbed::Http::read_all($asked, 10), '', 'worker_shutdown_timeout: a request ends while Redis is asked');
$redis{one}->resume;
$all_ended->('Redis replies for a request that has ended');
is(zcard('leaves:{a}') . ' ' . zcard('stays:{a}'), '0 1', 'only the limit with refund=499 gives its entry back');

# Redis is silent or down: the worker exits
@{ $nginx->{values} }{qw(SHUTDOWN TIMEOUT)} = ('1m', '500ms');
$nginx->configure($conf)->reload(gone => 1);
sub lost { return scrape($port)->value('sliding_log_store_take_backs_lost_total', store => 'one') }
is(lost(), 0, 'no take-back is lost while Redis replies');
my @under_way = under_way('/log?k=b');
$redis{one}->pause;
$ended = reload_begins();
$begin = time;
answer($under_way[0]);
$ended->('Redis is silent');
cmp_ok(time - $begin, '<', 0.5 + 2 * slow(), 'a worker waits for a silent Redis for its timeout');
$redis{one}->resume;
is(lost(), 1, 'a take-back without a reply counts as lost');
ok($nginx->logged(qr/"one" .*could not be taken back/) >= 1, 'the error log has the lost take-back');
ok(wait_until('Redis to decide', 10, sub { get($port, '/free?k=a')->{status} == 200 }), 'Redis decides when it replies again');
@under_way = under_way('/log?k=c', '/costs?k=c');
$redis{one}->kill;
$ended = reload_begins();
$begin = time;
answer($_) for @under_way;
$ended->('Redis is gone');
cmp_ok(time - $begin, '<', 0.5 + 2 * slow(), 'a worker waits for a stopped Redis for its timeout');
is(lost(), 2 + 7 + 5, 'a take-back that could not be sent counts as lost, with all of its entries');

# Permits that a worker has when it is told to quit, and Redis is silent. They last a moment only, so one may need several
# attempts to have some.
$redis{one}->start;
ok(wait_until('Redis to decide', 20, sub { get($port, '/free?k=a')->{status} == 200 }), 'Redis decides when it is back');
sub returned { return scrape($port)->value('sliding_log_store_permits_returned_total', store => 'one') }
my ($lost, $returned) = (lost(), 0);
for (1 .. 20) {
    my $before = returned();
    get($port, '/permits?k=a') for 1 .. 50;
    $redis{one}->pause;
    reload_begins()->('Redis is silent, and a worker has permits');
    $redis{one}->resume;
    wait_until('Redis to decide', 20, sub { get($port, '/free?k=a')->{status} == 200 });
    $returned += returned() - $before;
    last if lost() > $lost;
}
cmp_ok(lost() - $lost, '>', 1, 'permits that cannot be returned are lost, one by one');
cmp_ok(lost() - $lost, '<=', $returned, 'those that Redis took back are not');

# Redis is down, and comes back while the worker waits for it
$nginx->{values}{TIMEOUT} = '10s';
$nginx->configure($conf)->reload(gone => 1);
my $waits = lost();
for my $order ('before', 'after') {
    ok(wait_until('Redis to decide', 20, sub { get($port, '/free?k=a')->{status} == 200 }), "Redis decides, before a worker is told to quit $order the refund");
    @under_way = under_way("/log?k=$order", "/compact?k=$order");
    $redis{one}->kill;
    $ended = reload_begins() if $order eq 'before';
    answer($_) for @under_way;
    $ended = reload_begins() if $order eq 'after';
    $redis{one}->start;
    $ended->("Redis comes back, told to quit $order");
    is(zcard("log:{$order}"), 0, "Redis comes back while a worker waits that was told to quit $order the refund: that has reached Redis");
    is($redis{one}->cli('EXISTS', "rl:sliding:compact:{$order}"), 0, 'compact: the take-back has reached Redis');
}
is(lost(), $waits, 'nothing is lost when Redis comes back in time');

$bed->done;
