# $sliding_log_* in the access log and in fields, with and without a decision; the line a denial writes; dry run.

use strict;
use warnings;
use Test::More;
use Testbed qw(wait_until);
use Testbed::Http qw(get field);

my $bed   = Testbed->new;
my $redis = $bed->redis;
my $nginx = $bed->nginx(<<'END', REDIS => $redis->address);
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    log_format limits '$uri status=$sliding_log_status source=$sliding_log_source name=$sliding_log_name '
                      'limit=$sliding_log_limit left=$sliding_log_remaining reset=$sliding_log_reset '
                      'retry=$sliding_log_retry_after wait=$sliding_log_latency;';
    access_log %%DIR%%/access.log limits;
    sliding_log_redis { server %%REDIS%%; timeout 5s; connect_timeout 5s; }
    server {
        listen 127.0.0.1:%%PORT%%;
        location /one { sliding_log_limit one key=$arg_k limit=1 window=10s; empty_gif; }
        location /two {
            sliding_log_limit wide key=$arg_k limit=100 window=1h;
            sliding_log_limit tight key=$arg_k limit=2 window=10s;
            add_header X-Name $sliding_log_name always;
            empty_gif;
        }
        location /dry {
            sliding_log_limit dry key=$arg_k limit=1 window=10s id=$request_id;
            sliding_log_dry_run on;
            empty_gif;
        }
        location /quiet { sliding_log_limit quiet key=$arg_k limit=0 window=10s; sliding_log_log_level info; empty_gif; }
        location /bad   { sliding_log_limit bad key=$arg_k limit=$arg_l window=10s; sliding_log_on_error deny; empty_gif; }
        location /open  { sliding_log_limit open key=$arg_k limit=$arg_l window=10s; sliding_log_on_error allow; empty_gif; }
        location /free  { empty_gif; }
    }
}
END
my $port = $nginx->port;

sub logged {
    my ($uri, $nth) = @_;
    my @lines;
    wait_until("$nth lines of $uri", 5, sub {
        @lines = grep { /^\Q$uri\E / } split /\n/, Testbed::Process::slurp($nginx->dir . '/access.log');
        @lines >= $nth;
    });
    return $lines[$nth - 1];
}

get($port, '/free');
is(logged('/free', 1), '/free status=- source=- name=- limit=- left=- reset=- retry=- wait=-;', 'no limit: all empty');
get($port, '/one');
is(logged('/one', 1), '/one status=- source=- name=- limit=- left=- reset=- retry=- wait=-;', 'an empty key: the same');
get($port, '/one?k=a') for 1 .. 2;
like(logged('/one', 2), qr{^/one status=PASSED source=redis name=one limit=1 left=0 reset=10 retry=- wait=0\.\d{3};$}, 'passed');
like(logged('/one', 3), qr{^/one status=REJECTED source=redis name=one limit=1 left=0 reset=10 retry=10 wait=0\.\d{3};$}, 'rejected');
my $line = qr/\[error\].*limiting requests, by limit "one": 1 in 10000ms, next in \d+ms, client: 127\.0\.0\.1/;
is($nginx->logged($line), 1, 'a denial writes one line');

is(field(get($port, '/two?k=a'), 'X-Name'), 'tight', 'the one with the least remaining decides');
get($port, '/two?k=a') for 1 .. 2;
like(logged('/two', 3), qr/status=REJECTED source=redis name=tight limit=2 left=0/, 'then the one that denied');

get($port, '/dry?k=a');
my $over = get($port, '/dry?k=a');
is($over->{status}, 200, 'dry run admits what is over the limit');
is(field($over, 'Retry-After'), undef, 'without Retry-After');
like(logged('/dry', 2), qr/status=REJECTED_DRY_RUN source=redis name=dry limit=1 left=0 reset=10 retry=- /, 'and says so');
is($nginx->logged(qr/limiting requests, dry run, by limit "dry"/), 1, 'also in the error log');
is($redis->cli(qw(ZCARD rl:sliding:dry:{a})), 1, 'the log is as it would be');
like($redis->cli(qw(ZRANGE rl:sliding:dry:{a} 0 -1)), qr/^[0-9a-f]{32}$/, 'id=$request_id names the entry');

is(get($port, '/quiet?k=a')->{status}, 429, 'denied at level info');
is($nginx->logged(qr/\[info\].*limiting requests, by limit "quiet": 0 in 10000ms, client/), 1, 'sliding_log_log_level');

# a limit from a variable
is(get($port, '/bad?k=a&l=')->{status},  200, 'an empty limit: it does not apply');
is(get($port, '/bad?k=a&l=2')->{status}, 200, 'a number');
is(get($port, '/bad?k=a&l=0')->{status}, 429, 'zero denies');
for my $text (qw(-1 1.5 1e3 many 99999999999999999999), '%202') {
    is(get($port, "/bad?k=a&l=$text")->{status}, 503, "limit $text: a store error, which on_error denies");
}
like(logged('/bad', 4), qr/status=REJECTED source=error name=bad limit=- left=- reset=- retry=1 /, 'as the log tells');
is(get($port, '/open?k=a&l=many')->{status}, 200, 'on_error allow admits it');
like(logged('/open', 1), qr/status=PASSED source=error name=open limit=- left=- reset=- retry=- /, '  as the log tells');
is($redis->cli(qw(EXISTS rl:sliding:open:{a})), 0, '  and no log knows of it');
cmp_ok($nginx->logged(qr/limit "bad": invalid "limit" value "many", expected a whole number/), '==', 1, 'with its cause');

$bed->done;
