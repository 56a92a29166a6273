# `delay=` with algorithm=inflight: a request without room waits until another one ends, first come, first served over
# the workers of a node, in Redis and in the memory of the node; it leaves the queue whatever ends it.

use strict;
use warnings;
use Test::More;
use Testbed qw(slow wait_until);
use Testbed::UnderWay;
use Testbed::Http qw(get field connect_to parse);
use Time::HiRes qw(sleep time);

my @stores = qw(default clocked local);
my %other  = (default => 'clocked', clocked => 'local', local => 'local');
my $bed    = Testbed->new;
my $redis  = $bed->redis;
my $silent = Testbed::UnderWay->new;

my $locations = join "\n", map { my $store = $_; <<"END" } @stores;
    location /$store/at    { sliding_log_limit at_$store key=\$arg_k limit=2 algorithm=inflight lease=3s delay=20s store=$store; proxy_pass http://127.0.0.1:%%SILENT%%; }
    location /$store/short { sliding_log_limit at_$store key=\$arg_k limit=2 algorithm=inflight lease=3s delay=400ms store=$store; proxy_pass http://127.0.0.1:%%SILENT%%; }
    location /$store/none  { sliding_log_limit at_$store key=\$arg_k limit=2 algorithm=inflight lease=3s store=$store; proxy_pass http://127.0.0.1:%%SILENT%%; }
    location /$store/look  { sliding_log_limit at_$store key=\$arg_k limit=2 algorithm=inflight lease=3s cost=0 delay=9s store=$store; empty_gif; }
    location /$store/cost  { sliding_log_limit at_$store key=\$arg_k limit=\$arg_l algorithm=inflight lease=3s delay=20s cost=\$arg_c store=$store; proxy_pass http://127.0.0.1:%%SILENT%%; }
    location /$store/two   {
        sliding_log_limit at_$store key=\$arg_k limit=2 algorithm=inflight lease=3s delay=20s store=$store;
        sliding_log_limit all_$store key=\$arg_a limit=\$arg_l algorithm=inflight lease=3s delay=20s store=$store;
        proxy_pass http://127.0.0.1:%%SILENT%%;
    }
    location /$store/first { sliding_log_limit first_$store key=\$arg_k limit=1 algorithm=inflight lease=1s store=$store; proxy_pass http://127.0.0.1:%%SILENT%%; }
    location /$store/apart {
        sliding_log_limit first_$store key=\$arg_k limit=1 algorithm=inflight lease=1s store=$store;
        sliding_log_limit then_$store key=\$arg_a limit=1 algorithm=inflight lease=1s delay=20s store=$other{$store};
        proxy_pass http://127.0.0.1:%%SILENT%%;
    }
    location /$store/mixed {
        sliding_log_limit at_$store key=\$arg_k limit=2 algorithm=inflight lease=3s delay=20s store=$store;
        sliding_log_limit all_$store key=\$arg_a limit=1 algorithm=inflight lease=3s store=$store;
        proxy_pass http://127.0.0.1:%%SILENT%%;
    }
    location /$store/rate  {
        sliding_log_limit rate_$store key=\$arg_r limit=1 window=1h count=all block=1h store=$store;
        sliding_log_limit at_$store key=\$arg_k limit=2 algorithm=inflight lease=3s delay=20s store=$store;
        proxy_pass http://127.0.0.1:%%SILENT%%;
    }
    location /$store/moved { sliding_log_limit at_$store key=\$arg_k limit=2 algorithm=inflight lease=3s delay=20s store=$store; error_page 404 = /$store/last?\$args; return 404; }
    location /$store/last  { sliding_log_limit last_$store key=\$arg_k limit=1 algorithm=inflight lease=3s delay=20s store=$store; proxy_pass http://127.0.0.1:%%SILENT%%; }
    location /$store/post  { sliding_log_limit at_$store key=\$arg_k limit=2 algorithm=inflight lease=3s delay=20s store=$store; post_action \@after; empty_gif; }
    location /$store/dry   { sliding_log_limit at_$store key=\$arg_k limit=2 algorithm=inflight lease=3s delay=20s store=$store dry_run=on; empty_gif; }
    location /$store/over  { sliding_log_limit over_$store key=\$arg_k limit=1 algorithm=inflight lease=3s delay=20s override=on store=$store; proxy_pass http://127.0.0.1:%%SILENT%%; }
    location /$store/over1 { sliding_log_limit over_$store key=\$arg_k limit=1 algorithm=inflight lease=3s delay=1s override=on store=$store; proxy_pass http://127.0.0.1:%%SILENT%%; }
END
my $nginx = $bed->serve(
    REDIS => $redis->address, SILENT => $silent->port,
    workers => 2,
    listen  => 'reuseport',
    store   => 'server %%REDIS%%; timeout 5s; connect_timeout 5s; reconnect 20ms 200ms;',
    how     => '$sliding_log_status $sliding_log_source $sliding_log_latency',
    http    => 'sliding_log_log_level notice; sliding_log_redis clocked { server %%REDIS%%; database 1; clock nginx; timeout 5s; connect_timeout 5s; }',
    server  => "listen 127.0.0.1:%%PORT2%% http2 reuseport;\n$locations" . 'location @after { proxy_pass http://127.0.0.1:%%SILENT%%; } location /metrics { sliding_log_metrics; }',
);
my $port = $nginx->port;

sub queue  { my ($path, %options) = @_; return $silent->queue($options{http2} ? $nginx->port('PORT2') : $port, $path, %options) }
sub begin  { my ($path) = @_; return $silent->decided(queue($path)) }
sub answer { my ($one) = @_; return Testbed::UnderWay::end($one) }
sub comes  { my ($one, $name) = @_; return ok($silent->arrives($one), $name) }
sub waits  { my ($one, $name) = @_; return ok(!$silent->arrives($one, 0.3), $name) }
sub left   { my ($store, $key) = @_; return (field(get($port, "/$store/look?k=$key"), 'RateLimit') // '') =~ /;r=(\d+)/ ? $1 : 'unknown' }
sub all_left { my ($store, $key, $name) = @_; return ok(wait_until("$key to be free", 5, sub { left($store, $key) eq 2 }), "$store: $name") || diag(left($store, $key)) }

for my $store (@stores) {
    my $source = $store eq 'local' ? 'local' : 'redis';
    my @two    = map { begin("/$store/at?k=a") } 1, 2;

    # one waits
    my $third = queue("/$store/at?k=a");
    waits($third, "$store: the third waits");
    is(begin("/$store/none?k=a")->{denied}{status}, 429, "$store: one without delay= does not");
    answer(shift @two);
    comes($third, "$store: it comes when another one ends");
    my $answered = answer($third);
    like(field($answered, 'X-How'), qr/^DELAYED $source 0\.\d+$/, "$store: as delayed");
    like(field($answered, 'RateLimit'), qr/^"at_$store";r=0$/, "$store: with the fields of its admission");
    ok(wait_until('the line', 5, sub { $nginx->logged(qr/\[info\].*delaying request, by limit "at_$store": key "a", 2 at once, waited \d+m?s, by $source,/) }), "$store: the error log tells it");

    # in order, over both workers
    push @two, begin("/$store/at?k=a");
    my @line = map { my $one = queue("/$store/at?k=a&n=$_"); sleep 0.08 * slow(); $one } 1 .. 8;
    answer($_) for splice @two, 0, 2;
    for my $n (0 .. $#line) {
        comes($line[$n], "$store: number $n of the queue");
        answer($line[$n - 1]) if $n > 0;
    }
    answer($line[-1]);
    all_left($store, 'a', 'nothing stays');

    # time is up
    @two = map { begin("/$store/at?k=b") } 1, 2;
    my $start  = time;
    my $denied = begin("/$store/short?k=b")->{denied};
    my $waited = time - $start;
    is($denied->{status}, 429, "$store: its time is up");
    cmp_ok($waited, '>=', 0.39, "$store: not before");
    cmp_ok($waited, '<', 0.4 + 2 * slow(), "$store: nor long after");
    like(field($denied, 'X-How'), qr/^REJECTED $source /, "$store: rejected by the store");
    is(field($denied, 'Retry-After'), 1, "$store: with a second to wait");
    my $behind = queue("/$store/at?k=b");
    waits($behind, "$store: one waits long");
    is(begin("/$store/short?k=b")->{denied}{status}, 429, "$store: one behind it never had its turn");

    # the client leaves
    close $behind->{client};
    my $next = queue("/$store/at?k=b");
    answer(shift @two);
    comes($next, "$store: a client that leaves leaves the queue");
    answer($_) for $next, @two;
    all_left($store, 'b', 'and takes nothing');

    # costs
    my $big = begin("/$store/cost?k=c&c=3&l=4");
    my $two = queue("/$store/cost?k=c&c=2&l=4");
    waits($two, "$store: a cost without room waits");
    my $one = queue("/$store/cost?k=c&c=1&l=4");
    waits($one, "$store: one with room does not overtake it");
    answer($big);
    comes($two, "$store: it comes first");
    comes($one, "$store: and the other one then");
    answer($_) for $two, $one;
    is(begin("/$store/cost?k=c&c=5&l=4")->{denied}{status}, 429, "$store: a cost above the limit waits for nothing");
    is(begin("/$store/cost?k=c&c=1&l=0")->{denied}{status}, 429, "$store: nor does a limit of 0");
    all_left($store, 'c', 'costs leave');

    # several limits
    my $all = begin("/$store/two?k=d&a=x&l=1");
    my $for = queue("/$store/two?k=e&a=x&l=1");
    waits($for, "$store: it waits for the second limit");
    is(left($store, 'e'), 2, "$store: and takes no place of the first meanwhile");
    my $mixed = begin("/$store/mixed?k=e&a=x");
    is($mixed->{denied}{status}, 429, "$store: a limit without delay= denies at once");
    answer($all);
    comes($for, "$store: until there is room in both");
    answer($for);
    all_left($store, $_, "$_ is free again") for qw(d e);

    # while it waits for one limit, it does not keep others from a limit that has room
    my ($x, $y) = map { begin("/$store/two?k=z&a=$_&l=1") } 1, 2;
    my $third_account = queue("/$store/two?k=z&a=3&l=1");
    waits($third_account, "$store: the first limit is full");
    my $first_account = queue("/$store/two?k=z&a=1&l=1");
    waits($first_account, "$store: one waits whose second limit is full, too");
    my $fourth_account = queue("/$store/two?k=z&a=4&l=1");
    waits($fourth_account, "$store: and one behind it");
    answer($y);
    comes($third_account, "$store: the first of them comes");
    answer($third_account);
    comes($fourth_account, "$store: so does the one behind that which waits for the second limit");
    waits($first_account, "$store: that one goes on waiting");
    answer($x);
    comes($first_account, "$store: until the second limit has room");
    answer($_) for $first_account, $fourth_account;
    all_left($store, 'z', 'all have gone');

    # in two stages: what was taken first is renewed
    my $then  = begin("/$store/apart?k=s&a=s");
    my $taken = queue("/$store/apart?k=t&a=s");
    waits($taken, "$store: it waits in the second stage");
    sleep 2.2;    # longer than the lease
    is(begin("/$store/first?k=t")->{denied}{status}, 429, "$store: and keeps its place of the first one");
    answer($then);
    comes($taken, "$store: it comes");
    answer($taken);
    ok(wait_until('the place', 5, sub { my $one = begin("/$store/first?k=t"); answer($one) if $one->{backend}; $one->{backend} }), "$store: and gives both back");

    # behind another algorithm
    @two = map { begin("/$store/at?k=f") } 1, 2;
    my $rated = queue("/$store/rate?k=f&r=$store");
    waits($rated, "$store: it waits behind a limit that admits it");
    is(begin("/$store/rate?k=g&r=$store")->{denied}{status}, 429, "$store: which has counted it");
    close $rated->{client};
    answer($_) for @two;
    all_left($store, 'f', 'it has gone');
    ok(wait_until('the take-back', 5, sub { my $seen = begin("/$store/rate?k=g&r=new$store"); answer($seen) if $seen->{backend}; $seen->{backend} }), "$store: and others go on");

    # a redirect: two places, one after the other
    my $last = begin("/$store/last?k=h");
    my $to   = queue("/$store/moved?k=h");
    waits($to, "$store: waits behind a redirect");
    answer($last);
    comes($to, "$store: and comes");
    answer($to);
    all_left($store, 'h', 'both places are free');

    # post_action, which begins when the client leaves
    @two = map { begin("/$store/at?k=p") } 1, 2;
    my $post  = queue("/$store/post?k=p");
    my $after = queue("/$store/at?k=p");
    waits($post, "$store: one with a post_action waits");
    close $post->{client};
    comes($post, "$store: its post_action runs");
    answer(shift @two);
    comes($after, "$store: it does not wait meanwhile");
    Testbed::UnderWay::answer($post);
    answer($_) for $after, @two;
    ok(!$silent->next_one(0.5), "$store: it has run once");
    all_left($store, 'p', 'nothing stays');

    # dry run
    @two = map { begin("/$store/at?k=i") } 1, 2;
    like(field(get($port, "/$store/dry?k=i"), 'X-How'), qr/^REJECTED_DRY_RUN $source /, "$store: a dry run does not wait");
    answer($_) for @two;
    all_left($store, 'i', 'it leaves nothing');
    next if $store eq 'local';

    # records
    my $record = $store eq 'clocked' ? 1 : 0;
    my $only = begin("/$store/over?k=j");
    my @wait = map { my $each = queue("/$store/over?k=j"); sleep 0.05; $each } 1 .. 3;
    waits($wait[0], "$store: no room");
    $redis->cli('-n', $record, 'SET', "rl:sliding:over_$store:{j}:override", 'limit=3 until=0 since=1 by=a why=');
    comes($wait[0], "$store: a raised limit gives places");
    comes($wait[1], "$store: to all that have room");
    waits($wait[2], "$store: and to no other");
    $redis->cli('-n', $record, 'SET', "rl:sliding:over_$store:{j}:override", 'allow until=0 since=1 by=a why=');
    comes($wait[2], "$store: allow admits");
    $redis->cli('-n', $record, 'SET', "rl:sliding:over_$store:{j}:override", 'deny until=0 since=1 by=a why=');
    is(begin("/$store/over?k=j")->{denied}{status}, 429, "$store: deny waits for nothing");
    $redis->cli('-n', $record, 'DEL', "rl:sliding:over_$store:{j}:override");
    answer($_) for $only, @wait;
}

# ---- HTTP/2

my @two   = map { begin('/default/at?k=l') } 1, 2;
my $h2    = queue('/default/at?k=l', http2 => 1);
waits($h2, 'a stream waits');
my $reset = queue('/default/at?k=l', http2 => 1);
waits($reset, 'and another one');
my $http1 = queue('/default/at?k=l');
Testbed::Http2::reset_stream($reset->{client}, 1);
answer($_) for @two;
comes($h2, 'the stream comes');
comes($http1, 'one that is reset leaves the queue');
answer($_) for $h2, $http1;
all_left('default', 'l', 'streams leave nothing');

ok(get($port, '/metrics')->{body} =~ /sliding_log_requests_total\{limit="at_default",result="delayed",source="redis"\} [1-9]/, 'metrics count those that waited as delayed');
$bed->done;
