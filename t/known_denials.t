# What Redis denied, all workers of the node deny without it, until the slot frees and no longer.

use strict;
use warnings;
use Test::More;
use Testbed qw(wait_until slow);
use Testbed::Http qw(get many field);
use Time::HiRes qw(time);

my $bed   = Testbed->new;
my $redis = $bed->redis;
my $other = $bed->redis;
my $conf  = <<'END';
%%GLOBALS%%
worker_processes 4;
events { worker_connections 1024; }
http {
    %%HTTP%%
    access_log off;
    sliding_log_redis one { server %%REDIS%%; timeout 5s; connect_timeout 5s; reconnect 10ms 50ms; }
    sliding_log_redis two { server %%OTHER%%; timeout 5s; connect_timeout 5s; reconnect 10ms 50ms; }
    add_header X-Source "$sliding_log_source $sliding_log_name $sliding_log_retry_after" always;
    server {
        listen 127.0.0.1:%%PORT%% reuseport;
        location /hour  { sliding_log_limit hour key=$arg_k limit=%%LIMIT%% window=1h; empty_gif; }
        location /short { sliding_log_limit short key=$arg_k limit=1 window=500ms; empty_gif; }
        location /vary  { sliding_log_limit vary key=$arg_k limit=$arg_l window=1h; empty_gif; }
        location /zero  { sliding_log_limit zero key=$arg_k limit=0 window=1h; empty_gif; }
        location /two   { sliding_log_limit a key=$arg_k limit=2 window=1h; sliding_log_limit b key=$arg_k limit=9 window=1d; empty_gif; }
        location /apart {
            sliding_log_limit near key=$arg_k limit=2 window=1h store=one;
            sliding_log_limit far key=$arg_k limit=9 window=1h store=two;
            empty_gif;
        }
    }
}
END
my $nginx = $bed->nginx($conf, REDIS => $redis->address, OTHER => $other->address, LIMIT => 3);
my $port  = $nginx->port;

sub statuses { my %n; $n{ $_->{status} }++ for @_; return join ' ', map { "$_:$n{$_}" } sort keys %n }
sub flood { my ($path, $times) = @_; return many([map { [$port, $path] } 1 .. $times], at_once => 100) }

get($port, '/hour?k=a') for 1 .. 4;
my $before = $redis->calls('evalsha');
my @answers = flood('/hour?k=a', 1000);
is(statuses(@answers), '429:1000', 'a flood on a denied key is denied');
is($redis->calls('evalsha'), $before, 'and none of it reaches Redis');
is(field($answers[-1], 'X-Source'), 'cache hour ' . field($answers[-1], 'Retry-After'), 'the variables say how');
like(field($answers[-1], 'RateLimit'), qr/^"hour";r=0;t=(3600|359\d)$/, 'the fields are those of the denial');
is(get($port, '/hour?k=b')->{status}, 200, 'another key is asked for');

get($port, '/zero?k=a');
$before = $redis->calls('evalsha');
is(statuses(flood('/zero?k=a', 200)), '429:200', 'a limit of 0');
is($redis->calls('evalsha'), $before, 'needs no Redis either');

get($port, '/two?k=a') for 1 .. 3;
$before = $redis->calls('evalsha');
@answers = flood('/two?k=a', 100);
is(statuses(@answers) . ' ' . ($redis->calls('evalsha') - $before), '429:100 0', 'several limits');
like(field($answers[-1], 'RateLimit'), qr/^"a";r=0;t=\d+, "b";r=7;t=\d+$/, '  and the fields list each');

# never longer than the slot is taken
my ($admitted, $start) = (0, time);
while (time - $start < 3) {
    $admitted++ if get($port, '/short?k=a')->{status} == 200;
}
cmp_ok($admitted, '>=', 5, 'a hammered key gets each slot as it frees');
cmp_ok($admitted, '<=', 7, 'and no other');

# other limits of the same log
get($port, '/vary?k=a&l=2') for 1 .. 3;
is(get($port, '/vary?k=a&l=2')->{status}, 429, 'denied at a limit of 2');
is(get($port, '/vary?k=a&l=3')->{status}, 200, 'which says nothing of a limit of 3');
$nginx->{values}{LIMIT} = 5;
$nginx->configure($conf)->reload(gone => 1);
is(join(' ', map { get($port, '/hour?k=a')->{status} } 1 .. 3), '200 200 429', 'a raised limit ends a denial');

# entries that may be taken back make room before their time: such denials are asked again
get($port, '/apart?k=a') for 1 .. 3;
$before = $redis->calls('evalsha');
is(statuses(flood('/apart?k=a', 50)), '429:50', 'limits of two stores');
cmp_ok($redis->calls('evalsha'), '>', $before, 'are asked again');

# a denial is known even when Redis is not there
get($port, '/hour?k=a');
$redis->kill;
is(get($port, '/hour?k=a')->{status}, 429, 'Redis away: what is known is known');
ok(wait_until('the loss to be seen', 5, sub { (field(get($port, '/hour?k=' . rand), 'X-Source') // '') =~ /^local/ }), 'the rest is decided here');
is(field(get($port, '/hour?k=a'), 'X-Source') =~ /^(\w+)/ ? $1 : '', 'cache', 'still');

$bed->done;
