# +switch-master comes while the worker connects to a master that is gone: it is not lost.

use strict;
use warnings;
use Test::More;
use Testbed qw(wait_until slow);
use Testbed::FakeRedis;
use Testbed::Http qw(get);
use Testbed::Relay;
use Testbed::Stopwatch;

my $bed  = Testbed->new;
my $new  = $bed->redis;
my $gone = Testbed::Relay->new($bed, to => $new->port, deaf => 1);    # its host is off

sub text { my ($text) = @_; return '$' . length($text) . "\r\n$text\r\n" }
sub list { my (@items) = @_; return '*' . @items . "\r\n" . join '', @items }
sub at { my ($server) = @_; return list(text('127.0.0.1'), text($server->port)) }
my $channel = text('+switch-master');
my $switch  = list(text('subscribe'), $channel, ":1\r\n")
    . list(text('message'), $channel, text('limits 127.0.0.1 ' . $gone->port . ' 127.0.0.1 ' . $new->port));
my $sentinel = Testbed::FakeRedis->new($bed, answers => { SENTINEL => [at($gone), at($new)], SUBSCRIBE => $switch });

my $watch = Testbed::Stopwatch->start;
my $nginx = $bed->nginx(<<'END', SENTINEL => $sentinel->port);
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    access_log off;
    sliding_log_redis { mode sentinel limits; server 127.0.0.1:%%SENTINEL%%; timeout 200ms; connect_timeout 10s; reconnect 5s 10s; }
    sliding_log_on_error deny;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / { sliding_log_limit a key=$arg_k limit=100000 window=1h; empty_gif; }
    }
}
END
ok(wait_until('the new master', 20, sub { get($nginx->port, '/?k=1')->{status} == 200 }), '+switch-master while the worker connects: the new master is asked');
cmp_ok($watch->net, '<', 1 + slow(), '+switch-master while the worker connects: the new master is asked at once');

$bed->done;
