# The response fields: exact text, once, in every kind of final answer.

use strict;
use warnings;
use Test::More;
use Testbed;
use Testbed::Http qw(get request field fields);

my $bed   = Testbed->new;
my $redis = $bed->redis;
my $nginx = $bed->serve(
    redis  => $redis,
    http   => <<'HTTP',
    sliding_log_redis dead { server 127.0.0.1:1; reconnect 1m 1m; }
    server {
        listen 127.0.0.1:%%PORT2%%;
        location / {
            add_header X-RateLimit-Limit 77;
            add_header ratelimit '"inner";r=1;t=1';
            add_header Retry-After 99;
            add_header X-Backend yes;
            return 200 "from the backend";
        }
    }
HTTP
    server => <<'END',
    root %%DIR%%;
    location /ietf    { sliding_log_limit ietf key=$arg_k limit=3 window=1m; empty_gif; }
    location /legacy  { sliding_log_limit legacy key=$arg_k limit=3 window=1m; sliding_log_headers legacy; empty_gif; }
    location /all     { sliding_log_limit all key=$arg_k limit=3 window=1m; sliding_log_headers all; empty_gif; }
    location /off     { sliding_log_limit off1 key=$arg_k limit=1 window=1m; sliding_log_headers off; empty_gif; }
    location /short   { sliding_log_limit short key=$arg_k limit=3 window=500ms; empty_gif; }
    location /bucket  { sliding_log_limit bucket key=$arg_k limit=2 window=1m burst=10 algorithm=bucket; sliding_log_headers all; add_header X-Limit $sliding_log_limit; empty_gif; }
    location /uneven  { sliding_log_limit uneven key=$arg_k limit=7 window=1m burst=10 algorithm=bucket; sliding_log_headers all; empty_gif; }
    location /plain   { sliding_log_limit plain key=$arg_k limit=2 window=1m algorithm=bucket; sliding_log_headers all; empty_gif; }
    location /given   { sliding_log_limit given key=$arg_k limit=$arg_l window=1m burst=10 algorithm=bucket; sliding_log_headers all; empty_gif; }
    location /share   { sliding_log_limit share key=$arg_k limit=6 window=1m burst=9 algorithm=bucket store=dead; sliding_log_on_error local nodes=3; sliding_log_headers all; empty_gif; }
    location /ones    { sliding_log_limit ones key=$arg_k limit=1 window=1m burst=9 algorithm=bucket store=dead; sliding_log_on_error local nodes=3; sliding_log_headers all; empty_gif; }
    location /zero    { sliding_log_limit zero key=$arg_k limit=0 window=1m; empty_gif; }
    location /two {
        sliding_log_limit burst key=$arg_k limit=2 window=10s;
        sliding_log_limit daily key=$arg_k limit=5 window=1d;
        sliding_log_headers all;
        empty_gif;
    }
    location /places {
        sliding_log_limit d key=$arg_k limit=4 window=10s algorithm=sampled sample=1;
        sliding_log_limit c key=$arg_k limit=3 window=10s store=dead;
        sliding_log_limit b key=$arg_k limit=2 window=10s;
        sliding_log_limit a key=$arg_k limit=1 window=10s store=local;
        empty_gif;
    }
    location /missing { sliding_log_limit missing key=$arg_k limit=9 window=1m; }
    location /file    { sliding_log_limit file key=$arg_k limit=9 window=1m; }
    location /page    { sliding_log_limit page key=$arg_k limit=1 window=1m; error_page 429 /denied.html; empty_gif; }
    location /named   { sliding_log_limit named key=$arg_k limit=1 window=1m; error_page 429 @denied; empty_gif; }
    location /fine    { sliding_log_limit fine key=$arg_k limit=1 window=1m; error_page 429 =200 /denied.html; empty_gif; }
    location /denied.html { internal; }
    location @denied  { return 418 "denied by $sliding_log_name, wait $sliding_log_retry_after"; }
    location /asis    { sliding_log_limit asis key=$arg_k limit=1 window=1m; error_page 429 = @denied; empty_gif; }
    location /away    { sliding_log_limit away key=$arg_k limit=1 window=1m; error_page 429 http://example.org/; empty_gif; }
    location /behind  { sliding_log_limit behind key=$arg_k limit=1 window=1m; error_page 429 @behind; empty_gif; }
    location @behind  { proxy_pass http://127.0.0.1:%%PORT2%%; }
    location /ownall  { sliding_log_limit ownall key=$arg_k limit=1 window=1m; sliding_log_headers all; error_page 429 @denied; empty_gif; }
    location /ownoff  { sliding_log_limit ownoff key=$arg_k limit=1 window=1m; sliding_log_headers off; error_page 429 @denied; empty_gif; }
    location /dead    { sliding_log_limit dead key=$arg_k limit=9 window=1m store=dead; sliding_log_on_error deny; sliding_log_headers all; error_page 503 @denied; empty_gif; }
    location /proxied { sliding_log_limit proxied key=$arg_k limit=9 window=1m; sliding_log_headers all; proxy_pass http://127.0.0.1:%%PORT2%%; }
    location /down    { sliding_log_limit down key=$arg_k limit=9 window=1m; proxy_pass http://127.0.0.1:1; }
END
);
$bed->write_file('nginx1/denied.html', "come back later\n");
$bed->write_file('nginx1/file', "content\n");
my $port = $nginx->port;

sub both { my ($answer) = @_; return join ' | ', map { field($answer, $_) // 'none' } 'RateLimit-Policy', 'RateLimit' }
sub legacy { my ($answer) = @_; return join ' ', map { field($answer, "X-RateLimit-$_") // 'none' } qw(Limit Remaining Reset) }

my $answer = get($port, '/ietf?k=a');
is(both($answer), '"ietf";q=3;w=60 | "ietf";r=2;t=60', 'ietf: t is the window on an empty log');
is(legacy($answer), 'none none none', 'ietf: no legacy fields');
is(field($answer, 'Retry-After'), undef, 'ietf: an admitted request has no Retry-After');
get($port, '/ietf?k=a') for 1 .. 2;
$answer = get($port, '/ietf?k=a');
is($answer->{status}, 429, 'ietf: the fourth request is denied');
is(both($answer), '"ietf";q=3;w=60 | "ietf";r=0;t=60', 'ietf: t of a denial is rounded up');
is(field($answer, 'Retry-After'), 60, 'ietf: Retry-After of a denial is rounded up');

$answer = get($port, '/legacy?k=a');
is(both($answer) . ' ' . legacy($answer), 'none | none 3 2 60', 'legacy: the legacy fields only');
$answer = get($port, '/all?k=a');
is(both($answer) . ' ' . legacy($answer), '"all";q=3;w=60 | "all";r=2;t=60 3 2 60', 'all: an admitted request has the fields of both families');
$answer = get($port, '/off?k=a');
is(both($answer) . ' ' . legacy($answer), 'none | none none none none', 'off: an admitted request has no fields');
$answer = get($port, '/off?k=a');
is($answer->{status}, 429, 'off: the second request is denied');
is(both($answer), 'none | none', 'off: a denial has no fields');
is(field($answer, 'Retry-After'), undef, 'off: a denial has no Retry-After');

is(both(get($port, '/short?k=a')), '"short";q=3 | "short";r=2;t=1', 'a window of half a second: w is left out');
get($port, '/short?k=a') for 1 .. 2;
$answer = get($port, '/short?k=a');
is("$answer->{status} " . both($answer), '429 "short";q=3 | "short";r=0;t=1', 'a window of half a second: w is left out on a denial');
is(field($answer, 'Retry-After'), 1, 'a window of half a second: Retry-After is a second');
$answer = get($port, '/zero?k=a');
is("$answer->{status} " . both($answer), '429 "zero";q=0;w=60 | "zero";r=0;t=60', 'limit 0 denies all');
is(field($answer, 'Retry-After'), undef, 'limit 0: a denial has no Retry-After');

# for a bucket, q is the burst, all of which returns in w
$answer = get($port, '/bucket?k=a');
is(both($answer) . ' ' . legacy($answer), '"bucket";q=10;w=300 | "bucket";r=9;t=30 10 9 30', 'bucket: the burst is counted down');
is(field($answer, 'X-Limit'), 2, 'bucket: $sliding_log_limit is what limit= says');
get($port, '/bucket?k=a') for 1 .. 9;
$answer = get($port, '/bucket?k=a');
is("$answer->{status} " . both($answer), '429 "bucket";q=10;w=300 | "bucket";r=0;t=30', 'bucket: a denial has nothing remaining');
$answer = get($port, '/uneven?k=a');
is(both($answer) . ' ' . legacy($answer), '"uneven";q=10 | "uneven";r=9;t=9 10 9 9',
    'bucket: w is left out if the burst does not return in whole seconds');
$answer = get($port, '/plain?k=a');
is(both($answer) . ' ' . legacy($answer), '"plain";q=2;w=60 | "plain";r=1;t=30 2 1 30', 'bucket: the limit is counted down without a burst');
$answer = get($port, '/given?k=a&l=5');
is(both($answer) . ' ' . legacy($answer), '"given";q=10;w=120 | "given";r=9;t=12 10 9 12', 'bucket: a limit of the request is counted down');
$answer = get($port, '/given?k=a&l=0');
is(both($answer) . ' ' . legacy($answer), '"given";q=0;w=60 | "given";r=0;t=60 0 0 60', 'bucket: a limit of the request that is 0 denies all');
$answer = get($port, '/share?k=a');
is(both($answer) . ' ' . legacy($answer), '"share";q=3;w=90 | "share";r=2;t=30 3 2 30', "bucket: the fields have this node's share of limit and burst");
$answer = get($port, '/ones?k=a');
is(both($answer) . ' ' . legacy($answer), '"ones";q=3;w=180 | "ones";r=2;t=60 3 2 60',
    "bucket: the fields have this node's share of a limit that cannot be divided");

$answer = get($port, '/places?k=a');
is(field($answer, 'RateLimit-Policy'), '"d";q=4;w=10, "c";q=3;w=10, "b";q=2;w=10, "a";q=1;w=10',
    'limits of several stores and algorithms: RateLimit-Policy has the order of the configuration');
is(field($answer, 'RateLimit'), '"d";r=3;t=10, "c";r=2;t=10, "b";r=1;t=10, "a";r=0;t=10',
    'limits of several stores and algorithms: RateLimit has the order of the configuration');

$answer = get($port, '/two?k=a');
is(both($answer), '"burst";q=2;w=10, "daily";q=5;w=86400 | "burst";r=1;t=10, "daily";r=4;t=86400', 'two limits: one member per limit');
is(legacy($answer), '2 1 10', 'two limits: the legacy fields have the one with the least remaining');
get($port, '/two?k=a');
$answer = get($port, '/two?k=a');
is(legacy($answer), '2 0 10', 'two limits: the legacy fields have the one that denied');
is(field($answer, 'RateLimit'), '"burst";r=0;t=10, "daily";r=3;t=86400', 'two limits: the one that did not deny keeps its remaining requests');

is(both(get($port, '/ietf')), 'none | none', 'no limit applied: no fields');
$answer = get($port, '/missing?k=a');
is("$answer->{status} " . both($answer), '404 "missing";q=9;w=60 | "missing";r=8;t=60', 'a 404 has the fields');
$answer = get($port, '/file?k=a');
is("$answer->{status} " . both($answer), '200 "file";q=9;w=60 | "file";r=8;t=60', 'a file has the fields');
my $modified = field($answer, 'Last-Modified');
$answer = get($port, '/file?k=a', headers => { 'If-Modified-Since' => $modified });
is("$answer->{status} " . both($answer), '304 "file";q=9;w=60 | "file";r=7;t=60', 'a 304 has the fields');

my @pages = (
    ['/page',   429, 'come back later'],
    ['/named',  429, 'denied by named, wait 60'],
    ['/fine',   200, 'come back later'],
    ['/asis',   418, 'denied by asis, wait 60'],
    ['/away',   302, 'Found'],
    ['/behind', 429, 'from the backend'],
);
for my $case (@pages) {
    my ($path, $status, $body) = @$case;
    my $name = substr $path, 1;
    get($port, "$path?k=a");
    $answer = get($port, "$path?k=a");
    is($answer->{status}, $status, "error_page of $path: the status");
    like($answer->{body}, qr/$body/, "error_page of $path: the body");
    is(both($answer), qq("$name";q=1;w=60 | "$name";r=0;t=60), "error_page of $path: the fields, once");
    is(field($answer, 'Retry-After'), 60, "error_page of $path: Retry-After");
}


# sliding_log_headers of the limit's location applies to the error page of its denial too
get($port, "/$_?k=a") for qw(ownall ownoff);
$answer = get($port, '/ownall?k=a');
is(both($answer) . ' ' . legacy($answer), '"ownall";q=1;w=60 | "ownall";r=0;t=60 1 0 60', 'all: an error page of a denial has both families');
$answer = get($port, '/ownoff?k=a');
is(both($answer) . ' ' . (field($answer, 'Retry-After') // 'none'), 'none | none none', 'off: an error page of a denial has no fields');

# store unavailable
$answer = get($port, '/dead?k=a');
is($answer->{status}, 503, 'on_error deny: the status');
is($answer->{body}, 'denied by dead, wait 1', 'on_error deny: the body of the error page');
is(both($answer) . ' ' . legacy($answer), '"dead";q=9;w=60 | none none none none', 'on_error deny: the fields have the policy only');
is(field($answer, 'Retry-After'), 1, 'on_error deny: Retry-After is a second');

$answer = get($port, '/proxied?k=a');
is($answer->{body}, 'from the backend', 'proxied: the body of the backend passes');
is(both($answer) . ' ' . legacy($answer), '"proxied";q=9;w=60 | "proxied";r=8;t=60 9 8 60', "proxied: the fields replace those of the backend");
is(field($answer, 'X-Backend'), 'yes', 'proxied: other fields of the backend pass');
is(field($answer, 'Retry-After'), 99, "proxied: the Retry-After of the backend passes if this module adds none");
$answer = get($port, '/down?k=a');
is("$answer->{status} " . both($answer), '502 "down";q=9;w=60 | "down";r=8;t=60', 'a 502 has the fields');
is(join(',', fields(request($port, '/ietf?k=b', method => 'HEAD'), 'RateLimit')), '"ietf";r=2;t=60', 'an answer to HEAD has the fields');

$bed->done;
