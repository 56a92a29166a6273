# $sliding_log_* in the access log and in fields, with and without a decision; the error log line of a denial; dry run.

use strict;
use warnings;
use Test::More;
use Testbed qw(wait_until);
use Testbed::Http qw(get field);

my $bed   = Testbed->new;
my $redis = $bed->redis;
my $nginx = $bed->serve(
    redis  => $redis,
    http   => <<'HTTP',
    log_format limits '$uri status=$sliding_log_status source=$sliding_log_source name=$sliding_log_name '
                      'limit=$sliding_log_limit left=$sliding_log_remaining reset=$sliding_log_reset '
                      'retry=$sliding_log_retry_after wait=$sliding_log_latency;';
    access_log %%DIR%%/access.log limits;
HTTP
    server => <<'END',
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
    location /cost    { sliding_log_limit cost key=$arg_k limit=5000 window=1h cost=$arg_c; sliding_log_on_error allow; empty_gif; }
    location /costly  { sliding_log_limit costly key=$arg_k limit=5000 window=1h cost=$arg_c; sliding_log_dry_run on; empty_gif; }
    location /dropped { sliding_log_limit dropped key=$arg_k limit=5000 window=1h cost=$arg_c excess=drop; empty_gif; }
    location /short   { sliding_log_limit short key=$arg_k limit=500000 window=1h cost=$arg_c algorithm=compact; empty_gif; }
    location /count   { sliding_log_limit count key=$arg_k limit=500000 window=1h cost=$arg_c algorithm=counter; empty_gif; }
    location /beside  {
        sliding_log_limit plain key=$arg_k limit=5 window=1h;
        sliding_log_limit costs key=$arg_k limit=5 window=1h cost=$arg_c;
        sliding_log_limit all key=$arg_k limit=5 window=1h count=all;
        empty_gif;
    }
    location /free  { empty_gif; }
END
);
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
is(logged('/free', 1), '/free status=- source=- name=- limit=- left=- reset=- retry=- wait=-;', 'no limit: the variables are empty');
get($port, '/one');
is(logged('/one', 1), '/one status=- source=- name=- limit=- left=- reset=- retry=- wait=-;', 'an empty key: the variables are empty');
get($port, '/one?k=a') for 1 .. 2;
like(logged('/one', 2), qr{^/one status=PASSED source=redis name=one limit=1 left=0 reset=10 retry=- wait=0\.\d{3};$},
    'a request that passed: the variables have the decision');
like(logged('/one', 3), qr{^/one status=REJECTED source=redis name=one limit=1 left=0 reset=10 retry=10 wait=0\.\d{3};$},
    'a request that was rejected: the variables have the decision');
my $line = qr/\[error\].*limiting requests, by limit "one": key "a", 1 in 10s, next in (?:10|9)s, by (?:redis|cache), client: 127\.0\.0\.1/;
is($nginx->logged($line), 1, 'a denial writes one line');

is(field(get($port, '/two?k=a'), 'X-Name'), 'tight', 'two limits: the variables show the one with the least remaining');
get($port, '/two?k=a') for 1 .. 2;
like(logged('/two', 3), qr/status=REJECTED source=redis name=tight limit=2 left=0/, 'two limits: the variables show the one that denied');

get($port, '/dry?k=a');
my $over = get($port, '/dry?k=a');
is($over->{status}, 200, 'dry run: a request over the limit is admitted');
is(field($over, 'Retry-After'), undef, 'dry run: the answer has no Retry-After');
like(logged('/dry', 2), qr/status=REJECTED_DRY_RUN source=redis name=dry limit=1 left=0 reset=10 retry=- /, 'dry run: the status is REJECTED_DRY_RUN');
is($nginx->logged(qr/limiting requests, dry run, by limit "dry"/), 1, 'dry run: the error log has the denial');
is($redis->cli(qw(ZCARD rl:sliding:dry:{a})), 1, 'dry run: the log is that of an enforced limit');
like($redis->cli(qw(ZRANGE rl:sliding:dry:{a} 0 -1)), qr/^[0-9a-f]{32}$/, 'id=$request_id names the entry');

is(get($port, '/quiet?k=a')->{status}, 429, 'sliding_log_log_level info: a request is denied');
is($nginx->logged(qr/\[info\].*limiting requests, by limit "quiet": key "a", 0 in 10s, by redis, client/), 1,
    'sliding_log_log_level info: the denial is logged at this level');

# a limit from a variable
is(get($port, '/bad?k=a&l=')->{status},  200, 'a limit from a variable: an empty one does not apply');
is(get($port, '/bad?k=a&l=2')->{status}, 200, 'a limit from a variable: 2 admits');
is(get($port, '/bad?k=a&l=0')->{status}, 429, 'a limit from a variable: 0 denies');
my $begin = time;
for my $place (qw(bad open)) {
    for my $text (qw(-1 1.5 1e3 many 99999999999999999999), '%202') {
        is(get($port, "/$place?k=a&l=$text")->{status}, 429, "/$place: limit $text is denied, whatever on_error says");
    }
    like(logged("/$place", $place eq 'bad' ? 4 : 1), qr/status=REJECTED source=invalid name=$place limit=- left=- reset=- retry=- /,
        "/$place: the source of an invalid limit is \"invalid\"");
}
is($redis->cli(qw(EXISTS rl:sliding:open:{a})), 0, 'a request with an invalid limit is in no log');
my $told = $nginx->logged(qr/\[error\].*limit "bad": invalid "limit" value "/);
ok($told >= 1 && $told <= 1 + time - $begin, 'the error log has an invalid limit at most once a second') or diag($told);
like($nginx->error_log, qr/limit "bad": invalid "limit" value "-1", expected a whole number from 0 to 1000000000000,/,
    'the error log has the invalid limit and what was expected');

is($nginx->logged(qr/by limit "(?:bad|open)".*invalid|store unavailable/), 0, 'the error log has no store error for an invalid limit');

# a cost from a variable
is(get($port, '/cost?k=a&c=')->{status}, 200, 'an empty cost is 1');
is($redis->cli(qw(ZCARD rl:sliding:cost:{a})), 1, 'an empty cost takes one entry');
for my $cost ('x', '-1', '1001') {
    is(get($port, "/cost?k=a&c=$cost")->{status}, 429, "a cost of $cost is denied, on_error allow or not");
    is(get($port, "/dropped?k=a&c=$cost")->{status}, 0, "a cost of $cost is dropped with excess=drop");
    my $dry = get($port, "/costly?k=a&c=$cost");
    is($dry->{status}, 200, "a cost of $cost passes in a dry run");
}
is(get($port, '/cost?k=a&c=1000')->{status}, 200, 'a cost of 1000 is the maximum of algorithm=log');
is($redis->cli(qw(ZCARD rl:sliding:cost:{a})), 1001, 'each entry of a cost is a member');
is(get($port, '/short?k=a&c=100001')->{status}, 200, 'compact: a large cost is a number as any other');
is(get($port, '/count?k=a&c=100001')->{status}, 200, 'counter: a large cost is a number as any other');
is(get($port, '/beside?k=a&c=x')->{status}, 429, 'an invalid cost denies, whichever limit has it');
ok(wait_until('it is taken back', 5, sub { !$redis->cli(qw(EXISTS rl:sliding:plain:{a})) }), 'an invalid cost: the limits beside it do not keep the request');
is($redis->cli(qw(ZCARD rl:sliding:all:{a})), 1, 'an invalid cost: a limit that counts denied attempts logs the request');

$bed->done;
