# Requests that wait for a place (`delay=` with algorithm=inflight) while Redis is killed, hangs and returns, and while
# the zone is full: each is decided once, none waits longer than its delay, and no entry stays.

use strict;
use warnings;
use IO::Select;
use Test::More;
use Testbed qw(slow wait_until);
use Testbed::Http qw(get field parse);
use Testbed::UnderWay;
use Time::HiRes qw(sleep time);

my $bed    = Testbed->new;
my $redis  = $bed->redis;
my $other  = $bed->redis;
my $silent = Testbed::UnderWay->new;
my $limit  = 'sliding_log_limit at key=$arg_k limit=2 algorithm=inflight lease=3s';
my $nginx  = $bed->serve(
    REDIS => $redis->address, OTHER => $other->address, SILENT => $silent->port,
    workers => 1,    # with more of them, each enters its own requests only when it finds that Redis is away
    listen  => 'backlog=4000',
    store   => 'server %%REDIS%%; timeout 300ms; connect_timeout 300ms; reconnect 20ms 200ms;',
    how     => '$sliding_log_status $sliding_log_source',
    http    => 'sliding_log_zone 64k;'
        . 'sliding_log_redis a { server %%OTHER%%; timeout 3s; connect_timeout 3s; } sliding_log_redis b { server %%REDIS%%; database 1; timeout 3s; connect_timeout 3s; }',
    server  => join('', map { my $name = $_; "location /$name { " . join(' ', map { "sliding_log_limit $_ key=\$arg_k limit=1 algorithm=inflight lease=9s delay=60s store=$_;" } split //, $name)
            . " proxy_pass http://127.0.0.1:%%SILENT%%; }\n" } qw(a b ab)) . "location /look { $limit cost=0; empty_gif; }\n" . join '', map { "location /$_->[0] { $limit $_->[1]; proxy_pass http://127.0.0.1:%%SILENT%%; }\n" }
        ['local', 'delay=100s; sliding_log_on_error local'], ['allow', 'delay=30s; sliding_log_on_error allow'], ['deny', 'delay=30s; sliding_log_on_error deny'],
        ['short', 'delay=1s; sliding_log_on_error local'],
);
my $port = $nginx->port;
sub queue   { my ($path) = @_; return $silent->queue($port, $path) }
sub begin   { my ($path) = @_; return $silent->decided(queue($path)) }
sub decided { my ($one) = @_; return $silent->decided($one) }
sub answer  { my ($one) = @_; return Testbed::UnderWay::end($one) }
sub comes { my ($one, $name) = @_; return ok($silent->arrives($one), $name) }
sub waits { my ($one, $name) = @_; return ok(!$silent->arrives($one, 0.3), $name) }
sub members { my ($key) = @_; return $redis->cli('ZCARD', "rl:sliding:at:{$key}") }
sub is_answered { my ($one) = @_; return IO::Select->new($one->{client})->can_read(0) && decided($one)->{denied} }
sub is_by { my ($who, $name) = @_; return ok(wait_until($who, 10, sub { !grep { field(get($port, '/look?k=x'), 'X-How') !~ /$who/ } 1 .. 8 }), $name) }

for my $how (qw(killed hangs)) {
    my %two     = map { my $place = $_; ($place => [map { begin("/$place?k=$place") } 1, 2]) } qw(local allow deny);
    my %waiting = map { ($_ => queue("/$_?k=$_")) } qw(local allow deny);
    my @behind  = map { queue('/local?k=local') } 1, 2;
    my %crowd   = map { my $place = $_; ($place => [map { queue("/$place?k=$place") } 1 .. 40]) } qw(allow deny);
    waits($waiting{$_}, "$how: one waits, on_error $_") for sort keys %waiting;
    $how eq 'killed' ? $redis->kill : $redis->pause;

    comes($waiting{allow}, "$how: on_error allow lets it in");
    is(decided($waiting{deny})->{denied}{status}, 503, "$how: on_error deny denies it");
    my $asked = time;
    is(scalar(grep { $silent->arrives($_) } @{ $crowd{allow} }), 40, "$how: and all behind the one");
    is(scalar(grep { decided($_)->{denied}{status} == 503 } @{ $crowd{deny} }), 40, "$how: or the other one");
    cmp_ok(time - $asked, '<', 1.2 * slow(), "$how: at once");
    answer($_) for @{ $crowd{allow} };
    if ($how eq 'killed') {
        # one that was asked when Redis was killed may be in its log, and is decided at once
        my ($first, $next) = grep { !is_answered($_) } $waiting{local}, @behind;
        waits($first, "$how: on_error local has no room, either");
        answer(shift @{ $two{local} });
        comes($first, "$how: until one of this node ends");
        waits($next, "$how: and no other");
    } else {
        # a request that was asked when Redis stopped may be in its log, and is decided at once
        my $time = time;
        decided($_) for $waiting{local};
        cmp_ok(time - $time, '<', 2 * slow(), "$how: on_error local decides one whose answer does not come");
    }
    my $short = begin('/short?k=local');
    is($short->{denied} ? $short->{denied}{status} : 200, 429, "$how: nobody waits longer than its delay");
    $how eq 'killed' ? $redis->start : $redis->resume;
    is_by('redis', "$how: Redis is back");
    my @rest = grep { $_->{backend} } @{ $two{local} }, $waiting{local};
    answer($_) for @rest;
    for my $one (@behind) {
        decided($one) if !$one->{backend} && !$one->{denied};
        answer($one)  if $one->{backend};
    }
    answer($_) for grep { $_->{backend} } map { @$_ } @two{qw(allow deny)};
    answer($waiting{allow});
    ok(wait_until('the end', 8, sub { $redis->cli('DBSIZE') == 0 }), "$how: nothing stays") or diag($redis->cli('KEYS', '*'));
    my @again = map { begin('/local?k=local') } 1, 2;
    is(scalar(grep { $_->{backend} } @again), 2, "$how: both places are free");
    answer($_) for @again;
    ok(wait_until('the end', 8, sub { $redis->cli('DBSIZE') == 0 }), "$how: and free again");
}

# ---- two stores, of which the first one is late: both are found full, and waited for one after the other

my ($one, $two) = map { begin("/$_?k=k") } qw(a b);
$other->pause;
my @both = map { queue('/ab?k=k') } 1 .. 3;
sleep 2;    # more than half of the timeout: the second store is asked meanwhile
$other->resume;
waits($_, 'one waits for two places') for @both;
answer($one);
waits($both[0], 'it has got one of them');
answer($two);
for my $n (0 .. 2) {
    comes($both[$n], 'and both');
    answer($both[$n]);
}
ok(wait_until('the end', 8, sub { $other->cli('DBSIZE') == 0 }), 'nothing stays');
is(scalar $nginx->workers, 1, 'the worker lives');

# ---- the zone is full: those that wait do so without a ticket

my @held  = map { begin('/local?k=full') } 1, 2;
my @crowd = map { queue('/local?k=full') } 1 .. 850;
waits($crowd[-1], 'hundreds wait');
ok(!$nginx->logged(qr/exited on signal/), 'no worker has died');
my $come = 0;
answer($_) for @held;
while ($come < 900 && (my $one = $silent->next_one(10 * slow()))) {
    answer($one);
    push @crowd, queue('/local?k=full') if ++$come <= 50;    # with tickets, behind those without
}
is($come, 900, 'and come one after the other');
ok(wait_until('the end', 20, sub { while (my $one = $silent->next_one(0)) { close $one->{backend} } $redis->cli('DBSIZE') == 0 }), 'nothing stays');
is_by('redis', 'Redis decides');
$bed->done;
