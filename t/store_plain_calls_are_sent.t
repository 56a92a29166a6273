# Which calls nginx sends as plain calls. A plain call that meets an unusual case gets a reply: nothing is sent again,
# no other script is loaded, and the request is counted once. The documented rights are sufficient.

use strict;
use warnings;
use Test::More;
use Testbed qw(wait_until);
use Testbed::Acl qw(documented_rule);
use Testbed::Http qw(get field many);
use Testbed::Metrics qw(scrape);

my $bed   = Testbed->new;
my $redis = $bed->redis;
$redis->cli('ACL', 'SETUSER', 'limiter', split(' ', documented_rule('limiter', 'secret')), qw(+zscore +get +hgetall +hset +hincrby));    # zscore: block=, get: override=, h…: counter, bucket
my $nginx = $bed->serve(
    REDIS       => $redis->address,
    connections => 64,
    events      => 'multi_accept on;',
    http        => <<'HTTP',
    sliding_log_redis        { server %%REDIS%%; timeout 2s; connect_timeout 2s; username limiter; password secret; }
    sliding_log_redis caller { server %%REDIS%%; timeout 2s; connect_timeout 2s; username limiter; password secret; clock nginx; }
    sliding_log_on_error deny;
    add_header X-Source $sliding_log_source always;
HTTP
    server      => <<'END',
    location /log     { sliding_log_limit log key=$arg_k limit=3 window=1h; empty_gif; }
    location /compact { sliding_log_limit compact key=$arg_k limit=3 window=1h algorithm=compact; empty_gif; }
    location /caller  { sliding_log_limit caller key=$arg_k limit=3 window=1h store=caller; empty_gif; }
    location /cost    { sliding_log_limit cost key=$arg_k limit=3 window=1h cost=2; empty_gif; }
    location /costs   { sliding_log_limit costs key=$arg_k limit=300000 window=1h algorithm=compact cost=$arg_c; empty_gif; }
    location /blocks  { sliding_log_limit log key=$arg_k limit=3 window=1h block=1m; empty_gif; }
    location /delays  { sliding_log_limit delays key=$arg_k limit=3 window=1h delay=5s; empty_gif; }
    location /record  { sliding_log_limit record key=$arg_k limit=3 window=1h algorithm=compact cost=2 override=on; empty_gif; }
    location /id      { sliding_log_limit id key=$arg_k limit=3 window=1h id=$arg_i block=1m; empty_gif; }
    location /ids     { sliding_log_limit first key=$arg_k limit=3 window=1h id=$arg_i; sliding_log_limit second key=$arg_k limit=5 window=2h id=$arg_i; empty_gif; }
    location /counts  { sliding_log_limit counts key=$arg_k limit=3 window=1h count=all block=1m; empty_gif; }
    location /two     { sliding_log_limit one key=$arg_k limit=3 window=1h; sliding_log_limit two key=$arg_k limit=3 window=1h; empty_gif; }
    location /compacts { sliding_log_limit three key=$arg_k limit=2 window=1h algorithm=compact; sliding_log_limit four key=$arg_k limit=3 window=2h algorithm=compact; empty_gif; }
    location /counter { sliding_log_limit counter key=$arg_k limit=3 window=1h algorithm=counter cost=$arg_c; empty_gif; }
    location /bucket  { sliding_log_limit bucket key=$arg_k limit=3 window=1h algorithm=bucket burst=4 cost=$arg_c block=1m; empty_gif; }
    location /counters { sliding_log_limit five key=$arg_k limit=2 window=1h algorithm=counter; sliding_log_limit six key=$arg_k limit=3 window=2h algorithm=counter; empty_gif; }
    location /buckets  { sliding_log_limit seven key=$arg_k limit=2 window=1h algorithm=bucket; sliding_log_limit eight key=$arg_k limit=3 window=2h algorithm=bucket burst=2; empty_gif; }
    location /both    { sliding_log_limit log key=$arg_k limit=3 window=1h; sliding_log_limit compact key=$arg_k limit=3 window=1h algorithm=compact; empty_gif; }
    location /three   { sliding_log_limit one key=$arg_k limit=3 window=1h; sliding_log_limit two key=$arg_k limit=3 window=1h; sliding_log_limit log key=$arg_k limit=3 window=1h; empty_gif; }
    location /option  { sliding_log_limit one key=$arg_k limit=3 window=1h; sliding_log_limit two key=$arg_k limit=3 window=1h block=1m; empty_gif; }
    location /metrics { sliding_log_metrics; }
END
);
my $port = $nginx->port;

# The script calls since SLOWLOG was reset, oldest first: keys and arguments after them, "2:7".
sub calls_and_arguments {
    return split / /, $redis->cli('EVAL', <<'LUA', 0);
local told = {}
for _, entry in ipairs(redis.call('SLOWLOG', 'GET', '128')) do
  if string.upper(entry[4][1]) == 'EVALSHA' then
    table.insert(told, 1, entry[4][3] .. ':' .. #entry[4] - 3 - entry[4][3])
  end
end
return table.concat(told, ' ')
LUA
}
sub arguments { return join ' ', map { s/.*://r } calls_and_arguments() }

# The status and source of a request, and the number of arguments after the keys of each of its script calls.
sub asked {
    my ($path) = @_;
    $redis->cli('CONFIG', 'SET', 'slowlog-log-slower-than', 0);
    $redis->cli('SLOWLOG', 'RESET');
    my $answer = get($port, $path);
    return "$answer->{status} " . (field($answer, 'X-Source') // '') . ': ' . arguments();
}

asked("$_?k=first") for qw(/log /compact /caller /counters /buckets);    # loads the scripts
is(asked('/log?k=a'),     '200 redis: 4',  'log: a plain call, with the name of the request');
is(asked('/compact?k=a'), '200 redis: 3',  'compact: a plain call');
is(asked('/caller?k=a'),  '200 redis: 9',  'clock nginx: none');
is(asked('/cost?k=a'),    '200 redis: 9',  'log with a cost: none');
is(asked('/costs?k=a&c=100000'), '200 redis: 4', 'compact with a cost: a plain call, which has it');
is(asked('/costs?k=a&c=200001'), '429 redis: 4', 'compact with a cost that does not fit: a plain call');
is(asked('/costs?k=a&c=200000'), '200 redis: 4', 'compact with a cost that just fits: a plain call');
is(asked('/costs?k=c&c=300001'), '429 redis: 4', 'compact with a cost above the limit: a plain call');
is(asked('/costs?k=c&c=300002'), '429 cache: ', 'compact with a larger cost: none, that of the smaller one is known');
is(asked('/costs?k=b&c=0'),      '200 redis: 9', 'compact with a cost of 0: none');
is(asked('/costs?k=b&c=1'),      '200 redis: 3', 'compact with a cost of 1: as without');
is(asked('/two?k=a'),     '200 redis: 8',  'two limits: a plain call, with one name and the numbers of both');
is(asked('/compacts?k=a'), $_, 'two limits of compact: a plain call, also if one denies') for '200 redis: 7', '200 redis: 7', '429 redis: 7';
is(asked('/counter?k=a&c=1'), '200 redis: 3', 'counter: a plain call');
is(asked('/counter?k=a&c=2'), '200 redis: 4', 'counter with a cost: a plain call, which has it');
is(asked('/counter?k=a&c=2'), '429 redis: 4', 'counter with a cost that does not fit: a plain call');
is(asked('/bucket?k=a&c=1'),  '200 redis: 4', 'bucket: a plain call, which has the burst and other options');
is(asked('/bucket?k=a&c=3'),  '200 redis: 5', 'bucket with a cost: a plain call, which has it, too');
is(asked('/bucket?k=a&c=1'),  '429 redis: 4', 'bucket that denies: a plain call');
is(asked('/counters?k=a'), $_, 'two limits of counter: a plain call, also if one denies') for '200 redis: 7', '200 redis: 7', '429 redis: 7';
is(asked('/buckets?k=a'), $_, 'two limits of bucket: a plain call, also if one denies') for '200 redis: 9', '200 redis: 9', '429 redis: 9';
is(asked('/both?k=d'),    '200 redis: 4 3', 'two limits of different algorithms: two plain calls');
is(asked('/three?k=d'),   '200 redis: 11', 'three limits: none');
is(asked('/option?k=d'),  '200 redis: 14', 'two limits, one of which has an option: none');
is(asked('/delays?k=a'),  '200 redis: 5', 'delay: a plain call, which has it');
is(asked('/record?k=a'),  '200 redis: 5', 'override, and a cost: a plain call, which has both');
$redis->cli('SET', 'rl:sliding:record:{a}:override', 'allow until=0 since=1 by=a why=');
is(asked('/record?k=a'),  '200 override: 5', 'override: a plain call meets a record');
is(asked('/id?k=a&i=a'),  '200 redis: 10', 'id: none');
is(asked('/id?k=two&i=two'), '200 redis: 10', 'an id that is the last word of a plain call of two limits: none');
is(asked('/ids?k=two&i=two'), '200 redis: 16', 'the same in two logs: none');
is($redis->cli('ZSCORE', 'rl:sliding:second:{two}', 'two') > 0 ? 1 : 0, 1, 'such an id is the name of the entry');
is(asked('/counts?k=a'),  '200 redis: 9', 'count=all: none');

# Several logs of one limit: one plain call, which has a name for each and the three numbers of all.
{
    $redis->cli('SLOWLOG', 'RESET');
    kill 'STOP', $nginx->workers;    # so that it reads all requests at once
    my @answers = many([map { [$port, "/log?k=many$_"] } 1 .. 8], at_once => 8, when_sent => sub { kill 'CONT', $nginx->workers });    # SLOWLOG shows no more than 32 words
    is(scalar(grep { $_->{status} == 200 } @answers), 8, 'requests for eight logs are admitted');
    my @calls = calls_and_arguments();
    cmp_ok(scalar @calls, '<', 8, 'they are sent in fewer calls');
    is_deeply([grep { my ($logs, $arguments) = split /:/; $arguments != $logs + 3 } @calls], [], 'all of these are plain');
}

# The same of two limits: a plain call has a name for each request, and the numbers of both logs.
{
    $redis->cli('SLOWLOG', 'RESET');
    kill 'STOP', $nginx->workers;
    my @answers = many([map { [$port, "/two?k=many$_"] } 1 .. 6], at_once => 6, when_sent => sub { kill 'CONT', $nginx->workers });
    is(scalar(grep { $_->{status} == 200 } @answers), 6, 'six requests with two limits are admitted');
    my @calls = calls_and_arguments();
    cmp_ok(scalar @calls, '<', 6, 'they are sent in fewer calls');
    is_deeply([grep { my ($logs, $arguments) = split /:/; $arguments != $logs / 2 + 7 } @calls], [], 'all of these are plain');
}

my $loads    = $redis->calls('script|load');
my $requests = scrape($port)->value('sliding_log_store_requests_total', store => 'default', node => $redis->address);
is(asked('/log?k=a'), '200 redis: 4', 'log: the second request is admitted');
is(asked('/log?k=a'), '200 redis: 4', 'log: the third request is admitted');
is(asked('/blocks?k=a'), '429 redis: 5', 'log: another location blocks the key, by a plain call that has its options');
is(asked('/log?k=a'), '429 redis: 4', 'log: a plain call meets the block and is denied');
$redis->cli('SET', 'rl:sliding:log:{b}', 'foreign');
is(asked('/log?k=b'), '503 error: 4', 'log: a key of another type is refused in one call');
$redis->cli('HSET', 'rl:sliding:compact:{b}', 'foreign', 1);
is(asked('/compact?k=b'), '503 error: 3', 'compact: a key of another type is refused in one call');
is($redis->calls('script|load'), $loads, 'no other script was loaded');
is(scrape($port)->value('sliding_log_store_requests_total', store => 'default', node => $redis->address), $requests + 6,
    'each of the six requests was counted once');

# A plain call of two limits changes no log if one of them cannot be read. Then each is asked alone, which tells whose fault
# that is, and what the other one has counted is taken back.
$redis->cli('SET', 'rl:sliding:two:{b}', 'foreign');
like(asked('/two?k=b'), qr/^503 error: 8 4 4/, 'two limits: a key of another type is refused, then each is asked alone');
ok(wait_until('the take-back', 5, sub { arguments() eq '8 4 4 12' }), 'two limits: what the other one has counted is taken back');
is($redis->cli('EXISTS', 'rl:sliding:one:{b}'), 0, 'two limits: nothing is in the other log');

$bed->done;
