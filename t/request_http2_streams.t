# The streams of one HTTP/2 connection are suspended and resumed independently: answered, denied, reset, or dropped with
# the connection while Redis is asked.

use strict;
use warnings;
use Test::More;
use Testbed qw(wait_until);
use Testbed::Http qw(get);
use Testbed::Http2 qw(open_http2 ask_stream send_data reset_stream answers);

my $bed   = Testbed->new;
my $redis = $bed->redis;
my $nginx = $bed->serve(
    REDIS  => $redis->address,
    listen => 'http2',
    store  => 'server %%REDIS%%; timeout 10s; connect_timeout 5s;',
    http   => <<'HTTP',
    server {
        listen 127.0.0.1:%%PORT2%%;
        location / { return 200 $http_content_length; }
    }
HTTP
    server => <<'END',
    sliding_log_limit h2 key=$arg_k limit=100 window=1h;
    location / { empty_gif; }
    location /free { sliding_log_limit off; empty_gif; }
    location /tight { sliding_log_limit tight key=$arg_k limit=10 window=1h; empty_gif; }
    location /upload { sliding_log_limit upload key=$arg_k limit=1 window=1h; proxy_pass http://127.0.0.1:%%PORT2%%; }
END
);
my $port = $nginx->port;

sub zcard { return $redis->cli('ZCARD', "rl:sliding:$_[0]") }

my $socket = open_http2($port);
ask_stream($socket, 1, '/free');
is(answers($socket, [1], 5)->{1}{status}, 200, 'a stream without a limit is answered');
my $sockets = $nginx->sockets;

# 50 streams wait, 25 of them are reset, one without a limit overtakes them
$redis->pause;
my @streams = map { 2 * $_ + 1 } 1 .. 50;
ask_stream($socket, $_, '/?k=reset') for @streams;
ask_stream($socket, 103, '/free');
is(answers($socket, [103], 5)->{103}{status}, 200, 'a stream without a limit does not wait for the others');
my @reset = grep { $_ % 4 == 1 } @streams;
my @kept  = grep { $_ % 4 == 3 } @streams;
reset_stream($socket, $_) for @reset;
ask_stream($socket, 105, '/free');
answers($socket, [105], 5);    # so the resets have been read
$redis->resume;
my $answer = answers($socket, \@kept, 5);
is(join(' ', map { $answer->{$_}{status} // 'none' } @kept), join(' ', (200) x @kept), 'streams that stay are answered');
is(scalar(grep { $answer->{$_} } @reset), 0, 'streams that were reset are not answered');

# the connection goes on
ask_stream($socket, $_, '/tight?k=a') for map { 2 * $_ + 1 } 60 .. 99;
$answer = answers($socket, [map { 2 * $_ + 1 } 60 .. 99], 5);
my %seen;
$seen{ $_->{status} }++ for values %$answer;
is_deeply(\%seen, { 200 => 10, 429 => 30 }, 'the connection stays open, and the limit is exact') or diag(explain(\%seen));
is(zcard('tight:{a}'), 10, 'the log has as many entries as the limit');

# uploads
ask_stream($socket, 301, '/upload?k=a', body => 1);
send_data($socket, 301, 'x' x 10000, 0) for 1 .. 3;
send_data($socket, 301, 'y' x 100, 1);
is(answers($socket, [301], 5)->{301}{body}, 30100, 'an upload passes in whole');
ask_stream($socket, 303, '/upload?k=a', body => 1);
is(answers($socket, [303], 5)->{303}{status}, 429, 'a denied upload is answered before its body arrives');
send_data($socket, 303, 'x' x 10000, 0);
ask_stream($socket, 305, '/?k=after');
is(answers($socket, [305], 5)->{305}{status}, 200, 'late data of a denied upload affects no other stream');

# a body that comes while the stream waits for Redis
$redis->pause;
ask_stream($socket, 307, '/upload?k=b', body => 1);
send_data($socket, 307, 'x' x 10000, 0);
ask_stream($socket, 309, '/free');
answers($socket, [309], 5);
$redis->resume;
send_data($socket, 307, 'x' x 10000, 1);
is(answers($socket, [307], 5)->{307}{body}, 20000, 'a body that comes while its stream waits is kept');

# connections that close with streams waiting on them
$redis->pause;
for (1 .. 10) {
    my $gone = open_http2($port);
    ask_stream($gone, $_, '/?k=gone') for map { 2 * $_ + 1 } 0 .. 19;
    ask_stream($gone, 41, '/free');
    answers($gone, [41], 5);
    close $gone;
}
$redis->resume;
ok(wait_until('their sockets to be closed', 5, sub { $nginx->sockets == $sockets }), 'connections that close take their streams with them');
ask_stream($socket, 311, '/?k=end');
is(answers($socket, [311], 5)->{311}{status}, 200, 'connections that close do not affect others');
is($nginx->workers + 0, 1, 'the worker survives');
close $socket;

$bed->done;
