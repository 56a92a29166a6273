# A worker keeps at most 10,000 take-backs for a store that is down. The oldest ones beyond that are lost, counted and
# logged. When Redis is back, it gets the others, except those whose entries have left their window.

use strict;
use warnings;
use IO::Socket::INET;
use List::Util qw(max sum0);
use Test::More;
use Testbed qw(wait_until slow);
use Testbed::Algorithm qw(@ALGORITHMS);
use Testbed::Http qw(get field);
use Testbed::Http2 qw(open_http2 ask_stream reset_stream answers);
use Testbed::Metrics qw(scrape);
use Time::HiRes qw(sleep);

use constant { REQUESTS => 2100, MOST => 10_000 };

my $bed    = Testbed->new;
my $redis  = $bed->redis(args => [qw(--appendonly yes --appendfsync always)]);
my $silent = IO::Socket::INET->new(Listen => 4096, LocalAddr => '127.0.0.1') or die "listen: $!";
my $limits = join "\n", map { "sliding_log_limit $_ key=\$arg_k limit=10000 window=30d algorithm=$_ refund=499" . ($_ eq 'sampled' ? ' sample=1;' : ';') } @ALGORITHMS;
my $looks  = join "\n", map { "location /look/$_ { sliding_log_limit $_ key=\$arg_k limit=10000 window=30d cost=0 algorithm=$_" . ($_ eq 'sampled' ? ' sample=1' : '') . '; empty_gif; }' } @ALGORITHMS;
my $nginx  = $bed->serve(
    REDIS => $redis->address, SILENT => $silent->sockport,
    connections => 8192,
    main        => 'worker_rlimit_nofile 16384;',
    store       => 'server %%REDIS%%; timeout 20s; connect_timeout 1s; reconnect 20ms 200ms;',
    http        => <<"HTTP",
    keepalive_requests 10000;
    http2_max_concurrent_streams 10000;
    sliding_log_on_error deny;
HTTP
    server      => <<"END",
    listen 127.0.0.1:%%PORT2%% http2;
    location /work { $limits proxy_connect_timeout 60s; proxy_pass http://127.0.0.1:%%SILENT%%; }
    location /brief { sliding_log_limit brief key=\$arg_k limit=10000 window=300ms refund=499; proxy_connect_timeout 60s; proxy_pass http://127.0.0.1:%%SILENT%%; }
    $looks
    location /free    { empty_gif; }
    location /metrics { sliding_log_metrics; }
END
);
my $port = $nginx->port;

sub used { return (field(get($port, "/look/$_[0]?k=a"), 'RateLimit') // '') =~ /;r=(\d+)/ ? 10000 - $1 : 1e6 }
sub lost { return scrape($port)->value('sliding_log_store_take_backs_lost_total') }

my $client = open_http2($nginx->port('PORT2'));
for my $nth (0 .. REQUESTS - 1) {
    ask_stream($client, 2 * $nth + 1, '/work?k=a');
}
ok(wait_until('all to be admitted', 20, sub { !grep { used($_) != REQUESTS } @ALGORITHMS }), REQUESTS . ' requests are in five logs each')
    or diag(join ' ', map { used($_) } @ALGORITHMS);
$redis->kill;
reset_stream($client, 2 * $_ + 1) for 0 .. REQUESTS - 1;
ask_stream($client, 2 * REQUESTS + 1, '/free');
is(answers($client, [2 * REQUESTS + 1], 20)->{ 2 * REQUESTS + 1 }{status}, 200, 'the clients leave while Redis is down');
my $owed = REQUESTS * @ALGORITHMS;
is(lost(), $owed - MOST, 'take-backs beyond the maximum count as lost');
ok($nginx->logged(qr/a request could not be taken back out of its log: too many are owed/) >= 1, 'the error log has the lost take-backs');
$redis->start;
ok(wait_until('what was kept to be given back', 30, sub { sum0(map { used($_) } @ALGORITHMS) == $owed - MOST }), 'exactly the kept take-backs are executed')
    or diag(join ' ', map { used($_) } @ALGORITHMS);
is(lost(), $owed - MOST, 'nothing else is lost');

# entries that have left their window meanwhile
$client = open_http2($nginx->port('PORT2'));
ask_stream($client, 2 * $_ + 1, '/brief?k=a') for 0 .. 19;
ok(wait_until('all to be logged', 10, sub { $redis->cli('ZCARD', 'rl:sliding:brief:{a}') == 20 || $redis->cli('EXISTS', 'rl:sliding:brief:{a}') == 0 }), 'twenty requests of a short window');
ask_stream($client, 41, '/free');
answers($client, [41], 20);
$redis->kill;
reset_stream($client, 2 * $_ + 1) for 0 .. 19;
ask_stream($client, 43, '/free');
answers($client, [43], 20);
sleep 0.5;
$redis->start;
ok(wait_until('Redis to decide', 10, sub { used('log') < 1e6 }), 'Redis is back after the window');
sleep 0.5;    # longer than any take-back needs
is($redis->calls('zrem'), 0, 'entries that have left their window are not taken back');
is(lost(), $owed - MOST, 'entries that have left their window do not count as lost');

$bed->done;
