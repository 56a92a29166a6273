# A denial behind X-Accel-Redirect carries nothing of the answer that the application gave before, whatever nginx answers
# with, in every protocol: a cache would serve it to others. An admitted request keeps the fields. Statuses that caches
# keep by themselves carry no-store.

use strict;
use warnings;
use Test::More;
use Testbed;
use Testbed::Http qw(get raw field fields);
use Testbed::Http2 qw(open_http2 ask_stream answers);

my $bed = Testbed->new;
$bed->write_file($_, "$_\n") for qw(sorry.html file.css);

# Fields of the application's own answer. nginx passes some of them on, and other versions of nginx may pass more.
my %told = (
    'Cache-Control'       => 'public, max-age=86400',
    'Expires'             => 'Thu, 31 Dec 2037 23:55:55 GMT',
    'Set-Cookie'          => 'session=of_one_client; HttpOnly',
    'Content-Disposition' => 'attachment; filename="report.pdf"',
    'Last-Modified'       => 'Mon, 28 Sep 1970 06:00:00 GMT',
    'ETag'                => '"of-the-file"',
    'Accept-Ranges'       => 'bytes',
    'Link'                => '</style.css>; rel=preload',
    'X-Application'       => 'says so',
    'WWW-Authenticate'    => 'Basic realm="the application"',
    'Vary'                => 'Cookie',
    'Content-Language'    => 'de',
);
my @kept = ('Cache-Control', 'Expires', 'Set-Cookie', 'Content-Disposition');    # by nginx, in an admitted answer
my $says = join ' ', map { my $value = $told{$_} =~ s/"/\\"/gr; qq{add_header $_ "$value" always;} } sort keys %told;

my %answers = (
    plain   => ['',                                                 429],
    problem => ['sliding_log_answer problem;',                      429],
    page    => ['error_page 429 /sorry.html;',                      429],
    other   => ['error_page 429 =503 @sorry;',                      503],
    proxied => ['error_page 429 /told_by_another;',                 429],
    away    => ['error_page 429 https://example.com/;',             302],
    dead    => ['sliding_log_on_error deny; sliding_log_limit dead key=all limit=1 window=1h store=dead;', 503],
);
my %statuses = map { $_ => $_ } qw(404 405 410 414 501 403 500);
sub limited { my ($name, $with) = @_; return "sliding_log_limit $name key=all limit=0 window=1h;" . $with }

my $locations = join "\n",
    (map { my ($with) = $answers{$_}[0]; "location /$_ { internal; " . ($with =~ /dead/ ? $with : limited($_, $with)) . " root %%ROOT%%; }\n location \@$_ { " . ($with =~ /dead/ ? $with : limited($_, $with)) . " root %%ROOT%%; }" } keys %answers),
    (map { my $status = $_; map { "location /s${status}_$_ { " . limited("s$status", "sliding_log_status $status; " . ($_ eq 'page' ? "error_page $status /sorry.html;" : "sliding_log_answer $_;")) . ' root %%ROOT%%; }' } qw(plain problem page) } keys %statuses);

my $nginx = $bed->serve(
    ROOT   => $bed->dir,
    http   => <<"HTTP",
    sliding_log_redis dead { server 127.0.0.1:1; reconnect 1m 1m; }
    charset_types *;
    server {
        listen 127.0.0.1:%%PORT2%%;
        location /app       { add_header X-Accel-Redirect \$arg_to always; charset koi8-r; default_type text/html; $says return 200 "<p>"; }
        location /challenge { $says return 401; }
        location /sorry     { add_header Cache-Control private; add_header Set-Cookie sorry=1; return 200 sorry; }
    }
HTTP
    server => <<"END",
    listen 127.0.0.1:%%PORT3%% http2;
    root %%ROOT%%;
    location /app       { proxy_pass http://127.0.0.1:%%PORT2%%; }
    location = /again/  { proxy_pass http://127.0.0.1:%%PORT2%%/app?to=/once; }
    location = /once    { proxy_pass http://127.0.0.1:%%PORT2%%/app?to=/plain/file.css; }
    location /challenge { proxy_intercept_errors on; error_page 401 = \@plain; proxy_pass http://127.0.0.1:%%PORT2%%; }
    location /auth      { auth_request /ask; error_page 401 = \@plain; }
    location = /ask     { proxy_pass http://127.0.0.1:%%PORT2%%/challenge; }
    location /open/     { sliding_log_limit open key=all limit=100 window=1h; alias %%ROOT%%/; }
    location /told_by_another { proxy_pass http://127.0.0.1:%%PORT2%%/sorry; }
    location = /sorry.html { }
    location \@sorry    { add_header Cache-Control private always; return 200 sorry; }
    $locations
END
);
my $port = $nginx->port;

# The fields of the application that an answer has.
sub left { my ($answer) = @_; return join ' ', grep { my $name = $_; grep { $_ eq $told{$name} } fields($answer, $name) } sort keys %told }

my $admitted = get($port, '/app?to=/open/file.css');
is($admitted->{status}, 200, 'an admitted request');
is(join(' ', grep { field($admitted, $_) eq $told{$_} } @kept), "@kept", 'keeps what the application told');

my $again = get($port, '/again/');
is("$again->{status} " . left($again), '429 ', 'nothing is left of two applications');
for my $name (sort keys %answers) {
    for my $to ("/$name/file.css", "\@$name") {
        my $answer = get($port, "/app?to=$to");
        is($answer->{status}, $answers{$name}[1], "$name: a denial behind $to");
        is(left($answer), '', "$name: nothing of the application is left");
        unlike(field($answer, 'Content-Type') // '', qr/koi8/, "$name: nor of its charset");
        is(join(' ', map { fields($answer, $_) } 'Cache-Control', 'Set-Cookie'), 'private sorry=1', "$name: its own page tells what it likes") if $name eq 'proxied';
        is(field($answer, 'Cache-Control'), 'private', "$name: its own page tells what it likes") if $name eq 'other';
    }
}
is(left(my $challenged = get($port, '/challenge')), '', 'nothing is left of an intercepted answer');
is($challenged->{status}, 429, 'which was denied');
is(left($challenged = get($port, '/auth')), '', 'nothing is left of the challenge of auth_request');
is($challenged->{status}, 429, 'which was denied');

# ---- statuses that caches keep

for my $status (sort keys %statuses) {
    for my $how (qw(plain problem page)) {
        for my $path ("/s${status}_$how/file.css", "/app?to=/s${status}_$how/file.css") {
            my $answer = get($port, $path);
            is($answer->{status}, $status, "$path: is denied");
            is(join(' ', fields($answer, 'Cache-Control')), $status =~ /404|405|410|414|501/ ? 'no-store' : '', "$path: caches know what to do");
        }
    }
}

# ---- connections go on

my @piped = split /(?=HTTP\/1\.1 \d)/, raw($port, join '', map { "GET $_ HTTP/1.1\r\nHost: x\r\n" . (/last/ ? "Connection: close\r\n" : '') . "\r\n" }
    '/app?to=/plain/x', '/app?to=/open/file.css', '/app?to=@problem', '/again/', '/app?to=/page/x', '/app?to=/open/file.css&last');
is(join(' ', map { /^HTTP\/1\.1 (\d+)/ } @piped), '429 200 429 429 429 200', 'pipelined: each request has its answer');
is(join(' ', map { /^Set-Cookie: session/mi ? 'cookie' : 'none' } @piped), 'none cookie none none none cookie', 'and the cookie that is for it');

my $socket = open_http2($nginx->port('PORT3'));
my %path   = (1 => '/app?to=/plain/x', 3 => '/app?to=/open/file.css', 5 => '/app?to=@problem', 7 => '/again/', 9 => '/app?to=/open/file.css');
ask_stream($socket, $_, $path{$_}) for sort { $a <=> $b } keys %path;
my $answers = answers($socket, [keys %path], 10);
is(join(' ', map { $answers->{$_}{status} } sort { $a <=> $b } keys %path), '429 200 429 429 200', 'HTTP/2: each stream has its answer');

my $at   = 'http://127.0.0.1:' . $nginx->port('PORT3');
my $grpc = Testbed::Http::parse(scalar `curl -s -i --max-time 10 --http2-prior-knowledge -X POST -H 'Content-Type: application/grpc' '$at/app?to=/problem/x'`);
is("$grpc->{status} " . join(' ', map { fields($grpc, $_) } 'content-type', 'grpc-status'), '200 application/grpc 8', 'gRPC: a denial of its own form');
is(left($grpc), '', 'gRPC: nothing of the application is left');

$bed->done;
