# sliding_log_answer problem: a denied request is answered with application/problem+json of RFC 9457, as
# draft-ietf-httpapi-ratelimit-headers-11 has it, except for statuses that nginx answers in another way.

use strict;
use warnings;
use JSON::PP;
use Test::More;
use Testbed qw(wait_until);
use Testbed::Http qw(get request raw parse field fields);

my $EXCEEDED = 'https://iana.org/assignments/http-problem-types#quota-exceeded';
my $REDUCED  = 'https://iana.org/assignments/http-problem-types#temporary-reduced-capacity';
my $long     = 'Aa0_.-' . 'z' x 58;
my @many     = map { sprintf '%s%02d', 'm' x 62, $_ } 1 .. 32;

my $bed   = Testbed->new;
my $redis = $bed->redis;
$bed->write_file('denied.html', "a page of one's own\n");
my $nginx = $bed->serve(
    redis  => $redis,
    ROOT   => $bed->dir,
    LONG   => $long,
    MANY   => join("\n", map { "sliding_log_limit $_ key=\$arg_k limit=0 window=1h;" } @many),
    http   => <<'HTTP',
    log_format answers '$uri $status $body_bytes_sent $sliding_log_status/$sliding_log_source';
    access_log %%DIR%%/access.log answers;
    sliding_log_redis dead { server 127.0.0.1:1; reconnect 1m 1m; }
    sliding_log_answer problem;
    server {
        listen 127.0.0.1:%%PORT2%%;
        location / { empty_gif; }
        location /accel {
            charset iso-8859-1;
            default_type text/html;
            add_header X-Accel-Redirect /one?k=accel;
            add_header Accept-Ranges bytes;
            return 200 "<p>";
        }
    }
    server {
        listen 127.0.0.1:%%PORT4%%;
        error_page 429 /denied.html;
        root %%ROOT%%;
        location /outer { sliding_log_limit outer key=$arg_k limit=1 window=1h; empty_gif; }
        location = /denied.html { }
    }
HTTP
    server => <<'END',
    listen 127.0.0.1:%%PORT3%% http2;
    root %%ROOT%%;
    location /one    { sliding_log_limit one key=$arg_k limit=1 window=1h; empty_gif; }
    location /named  { sliding_log_limit %%LONG%% key=$arg_k limit=0 window=1h; empty_gif; }
    location /many   { %%MANY%% empty_gif; }
    location /plain  { sliding_log_limit plain key=$arg_k limit=0 window=1h; sliding_log_answer plain; empty_gif; }
    location /teapot { sliding_log_limit teapot key=$arg_k limit=0 window=1h; sliding_log_status 418; sliding_log_headers off; empty_gif; }
    location /some {
        sliding_log_limit b key=$arg_k limit=$arg_b window=1h;
        sliding_log_limit c key=$arg_k limit=100 window=1h;
        sliding_log_limit a key=$arg_k limit=$arg_a window=1d store=local;
        empty_gif;
    }
    location /together {
        sliding_log_limit t1 key=$arg_k limit=0 window=1h;
        sliding_log_limit t2 key=$arg_k limit=9 window=1h;
        sliding_log_limit t3 key=$arg_k limit=0 window=1h;
        empty_gif;
    }
    location /invalid { sliding_log_limit invalid key=$arg_k limit=x$arg_k window=1h; empty_gif; }
    location /dead {
        sliding_log_on_error deny;
        sliding_log_limit dead1 key=$arg_k limit=1 window=1h store=dead;
        sliding_log_limit dead2 key=$arg_k limit=1 window=1h store=dead;
        empty_gif;
    }
    location /zero     { sliding_log_on_error deny; sliding_log_limit zero key=$arg_k limit=0 window=1h store=dead; empty_gif; }
    location /dry      { sliding_log_limit dry key=$arg_k limit=0 window=1h dry_run=on; empty_gif; }
    location /dry_dead { sliding_log_dry_run on; sliding_log_on_error deny; sliding_log_limit dead1 key=$arg_k limit=0 window=1h store=dead; empty_gif; }
    location /drop     { sliding_log_limit drop key=$arg_k limit=0 window=1h excess=drop; empty_gif; }
    location /page     { sliding_log_limit page key=$arg_k limit=0 window=1h; error_page 429 /denied.html; empty_gif; }
    location /asis     { sliding_log_limit asis key=$arg_k limit=0 window=1h; error_page 429 =200 @asis; empty_gif; }
    location @asis     { return 200 "$sliding_log_name"; }
    location /other    { sliding_log_limit other key=$arg_k limit=0 window=1h; error_page 503 /denied.html; empty_gif; }
    location /page503  { sliding_log_on_error deny; sliding_log_limit dead1 key=$arg_k limit=1 window=1h store=dead; error_page 503 /denied.html; empty_gif; }
    location = /denied.html { internal; }
    location /missing  { error_page 404 /behind?k=a; }
    location /behind   { sliding_log_limit behind key=$arg_k limit=0 window=1h; error_page 429 /denied.html; empty_gif; }
    location /tried    { sliding_log_answer plain; try_files /none @tried; }
    location @tried    { sliding_log_limit tried key=$arg_k limit=0 window=1h; sliding_log_answer problem; empty_gif; }
    location /accel    { proxy_pass http://127.0.0.1:%%PORT2%%; }
    location /any      { satisfy any; allow all; sliding_log_limit any key=$arg_k limit=0 window=1h; sliding_log_status 403; empty_gif; }
    location /auth     { auth_request /check; sliding_log_limit auth key=$arg_k limit=1 window=1h; empty_gif; }
    location /check    { internal; proxy_pass http://127.0.0.1:%%PORT2%%; }
    location /upload   { sliding_log_limit upload key=$arg_k limit=0 window=1h; proxy_pass http://127.0.0.1:%%PORT2%%; }
    location /refunded { sliding_log_limit refunded key=$arg_k limit=1 window=1h refund=429; empty_gif; }
    location /gzip     { sliding_log_limit gzip key=$arg_k limit=0 window=1h; sliding_log_status 403; gzip on; gzip_types *; gzip_min_length 1; empty_gif; }
    location /free     { empty_gif; }
END
);
my $port = $nginx->port;

# The problem that an answer tells, and its status and type.
sub problem {
    my ($answer) = @_;
    return [$answer->{status}, field($answer, 'Content-Type'), eval { decode_json($answer->{body}) } // $answer->{body}];
}

sub exceeded {
    my ($status, @names) = @_;
    return [$status, 'application/problem+json', {
        type => $EXCEEDED, title => 'Request cannot be satisfied as assigned quota has been exceeded', status => $status, 'violated-policies' => \@names,
    }];
}

sub reduced {
    my (@names) = @_;
    return [503, 'application/problem+json', {
        type => $REDUCED, title => 'Request cannot be satisfied due to temporary server capacity constraints', status => 503, 'violated-policies' => \@names,
    }];
}

# ---- what it says

is(get($port, '/one?k=a')->{status}, 200, 'an admitted request is answered as ever');
my $answer = get($port, '/one?k=a');
is_deeply(problem($answer), exceeded(429, 'one'), 'a denied request gets a problem');
is(field($answer, 'Content-Length'), length $answer->{body}, 'the problem has its length');
is(join(' ', map { field($answer, $_) // 'none' } qw(Retry-After RateLimit RateLimit-Policy)), '3600 "one";r=0;t=3600 "one";q=1;w=3600',
    'the problem has the fields of every denial');
is_deeply(problem(get($port, '/one?k=a')), exceeded(429, 'one'), 'so has a denial that the node knows');
is_deeply(problem(get($port, '/named?k=a')), exceeded(429, $long), 'a NAME of all characters is valid JSON');
is_deeply(problem(get($port, '/many?k=a')), exceeded(429, @many), '32 limits of the longest names are named');
$answer = get($port, '/teapot?k=a');
is_deeply(problem($answer), exceeded(418, 'teapot'), 'the problem has the status of sliding_log_status');
is(scalar fields($answer, 'Retry-After'), 0, 'without fields, it has no Retry-After');
is_deeply(problem(get($port, '/some?k=a&a=0&b=5')), exceeded(429, 'a'), 'the limit that denies is named');
is_deeply(problem(get($port, '/some?k=b&a=5&b=0')), exceeded(429, 'b'), 'so is another one');
is_deeply(problem(get($port, '/together?k=a')), exceeded(429, 't1', 't3'), 'all that deny in one call are named, in the order of the configuration');
is_deeply(problem(get($port, '/invalid?k=a')), exceeded(429, 'invalid'), 'a number that is none denies with a problem');
is(get($port, '/plain?k=a')->{body} =~ /<html>/ ? 1 : 0, 1, 'plain: the page of nginx');

$answer = get($port, '/dead?k=a');
is_deeply(problem($answer), reduced('dead1', 'dead2'), 'on_error deny: the capacity is reduced');
is(field($answer, 'Retry-After'), 1, 'on_error deny: Retry-After is 1');
is_deeply(problem(get($port, '/zero?k=a')), exceeded(429, 'zero'), 'on_error deny: a limit of 0 denies as such');

# ---- methods and protocols

my $text = raw($port, "HEAD /one?k=a HTTP/1.1\r\nHost: x\r\n\r\nGET /free HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
like($text, qr{\AHTTP/1\.1 429 .*?\r\nContent-Type: application/problem\+json\r\nContent-Length: \d\d+\r\n.*?\r\n\r\nHTTP/1\.1 200 }s,
    'HEAD: the header without a body, and the connection goes on');
my $h2 = 'http://127.0.0.1:' . $nginx->port('PORT3');
$text = `curl -s -i --http2-prior-knowledge '$h2/one?k=a'`;
like($text, qr{\AHTTP/2 429 \r\n.*^content-type: application/problem\+json\r\n.*^retry-after: \d+\r\n}ms, 'HTTP/2: the status and the fields');
is_deeply(decode_json($text =~ s/.*\r\n\r\n//sr), exceeded(429, 'one')->[2], 'HTTP/2: the problem');
like(`curl -s -I --http2-prior-knowledge '$h2/one?k=a'`, qr{\AHTTP/2 429 \r\n.*content-type: application/problem\+json\r\n}s, 'HTTP/2: HEAD');
like(raw($port, "GET /one?k=a HTTP/1.0\r\n\r\n"), qr{\AHTTP/1\.1 429 .*\r\n\r\n\{"type":.*\}\n\z}s, 'HTTP/1.0');
like(raw($port, "GET /one?k=a\r\n"), qr/\A\{"type":.*\}\n\z/, 'HTTP/0.9: the problem alone');
$answer = get($port, '/gzip?k=a', headers => { 'Accept-Encoding' => 'gzip' });
is(field($answer, 'Content-Encoding'), 'gzip', 'filters of nginx apply to it');

# ---- bodies that are not read

my $next = "GET /free HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
for (
    ['of a length',  "Content-Length: 5\r\n\r\nhello"],
    ['of a megabyte', "Content-Length: 1000000\r\n\r\n" . 'x' x 1_000_000],
    ['in chunks',    "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"],
) {
    my ($what, $body) = @$_;
    my $both = raw($port, "POST /upload?k=a HTTP/1.1\r\nHost: x\r\n$body$next");
    is(join(' ', $both =~ m{HTTP/1\.1 (\d+)}g), '429 200', "a body $what is skipped, the connection goes on");
}
is(join(' ', raw($port, "POST /upload?k=a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nno chunk\r\n$next") =~ m{HTTP/1\.1 (\d+)}g),
    '429', 'a body that is malformed ends the connection, after the answer');
like(raw($port, "POST /upload?k=a HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 1000000\r\nConnection: close\r\n\r\n", half => 1),
    qr{^HTTP/1\.1 429}, 'a body is never asked for with 100-continue');

# ---- what nginx answers

is(join(' ', map { $_->{status}, $_->{body} } get($port, '/page?k=a')), "429 a page of one's own\n", 'an error_page goes before it');
is(join(' ', map { $_->{status}, $_->{body} } get($nginx->port('PORT4'), '/outer?k=a'), get($nginx->port('PORT4'), '/outer?k=a')) =~ /429 a page/ ? 1 : 0, 1,
    'so does one of an outer level');
is(join(' ', map { $_->{status}, $_->{body} } get($port, '/asis?k=a')), '200 asis', 'an error_page that changes the status');
is_deeply(problem(get($port, '/other?k=a')), exceeded(429, 'other'), 'an error_page for another status does not');
is(join(' ', map { $_->{status}, $_->{body} } get($port, '/page503?k=a')), "503 a page of one's own\n", 'on_error deny: an error_page goes before it');
is(raw($port, "GET /drop?k=a HTTP/1.1\r\nHost: x\r\n\r\n"), '', 'excess=drop closes the connection');
is(get($port, $_)->{status}, 200, "$_: a dry run never answers") for '/dry?k=a', '/dry_dead?k=a';

# ---- on the way of a request

is_deeply(problem(get($port, '/missing?k=a')), exceeded(429, 'behind'), 'the page of an error is denied: nginx looks for no second error_page');
is_deeply(problem(get($port, '/tried?k=a')), exceeded(429, 'tried'), 'the location that denies says how');
is(get($port, '/accel')->{status}, 200, 'X-Accel-Redirect: the first request is admitted');
is_deeply(problem(my $accelerated = get($port, '/accel')), exceeded(429, 'one'), 'X-Accel-Redirect: the problem has its own type, length and charset');
is(join(' ', map { scalar fields($accelerated, $_) } qw(Content-Length Accept-Ranges)), '1 0', 'X-Accel-Redirect: nothing is left of the first answer');
is_deeply(problem(get($port, '/any?k=a')), exceeded(403, 'any'), 'satisfy any does not overrule it');
is(get($port, '/auth?k=a')->{status}, 200, 'auth_request: the first request is admitted');
is_deeply(problem(get($port, '/auth?k=a')), exceeded(429, 'auth'), 'auth_request: the second is denied');
get($port, '/refunded?k=a') for 1 .. 3;
is($redis->cli('ZCARD', 'rl:sliding:refunded:{a}'), 1, 'its answers refund nothing');

my $logged = Testbed::Process::slurp($nginx->dir . '/access.log');
like($logged, qr{^/one 429 1\d\d REJECTED/redis$}m,   'the access log has status, size and what decided');
like($logged, qr{^/dead 503 2\d\d REJECTED/error$}m,  'so it has of on_error deny');
like($logged, qr{^/drop 444 0 REJECTED/redis$}m,      'so it has of excess=drop');
unlike($logged, qr{^/dry\w* \d+ \d+ REJECTED/}m,      'a dry run is not logged as rejected');

# ---- a reload to the other answer

$nginx->configure(do { local $/; open my $file, '<', $nginx->dir . '/nginx.conf' or die $!; <$file> =~ s/sliding_log_answer problem;/sliding_log_answer plain;/gr });
$nginx->reload(gone => 1);
like(get($port, '/one?k=a')->{body}, qr/<html>/, 'after a reload the page of nginx is back');

$bed->done;
