# The dashboard's numbers and keys are correct, and correct JSON whatever keys clients send. The page is not cached and
# not framed.

use strict;
use warnings;
use Digest::SHA qw(sha1_hex sha256_base64);
use JSON::PP ();
use Test::More;
use Testbed qw(conf wait_until);
use Testbed::Http qw(get many request field);

my $bed   = Testbed->new;
my $redis = $bed->redis;
my $conf  = conf(
    workers => 3,
    listen  => 'reuseport',
    store   => 'server %%REDIS%%; timeout 5s; connect_timeout 5s; reconnect 10ms 100ms;',
    http    => <<'HTTP',
    sliding_log_zone %%ZONE%%;
    sliding_log_limit everything key=all limit=3 window=1h store=local;
HTTP
    server  => <<'END',
    location /a     { sliding_log_limit a key=$arg_k limit=100 window=1h; empty_gif; }
    location /head  { sliding_log_limit b key=$http_x_key limit=10 window=1h algorithm=compact store=local; empty_gif; }
    location /dry   { sliding_log_limit dry key=$arg_k limit=2 window=1h; sliding_log_dry_run on; empty_gif; }
    location /burst { sliding_log_limit bucket key=$arg_k limit=2 window=1m burst=10 algorithm=bucket store=local; empty_gif; }
    location /var   { sliding_log_limit var key=$arg_k limit=$arg_l window=1m store=local; sliding_log_on_error allow; empty_gif; }
    location /board { sliding_log_dashboard; }
    location /closed { sliding_log_dashboard; deny all; }
    location /metrics { sliding_log_metrics; }
END
);
my $nginx = $bed->nginx($conf, REDIS => $redis->address, ZONE => '10m');
my $port  = $nginx->port;
my $json  = JSON::PP->new->utf8;

sub data { return $json->decode(get($port, '/board?format=json')->{body}) }
sub limit { my ($data, $name) = @_; return (grep { $_->{name} eq $name } @{ $data->{limits} })[0] }
sub keys_of { my ($data, $list, $limit) = @_; return map { "$_->{key}:$_->{requests}" } grep { $_->{limit} eq $limit } @{ $data->{"${list}_keys"} } }
sub results {
    my ($limit) = @_;
    my $requests = limit(data(), $limit)->{requests};
    return join ' ', map { my $result = $_; map { $requests->{$result}{$_} ? "$result/$_:$requests->{$result}{$_}" : () } sort keys %{ $requests->{$result} } } sort keys %$requests;
}

# A recent number that was this at first. It is halved each minute, and on a slow machine minutes pass.
sub halves { my ($number) = @_; return '(?:' . join('|', map { int($number / 2 ** $_) } 0 .. 3) . ')' }

ok(wait_until('the store', 5, sub { my ($store) = @{ data()->{stores} }; $store && $store->{up} && $store->{redis} }), 'the store and its health are known');

# ---- the page

my $page   = get($port, '/board');
my $policy = field($page, 'Content-Security-Policy');
is("$page->{status} " . field($page, 'Content-Type'), '200 text/html; charset=utf-8', 'the page is HTML');
is(field($page, 'Cache-Control'), 'no-store', 'the page is not cached');
is(field($page, 'X-Content-Type-Options'), 'nosniff', 'the type of the page is not guessed');
is(field($page, 'Referrer-Policy'), 'no-referrer', 'the page is not sent as a referrer');
is_deeply([grep { index($page->{body}, $_) >= 0 } 'http:', 'https:', 'src=', '@import', 'url(', 'innerHTML', ' style=', ' on'  . 'click='], [],
    'the page loads nothing from other origins, and does not interpret markup');
for my $what (qw(script style)) {
    my @parts = $page->{body} =~ m{<$what>(.*?)</$what>}sg;
    is(scalar @parts, 1, "the page has one $what");
    my $digest = sha256_base64($parts[0]);
    $digest .= '=' while length($digest) % 4;
    like($policy, qr/(?:^|; )$what-src 'sha256-\Q$digest\E'(?:;|$)/, "the policy permits the $what by its hash");
}
like($policy, qr/^default-src 'none'; /, 'the policy permits nothing that it does not name');
is(join('; ', grep { !/^(?:script|style)-src/ } split /; /, $policy), "default-src 'none'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    'the policy permits data from this origin only');
my $head = request($port, '/board', method => 'HEAD');
is("$head->{status}$head->{body}" . field($head, 'Content-Length'), '200' . length $page->{body}, 'HEAD has the length of the page');
is(request($port, '/board', method => 'POST', body => 'x')->{status}, 405, 'POST to the page is refused');
is(get($port, '/closed')->{status}, 403, 'deny keeps the page closed');
is(get($port, '/closed?format=json')->{status}, 403, 'deny keeps the numbers closed');
is(get($port, '/board?format=xml')->{body}, $page->{body}, 'an unknown format is the page');

# ---- the numbers

my $numbers = get($port, '/board?format=json');
is(field($numbers, 'Content-Type'), 'application/json; charset=utf-8', 'the numbers are JSON');
is(join(' ', map { field($numbers, $_) } qw(Cache-Control X-Content-Type-Options)), 'no-store nosniff',
    'the numbers are not cached, and their type is not guessed');
my $json_head = request($port, '/board?format=json', method => 'HEAD');
is("$json_head->{status}$json_head->{body}", '200', 'HEAD of the numbers has no body');
is(join(' ', map { get($port, '/board?format=json')->{status} } 1 .. 10), join(' ', (200) x 10), 'limits of an outer level do not apply to the dashboard');

# workers record in any order; the last admitted request after all others
many([map { [$port, '/a?k=1'] } 1 .. 99]);
get($port, '/a?k=1');
many([map { [$port, '/a?k=1'] } 1 .. 200]);
many([map { [$port, '/a?k=2'] } 1 .. 79]);
get($port, '/a?k=2');
my $now = data();
my $a   = limit($now, 'a');
is($a->{requests}{passed}{redis}, 180, 'three workers: passed requests are counted exactly');
is($a->{requests}{rejected}{redis} + $a->{requests}{rejected}{cache}, 200, 'three workers: rejected requests are counted exactly');
is($a->{near_limit}, 22, 'three workers: requests near the limit are counted exactly');
is(join(' ', map { "$a->{$_}" } qw(algorithm store limit window_ms)), 'log default 100 3600000', 'a limit is shown with its algorithm, store, limit and window');
is($a->{fullest_permille}, 1000, 'the fullest key is full');
is(exists $a->{burst} ? $a->{burst} : 0, undef, 'a limit that is no bucket has no burst');
is(join(' ', map { limit($now, 'bucket')->{$_} } qw(limit burst window_ms)), '2 10 60000', 'a bucket has a limit and a burst');
like(join(' ', keys_of($now, 'used', 'a')), qr/^1:@{[halves(100)]} 2:@{[halves(80)]}$/, 'keys that were admitted are listed, the most first');
like(join(' ', keys_of($now, 'denied', 'a')), qr/^1:@{[halves(200)]}$/, 'keys that were denied are listed');
my ($store) = @{ $now->{stores} };
is("$store->{store} $store->{node}", 'default ' . $redis->address, 'the store is shown with its address');
is($store->{calls}, $redis->calls('evalsha'), 'the calls of the store are shown');
is($store->{latency}{counts}[-1], $store->{calls}, 'each call of the store is shown with its latency');
is(scalar @{ $store->{latency}{counts} }, 1 + @{ $store->{latency}{le_us} }, 'each latency is in its bucket, or above all buckets');
cmp_ok($store->{redis}{memory_used_bytes}, '>', 100_000, 'the memory that Redis uses is shown');
is($now->{zone}{bytes}, 10 * 1024 * 1024, 'the size of shared memory is shown');
cmp_ok($now->{zone}{free_bytes}, '<', $now->{zone}{bytes}, 'some of the shared memory is used');

get($port, '/dry?k=1') for 1 .. 5;
like(results('dry'), qr{^passed/redis:2 rejected_dry_run/}, 'dry run: rejected requests are shown separately');
is(join(' ', map { limit(data(), $_)->{dry_run} ? $_ : () } qw(a b dry bucket var)), 'dry', 'dry run: a limit that no location enforces is shown as such');
like(join(' ', keys_of(data(), 'denied', 'dry')), qr/^1:@{[halves(3)]}$/, 'dry run: a key that is rejected is listed as denied');
get($port, "/var?k=1&l=$_") for 4, 4, 'x';
is(results('var'), 'passed/local:2 rejected/invalid:1', 'a limit from a variable: an invalid limit is shown as invalid');
is(limit(data(), 'var')->{limit}, undef, 'a limit from a variable: no limit is shown');
is(limit(data(), 'var')->{fullest_permille}, 500, 'a limit from a variable: the used part is shown');

# ---- hostile keys: on the page as in Redis

my @hostile = ('<script>alert(1)</script>', '"><img src=x onerror=alert(1)>', "\xff\xfe\x80", "\xc3\xa4", '\\u0041"}', "tab\there", 'x' x 5000, '{}', '%00');
get($port, '/head', headers => { 'X-Key' => $_ }) for @hostile, @hostile;
my $answer = get($port, '/board?format=json')->{body};
ok(utf8::decode(my $copy = $answer), 'hostile keys: the numbers are UTF-8');
my %seen = map { $_->{key} => 1 } grep { $_->{limit} eq 'b' } @{ $json->decode($answer)->{used_keys} };
is(join(' ', sort keys %seen), join(' ', sort map { 'sha1-' . sha1_hex($_) } @hostile), 'hostile keys: they are hashed, as in Redis');
unlike($answer, qr/[<>&']/, 'hostile keys: nothing in the numbers could be markup');
get($port, '/head', headers => { 'X-Key' => 'user@example.com/a:b' }) for 1 .. 2;
ok((grep { $_->{key} eq 'user@example.com/a:b' } @{ data()->{used_keys} }), 'a plain key is shown as it is');

# ---- bounded

many([map { [$port, "/var?l=9&k=many$_"] } 1 .. 2000]);
many([map { [$port, '/var?l=900&k=frequent'] } 1 .. 200]);
$now = data();
is(scalar @{ $now->{used_keys} }, 20, 'many keys: the first 20 are shown');
is($now->{used_keys}[0]{key}, 'frequent', 'many keys: the key with the most requests is the first');
cmp_ok($now->{used_keys}[0]{requests}, '<=', 200, 'many keys: a number is never too large');
cmp_ok($now->{used_keys}[0]{requests}, '>=', 40, 'many keys: a number is not much too small');

# ---- a reload, and other zones

$nginx->reload(gone => 1);
is(limit(data(), 'a')->{requests}{passed}{redis}, 180, 'a reload loses no number');
like(join(' ', keys_of(data(), 'denied', 'a')), qr/^1:@{[halves(200)]}$/, 'a reload loses no key');

my $small = $bed->nginx($conf, REDIS => $redis->address, ZONE => '64k');
$port = $small->port;
get($port, '/a?k=1') for 1 .. 3;
is(limit(data(), 'a')->{requests}{rejected}{redis} + limit(data(), 'a')->{requests}{rejected}{cache}, 3, 'a small zone counts');
is($json->encode(data()->{used_keys}), '[]', 'a small zone has no room for keys');

my $none = $bed->serve(server => 'location / { sliding_log_dashboard; }');
my $empty = $json->decode(get($none->port, '/?format=json')->{body});
is($json->canonical->encode({ %$empty{qw(limits stores zone used_keys denied_keys)} }), '{"denied_keys":[],"limits":[],"stores":[],"used_keys":[],"zone":null}', 'without a limit there is nothing to show');
is(get($none->port, '/')->{status}, 200, 'without a limit the page is served');

# ---- the configuration

for my $wrong (['sliding_log_dashboard; sliding_log_dashboard;', qr/"sliding_log_dashboard" directive is duplicate/],
    ['sliding_log_metrics; sliding_log_dashboard;', qr{invalid location "/x" in "sliding_log_dashboard" directive, expected one that no other directive answers}],
    ['sliding_log_dashboard; sliding_log_metrics;', qr{invalid location "/x" in "sliding_log_metrics" directive}]) {
    my ($accepted, $said) = $bed->configuration(conf(server => "location /x { $wrong->[0] }"))->check;
    ok(!$accepted, "$wrong->[0] is refused");
    like($said, $wrong->[1], "$wrong->[0] is refused with the reason");
}

$bed->done;
