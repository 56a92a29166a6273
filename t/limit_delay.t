# delay=: a request over the limit gets the first free reservation and is held until then. Requests are served in their
# order, over nodes and workers. A window never has more than the limit. Reservations are bounded, and given back when
# the client leaves.

use strict;
use warnings;
use IO::Select;
use List::Util qw(max);
use Test::More;
use Testbed qw(conf wait_until);
use Testbed::Everywhere qw(@PLACES locations);
use Testbed::Http qw(get field connect_to many parse);
use Time::HiRes qw(time);
use Testbed::Http2 qw(open_http2 ask_stream reset_stream answers);

my $bed   = Testbed->new;
my $redis = $bed->redis;

my $conf = conf(
    workers => 2,
    redis   => '%%REDIS%%',
    http    => <<'HTTP',
    log_format status '$request_uri $status $sliding_log_status';
    access_log %%DIR%%/access.log status;
    sliding_log_on_error deny;
HTTP
    server  => <<'END',
    listen 127.0.0.1:%%PORT2%% http2;
    %%LOCATIONS%%
    location /turn {
        sliding_log_limit turn key=$arg_k limit=1 window=300ms delay=30s;
        empty_gif;
    }
    location /reload { sliding_log_limit reload key=$arg_k limit=1 window=1500ms delay=10s; empty_gif; }
    location /dry {
        sliding_log_limit dry key=$arg_k limit=1 window=1m delay=1m;
        sliding_log_dry_run on;
        empty_gif;
        add_header X-Status $sliding_log_status;
    }
    location /both {
        sliding_log_limit waits key=$arg_k limit=1 window=1s delay=10s;
        sliding_log_limit plain key=$arg_k limit=3 window=1h;
        empty_gif;
    }
    location /apart {
        sliding_log_limit near key=$arg_k limit=1 window=1s delay=10s store=local;
        sliding_log_limit far key=$arg_k limit=3 window=1h;
        empty_gif;
    }
    location /free { empty_gif; }
END
);
my $inside = 'empty_gif; add_header X-Status $sliding_log_status;';
my %values = (
    REDIS     => $redis->address,
    LOCATIONS => locations(flood => limit => 'limit=5 window=2s delay=4s', inside => $inside)
        # the next reservation of a counter is at the end of the next window
        . locations(gone => limit => sub { 'limit=1 window=1m delay=' . ($_[0] eq 'counter' ? '2m' : '1m') }, inside => $inside),
);
my $nginx = $bed->nginx($conf, %values);
my $other = $bed->nginx($conf, %values);
my $port  = $nginx->port;

sub zcard { return $redis->cli('ZCARD', "rl:sliding:$_[0]") }

sub scores {
    my ($key) = @_;
    my @words = split /\n/, $redis->cli('ZRANGE', "rl:sliding:$key", 0, -1, 'WITHSCORES');
    return @words[grep { $_ % 2 } 0 .. $#words];
}

# A waiting request, on a connection of its own.
sub ask {
    my ($to, $path) = @_;
    my $client = connect_to($to);
    $client->syswrite("GET $path HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    return $client;
}
sub answer { return parse(Testbed::Http::read_all($_[0], 20))->{status} }

# A flood over two nodes: requests within the limit pass at once, those within the delay are held, the rest is denied.
my %seen;
my @flood   = map { my $n = $_; map { ["/flood/$_?k=a", $_, $n % 2] } @PLACES } 1 .. 40;
my @ports   = ($port, $other->port);
my $begin   = time;
my @answers = many([map { [$ports[ $flood[$_][2] ], $flood[$_][0]] } 0 .. $#flood]);
push @{ $seen{ $flood[$_][1] } }, $answers[$_] for 0 .. $#flood;
for my $place (@PLACES) {
    my @passed = grep { $_->{status} == 200 } @{ $seen{$place} };
    my @held   = grep { (field($_, 'X-Status') // '') eq 'DELAYED' } @passed;
    my @denied = grep { $_->{status} == 429 } @{ $seen{$place} };
    is(@passed + @denied, 40, "$place: 40 at once are answered");
    my $nodes = $place =~ /local/ ? 2 : 1;    # which have a log each
    my $lasted = max(map { $_->{ended} } @denied) - $begin;    # s: requests are answered as they come
    if ($place =~ /counter/) {
        cmp_ok(scalar @passed, '>=', 5 * $nodes,  "$place: what fits passes");
        cmp_ok(scalar @passed, '<=', 20 * $nodes, "$place: no more pass than the windows that the delay reaches into hold");
    }
    else {
        # tokens return while they arrive, and a window may end
        my $spread = $nodes * ($place =~ /bucket/ ? 2 + 2.5 * $lasted : 5 * int($lasted / 2));
        cmp_ok(abs(@passed - 15 * $nodes), '<=', $spread, "$place: three windows of 5 pass") or diag(scalar @passed);
    }
    cmp_ok(@passed - @held, '<=', 5 * $nodes + 1, "$place: five pass at once");
    cmp_ok(max(map { $_->{time} } @held), '>', 2, "$place: those that are held pass when their slot comes");
    is(scalar(grep { (field($_, 'Retry-After') // 0) < 1 } @denied), 0, "$place: a denied request is told when to come again");
}
my @scores = scores('flood_log_default:{a}');
is(scalar(grep { $scores[$_] - $scores[ $_ - 5 ] < 2000 } 5 .. $#scores), 0, 'no window of the log has more than the limit');
cmp_ok(scalar @scores, '>', 5, 'the log has reservations');

# the reservation of a client that leaves is given back
for my $place (@PLACES) {
    my $path = "/gone/$place?k=a";
    is(get($port, $path)->{status}, 200, "$place: the first request passes");
    my $held;
    for my $round (1 .. 2) {
        # the reservation of a client that has left is free a moment later
        ok(wait_until('the reservation to be free', 5, sub {
            $held = ask($port, $path);
            !IO::Select->new($held)->can_read(0.2);
        }), $round == 1 ? "$place: the second request is held" : "$place: the slot of a client that left goes to the next one");
        is(get($port, $path)->{status}, 429, "$place: a request beyond the one that is held is denied");
        close $held;
    }
}

# a stream that is reset, a connection that closes
my $socket = open_http2($nginx->port('PORT2'));
get($port, '/gone/log/default?k=h2');
ask_stream($socket, 1, '/gone/log/default?k=h2');
ok(wait_until('the slot', 5, sub { zcard('gone_log_default:{h2}') == 2 }), 'HTTP/2: a stream is held');
reset_stream($socket, 1);
ok(wait_until('the reservation to be free', 5, sub { zcard('gone_log_default:{h2}') == 1 }), 'HTTP/2: the reservation of a reset stream is given back');
ask_stream($socket, 3, '/gone/log/default?k=h2');
ok(wait_until('the slot', 5, sub { zcard('gone_log_default:{h2}') == 2 }), 'HTTP/2: a stream gets the reservation of a reset one');
ask_stream($socket, 5, '/free');
is(answers($socket, [5], 5)->{5}{status}, 200, 'HTTP/2: another stream is served while one is held');
close $socket;
ok(wait_until('the reservation to be free', 5, sub { zcard('gone_log_default:{h2}') == 1 }), 'HTTP/2: the reservation of a closed connection is given back');

# a stream that is reset while Redis is asked
get($port, '/gone/log/default?k=early');
$socket = open_http2($nginx->port('PORT2'));
$redis->pause;
ask_stream($socket, 1, '/gone/log/default?k=early');
ask_stream($socket, 3, '/free');
answers($socket, [3], 5);
reset_stream($socket, 1);
ask_stream($socket, 5, '/free');
answers($socket, [5], 5);
$redis->resume;
ok(wait_until('the reservation to be free', 5, sub { zcard('gone_log_default:{early}') == 1 && $redis->calls('zrem') > 0 }),
    'HTTP/2: a stream that is reset while Redis is asked keeps no reservation');
close $socket;

# first come, first served, over two nodes
my @order;
my %open;
my $latest = 0;
for my $n (1 .. 8) {
    my $client = ask($ports[$n % 2], '/turn?k=a');
    wait_until('its place in the queue', 5, sub { my @all = scores('turn:{a}'); @all && $all[-1] > $latest && ($latest = $all[-1]) }) or last;
    $open{$client} = [$client, $n];
}
my $select = IO::Select->new(map { $_->[0] } values %open);
while ($select->count) {
    # on a busy machine, the order of answers found together is not known
    for my $client (sort { $open{$a}[1] <=> $open{$b}[1] } $select->can_read(20)) {
        push @order, $open{$client}[1];
        $select->remove($client);
    }
}
is(join(' ', @order), '1 2 3 4 5 6 7 8', 'first come, first served, over two nodes');
@scores = scores('turn:{a}');
is(scalar(grep { $scores[$_] - $scores[ $_ - 1 ] < 300 } 1 .. $#scores), 0, 'each window has one of the requests held over two nodes');

# a reload loses no held request
is(get($port, '/reload?k=a')->{status}, 200, 'reload: the first request passes');
my @held = map { ask($port, '/reload?k=a') } 1 .. 2;
wait_until('their slots', 5, sub { zcard('reload:{a}') == 3 });
$nginx->reload;
is(answer($_), 200, 'reload: a held request is served') for @held;

# dry run
get($port, '/dry?k=a');
my $dry = get($port, '/dry?k=a');
is($dry->{status} . ' ' . field($dry, 'X-Status'), '200 DELAYED_DRY_RUN', 'dry run: a request over the limit is shown as delayed');
cmp_ok($dry->{time}, '<', 30, 'dry run: a request over the limit is not held');
is(get($port, '/dry?k=a')->{status}, 200, 'dry run: a request over the limit is not denied');

# with a plain limit beside it
for my $path (qw(/both /apart)) {
    $begin   = time;
    @answers = many([map { [$port, "$path?k=a"] } 1 .. 6]);
    is(scalar(grep { $_->{status} == 200 } @answers), 3, "$path: the plain limit admits three, one after the other");
    cmp_ok(max(map { $_->{ended} } grep { $_->{status} == 200 } @answers) - $begin, '>', 1.9, "$path: each of the three waits for its slot");
    is(get($port, "$path?k=a")->{status}, 429, "$path: the plain limit denies at once");
}
is($redis->cli('ZCOUNT', 'rl:sliding:waits:{a}', '(' . int(1000 * time), '+inf'), 0, '/both: what the plain limit denied holds no slot');
ok(wait_until('the log', 5, sub { zcard('far:{a}') == 3 }), '/apart: the plain limit counts no more than it admitted');

my $log = Testbed::Process::slurp($nginx->dir . '/access.log');
like($log, qr{^/gone/log/default\?k=a 499 DELAYED$}m, 'the access log shows a client that left while held');
cmp_ok($nginx->logged(qr/\[warn\].*delaying request, by limit "turn": key "\w+", 1 in 300ms, next in [\dms]+, by redis/), '>', 0, 'delays are logged one level lower than denials');

$bed->done;
