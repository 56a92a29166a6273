# override=on: a record beside the log changes the limit of one key while nginx runs, at once, under every algorithm and
# with everything else that a limit can have. Contents that are no record count as none, the error log reports them, and
# no request fails because of them.

use strict;
use warnings;
use Digest::SHA qw(sha1_hex);
use JSON::PP ();
use Test::More;
use Testbed qw(wait_until slow);
use Testbed::Algorithm qw(@ALL_ALGORITHMS horizon);
use Testbed::Http qw(get field many statuses);
use Testbed::Tool qw(tool);
use Time::HiRes qw(time);

my $bed    = Testbed->new;
my $redis  = $bed->redis;
my $other  = $bed->redis;
my $limits = join "\n", map {
    my $horizon = horizon($_, '1h', 'month');
    "location /$_ { sliding_log_limit $_ key=\$arg_k limit=3 $horizon algorithm=$_ override=on" . ($_ eq 'sampled' ? ' sample=1' : '') . '; empty_gif; }'
} @ALL_ALGORITHMS;
my $nginx = $bed->serve(
    workers => 2,
    listen  => 'reuseport',
    REDIS   => $redis->address,
    OTHER   => $other->address,
    how     => '$sliding_log_source $sliding_log_limit $sliding_log_status',
    http    => <<'END',
    sliding_log_redis { server %%REDIS%%; timeout 5s; connect_timeout 5s; reconnect 10ms 50ms; }
    sliding_log_redis fragile { server %%OTHER%%; reconnect 10ms 50ms; }
    sliding_log_log_level info;
    sliding_log_headers all;
END
    server => <<"END");
    $limits
    location /metrics   { sliding_log_metrics; }
    location /board     { sliding_log_dashboard; }
    location /plain     { sliding_log_limit plain key=\$arg_k limit=3 window=1h; empty_gif; }
    location /secret    { sliding_log_limit secret key=\$arg_k limit=3 window=1h secret=on override=on; empty_gif; }
    location /drop      { sliding_log_limit drop key=\$arg_k limit=3 window=1h excess=drop override=on; empty_gif; }
    location /delay     { sliding_log_limit delay key=\$arg_k limit=3 window=1s delay=5s override=on; empty_gif; }
    location /block     { sliding_log_limit block key=\$arg_k limit=3 window=1h block=1h override=on; empty_gif; }
    location /refund    { sliding_log_limit refund key=\$arg_k limit=3 window=1h algorithm=compact refund=404 override=on; try_files /none =404; }
    location /variable  { sliding_log_limit variable key=\$arg_k limit=\$arg_l cost=\$arg_c window=1h override=on; empty_gif; }
    location /dry       { sliding_log_limit dry key=\$arg_k limit=3 window=1h override=on dry_run=on; empty_gif; }
    location /problem   { sliding_log_limit problem key=\$arg_k limit=3 window=1h override=on; sliding_log_answer problem; empty_gif; }
    location /prefetch  { sliding_log_limit prefetch key=\$arg_k limit=100000 window=1h override=on prefetch=100; empty_gif; }
    location /burst     { sliding_log_limit burst key=\$arg_k limit=3 window=1h algorithm=bucket burst=6 override=on; empty_gif; }
    location /here      { sliding_log_limit here key=\$arg_k limit=3 window=1h override=on store=local; empty_gif; }
    location /fragile   { sliding_log_limit fragile key=\$arg_k limit=3 window=1h override=on store=fragile; empty_gif; }
    location /several {
        sliding_log_limit first  key=\$arg_k limit=9 window=1h override=on;
        sliding_log_limit second key=\$arg_k limit=3 window=1h override=on;
        sliding_log_limit third  key=\$arg_k limit=9 window=1h algorithm=compact;
        empty_gif;
    }
END
my $port = $nginx->port;
my @at   = ('--server', $redis->address);

sub record { my ($what, %more) = @_; return "$what until=" . ($more{until} // 0) . ' since=1 by=tester why=a test' }
sub set_in { my ($server, $name, $key, @record) = @_; return $server->cli('SET', "rl:sliding:$name:{$key}:override", record(@record)) }
sub set    { return set_in($redis, @_) }
sub unset  { my ($name, $key) = @_; return $redis->cli('DEL', "rl:sliding:$name:{$key}:override") }

# "status source limit" of one request.
sub asked { my ($path) = @_; my $answer = get($port, $path); return "$answer->{status} " . field($answer, 'X-How') =~ s/ [A-Z_]+$//r }
sub becomes { my ($path, $expected, $what) = @_; my $is; ok(wait_until($what, 2 * slow(), sub { $is = asked($path); return $is =~ $expected }), $what) or diag($is) }

# ---- every algorithm

for my $algorithm (@ALL_ALGORITHMS) {
    my $path = "/$algorithm?k=";
    is(asked("${path}a"), '200 redis 3', "$algorithm: without a record the limit is as configured");
    set($algorithm, 'a', 'limit=9');
    is(asked("${path}a"), '200 redis 9', "$algorithm: a record holds at once");
    my $answer = get($port, "${path}a");
    like(field($answer, 'RateLimit-Policy'), qr/^"$algorithm";q=9;/, "$algorithm: the fields show the limit of the record");
    is(field($answer, 'X-RateLimit-Limit') . ' ' . field($answer, 'X-RateLimit-Remaining'), '9 6', "$algorithm: and what remains of it");
    set($algorithm, 'a', 'limit=2');
    like(asked("${path}a"), qr/^429 redis 2$/, "$algorithm: a lower one denies at once");
    set($algorithm, 'a', 'allow');
    becomes("${path}a", qr/^200 override 3$/, "$algorithm: allow admits what was denied, within a second");
    is(field(get($port, "${path}a"), 'X-RateLimit-Remaining'), 3, "$algorithm: allow leaves the whole limit") for 1 .. 5;
    set($algorithm, 'a', 'deny', until => int((time + 600) * 1000));
    $answer = get($port, "${path}a");
    is("$answer->{status} " . field($answer, 'X-How'), '429 override 3 REJECTED', "$algorithm: deny denies");
    like(field($answer, 'Retry-After'), qr/^(600|59\d)$/, "$algorithm: until the record ends");
    is(field($answer, 'X-RateLimit-Remaining'), 0, "$algorithm: nothing remains");
    unset($algorithm, 'a');
    set($algorithm, 'b', 'deny');
    $answer = get($port, "${path}b");
    is($answer->{status} . ' ' . (field($answer, 'Retry-After') // 'none'), '429 none', "$algorithm: a deny without an end has no Retry-After");
    is($redis->cli('EXISTS', "rl:sliding:$algorithm:{b}"), 0, "$algorithm: a denied key has no log");
}

# ---- what else a limit may have

set('plain', 'a', 'deny');
is(asked('/plain?k=a'), '200 redis 3', 'a limit without override=on reads no record');

my $ran = tool('set', 'secret', 's3cret', '--secret', '--deny', '--for', '10m', @at);
is($ran->{status}, 0, 'the tool sets the record of a secret') or diag($ran->{err});
is(asked('/secret?k=s3cret'), '429 override 3', 'it holds');
is($redis->cli('EXISTS', 'rl:sliding:secret:{sha1-' . sha1_hex('s3cret') . '}:override'), 1, 'its key is hashed as that of the log');

set('drop', 'a', 'deny');
ok(!defined eval { get($port, '/drop?k=a')->{status} } || !get($port, '/drop?k=a')->{status}, 'excess=drop closes the connection of a denied key');

set('delay', 'a', 'deny');
is(asked('/delay?k=a'), '429 override 3', 'nobody is held who is denied');
set('delay', 'b', 'limit=1');
is(join(' ', map { asked('/delay?k=b') =~ /^(\d+)/ } 1 .. 3), '200 200 200', 'a limit of a record holds requests');
set('delay', 'c', 'allow');
is(statuses(many([map { [$port, '/delay?k=c'] } 1 .. 50])), '200:50', 'nobody is held who is allowed');
is($redis->cli('EXISTS', 'rl:sliding:delay:{c}'), 0, 'nor logged');

set('block', 'a', 'deny');
asked('/block?k=a') for 1 .. 3;
unset('block', 'a');
becomes('/block?k=a', qr/^200 redis 3$/, 'a denial by a record begins no block');
cmp_ok($nginx->logged(qr/limiting requests, by limit "block": key "a", 3 in 1h, by override/), '>=', 3, 'the error log tells what denied');
is($nginx->logged(qr/blocked/), 0, 'and of no block');

is(get($port, '/refund?k=a')->{status}, 404, 'a request that is refunded');
set('refund', 'a', 'allow');
get($port, '/refund?k=a') for 1 .. 5;
unset('refund', 'a');
wait_until('the refund', 2, sub { $redis->cli('EXISTS', 'rl:sliding:refund:{a}') == 0 });
is(field(get($port, '/refund?k=a'), 'X-RateLimit-Remaining'), 2, 'what was allowed is not refunded, since it was not logged');
is($nginx->logged(qr/could not be taken back/), 0, 'no take-back was lost');

set('variable', 'a', 'limit=50');
is(asked('/variable?k=a&l=5&c=20'), '200 redis 50', 'a record goes before a variable limit');
is(asked('/variable?k=a&l=0&c=20'), '200 redis 50', 'even of 0');
is(asked('/variable?k=a&l=9&c=20'), '429 redis 50', 'and counts the cost');
set('variable', 'b', 'allow');
is(asked('/variable?k=b&l=0'), '200 override 0', 'allow goes before a limit of 0');
is(asked('/variable?k=b&l=5&c=9'), '200 override 5', 'and before a cost that the limit never has room for');
is(asked('/variable?k=b&l=x') =~ /^(\d+ \w+)/ ? $1 : '', '429 invalid', 'a number that is none denies whatever the record says');

set('dry', 'a', 'deny');
is(get($port, '/dry?k=a')->{status}, 200, 'a record denies nobody in a dry run');

set('problem', 'a', 'deny', until => int((time + 600) * 1000));
my $problem = get($port, '/problem?k=a');
is(JSON::PP::decode_json($problem->{body})->{'violated-policies'}[0], 'problem', 'a problem names the policy');

set('burst', 'a', 'limit=30');
is(field(get($port, '/burst?k=a'), 'X-RateLimit-Limit') . ' ' . field(get($port, '/burst?k=a'), 'X-RateLimit-Remaining'), '60 58', 'a bucket keeps its proportion to the limit');

set('here', 'a', 'deny');
is(asked('/here?k=a'), '200 local 3', 'the local store knows no record');

# ---- several limits: all or nothing

set('second', 'a', 'deny');
is(asked('/several?k=a'), '429 override 3', 'one of several limits is denied');
wait_until('take-backs', 2, sub { !grep { $redis->cli('EXISTS', "rl:sliding:$_:{a}") } qw(first third) });
is(join(' ', map { $redis->cli('EXISTS', "rl:sliding:$_:{a}") } qw(first second third)), '0 0 0', 'and none of them logs');
set('second', 'b', 'allow');
is(join(' ', map { asked('/several?k=b') =~ /^(\d+)/ } 1 .. 10), join(' ', (200) x 9, 429), 'the others decide what one allows');
is(join(' ', $redis->cli('ZCARD', 'rl:sliding:first:{b}'), $redis->cli('EXISTS', 'rl:sliding:second:{b}')), '9 0', 'and log it');

# ---- known denials and permits

set('log', 'flood', 'deny');
get($port, '/log?k=flood');
my $calls = $redis->calls('evalsha');
my $start = time;
my @answers = many([map { [$port, '/log?k=flood'] } 1 .. 500], at_once => 50);
is(statuses(@answers), '429:500', 'a flood on a denied key is denied');
cmp_ok($redis->calls('evalsha') - $calls, '<=', (time - $start) * 1.1 + 4, 'with a call a second');
is(scalar(grep { field($_, 'X-How') =~ /^override 3/ } @answers), 500, 'and by the override, whoever knows it');
unset('log', 'flood');
my $unset = time;
becomes('/log?k=flood', qr/^200 redis/, 'which ends with the record');
cmp_ok(time - $unset, '<', 1.2 * slow(), 'within a second');

get($port, '/prefetch?k=a') for 1 .. 300;
set('prefetch', 'a', 'deny');
becomes('/prefetch?k=a', qr/^429 override/, 'permits end within a second');
set('prefetch', 'b', 'limit=50000');
my %sources;
$sources{ asked('/prefetch?k=b') }++ for 1 .. 100;
is(join(' ', %sources), '200 redis 50000 100', 'no permits are taken under a record');

# ---- what is no record

$redis->cli('SET', 'rl:sliding:log:{broken}:override', 'limit=many');
$redis->cli('RPUSH', 'rl:sliding:compact:{broken}:override', 'x');
is(asked('/log?k=broken'), '200 redis 3', 'a broken record counts as none') for 1 .. 3;
is(asked('/compact?k=broken'), '200 redis 3', 'and so does a key of another type');
for my $name (qw(log compact)) {
    is($nginx->logged(qr/limit "$name": key "broken": its override is broken, and counts as none/), 1, "$name: it is told, not for each request");
}
set('log', 'over', 'deny', until => int((time - 1) * 1000));
is(asked('/log?k=over'), '200 redis 3', 'a record that has ended counts as none, whatever keeps it there');

# ---- metrics and dashboard

my $metrics = get($port, '/metrics')->{body};
like($metrics, qr/^sliding_log_requests_total\{limit="dry",result="rejected_dry_run",source="override"\} 1$/m, 'the metrics count by source');
like($metrics, qr/^sliding_log_overridden_total\{limit="variable"\} 5$/m, 'and the decisions that records changed');
unlike($metrics, qr/limit="plain",.*source="override"/, 'a limit without override=on has no such series');
unlike($metrics, qr/overridden_total\{limit="(?:plain|here)"/, 'nor one that no Redis decides');

my $seen = sub { my ($key) = @_; return grep { $_->{key} eq $key } @{ JSON::PP::decode_json(get($port, '/board?format=json')->{body})->{overrides} } };
my $end  = int((time + 3) * 1000);
set('log', 'shown', 'limit=7', until => $end);
asked('/log?k=shown');
my ($shown) = $seen->('shown');
is(join(' ', map { $_ // 'none' } @$shown{qw(limit key what value until_ms)}), "log shown limit 7 $end", 'the dashboard has the records that are met');
is(join(' ', map { "$_->{limit} $_->{what}" } $seen->('sha1-' . substr sha1_hex('s3cret'), 0, 8)), 'secret deny', 'a secret is shown by eight digits');
ok(wait_until('it to end', 6, sub { !$seen->('shown') }), 'they leave it when they end');
set('log', 'gone', 'allow');
asked('/log?k=gone');
unset('log', 'gone');
is(scalar(() = $seen->('gone')), 1, 'one that is unset stays until the key is asked again');
asked('/log?k=gone');
is(scalar(() = $seen->('gone')), 0, 'and leaves then');

# ---- without Redis, and without the right to read

set_in($other, 'fragile', 'a', 'deny');
is(asked('/fragile?k=a'), '429 override 3', 'a record in another store');
$other->kill;
becomes('/fragile?k=a', qr/^200 local 3$/, 'on_error local knows no record');
$nginx->expect_in_log(qr/fragile/);

$redis->cli('ACL', 'SETUSER', 'default', '-get');
is(asked('/log?k=forbidden'), '200 redis 3', 'a record that may not be read counts as none');
is($nginx->logged(qr/limit "log": key "forbidden": its override may not be read/), 1, 'and is told');

$bed->done;
