# algorithm=compact: exact over nodes, small, all or nothing beside algorithm=log, and taken back exactly.

use strict;
use warnings;
use Test::More;
use Testbed qw(conf wait_until);
use Testbed::Http qw(get field flood);

my $bed   = Testbed->new;
my $redis = $bed->redis;
my $conf  = conf(
    workers => 4,
    listen  => 'reuseport',
    store   => 'server %%REDIS%%; timeout 20s; connect_timeout 5s;',
    http    => 'sliding_log_on_error deny;',
    server  => <<'END',
    location / {
        sliding_log_limit exact key=$arg_k limit=500 window=1h algorithm=compact;
        empty_gif;
    }
    location /small {
        sliding_log_limit small key=$arg_k limit=1000 window=1d algorithm=compact cap=1500;
        empty_gif;
    }
    location /audited {
        sliding_log_limit quota key=$arg_k limit=5 window=1h algorithm=compact;
        sliding_log_limit audit key=$arg_k limit=3 window=1h algorithm=log cap=off;
        empty_gif;
    }
    location /reversed {
        sliding_log_limit wide   key=$arg_k limit=5 window=1h algorithm=log;
        sliding_log_limit narrow key=$arg_k limit=3 window=1h algorithm=compact;
        empty_gif;
    }
    location /slides { sliding_log_limit slides key=$arg_k limit=2 window=700ms algorithm=compact; empty_gif; }
END
);

my @nodes = map { $bed->nginx($conf, REDIS => $redis->address) } 1 .. 2;
my $port  = $nodes[0]->port;

sub key { return "rl:sliding:$_[0]:{$_[1]}" }
sub entries { return unpack 'x13 N', $_[0] }    # of a compact log, as in its head

sub compact_entries {
    my ($key) = @_;
    my $hex = $redis->cli('EVAL', 'return (redis.call("GETRANGE", KEYS[1], 0, 16):gsub(".", function(c) return ("%02x"):format(c:byte()) end))', 1, $key);
    return entries(pack 'H*', $hex);
}
sub statuses { my %seen = @_; return join ' ', map { "$_:$seen{$_}" } sort keys %seen }

$redis->pause;
my $seen = flood([map { [$nodes[$_ % 2]->port, '/?k=flood'] } 1 .. 3000], sub { $redis->resume });
is(statuses(%$seen), '200:500 429:2500', '3,000 at once over two nodes of four workers: exactly the limit passes');
is($redis->cli('TYPE', key('exact', 'flood')), 'string', 'a compact log is a STRING');
is(compact_entries(key('exact', 'flood')), 500, 'a compact log has every admitted request');
cmp_ok($redis->cli('PTTL', key('exact', 'flood')), '>', 3_600_000, 'a compact log outlives its window');

flood([map { [$nodes[$_ % 2]->port, '/small?k=a'] } 1 .. 1000], sub { });
cmp_ok($redis->cli('MEMORY', 'USAGE', key('small', 'a'), 'SAMPLES', 0), '<', 2000, 'a compact log of 1,000 requests takes less than 2,000 bytes, with the key');

my $answer = get($port, '/small?k=b');
is(field($answer, 'RateLimit'), '"small";r=999;t=86400', 'algorithm=compact has the response fields of any other');

# a limit of another algorithm beside it: in any order, a denial by one leaves the other unchanged
for my $case (['/audited', 'quota', 'audit'], ['/reversed', 'narrow', 'wide']) {
    my ($path, $compact, $log) = @$case;
    my @statuses = map { get($nodes[$_ % 2]->port, "$path?k=c")->{status} } 1 .. 6;
    is("@statuses", '200 200 200 429 429 429', "$path: the smaller limit decides");
    ok(wait_until('what was taken back', 5, sub { compact_entries(key($compact, 'c')) == 3 }), "$path: the compact log holds three");
    ok(wait_until('what was taken back', 5, sub { $redis->cli('ZCARD', key($log, 'c')) == 3 }), "$path: the other log holds three");
}

is(join(' ', map { get($port, '/slides?k=s')->{status} } 1 .. 3), '200 200 429', 'a short window denies the third request');
ok(wait_until('the window to slide', 5, sub { get($port, '/slides?k=s')->{status} == 200 }), 'a short window slides');

# another algorithm for the same NAME: a key of the old type is refused and logged until it expires
$redis->cli('ZADD', key('exact', 'old'), 1, 'entry');
is(get($port, '/?k=old')->{status}, 503, 'a key of the other algorithm cannot be used');
cmp_ok($nodes[0]->logged(qr/WRONGTYPE/), '>=', 1, 'a key of the other algorithm: the error log says why');
$redis->cli('DEL', key('exact', 'old'));
is(get($port, '/?k=old')->{status}, 200, 'a key of the other algorithm is gone: a new log begins');

$bed->done;
