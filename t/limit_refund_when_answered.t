# A refund follows the final answer as soon as its header is sent, whatever keeps the request for longer, and whatever
# other status it gets later.

use strict;
use warnings;
use IO::Socket::INET;
use Test::More;
use Testbed qw(wait_until);
use Testbed::Http qw(get field connect_to);
use Time::HiRes qw(time);

my $bed    = Testbed->new;
my $redis  = $bed->redis;
my $silent = IO::Socket::INET->new(Listen => 100, LocalAddr => '127.0.0.1') or die "listen: $!";
my $nginx  = $bed->serve(
    SILENT => $silent->sockport,
    redis  => $redis,
    http   => <<'HTTP',
    sliding_log_on_error deny;
    server {
        listen 127.0.0.1:%%PORT2%%;
        location / { return 404; }
    }
HTTP
    server => <<'END',
    root %%DIR%%/html;
    location /mirrored { mirror /mirror; sliding_log_limit mirrored key=$arg_k limit=3 window=1h refund=200; empty_gif; }
    location = /mirror { internal; proxy_pass http://127.0.0.1:%%SILENT%%; }
    location /refused  { sliding_log_limit refused key=$arg_k limit=3 window=1h refund=403; deny all; }
    location /file     { sliding_log_limit file key=$arg_k limit=3 window=1h refund=206,304; }
    location /posted { post_action @fails; sliding_log_limit posted key=$arg_k limit=3 window=1h refund=5xx; empty_gif; }
    location /leaves { post_action @fails; sliding_log_limit leaves key=$arg_k limit=3 window=1h refund=499; proxy_pass http://127.0.0.1:%%SILENT%%; }
    location /stays  { post_action @fails; sliding_log_limit stays key=$arg_k limit=3 window=1h refund=5xx; proxy_pass http://127.0.0.1:%%SILENT%%; }
    location @fails  { proxy_pass http://127.0.0.1:1; }
    location /own  { sliding_log_limit own key=$arg_k limit=2 window=1h count=all refund=4xx; empty_gif; }
    location /work {
        sliding_log_limit work key=$arg_k limit=5 window=1h refund=4xx;
        error_page 404 = @denied;
        proxy_intercept_errors on;
        proxy_pass http://127.0.0.1:%%PORT2%%;
    }
    location @denied { sliding_log_limit shut key=$arg_k limit=0 window=1h; empty_gif; }
    location /rehearsed {
        sliding_log_limit rehearsed key=$arg_k limit=1 window=9s delay=1m;
        sliding_log_dry_run on;
        try_files /none @held;
    }
    location @held { sliding_log_limit held key=$arg_k limit=1 window=300ms delay=1m; empty_gif; }
    location /twice { sliding_log_limit first key=$arg_k limit=1 window=900ms delay=1m; try_files /none @held; }
    location /free { empty_gif; }
END
);
mkdir $nginx->dir . '/html';
$bed->write_file('nginx1/html/file', 'x' x 1000);
my $port = $nginx->port;

sub zcard { return $redis->cli('ZCARD', "rl:sliding:$_[0]:{a}") }
sub keeps { my ($log, $entries, $what) = @_; return ok(wait_until('the refund', 5, sub { zcard($log) == $entries }), $what) }
sub is_given_back { my ($log, $what) = @_; return keeps($log, 0, $what) }
sub statuses { my ($path, $times) = @_; return join ' ', map { get($port, "$path?k=a")->{status} } 1 .. $times }

# requests that last longer than their answer
my $client = connect_to($port);
$client->syswrite("GET /mirrored?k=a HTTP/1.1\r\nHost: x\r\n\r\n");
my $mirror = $silent->accept;
sysread $client, my $answer, 65536;
like($answer, qr{^HTTP/1.1 200}, 'a request is answered while its mirror waits');
is_given_back('mirrored', 'the entry of a request is given back while its mirror waits');
close $mirror;

$client = connect_to($port);
$client->syswrite("POST /refused?k=a HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\nxxx");
sysread $client, $answer, 65536;
like($answer, qr{^HTTP/1.1 403}, 'a request is refused while its client continues to upload');
is_given_back('refused', 'the entry of a request is given back while its client continues to upload');
ok(defined $client->syswrite('x'), 'a client that continues to upload stays connected');
close $client;

# the status that is sent, not the one passed to the filters
my $file = get($port, '/file?k=a');
is($file->{status}, 200, 'a whole file: 200');
is(zcard('file'), 1, 'a 200 is not refunded');
is(get($port, '/file?k=a', headers => { Range => 'bytes=0-9' })->{status}, 206, 'a part of a file: 206');
keeps('file', 1, 'a 206 that a filter makes is refunded');
is(get($port, '/file?k=a', headers => { 'If-None-Match' => field($file, 'ETag') })->{status}, 304, 'an unchanged file: 304');
keeps('file', 1, 'a 304 that a filter makes is refunded');

# post_action
is(statuses('/posted', 8), '200 200 200 429 429 429 429 429', 'a post_action that fails refunds nothing: the client got 200');
$client = connect_to($port);
$client->syswrite("GET /leaves?k=a HTTP/1.1\r\nHost: x\r\n\r\n");
my $backend = $silent->accept;
is(zcard('leaves'), 1, 'a request with a post_action is logged');
close $client;
is_given_back('leaves', 'a client leaves without an answer: 499 is refunded, whatever the post_action has');
$client = connect_to($port);
$client->syswrite("GET /stays?k=a HTTP/1.1\r\nHost: x\r\n\r\n");
$backend = $silent->accept;
close $client;
my $logged = qr/connect\(\) failed.*@?fails|connect\(\) failed.*GET \/stays/;
wait_until('the post_action', 5, sub { $nginx->logged($logged) });
get($port, '/free');
is(zcard('stays'), 1, 'the status of the post_action refunds nothing');

# answers of this module refund nothing
is(statuses('/own', 5), '200 200 429 429 429', 'denied attempts are counted');
is(zcard('own'), 3, 'refund=4xx gives no denied attempt back for the 429 of this module');
is(statuses('/work', 8), join(' ', (429) x 8), 'a limit behind an error page denies');
is(zcard('work'), 5, 'the limit before the upstream keeps the entries of requests that used the upstream');
is(get($port, '/work?k=a')->{status}, 429, 'the limit before the upstream denies the next request itself');

# reservations of a dry run
get($port, '/rehearsed?k=a');
my $begin = time;
is(get($port, '/rehearsed?k=a')->{status}, 200, 'a dry reservation of 9 s and an enforced one of 0.3 s');
cmp_ok(time - $begin, '<', 5, 'a request waits for the enforced reservation, not for the dry one');
$begin = time;
get($port, '/twice?k=a');
is(get($port, '/twice?k=a')->{status}, 200, 'two locations that hold a request, one after the other');
cmp_ok(time - $begin, '>', 0.85, 'two locations that hold a request: it waits for the first');
cmp_ok(time - $begin, '<', 5, 'two locations that hold a request: it waits for the second no longer than its reservation');

$bed->done;
