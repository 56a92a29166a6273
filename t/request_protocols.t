# All protocols by which a request can reach nginx: HTTP/0.9, 1.0, 1.1 kept alive and pipelined, HTTP/2, with bodies.

use strict;
use warnings;
use Digest::SHA qw(sha1_hex);
use Test::More;
use Testbed qw(slow);
use Testbed::Http qw(get request raw parse field connect_to);

my $bed   = Testbed->new;
my $redis = $bed->redis;
my $nginx = $bed->serve(
    redis  => $redis,
    http   => <<'HTTP',
    client_max_body_size 20m;
    server {
        listen 127.0.0.1:%%PORT2%%;
        location / { client_body_in_file_only on; proxy_set_header X-Body $request_body_file; proxy_pass http://127.0.0.1:%%PORT4%%; }
    }
    server {
        listen 127.0.0.1:%%PORT4%%;
        location / { return 200 "$request_method $http_content_length $http_x_body"; }
    }
HTTP
    server => <<'END',
    listen 127.0.0.1:%%PORT3%% http2;
    location /free { empty_gif; }
    location /limited { sliding_log_limit any key=$arg_k limit=10 window=1h; empty_gif; }
    location /upload {
        sliding_log_limit upload key=$arg_k limit=1 window=1h;
        proxy_pass http://127.0.0.1:%%PORT2%%;
        proxy_request_buffering off;
    }
    location /buffered { sliding_log_limit buffered key=$arg_k limit=1 window=1h; proxy_pass http://127.0.0.1:%%PORT2%%; }
END
);
my $port = $nginx->port;

sub zcard { return $redis->cli('ZCARD', "rl:sliding:$_[0]") }

# 1.0 and 0.9
like(raw($port, "GET /limited?k=old HTTP/1.0\r\n\r\n"), qr{^HTTP/1\.1 200 .*RateLimit: "any";r=9}s, 'HTTP/1.0: the answer has the fields');
like(raw($port, "GET /limited?k=old\r\n"), qr/^GIF89a/, 'HTTP/0.9: the answer has no fields');
is(zcard('any:{old}'), 2, 'HTTP/0.9: the request is counted');
raw($port, "GET /limited?k=old\r\n") for 1 .. 8;
unlike(raw($port, "GET /limited?k=old\r\n"), qr/GIF/, 'HTTP/0.9: a request over the limit is denied');

# a client that closes its side after sending still gets its answer
like(raw($port, "GET /limited?k=half HTTP/1.0\r\n\r\n", half => 1), qr/ 200 .*GIF89a/s, 'a client that has closed its side is answered');

# 1.1, 20 requests in one write
my $answers = raw($port, join '', map { "GET /limited?k=pipe HTTP/1.1\r\nHost: x\r\n" . ($_ == 20 ? "Connection: close\r\n" : '') . "\r\n" } 1 .. 20);
is(scalar(() = $answers =~ m{HTTP/1\.1 200}g), 10, 'pipelined: the limit passes');
is(scalar(() = $answers =~ m{HTTP/1\.1 429}g), 10, 'pipelined: the rest is denied, the connection stays open');
is(join(',', $answers =~ /r=(\d+);/g), '9,8,7,6,5,4,3,2,1,0' . ',0' x 10, 'pipelined: the requests are counted in order');

# HTTP/2: streams share a connection and are suspended each
{
    my $h2 = "http://127.0.0.1:" . $nginx->port('PORT3');
    my $output = `h2load -n 200 -c 4 -m 50 '$h2/limited?k=h2' 2>&1`;
    like($output, qr/200 total, 200 started, 200 done/, 'HTTP/2: every stream is answered');
    like($output, qr/status codes: 10 2xx, 0 3xx, 190 4xx, 0 5xx/, 'HTTP/2: the limit passes');
    is(zcard('any:{h2}'), 10, 'HTTP/2: the log has the admitted requests');
    my $one = `curl -s -o /dev/null -D - --http2-prior-knowledge '$h2/limited?k=h2b'`;
    like($one, qr{^HTTP/2 200.*ratelimit-policy: "any";q=10;w=3600\r\n.*ratelimit: "any";r=9;t=3600\r\n}s, 'HTTP/2: the answer has the fields');
}

# bodies
# The backend stores each body in a file and answers its name: method, length and digest.
sub came {
    my ($answer) = @_;
    my ($method, $length, $file) = split ' ', $answer->{body};
    return join ' ', $answer->{status}, $method // '', $length // '', sha1_hex(Testbed::Process::slurp($file // ''));
}
my $body = join '', map { pack 'N', $_ * 2654435761 % 2**32 } 1 .. 750_000;
my $whole = "200 POST 3000000 " . sha1_hex($body);
my $answer = request($port, '/upload?k=a', method => 'POST', body => $body);
is(came($answer), $whole, '/upload: a large body passes whole');
is(came(request($port, '/buffered?k=a', method => 'POST', body => $body)), $whole, '/buffered: a large body passes whole');

# the body comes while the request waits for Redis
for my $path (qw(/upload?k=slow /buffered?k=slow)) {
    $redis->pause;
    my $socket = connect_to($port);
    $socket->syswrite("POST $path HTTP/1.1\r\nHost: x\r\nContent-Length: 3000000\r\nConnection: close\r\n\r\n" . substr $body, 0, 10_000);
    get($port, '/free');    # once this is answered, that has been read
    $socket->syswrite(substr $body, 10_000, 10_000);
    get($port, '/free');
    $redis->resume;
    $socket->syswrite(substr $body, 20_000);
    is(came(parse(Testbed::Http::read_all($socket, 10))), $whole, "$path: a body passes whole that comes while its request waits");
}
$answer = request($port, '/upload?k=a', method => 'POST', body => 'y' x 100_000);
is($answer->{status}, 429, 'a denied upload is answered');
my $text = raw($port, "POST /upload?k=a HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhelloGET /limited?k=after HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
is(join(' ', $text =~ m{HTTP/1\.1 (\d+)}g), '429 200', 'the body of a denied upload is skipped, the connection stays open');
like(raw($port, "POST /upload?k=a HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 1000000\r\nConnection: close\r\n\r\n", half => 1),
    qr{^HTTP/1\.1 429}, 'a denied upload gets no 100 Continue');
$text = raw($port, "POST /buffered?k=expect HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello");
like($text, qr{^HTTP/1\.1 100 Continue\r\n\r\nHTTP/1\.1 200 .*^RateLimit: "buffered";r=0;t=3600\r$}ms,
    'an admitted upload gets 100 Continue, and the fields are on the final answer');
is(scalar(() = $text =~ /^RateLimit:/mg), 1, 'the fields are not on 100 Continue');
$answer = parse(raw($port, "POST /upload?k=b HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n5\r\nhello\r\n0\r\n\r\n"));
is($answer->{status}, 200, 'a chunked upload is admitted');

$bed->done;
