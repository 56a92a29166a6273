# 3,000 requests at once over two nginx nodes of four workers each: exactly the limit passes, and all of it is logged.

use strict;
use warnings;
use Test::More;
use Testbed;
use Testbed::Http qw(many);

my $bed   = Testbed->new;
my $redis = $bed->redis;

my $conf = <<'END';
%%GLOBALS%%
worker_processes %%WORKERS%%;
events { worker_connections 1024; }
http {
    %%HTTP%%
    access_log off;
    sliding_log_redis { server %%REDIS%%; timeout 10s; connect_timeout 5s; }
    server {
        listen 127.0.0.1:%%PORT%% reuseport;
        location / {
            sliding_log_limit exact key=$arg_k limit=500 window=1h;
            sliding_log_on_error allow;
            empty_gif;
        }
    }
}
END

my @nodes = map { $bed->nginx($conf, REDIS => $redis->address, WORKERS => 4) } 1 .. 2;

my @answers = many([map { [$nodes[$_ % 2]->port, '/?k=flood'] } 1 .. 3000]);
is(scalar(grep { $_->{status} == 200 } @answers), 500,  'exactly the limit passes');
is(scalar(grep { $_->{status} == 429 } @answers), 2500, 'all others are denied');
is($redis->cli('ZCARD', 'rl:sliding:exact:{flood}'), 500, 'every admitted request is in the log');

@answers = many([map { [$nodes[0]->port, "/?k=key" . $_ % 4] } 1 .. 2400]);
is(scalar(grep { $_->{status} == 200 } @answers), 2000, 'four keys have a limit each');
is($redis->cli('ZCARD', "rl:sliding:exact:{key$_}"), 500, "the log of key $_ is full") for 0 .. 3;

$bed->done;
