# refund=: the status of the final answer gives the entries back, exactly once, in every store and algorithm, also when
# the client leaves early.

use strict;
use warnings;
use IO::Socket::INET;
use Test::More;
use Testbed qw(answers_as_told wait_until);
use Testbed::Everywhere qw(@PLACES locations);
use Testbed::Http qw(get field fields connect_to many);
use Testbed::Http2 qw(open_http2 ask_stream reset_stream answers);

my $bed   = Testbed->new;
my $redis = $bed->redis;

my $limits = locations(login => limit => 'limit=3 window=1h refund=1xx,2xx,3xx', inside => 'proxy_pass http://127.0.0.1:%%PORT2%%;');

# A backend that never answers.
my $silent = IO::Socket::INET->new(Listen => 100, LocalAddr => '127.0.0.1') or die "listen: $!";

my $nginx = $bed->serve(
    SILENT  => $silent->sockport,
    workers => 2,
    redis   => $redis,
    http    => answers_as_told(200, 401, 404, 500) . <<"HTTP",
    log_format status '\$request_uri \$status \$sliding_log_status';
    access_log %%DIR%%/access.log status;
    sliding_log_on_error deny;
HTTP
    server  => <<"END",
    listen 127.0.0.1:%%PORT3%% http2;
    $limits
    location /ours {
        sliding_log_limit ours key=\$arg_k limit=3 window=1h refund=5xx;
        proxy_pass http://127.0.0.1:%%PORT2%%;
    }
    location /down { sliding_log_limit down key=\$arg_k limit=3 window=1h refund=502; proxy_pass http://127.0.0.1:1; }
    location /page {
        sliding_log_limit page key=\$arg_k limit=3 window=1h refund=404;
        error_page 404 = /found;
        return 404;
    }
    location /found { sliding_log_limit found key=\$arg_k limit=3 window=1h refund=200; try_files /none \@found; }
    location \@found { return 200; }
    location /missing {
        sliding_log_limit missing key=\$arg_k limit=3 window=1h refund=404;
        root %%DIR%%/none;
    }
    location /both {
        sliding_log_limit far key=\$arg_k limit=3 window=1h refund=404;
        sliding_log_limit near key=\$arg_k limit=3 window=1h refund=404 store=local;
        sliding_log_limit stays key=\$arg_k limit=5 window=1h;
        proxy_pass http://127.0.0.1:%%PORT2%%;
    }
    location /slow {
        sliding_log_limit slow key=\$arg_k limit=3 window=1h refund=499;
        sliding_log_limit slowly key=\$arg_k limit=3 window=1h refund=499 algorithm=compact;
        proxy_pass http://127.0.0.1:%%SILENT%%;
    }
    location /free { return 204; }
END
);
my $port = $nginx->port;

sub zcard { return $redis->cli('ZCARD', "rl:sliding:$_[0]") }

# Repeats the request until it gets this status: a refund follows the answer.
sub becomes {
    my ($path, $status, $what) = @_;
    return ok(wait_until($what, 5, sub { get($port, $path)->{status} == $status }), $what);
}

for my $place (@PLACES) {
    my $path = "/login/$place?k=a";
    my $bad  = 0;
    for (1 .. 10) {
        wait_until('the refund', 5, sub { (field(get($port, "$path&status=200"), 'RateLimit') // '') =~ /;r=2;/ }) or $bad++;
    }
    is($bad, 0, "$place: a success takes nothing");
    is(get($port, "$path&status=401")->{status}, 401, "$place: a failure passes and is counted") for 1 .. 2;
    becomes("$path&status=200", 200, "$place: a success still passes after two failures");
    ok(wait_until('the refund', 5, sub { (field(get($port, "$path&status=200"), 'RateLimit') // '') =~ /;r=0;/ }),
        "$place: a success after two failures is given back");
    becomes("$path&status=401", 401, "$place: the third failure passes");
    is(get($port, "$path&status=200")->{status}, 429, "$place: the request after three failures is denied, whatever it would be");
    is(get($port, "/login/$place?k=b&status=200")->{status}, 200, "$place: another key is not denied");
}

# server errors are not charged
get($port, '/ours?k=a&status=500') for 1 .. 5;
becomes('/ours?k=a&status=500', 500, 'refund=5xx: server errors take nothing');
get($port, '/down?k=a') for 1 .. 5;
is(get($port, '/down?k=a')->{status}, 502, 'refund=502: a backend that is down takes nothing');
ok(wait_until('the log to be empty', 5, sub { zcard('down:{a}') == 0 }), 'refund=502: the log of a backend that is down is empty');

# the final answer counts, not the one that error_page replaced
get($port, '/page?k=a') for 1 .. 3;
is(zcard('page:{a}'), 0, 'a location that answers before the access phase asks no limit');
ok(wait_until('the refund', 5, sub { zcard('found:{a}') == 0 }), 'an internal redirect is refunded after its answer');
get($port, '/missing?k=a') for 1 .. 3;
ok(wait_until('the refund', 5, sub { zcard('missing:{a}') == 0 }), 'a missing file is refunded');

# two stores, and a log that keeps its entry
get($port, '/both?k=a&status=404') for 1 .. 5;
ok(wait_until('the refund', 5, sub { zcard('far:{a}') == 0 }), 'two stores: both logs are refunded');
is(zcard('stays:{a}'), 5, 'two stores: the limit without refund= keeps its entries');
is(get($port, '/both?k=a&status=404')->{status}, 429, 'two stores: the limit without refund= denies');
ok(wait_until('the take-back', 5, sub { zcard('far:{a}') == 0 }), 'two stores: a denied request is given back once');

# clients that leave early
my @waiting;
for (1 .. 3) {
    my $client = connect_to($port);
    $client->syswrite("GET /slow?k=a HTTP/1.1\r\nHost: x\r\n\r\n");
    push @waiting, scalar $silent->accept;
    is(zcard('slow:{a}'), 1, 'a client waits for its answer: its request is logged');
    close $client;
    ok(wait_until('the refund', 5, sub { zcard('slow:{a}') == 0 }), 'a client leaves while it waits: 499 is refunded');
    ok(wait_until('the refund', 5, sub { $redis->cli('EXISTS', 'rl:sliding:slowly:{a}') == 0 }),
        'a client leaves while it waits: 499 is refunded in the compact log');
}

# clients that leave while Redis is asked: logged entries are given back after the reply
my $socket = open_http2($nginx->port('PORT3'));
$redis->pause;
ask_stream($socket, $_, '/slow?k=b') for map { 2 * $_ + 1 } 0 .. 2;
ask_stream($socket, 11, '/free');
answers($socket, [11], 5);
reset_stream($socket, $_) for map { 2 * $_ + 1 } 0 .. 2;
ask_stream($socket, 13, '/free');
answers($socket, [13], 5);
$redis->resume;
ok(wait_until('their entries to leave', 5, sub { zcard('slow:{b}') == 0 && $redis->calls('evalsha') > 0 }),
    'streams that were reset while Redis was asked leave the log');
ok(wait_until('their entries to leave', 5, sub { $redis->cli('EXISTS', 'rl:sliding:slowly:{b}') == 0 }),
    'streams that were reset while Redis was asked leave the compact log');
close $socket;

# under load: only failures stay
my @answers = many([map { [$port, '/ours?k=load&status=' . ($_ % 4 ? 500 : 200)] } 1 .. 200]);
my $failed  = grep { $_->{status} == 200 } @answers;
ok(wait_until('refunds', 5, sub { zcard('ours:{load}') == $failed }), "200 requests at once: $failed count, the others were given back");

$bed->done;
