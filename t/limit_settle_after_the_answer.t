# settle= with what may come after the answer, or between two answers: a post_action does not change the cost of the
# request, and a cost that an upstream server told before error_page or X-Accel-Redirect is added. Random requests against
# these rules.

use strict;
use warnings;
use IO::Socket::INET;
use Test::More;
use Testbed qw(seed wait_until);
use Testbed::Http qw(get field connect_to);
use Testbed::Http2 qw(open_http2 ask_stream answers);

seed();

my $bed    = Testbed->new;
my $redis  = $bed->redis;
my $silent = IO::Socket::INET->new(Listen => 100, LocalAddr => '127.0.0.1', Timeout => 20) or die "listen: $!";

# What may come after the answer.
my %after = (
    nothing  => '',
    named    => 'post_action @after;',
    answers  => 'post_action @answers;',
    uri      => 'post_action /after;',
    returns  => 'post_action /returns;',
    fails    => 'post_action /fails;',
    missing  => 'post_action /nowhere;',
    lost     => 'post_action @nowhere;',
);
my $limit = 'sliding_log_limit cost key=$arg_k limit=100000 window=1h algorithm=compact cost=10';
my $locations = join "\n", map { <<"END" } sort keys %after;
    location /one/$_    { $limit settle=\$upstream_http_x_cost; $after{$_} proxy_pass http://127.0.0.1:%%PORT2%%; }
    location /mapped/$_ { $limit settle=\$mapped; $after{$_} proxy_pass http://127.0.0.1:%%PORT2%%; }
    location /sent/$_   { $limit settle=\$body_bytes_sent; $after{$_} proxy_pass http://127.0.0.1:%%PORT2%%; }
    location /left/$_   { $limit settle=\$of_status; $after{$_} proxy_pass http://127.0.0.1:%%SILENT%%; }
    location /fall/$_   { $limit settle=\$upstream_http_x_cost; proxy_intercept_errors on; error_page 500 502 =200 \@fall_$_; $after{$_} proxy_pass http://127.0.0.1:%%PORT2%%; }
    location \@fall_$_  { $after{$_} proxy_pass http://127.0.0.1:%%PORT3%%; }
    location /mfall/$_  { $limit settle=\$mapped; proxy_intercept_errors on; error_page 500 502 =200 \@fall_$_; $after{$_} proxy_pass http://127.0.0.1:%%PORT2%%; }
END

my $nginx = $bed->serve(
    redis  => $redis,
    SILENT => $silent->sockport,
    http   => <<'HTTP',
    map "$status $upstream_http_x_cost" $mapped { "~^200 (?<told>\d+)$" $told; default ""; }
    map $status $of_status { 499 7; default 1; }
    map $status $by_status { 200 1; default 5; }
    map $arg_to $to { "" ""; default "$arg_to?second=$arg_second"; }
    server {
        listen 127.0.0.1:%%PORT2%%;
        add_header X-Cost $arg_cost always;
        add_header X-Accel-Redirect $to always;
        location / { if ($arg_fails) { return 500; } return 200 "0123456789abc"; }
    }
    server {
        listen 127.0.0.1:%%PORT3%%;
        location / { add_header X-Cost $arg_second always; return 200 "01"; }
    }
    server { listen 127.0.0.1:%%PORT4%%; location / { add_header X-Cost 5000 always; return 200 "the post_action"; } }
HTTP
    server => <<"END",
    listen 127.0.0.1:%%PORT5%% http2;
    $locations
    location \@after   { proxy_pass http://127.0.0.1:%%PORT4%%; }
    location \@answers { return 200 "more"; }
    location /after    { proxy_pass http://127.0.0.1:%%PORT4%%; }
    location /returns  { return 200 "more"; }
    location /fails    { proxy_pass http://127.0.0.1:1; }
    location /auth     { internal; proxy_pass http://127.0.0.1:%%PORT4%%; }
    location /beside   { $limit settle=\$upstream_http_x_cost; auth_request /auth; mirror /after; post_action \@after; proxy_pass http://127.0.0.1:%%PORT2%%; }
    location /status   { $limit settle=\$by_status; proxy_intercept_errors on; error_page 500 =200 \@fall_nothing; proxy_pass http://127.0.0.1:%%PORT2%%; }
    location /length   { $limit settle=\$upstream_response_length; proxy_intercept_errors on; error_page 500 =200 \@fall_nothing; proxy_pass http://127.0.0.1:%%PORT2%%; }
    location /bytes    { $limit settle=\$body_bytes_sent; proxy_intercept_errors on; error_page 500 =200 \@fall_nothing; proxy_pass http://127.0.0.1:%%PORT2%%; }
    location /stored/  { internal; proxy_pass http://127.0.0.1:%%PORT3%%; }
    location /file/    { internal; empty_gif; }
    location /look     { sliding_log_limit cost key=\$arg_k limit=100000 window=1h algorithm=compact cost=0; empty_gif; }
END
);
my $port = $nginx->port;
$nginx->expect_in_log(qr/invalid "settle"/)->expect_in_log(qr/connect\(\) failed/)->expect_in_log(qr/open\(\)/)
    ->expect_in_log(qr/could not find named location "\@nowhere"/);

my $key = 'k0';
sub used { my ($left) = (field(get($port, "/look?k=$_[0]"), 'RateLimit') // '') =~ /;r=(\d+)/; return 100000 - ($left // 0) }

# Checks that the path has this cost in the end. It is asked twice, so that a cost that is settled late, or twice, shows.
sub costs {
    my ($path, $cost) = @_;
    my $new = ++$key;
    my $join = $path =~ /\?/ ? '&' : '?';
    get($port, "$path${join}k=$new") for 1 .. 2;
    my $is;
    return ok(wait_until($path, 5, sub { ($is = used($new)) == 2 * $cost }), "$path costs $cost twice") || diag($is);
}

for my $after (sort keys %after) {
    costs("/one/$after?cost=3",    3);
    costs("/mapped/$after?cost=4", 4);
    costs("/one/$after?cost=",     10);
    costs("/sent/$after",          13);

    for my $answered ('', "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n") {    # it is not sent without a body
        my $new    = ++$key;
        my $client = connect_to($port);
        $client->syswrite("GET /left/$after?k=$new HTTP/1.1\r\nHost: x\r\n\r\n");
        my $upstream = $silent->accept or die "accept: $!";
        $upstream->syswrite($answered) if $answered;
        is(used($new), 10, "$after: a request under way has its estimate");
        close $client;
        my $what = $answered ? 'before anything was sent' : 'without an answer';
        ok(wait_until('the end', 5, sub { used($new) == 7 }), "$after: a client that leaves $what is settled by its 499") or diag(used($new));
        close $upstream;
    }
}

my $socket = open_http2($nginx->port('PORT5'));
my @ways   = sort keys %after;
my %stream = map { $ways[$_] => 2 * $_ + 1 } 0 .. $#ways;
ask_stream($socket, $stream{$_}, "/mapped/$_?cost=3&k=h2$_") for @ways;
answers($socket, [values %stream], 10);
ok(wait_until('the end', 5, sub { used("h2$_") == 3 }), "HTTP/2, $_: a stream has its cost") for @ways;
costs('/beside?cost=3', 3);    # its own cost, not that of requests beside it

# ---- two upstreams

for (1 .. 60) {
    my $kind  = (qw(fall mfall))[rand 2];
    my $after = (sort keys %after)[rand keys %after];
    my ($fails, $first, $second) = map { $_->[rand @$_] } ['', 1], ['', 0, 1, 5, 30], ['', 0, 1, 5, 20];
    my @told = grep { $_ ne '' } $first, $fails ? $second : ();
    my $sum  = 0;
    $sum += $_ for @told;
    costs("/$kind/$after?fails=$fails&cost=$first&second=$second", @told ? $sum : 10);
}
costs('/status?fails=1&cost=30&second=20', 1);
costs('/bytes?fails=1',                    2);
costs('/length?fails=1',                   10);
ok($nginx->logged(qr/invalid "settle" value "\d+ : 2"/), 'the lengths of two answers are no number');
costs('/one/nothing?cost=6&to=/file/a',    6);
costs('/one/named?cost=6&to=/file/a',      6);
costs('/one/nothing?cost=6&to=/stored/a',  6);
costs('/one/nothing?cost=6&to=/stored/a&second=2', 8);

$bed->done;
