# settle=: the true cost of a request, known when it has ended, in every algorithm that takes it and every store. If it is
# lower than the estimate, the difference is given back; if it is higher, it is owed; exactly once. Without a number the
# estimate stands.

use strict;
use warnings;
use IO::Socket::INET;
use Test::More;
use Testbed qw(wait_until);
use Testbed::Algorithm qw(@ALL_ALGORITHMS horizon takes);
use Testbed::Http qw(get field connect_to);
use Testbed::Metrics qw(scrape);

my $bed    = Testbed->new;
my $redis  = $bed->redis(args => [qw(--appendonly yes --appendfsync always)]);
my $silent = IO::Socket::INET->new(Listen => 100, LocalAddr => '127.0.0.1', Timeout => 20) or die "listen: $!";

my @algorithms = grep { takes($_, 'settle') } @ALL_ALGORITHMS;
my @stores     = qw(default clocked local down);
my @places     = map { my $algorithm = $_; map { "$algorithm/$_" } @stores } @algorithms;

sub limit_of {
    my ($name, $place, $parameters) = @_;
    my ($algorithm, $store) = split m{/}, $place;
    return "sliding_log_limit ${name}_${algorithm}_$store key=\$arg_k limit=10 " . horizon($algorithm, '30d', 'month') . " algorithm=$algorithm store=$store $parameters;";
}

my $locations = join "\n", map {
    my $inside = 'proxy_pass http://127.0.0.1:%%PORT2%%;';
    "location /cost/$_ { @{[limit_of(tokens => $_, 'cost=$arg_estimate settle=$upstream_http_x_cost')]} $inside }
     location /look/$_ { @{[limit_of(tokens => $_, 'cost=0')]} empty_gif; }
     location /dry/$_  { @{[limit_of(tokens => $_, 'cost=$arg_estimate settle=$upstream_http_x_cost dry_run=on')]} $inside }
     location /slow/$_ { @{[limit_of(tokens => $_, 'cost=$arg_estimate settle=$cost_of_status')]} proxy_pass http://127.0.0.1:%%SILENT%%; }"
} @places;

my $nginx = $bed->serve(
    SILENT  => $silent->sockport,
    REDIS   => $redis->address,
    workers => 2,
    http    => <<'HTTP',
    sliding_log_redis { server %%REDIS%%; timeout 2s; connect_timeout 2s; reconnect 20ms 100ms; }
    sliding_log_redis clocked { server %%REDIS%%; database 1; clock nginx; timeout 2s; connect_timeout 2s; reconnect 20ms 100ms; }
    sliding_log_redis down { server 127.0.0.1:1; timeout 1s; connect_timeout 1s; }
    map $status $cost_of_status { 200 1; 499 0; 502 0; default ""; }
    map "" $seven { default 7; }
    map $arg_to $redirect { "" ""; default "$arg_to?k=$arg_k"; }
    server {
        listen 127.0.0.1:%%PORT2%%;
        location / { add_header X-Cost $arg_cost; add_header X-Accel-Redirect $redirect; return 200; }
    }
HTTP
    server  => <<"END",
    $locations
    location /two {
        sliding_log_limit minute key=\$arg_k limit=10 window=1h algorithm=compact cost=2 settle=\$upstream_http_x_cost;
        sliding_log_limit day    key=\$arg_k limit=20 window=1d algorithm=compact cost=3 settle=\$seven;
        sliding_log_limit rows   key=\$arg_k limit=30 window=1d algorithm=compact cost=4;
        sliding_log_limit plan   key=\$arg_k limit=40 period=month algorithm=quota cost=5 settle=\$upstream_http_x_cost store=local;
        proxy_pass http://127.0.0.1:%%PORT2%%;
    }
    location /first {
        sliding_log_limit first key=\$arg_k limit=10 window=1h algorithm=compact cost=2 settle=\$upstream_http_x_cost;
        proxy_pass http://127.0.0.1:%%PORT2%%;
    }
    location /second { sliding_log_limit second key=\$arg_k limit=10 window=1h algorithm=counter cost=3 settle=\$seven; empty_gif; }
    location /look/first  { sliding_log_limit first key=\$arg_k limit=10 window=1h algorithm=compact cost=0; empty_gif; }
    location /look/second { sliding_log_limit second key=\$arg_k limit=10 window=1h algorithm=counter cost=0; empty_gif; }
    location /full   { sliding_log_limit none key=\$arg_k limit=0 window=1h; empty_gif; }
    location /denied {
        sliding_log_limit mine  key=\$arg_k limit=10 window=1h algorithm=compact cost=2 settle=\$seven;
        sliding_log_limit other key=\$arg_k limit=0 window=1h store=local;
        error_page 429 = /sorry;
        empty_gif;
    }
    location /sorry  { return 200; }
    location /blocks {
        sliding_log_limit blocks key=\$arg_k limit=10 window=1h block=1h algorithm=compact cost=\$arg_estimate settle=\$upstream_http_x_cost;
        proxy_pass http://127.0.0.1:%%PORT2%%;
    }
    location /metrics { sliding_log_metrics; }
END
);
my $port = $nginx->port;
$nginx->expect_in_log(qr/is down/)->expect_in_log(qr/invalid "settle"/)->expect_in_log(qr/could not be settled/)->expect_in_log(qr/broken|lost|refused/);

sub left { my ($path, $name) = @_; return (field(get($port, $path), 'RateLimit') // '') =~ /"$name[^"]*";r=(\d+)/ ? $1 : undef }

# A request is settled after its answer.
sub comes_to {
    my ($left, $path, $what) = @_;
    my $is;
    return ok(wait_until($what, 5, sub { ($is = left($path, '')) == $left }), $what) || diag("$is left, not $left");
}

for my $place (@places) {
    my $cost = sub { my ($key, $estimate, $cost) = @_; return get($port, "/cost/$place?k=$key&estimate=$estimate&cost=$cost") };
    is($cost->('less', 5, 2)->{status}, 200, "$place: an estimate that is too high");
    comes_to(8, "/look/$place?k=less", "$place: the difference is given back");
    $cost->('less', 3, 3);
    comes_to(5, "/look/$place?k=less", "$place: a good estimate stands");
    $cost->('less', 3, 0);
    comes_to(5, "/look/$place?k=less", "$place: what cost nothing is all given back");
    $cost->('less', 0, 4);
    comes_to(1, "/look/$place?k=less", "$place: an estimate of 0 is paid afterwards");

    is($cost->('more', 1, 12)->{status}, 200, "$place: an estimate that is too low");
    ok(wait_until('the debt', 5, sub { get($port, "/look/$place?k=more")->{status} == 429 }), "$place: a debt denies even those that only look");
    my $denied = $cost->('more', 1, 0);
    is($denied->{status}, 429, "$place: a debt denies");
    cmp_ok(field($denied, 'Retry-After'), '>', $place =~ /bucket/ ? 500_000 : 3000, "$place: and tells how long, at least: that of one that only looks may be known");
    is($cost->('other', 1, 1)->{status}, 200, "$place: another key owes nothing");

    $cost->('stands', 2, $_) for '', 'x', '-1', '1.5';
    comes_to(2, "/look/$place?k=stands", "$place: without a number the cost stands");
    $cost->('huge', 1, '9' x 30);
    ok(wait_until('the debt', 5, sub { get($port, "/look/$place?k=huge")->{status} == 429 }), "$place: a number that is too large is not forgotten");

    get($port, "/dry/$place?k=dry&estimate=5&cost=2");
    comes_to(8, "/look/$place?k=dry", "$place: a dry run is settled");
}
ok($nginx->logged(qr/limit "tokens_compact_\w+": invalid "settle" value "(?:x|-1|1\.5)", expected a whole number from 0 to 1000000000000, the cost stands/), 'no number is told');
my $again = 0;
ok(wait_until('the message', 5, sub { get($port, '/cost/compact/local?k=again' . ++$again . '&estimate=1&cost=' . '9' x 30); $nginx->logged(qr/invalid "settle" value "9{30}", expected a whole number from 0 to 1000000000000, the largest is taken/) }),
    'a number that is too large is told');

# several limits, of two stores: each is settled by its own variable; one without settle= keeps its cost
get($port, '/two?k=a&cost=1');
my %left = (minute => 7, day => 10, rows => 22, plan => 34);    # after one more request
ok(wait_until('all of them', 5, sub {
    my $key = 'k' . ++$left{tries};
    get($port, "/two?k=$key&cost=1");
    my %is = (field(get($port, "/two?k=$key&cost=1"), 'RateLimit') // '') =~ /"(\w+)";r=(\d+)/g;
    return !grep { $is{$_} != $left{$_} } qw(minute day rows plan);
}), 'several limits are settled, each by its own variable');

# internal redirects: what earlier locations logged is settled, too, also if the last one denies
get($port, '/first?k=a&cost=6&to=/second');
comes_to(4, '/look/first?k=a', 'before an internal redirect');
comes_to(3, '/look/second?k=a', 'and behind it');
is(get($port, '/first?k=b&cost=9&to=/full')->{status}, 429, 'denied behind an upstream');
comes_to(1, '/look/first?k=b', 'what an upstream has worked for is settled');

# denied requests cost nothing
is(get($port, '/denied?k=a')->{status}, 200, 'the error page of a denied request') for 1 .. 8;
ok(!$redis->cli('EXISTS', 'rl:sliding:mine:{a}'), 'a denied request is not settled');

# a block ends if the true cost of the request that began it would have had room
get($port, '/blocks?k=a&estimate=6&cost=6');
get($port, '/blocks?k=b&estimate=1&cost=1');
is(get($port, '/blocks?k=a&estimate=6&cost=6')->{status}, 429, 'blocked');
is(get($port, '/blocks?k=a&estimate=1&cost=1')->{status}, 429, 'blocked, whatever the cost');

# ---- requests under way

sub begin {
    my ($path) = @_;
    my $client = connect_to($port);
    $client->syswrite("GET $path HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    return { client => $client, backend => scalar $silent->accept };
}

sub answer {
    my ($one) = @_;
    syswrite $one->{backend}, "HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n";
    close $one->{backend};
    return Testbed::Http::read_all($one->{client}, 10);
}

for my $place (@places) {
    my $one = begin("/slow/$place?k=gone&estimate=5");
    close $one->{client};
    comes_to(10, "/look/$place?k=gone", "$place: a client that leaves is settled by its status");
    close $one->{backend};
}

# a worker that was told to quit settles before it exits
my %under_way = map { $_ => begin("/slow/$_?k=quit&estimate=5") } @places;
$nginx->reload;
answer($under_way{$_}) for @places;
comes_to(9, "/look/$_?k=quit", "$_: settled by a worker that quits") for @places;

# Redis is away when requests end: they are settled when it is back, at most once, and what is lost is counted
%under_way = map { $_ => begin("/slow/$_?k=away&estimate=5") } grep { !/down|local/ } @places;
$redis->kill;
answer($_) for values %under_way;
my $lost = sub { scrape($port)->value('sliding_log_store_take_backs_lost_total', store => $_[0]) // 0 };
$redis->start;
ok(wait_until('Redis to be back', 20, sub { !grep { !defined left("/look/$_?k=away", '') } keys %under_way }), 'Redis is back');
for my $store (qw(default clocked)) {
    my @those = grep { /$store/ } sort keys %under_way;
    ok(wait_until('the settling', 20, sub { $lost->($store) == 4 * grep { left("/look/$_?k=away", '') != 9 } @those }), "$store: settled after Redis was away, or counted as lost");
    is(join(' ', grep { my $left = left("/look/$_?k=away", ''); $left != 9 && $left != 5 } @those), '', "$store: settled or not, nothing in between");
}

# a difference that was sent and not answered is lost
my %lost = map { $_ => begin("/slow/compact/default?k=lost$_&estimate=5") } 1 .. 5;
my $before = $lost->('default');
$redis->pause;
answer($_) for values %lost;
get($port, '/look/compact/local?k=a') for 1 .. 5;    # so that the workers have sent it
$redis->kill;
$redis->start;
ok(wait_until('the loss', 20, sub { $lost->('default') - $before == 4 * grep { (left("/look/compact/default?k=lost$_", '') // 0) == 5 } 1 .. 5 }), 'what is lost is counted');
cmp_ok($lost->('default'), '>', $before, 'some are lost');
ok($nginx->logged(qr/the cost of a request could not be settled: the connection was lost/), 'what is lost is told');

$bed->done;
