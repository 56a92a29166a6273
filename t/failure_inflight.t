# algorithm=inflight while Redis is away: the node counts the requests that are under way on it, also those that Redis
# admitted before. When Redis returns, it gets back the entries of requests that ended meanwhile, and the entries of those
# that were admitted meanwhile.

use strict;
use warnings;
use Test::More;
use Testbed qw(conf slow wait_until);
use Testbed::UnderWay;
use Testbed::Http qw(get field);
use Testbed::Metrics qw(scrape);
use Time::HiRes qw(sleep time);

my $bed    = Testbed->new;
my $redis  = $bed->redis;
my $silent = Testbed::UnderWay->new;
my $limit  = 'sliding_log_limit at key=$arg_k limit=6 algorithm=inflight lease=4s';
my $conf   = conf(
    workers => 2,
    listen  => 'reuseport',
    store   => 'server %%REDIS%%; timeout 300ms; connect_timeout 300ms; reconnect 20ms 200ms;',
    how     => '$sliding_log_status $sliding_log_source',
    server  => <<"END",
    location /local { $limit; proxy_pass http://127.0.0.1:%%SILENT%%; }
    location /share { $limit; sliding_log_on_error local nodes=2; proxy_pass http://127.0.0.1:%%SILENT%%; }
    location /allow { $limit; sliding_log_on_error allow; proxy_pass http://127.0.0.1:%%SILENT%%; }
    location /deny  { $limit; sliding_log_on_error deny; proxy_pass http://127.0.0.1:%%SILENT%%; }
    location /look  { $limit cost=0; sliding_log_on_error deny; empty_gif; }
    location /seen  { $limit cost=0; empty_gif; }
    location /metrics { sliding_log_metrics; }
END
);
my %values = (REDIS => $redis->address, SILENT => $silent->port);
my $nginx  = $bed->nginx($conf, %values);
my $port   = $nginx->port;

sub begin { my ($path, $at) = @_; my $one = $silent->begin($at // $port, $path); return $one->{denied} // $one }
sub answer { my ($one) = @_; return Testbed::UnderWay::end($one) }

sub remains { my ($place, $key, $at) = @_; return (field(get($at // $port, "/$place?k=$key"), 'RateLimit') // '') =~ /;r=(\d+)/ ? $1 : 'unknown' }
sub members { return $redis->cli('ZCARD', "rl:sliding:at:{$_[0]}") }
sub is_away { return wait_until('the loss to be noticed', 10, sub { !grep { field(get($port, '/look?k=x'), 'X-How') !~ /error/ } 1 .. 8 }) }
sub is_back { return wait_until('Redis to decide', 10, sub { !grep { field(get($port, '/look?k=x'), 'X-How') !~ /redis/ } 1 .. 8 }) }

ok(is_back(), 'Redis decides');
my @before = map { begin('/local?k=a') } 1 .. 3;
my @other  = map { begin('/share?k=b') } 1 .. 2;
my @strict = begin('/deny?k=c');
is(join(' ', map { members($_) } qw(a b c)), '3 2 1', 'six are under way');

# ---- away

for my $how (qw(killed hangs)) {
    $how eq 'killed' ? $redis->kill : $redis->pause;
    ok(is_away(), "$how: Redis is away");
    ok(wait_until('all workers', 10, sub { remains('seen', 'a') eq 3 }), "$how: this node counts those that Redis admitted") or diag(remains('seen', 'a'));
    my @more = map { begin('/local?k=a') } 1 .. 3;
    is(scalar(grep { $_->{backend} } @more), 3, "$how: and admits as many as are free");
    my $denied = begin('/local?k=a');
    is("$denied->{status} " . field($denied, 'X-How'), '429 REJECTED local', "$how: not one more");
    my $half = begin('/share?k=b');
    ok($half->{backend}, "$how: nodes=2: one of the three of this node is free");
    is(begin('/share?k=b')->{status}, 429, "$how: and no other");
    is(begin('/deny?k=c')->{status}, 503, "$how: on_error deny");
    my @allowed = map { begin('/allow?k=d') } 1 .. 8;
    is(scalar(grep { $_->{backend} } @allowed), 8, "$how: on_error allow");
    answer($_) for shift @before, shift @more, $half;
    ok(wait_until('two to be free', 5, sub { remains('seen', 'a') eq 2 }), "$how: what ends is given back to this node") or diag(remains('seen', 'a'));
    sleep 5 if $how eq 'killed';    # longer than the lease
    is(remains('seen', 'a'), 2, "$how: those under way are renewed here");

    $how eq 'killed' ? $redis->start : $redis->resume;
    ok(is_back(), "$how: Redis is back");
    ok(wait_until('the renewal', 5, sub { members('a') == 4 && members('d') == 8 && members('b') == 2 && members('c') == 1 }), "$how: Redis knows all that are under way, and no other")
        or diag(join ' ', map { members($_) } qw(a b c d));
    is(remains('look', 'd'), 0, "$how: those admitted meanwhile count beyond the limit");
    answer($_) for @allowed, @more;
    ok(wait_until('their end', 5, sub { members('a') == 2 && members('d') == 0 }), "$how: until they end") or diag(join ' ', map { members($_) } qw(a d));
    push @before, begin('/local?k=a');
}

# ---- away again at once: what was entered here before is not counted twice

$redis->kill;
ok(is_away(), 'Redis is away again');
ok(wait_until('all workers', 10, sub { remains('seen', 'a') eq 3 }), 'each counts once') or diag(remains('seen', 'a'));
answer($_) for @before;
ok(wait_until('their end', 5, sub { remains('seen', 'a') eq 6 }), 'until it ends');
$redis->start;
ok(is_back(), 'Redis is back');
answer($_) for @other, @strict;
ok(wait_until('all to be gone', 8, sub { $redis->cli('DBSIZE') == 0 }), 'nothing stays in Redis') or diag($redis->cli('KEYS', '*'));

# ---- a connection that is lost

my $lasting = begin('/local?k=e');
$redis->cli(qw(CLIENT KILL TYPE normal SKIPME yes));
answer($lasting);
ok(wait_until('the end', 5, sub { members('e') == 0 }), 'a lost connection loses no give-back');
is(scrape($port)->{'sliding_log_store_take_backs_lost_total{store="default",node="' . $redis->address . '"}'} // 0, 0, 'none is counted as lost');

# ---- Redis refuses to write

my $waiting = begin('/local?k=f');
$redis->cli(qw(CONFIG SET maxmemory-policy noeviction));
$redis->cli(qw(CONFIG SET maxmemory 1));
sleep 5;    # longer than the lease
is(members('f'), 1, 'without memory those under way are renewed');
$redis->cli(qw(CONFIG SET maxmemory 0));
answer($waiting);
ok(wait_until('the end', 5, sub { members('f') == 0 }), 'and given back');

# ---- the script is lost

$waiting = begin('/local?k=g');
$redis->cli(qw(SCRIPT FLUSH));
$redis->cli(qw(DEL rl:sliding:at:{g}));
ok(wait_until('the renewal', 8, sub { members('g') == 1 }), 'a renewal that misses its script loads it');
answer($waiting);
ok(wait_until('the end', 5, sub { members('g') == 0 }), 'and the entry is given back');

$bed->done;
