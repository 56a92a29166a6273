# algorithm=inflight: at most `limit` requests of a key under way at once, in Redis and in the memory of the node, over
# workers. An entry is given back whatever ends its request. It is renewed while the request lasts, over a reload, too. It
# leaves a lease after its worker was killed.

use strict;
use warnings;
use IO::Select;
use Test::More;
use Testbed qw(conf slow wait_until);
use Testbed::UnderWay;
use Testbed::Http qw(get field connect_to parse);
use Time::HiRes qw(sleep time);

my @stores = qw(default clocked local);
my $bed    = Testbed->new;
my $redis  = $bed->redis;
my $silent = Testbed::UnderWay->new;

my $locations = join "\n", map { my $store = $_; <<"END" } @stores;
    location /$store/at     { sliding_log_limit at_$store key=\$arg_k limit=2 algorithm=inflight lease=3s store=$store; sliding_log_headers all; proxy_pass http://127.0.0.1:%%SILENT%%; }
    location /$store/look   { sliding_log_limit at_$store key=\$arg_k limit=2 algorithm=inflight lease=3s store=$store cost=0; empty_gif; }
    location /$store/cost   { sliding_log_limit at_$store key=\$arg_k limit=4 algorithm=inflight lease=3s store=$store cost=\$arg_c; proxy_pass http://127.0.0.1:%%SILENT%%; }
    location /$store/both   {
        sliding_log_limit at_$store key=\$arg_k limit=9 algorithm=inflight lease=3s store=$store;
        sliding_log_limit rate_$store key=\$arg_k limit=1 window=1h store=$store;
        empty_gif;
    }
    location /$store/two    {
        sliding_log_limit at_$store key=\$arg_k limit=9 algorithm=inflight lease=3s store=$store;
        sliding_log_limit all_$store key=all\$arg_a limit=1 algorithm=inflight lease=3s store=$store;
        proxy_pass http://127.0.0.1:%%SILENT%%;
    }
    location /$store/moved  { sliding_log_limit at_$store key=\$arg_k limit=2 algorithm=inflight lease=3s store=$store; error_page 404 = /$store/at?\$args; return 404; }
    location /$store/try    { sliding_log_limit at_$store key=\$arg_k limit=2 algorithm=inflight lease=3s store=$store; try_files /none /$store/inner?\$args; }
    location /$store/inner  { sliding_log_limit at_$store key=\$arg_k limit=2 algorithm=inflight lease=3s store=$store; empty_gif; }
    location /$store/then   {
        sliding_log_limit at_$store key=\$arg_k limit=2 algorithm=inflight lease=3s store=$store;
        try_files /none /$store/none?\$args;
    }
    location /$store/none   { sliding_log_limit none_$store key=\$arg_k limit=0 algorithm=inflight lease=3s store=$store; empty_gif; }
    location /$store/dry    { sliding_log_limit dry_$store key=\$arg_k limit=1 algorithm=inflight lease=3s store=$store dry_run=on; proxy_pass http://127.0.0.1:%%SILENT%%; }
    location /$store/held   {
        sliding_log_limit at_$store key=\$arg_k limit=2 algorithm=inflight lease=3s store=$store;
        sliding_log_limit pace_$store key=\$arg_k limit=1 window=2s delay=9s store=$store;
        empty_gif;
    }
    location /$store/timed  { sliding_log_limit at_$store key=\$arg_k limit=2 algorithm=inflight lease=3s store=$store; proxy_read_timeout 300ms; proxy_pass http://127.0.0.1:%%SILENT%%; }
END
my $nginx = $bed->serve(
    REDIS => $redis->address, SILENT => $silent->port,
    workers => 2,
    listen  => 'reuseport',
    store   => 'server %%REDIS%%; timeout 5s; connect_timeout 5s; reconnect 20ms 200ms;',
    how     => '$sliding_log_status $sliding_log_source',
    http    => 'sliding_log_redis clocked { server %%REDIS%%; database 1; clock nginx; timeout 5s; connect_timeout 5s; }',
    server  => $locations,
);
my $port = $nginx->port;

# A request that the backend holds: { client, backend }; or its answer.
sub begin { my ($path) = @_; my $one = $silent->begin($port, $path); return $one->{denied} // $one }
sub answer { my ($one) = @_; return Testbed::UnderWay::end($one) }

sub left { my ($store, $key) = @_; return (field(get($port, "/$store/look?k=$key"), 'RateLimit') // '') =~ /;r=(\d+)/ ? $1 : 'unknown' }
sub is_left { my ($store, $key, $left, $name) = @_; return ok(wait_until("$left of $key", 5, sub { left($store, $key) eq $left }), "$store: $name") || diag(left($store, $key)) }

for my $store (@stores) {
    my $source = $store eq 'local' ? 'local' : 'redis';
    my @two = map { begin("/$store/at?k=a") } 1, 2;
    ok(!grep({ !$_->{backend} } @two), "$store: two are admitted");
    my $denied = begin("/$store/at?k=a");
    is($denied->{status}, 429, "$store: the third is denied");
    is(field($denied, 'X-How'), "REJECTED $source", "$store: by the store");
    is(field($denied, 'Retry-After'), 1, "$store: with a second to wait");
    is(field($denied, 'RateLimit-Policy'), qq("at_$store";q=2;qu="concurrent-requests"), "$store: the policy tells what is counted");
    is(field($denied, 'RateLimit'), qq("at_$store";r=0), "$store: what remains has no time");
    is(join(' ', map { field($denied, "X-RateLimit-$_") } qw(Limit Remaining Reset)), '2 0 1', "$store: legacy fields");
    ok(wait_until('the line', 5, sub { $nginx->logged(qr/limiting requests, by limit "at_$store": key "a", 2 at once, by $source,/) }), "$store: the error log tells it");
    my $answered = answer(shift @two);
    is($answered->{status}, 200, "$store: one is answered");
    is(field($answered, 'RateLimit'), qq("at_$store";r=1), "$store: its own fields are those of its decision");
    is_left($store, 'a', 1, 'an answer gives the entry back');
    close $two[0]{client};
    is_left($store, 'a', 2, 'a client that leaves gives it back');
    my $lost = begin("/$store/at?k=a");
    close $lost->{backend};
    Testbed::Http::read_all($lost->{client}, 10);
    is_left($store, 'a', 2, 'an upstream that fails gives it back');
    my $timed = begin("/$store/timed?k=a");
    is(parse(Testbed::Http::read_all($timed->{client}, 10))->{status}, 504, "$store: a timeout");
    is_left($store, 'a', 2, 'gives it back');

    # a cost
    my $cost = begin("/$store/cost?k=c&c=3");
    is(begin("/$store/cost?k=c&c=2")->{status}, 429, "$store: a cost takes so many");
    my $rest = begin("/$store/cost?k=c&c=1");
    ok($rest->{backend}, "$store: and leaves the rest");
    answer($_) for $cost, $rest;
    is_left($store, 'c', 2, 'a cost is given back');

    # with other limits
    is(get($port, "/$store/both?k=b")->{status}, 200, "$store: with another limit");
    is(get($port, "/$store/both?k=b")->{status}, 429, "$store: which denies");
    is_left($store, 'b', 2, 'what was denied is not under way');
    my $one = begin("/$store/two?k=d&a=$store");
    is(begin("/$store/two?k=e&a=$store")->{status}, 429, "$store: all or nothing");
    is_left($store, 'e', 2, 'what another limit denies takes nothing');
    is_left($store, 'd', 1, 'what was admitted does');
    answer($one);
    is_left($store, 'd', 2, 'until it ends');

    # internal redirects
    my $moved = begin("/$store/moved?k=f");
    is_left($store, 'f', 1, 'an internal redirect takes one entry');
    answer($moved) if $moved->{backend};
    is_left($store, 'f', 2, 'and gives it back at the end');
    is(get($port, "/$store/try?k=f")->{status}, 200, "$store: try_files");
    is_left($store, 'f', 2, 'gives it back, too');
    is(get($port, "/$store/then?k=f")->{status}, 429, "$store: denied behind a redirect");
    is_left($store, 'f', 2, 'gives it back, too');

    # held by another limit
    is(get($port, "/$store/held?k=h")->{status}, 200, "$store: the other limit has room");
    my $held = connect_to($port);
    $held->syswrite("GET /$store/held?k=h HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    ok(!IO::Select->new($held)->can_read(0.3), "$store: a request is held");
    is(left($store, 'h'), 2, "$store: it is not under way");
    close $held;
    is_left($store, 'h', 2, 'nor when its client has left');

    # dry run
    my @dry = map { begin("/$store/dry?k=g") } 1 .. 3;
    ok(!grep({ !$_->{backend} } @dry), "$store: a dry run denies nobody");
    is(field(answer($dry[2]), 'X-How'), "REJECTED_DRY_RUN $source", "$store: and says who it would have denied");
    answer($_) for @dry[0, 1];
    answer(begin("/$store/dry?k=g"));
    my @exists = ('-n', $store eq 'clocked' ? 1 : 0, 'EXISTS', "rl:sliding:dry_$store:{g}");
    ok(wait_until('the log to be gone', 5, sub { $redis->cli(@exists) == 0 }), "$store: a dry run gives back") if $store ne 'local';
}

# ---- it lasts

my %lasting = map { ($_ => begin("/$_/at?k=l")) } @stores;
my $since   = time;
$nginx->reload;
sleep 0.2 while time - $since < 7;
is_left($_, 'l', 1, 'a request that lasts longer than two leases counts, over a reload') for @stores;
answer($_) for values %lasting;
is_left($_, 'l', 2, 'until it ends') for @stores;
ok(wait_until('the old workers to leave', 10, sub { $nginx->workers == 2 }), 'the old workers leave');

# ---- a worker is killed

%lasting = map { ($_ => begin("/$_/at?k=m")) } @stores;
my $killed = time;
kill 'KILL', $nginx->workers;
wait_until('the new workers', 10, sub { left('local', 'm') ne 'unknown' });
is_left($_, 'm', 1, 'what a killed worker held counts') for grep { time - $killed < 2 } @stores;
ok(wait_until("the lease to end for $_", 10, sub { left($_, 'm') eq 2 }), "$_: and leaves a lease later") for @stores;
cmp_ok(time - $killed, '>', 1.9, 'not earlier than a lease after it was renewed');
$nginx->expect_kills;
close $_->{client}, close $_->{backend} for values %lasting;

# ---- Redis forgets

my $one = begin('/default/at?k=n');
$redis->cli('FLUSHALL');
is(left('default', 'n'), 2, 'a flush forgets who is under way');
ok(wait_until('the next renewal', 5, sub { left('default', 'n') eq 1 }), 'the next renewal enters them again');
answer($one);
is_left('default', 'n', 2, 'until they end');

$bed->done;
