# sliding_log_answer problem: a denied gRPC request gets its status in the header of a 200, as a real gRPC client reads
# it, and all kinds of calls end.

use strict;
use warnings;
use Test::More;
use Testbed;
use Testbed::Grpc;
use Testbed::Http qw(request field);

Testbed::Grpc::needs_grpc();

my $EXCEEDED = 'Request cannot be satisfied as assigned quota has been exceeded';
my $REDUCED  = 'Request cannot be satisfied due to temporary server capacity constraints';

my $bed    = Testbed->new;
my $redis  = $bed->redis;

my $nginx = $bed->serve(
    redis    => $redis,
    UPSTREAM => Testbed::Grpc->new($bed, 'serve')->port,
    listen   => 'http2',
    http     => <<'HTTP',
    log_format calls '$uri $status $body_bytes_sent $sliding_log_status/$sliding_log_name';
    access_log %%DIR%%/access.log calls;
    sliding_log_redis dead { server 127.0.0.1:1; reconnect 1m 1m; }
    sliding_log_answer problem;
    server {
        listen 127.0.0.1:%%PORT2%%;
        location / { sliding_log_limit one key=all limit=0 window=1h; empty_gif; }
    }
HTTP
    server   => join "\n", (map { <<"END" } qw(unary sent received both)),
    location /free/$_     { grpc_pass grpc://127.0.0.1:%%UPSTREAM%%; }
    location /limited/$_  { sliding_log_limit one_$_ key=all limit=1 window=1h refund=2xx; sliding_log_limit two_$_ key=all limit=1 window=10m; grpc_pass grpc://127.0.0.1:%%UPSTREAM%%; }
    location /dead/$_     { sliding_log_limit dead key=all limit=1 window=1h store=dead; sliding_log_on_error deny; grpc_pass grpc://127.0.0.1:%%UPSTREAM%%; }
    location /plain/$_    { sliding_log_limit plain key=all limit=0 window=1h; sliding_log_answer plain; grpc_pass grpc://127.0.0.1:%%UPSTREAM%%; }
    location /forbidden/$_ { sliding_log_limit forbidden key=all limit=0 window=1h; sliding_log_status 403; grpc_pass grpc://127.0.0.1:%%UPSTREAM%%; }
    location /dry/$_      { sliding_log_limit dry key=all limit=0 window=1h; sliding_log_dry_run on; grpc_pass grpc://127.0.0.1:%%UPSTREAM%%; }
    location /drop/$_     { sliding_log_limit drop key=all limit=0 window=1h excess=drop; grpc_pass grpc://127.0.0.1:%%UPSTREAM%%; }
    location /own/$_      { sliding_log_limit own key=all limit=0 window=1h; error_page 429 = \@own; grpc_pass grpc://127.0.0.1:%%UPSTREAM%%; }
END
    <<'END',
    location @own { add_header grpc-status 9; add_header grpc-message own; default_type application/grpc; return 200; }
END
);

# The results of these calls as a client sees them, on one connection.
sub told { my (@which) = @_; return Testbed::Grpc::told($nginx->port, @which) }

for my $how (qw(unary sent received both)) {
    my %to = map { $_ => "$how:/$_/$how" } qw(free limited dead plain forbidden dry drop own);
    is_deeply([told(@to{qw(free limited)})], ['OK|-|-', 'OK|-|-'], "$how: admitted calls reach the server");
    my @again = told(@to{qw(limited limited free)});
    like($again[0], qr/^RESOURCE_EXHAUSTED\|\Q$EXCEEDED\E: two_$how\|\d+$/, "$how: the client sees RESOURCE_EXHAUSTED, and which limit");
    like($again[1], qr/^RESOURCE_EXHAUSTED\|/, "$how: again on the same connection");
    is($again[2], 'OK|-|-', "$how: the connection goes on");
    is(scalar(grep { /^RESOURCE_EXHAUSTED\|/ } told(($to{limited}) x 100)), 100, "$how: so are 100 calls, whose bodies nginx has not read");
    is_deeply([told($to{dead})], ["UNAVAILABLE|$REDUCED: dead|1"], "$how: on_error deny: the client sees UNAVAILABLE");
    like((told($to{forbidden}))[0], qr/^RESOURCE_EXHAUSTED\|/, "$how: sliding_log_status does not matter");
    is_deeply([told($to{dry})], ['OK|-|-'], "$how: a dry run never answers");
    is_deeply([told($to{own})], ['FAILED_PRECONDITION|own|-'], "$how: an error_page goes before it") or diag(join "\n", told($to{own}));
    unlike(join('', told(@to{qw(plain drop)})), qr/RESOURCE_EXHAUSTED\|\Q$EXCEEDED/, "$how: plain and excess=drop are as ever");
}
like(Testbed::Process::slurp($nginx->dir . '/access.log'), qr{^/limited/unary 200 0 REJECTED/two_unary$}m, 'the access log has the 200, and that it was denied');
is($redis->cli('ZCARD', 'rl:sliding:two_unary:{all}'), 1, 'a denied call is in no log, and refunds nothing');

# ---- what is on the wire, and what is no gRPC

my $url = 'http://127.0.0.1:' . $nginx->port . '/limited/unary';
sub answered { my (@options) = @_; return scalar qx{curl -s -i --http2-prior-knowledge @options $url} }

for my $type ('application/grpc', 'application/grpc+proto', 'APPLICATION/GRPC; a=b') {
    my $text = answered("-X POST -H 'Content-Type: $type'");
    like($text, qr{\AHTTP/2 200 \r\n.*^content-type: application/grpc\r\n}ms, "$type: 200 of application/grpc");
    for my $field ('grpc-status: 8', "grpc-message: $EXCEEDED: two_unary", 'cache-control: no-store') {
        is(scalar(() = $text =~ /^\Q$field\E\r$/mg), 1, "$type: $field");
    }
    like($text, qr/^ratelimit: .*^retry-after: \d+\r$/ms, "$type: the fields");
    unlike($text, qr/content-length/, "$type: no length");
    like($text, qr/\r\n\r\n\z/, "$type: no body");
}
for my $options ("-X POST -H 'Content-Type: application/grpc-web'", "-X POST -H 'Content-Type: application/grpcx'", "-X POST -H 'Content-Type: text/plain'",
    "-H 'Content-Type: application/grpc'", '-X POST -H Content-Type:') {
    like(answered($options), qr{\AHTTP/2 429 \r\n.*^content-type: application/problem\+json\r\n}ms, "no gRPC: $options");
}
my $answer = request($nginx->port('PORT2'), '/', method => 'POST', headers => { 'Content-Type' => 'application/grpc' }, body => 'hello');
is($answer->{status} . ' ' . field($answer, 'Content-Type'), '429 application/problem+json', 'HTTP/1.1 is no gRPC');

$bed->done;
