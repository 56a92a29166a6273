# cap and slack, and several locations with the same NAME, hence the same log: a smaller limit or cap never removes
# entries that a larger one needs, in another location or on another node.

use strict;
use warnings;
use Test::More;
use Testbed qw(conf);
use Testbed::Http qw(get field);

my $bed   = Testbed->new;
my $redis = $bed->redis;
my $conf  = conf(redis => '%%REDIS%%', server => <<'END');
    location /small { sliding_log_limit shared key=$arg_k limit=2 window=1h; empty_gif; }
    location /large { sliding_log_limit shared key=$arg_k limit=8 window=60m slack=6m; empty_gif; }
    location /slack { sliding_log_limit slack key=$arg_k limit=9 window=10s slack=30s; empty_gif; }
    location /tenth { sliding_log_limit tenth key=$arg_k limit=9 window=100s; empty_gif; }
    location /none  { sliding_log_limit none key=$arg_k limit=9 window=10s slack=0; empty_gif; }
    location /cap     { sliding_log_limit cap key=$arg_k limit=%%LIMIT%% window=1h cap=%%CAP%%; empty_gif; }
    location /default { sliding_log_limit default key=$arg_k limit=%%LIMIT%% window=1h; empty_gif; }
    location /audit   { sliding_log_limit audit key=$arg_k limit=%%LIMIT%% window=1h cap=off; empty_gif; }
    location /tenant  { sliding_log_limit tenant key=$arg_k limit=$arg_l window=1h; empty_gif; }
    location /capped  { sliding_log_limit capped key=$arg_k limit=$arg_l window=1h cap=3; empty_gif; }
END
my $nginx = $bed->nginx($conf, REDIS => $redis->address, LIMIT => 20, CAP => 20);
my $port  = $nginx->port;

sub zcard { return $redis->cli('ZCARD', "rl:sliding:$_[0]:{a}") }
sub pttl  { return $redis->cli('PTTL',  "rl:sliding:$_[0]:{a}") }
sub ask { my ($path, $times) = @_; return join ' ', map { get($port, "$path?k=a")->{status} } 1 .. $times }

# one NAME in two locations
is(ask('/large', 5), '200 200 200 200 200', 'one NAME in two locations: the larger limit admits five');
is(ask('/small', 1), '429', 'one NAME in two locations: the smaller limit counts those of the larger one');
is(field(get($port, '/small?k=a'), 'RateLimit'), '"shared";r=0;t=3600', 'one NAME in two locations: the smaller limit has none left');
is(zcard('shared'), 5, 'one NAME in two locations: the smaller limit removes nothing');
is(ask('/large', 4), '200 200 200 429', 'one NAME in two locations: the larger limit still knows all requests');

# time to live
for my $case ([slack => 40_000], [tenth => 110_000], [none => 10_000]) {
    my ($name, $ttl) = @$case;
    ask("/$name", 1);
    my $left = pttl($name);
    ok($left <= $ttl && $left > $ttl - 5_000, "$name: time to live is window + slack") or diag($left);
}
is(ask('/none', 1), '200', 'slack=0: a request is admitted');

# cap: nothing is removed when the limit was lowered, since another node may still have the larger limit
for my $path (qw(/cap /default /audit)) {
    is(ask($path, 20), join(' ', (200) x 20), "$path: 20 are admitted");
}
$nginx->{values}{LIMIT} = 5;
$nginx->{values}{CAP}   = 7;
$nginx->configure($conf)->reload(gone => 1);
for my $path (qw(/cap /default /audit)) {
    is(ask($path, 1), '429', "$path, limit lowered to 5: a request is denied");
    is(zcard(substr $path, 1), 20, "$path, limit lowered to 5: the log keeps its entries");
}

# two nodes, as while a limit is raised node by node
my $larger = $bed->serve(redis => $redis, server => <<'END');
    location /default { sliding_log_limit default key=$arg_k limit=20 window=1h; empty_gif; }
END
my $passed = 0;
for (1 .. 40) {
    $passed += get($_, '/default?k=rolled')->{status} == 200 for $larger->port, $port;
}
is($passed, 20, 'limits of 5 and 20 on two nodes: never more than the larger one pass');

# a limit from a variable
is(join(' ', map { get($port, "/tenant?k=a&l=$_")->{status} } 3, 3, 3, 3, 5, 5, 5, 1, 6), '200 200 200 429 200 200 429 429 200',
    'a limit from a variable: each tenant has its own limit, of one log');
is(zcard('tenant'), 6, 'a limit from a variable: the log is not cut by default');
is(join(' ', map { get($port, '/capped?k=a&l=100')->{status} } 1 .. 4), '200 200 200 429', 'a limit from a variable: one above the cap is the cap');

$bed->done;
