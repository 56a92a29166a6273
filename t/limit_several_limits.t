# Several limits of one request are all or nothing, in one store and in two; inheritance, `off`, changed limits.

use strict;
use warnings;
use Test::More;
use Testbed qw(conf wait_until);
use Testbed::Http qw(get field many);

my $bed   = Testbed->new;
my $one   = $bed->redis;
my $two   = $bed->redis;
my $conf  = conf(
    workers => 2,
    http    => <<'HTTP',
    sliding_log_redis one { server %%ONE%%; timeout 5s; connect_timeout 5s; }
    sliding_log_redis two { server %%TWO%%; timeout 5s; connect_timeout 5s; reconnect 10ms 50ms; }
    sliding_log_on_error deny;
    server {
        listen 127.0.0.1:%%PORT2%%;
        sliding_log_limit server key=$arg_k limit=100 window=1h;
        location /inherited { empty_gif; }
        location /own { sliding_log_limit own key=$arg_k limit=100 window=1h; empty_gif; }
        location /off { sliding_log_limit off; empty_gif; location /off/on { sliding_log_limit deep key=$arg_k limit=9 window=1h; empty_gif; } }
    }
HTTP
    server  => <<'END',
    location /same {
        sliding_log_limit small key=$arg_k limit=%%SMALL%% window=1h;
        sliding_log_limit large key=$arg_k limit=10 window=1d;
        empty_gif;
    }
    location /apart {
        sliding_log_limit there key=$arg_k limit=3 window=1h store=two;
        sliding_log_limit here key=$arg_k limit=10 window=1d store=one id=$request_id;
        empty_gif;
    }
    location /mixed {
        sliding_log_limit far key=$arg_k limit=2 window=1d store=one;
        sliding_log_limit near key=$arg_k limit=5 window=1h store=local;
        empty_gif;
    }
    location /near { sliding_log_limit near key=$arg_k limit=5 window=1h store=local; empty_gif; }
    location /allow {
        sliding_log_limit here key=$arg_k limit=10 window=1d store=one id=$request_id;
        sliding_log_limit there key=$arg_k limit=3 window=1h store=two;
        sliding_log_on_error allow;
        empty_gif;
    }
END
);
my $nginx = $bed->nginx($conf, ONE => $one->address, TWO => $two->address, SMALL => 4);
my $port  = $nginx->port;

sub counts { my ($key, %in) = @_; return join ' ', map { $in{$_}->cli('ZCARD', "rl:sliding:$_:{$key}") } sort keys %in }

my @answers = many([map { [$port, '/same?k=a'] } 1 .. 200]);
is(scalar(grep { $_->{status} == 200 } @answers), 4, 'one store: the smaller limit decides');
is(counts('a', small => $one, large => $one), '4 4', 'one store: a request that the smaller limit denied is in neither log');

@answers = many([map { [$port, '/apart?k=a'] } 1 .. 200]);
is(scalar(grep { $_->{status} == 200 } @answers), 3, 'two stores: the smaller limit decides');
wait_until('entries to be taken back', 5, sub { counts('a', here => $one, there => $two) eq '3 3' });
is(counts('a', here => $one, there => $two), '3 3', 'two stores: the entries of denied requests in the larger limit are taken back');
get($port, '/apart?k=f') for 1 .. 3;
like(field(get($port, '/apart?k=f'), 'RateLimit'), qr/^"there";r=0;t=\d+, "here";r=7;t=\d+$/, 'two stores: the fields list each asked limit in the configured order');
like(field(get($port, '/apart?k=f'), 'RateLimit'), qr/^"there";r=0;t=\d+$/, 'two stores: no other store is asked with a known denial');

@answers = many([map { [$port, '/mixed?k=a'] } 1 .. 100]);
is(scalar(grep { $_->{status} == 200 } @answers), 2, 'a Redis and the local store: the smaller limit decides');
like(field(get($port, '/near?k=a'), 'RateLimit'), qr/^"near";r=2;t=\d+$/, 'a Redis and the local store: denied requests are not in the local log');
get($port, '/near?k=a') for 1 .. 2;
is(get($port, '/mixed?k=b')->{status} . get($port, '/mixed?k=a')->{status}, '200429', 'a Redis and the local store: each key has its own limits');

$two->kill;
wait_until('the second store to be missed', 5, sub { get($port, '/apart?k=b')->{status} == 503 });
my $answer = get($port, '/apart?k=c');
is($answer->{status}, 503, 'one store down, on_error deny: a request is denied');
is(field($answer, 'RateLimit'), '"here";r=10;t=86400', 'one store down, on_error deny: the fields have what is known, and nothing was taken');
wait_until('the entry to be taken back', 5, sub { $one->cli(qw(ZCARD rl:sliding:here:{c})) == 0 });
is($one->cli(qw(ZCARD rl:sliding:here:{c})), 0, 'one store down, on_error deny: the other store keeps no entry of a denied request');
is(get($port, '/allow?k=d')->{status}, 200, 'one store down, on_error allow: a request passes');
is($one->cli(qw(ZCARD rl:sliding:here:{d})), 1, 'one store down, on_error allow: the other store counts');
is(scalar(grep { get($port, '/allow?k=d')->{status} == 429 } 1 .. 12), 3, 'one store down, on_error allow: the other store denies');
$two->start;
ok(wait_until('the second store', 5, sub { get($port, '/apart?k=e')->{status} == 200 }), 'one store back: a request passes');

# inheritance
my $port2 = $nginx->port('PORT2');
get($port2, "/$_?k=i") for qw(inherited own off off/on);
is($one->cli(qw(ZCARD rl:sliding:server:{i})), 1, 'a level without limits inherits');
is($one->cli(qw(ZCARD rl:sliding:own:{i})),    1, 'a level with limits has only its own');
is($one->cli(qw(ZCARD rl:sliding:deep:{i})),   1, 'off ends at the next level with limits');
is(field(get($port2, '/off?k=i'), 'RateLimit'), undef, 'off is an empty list');

# the limit is not a part of the log
is(get($port, '/same?k=a')->{status}, 429, 'a limit of 4 is full');
$nginx->{values}{SMALL} = 6;
$nginx->configure($conf)->reload(gone => 1);
is(join(' ', map { get($port, '/same?k=a')->{status} } 1 .. 3), '200 200 429', 'a limit raised to 6 admits two more');
$nginx->{values}{SMALL} = 2;
$nginx->configure($conf)->reload(gone => 1);
is(get($port, '/same?k=a')->{status}, 429, 'a limit lowered to 2 admits none');
is($one->cli(qw(ZCARD rl:sliding:large:{a})), 6, 'a changed limit does not change the other log');

$bed->done;
