# A worker frees the memory of a spike of requests when the spike is over.

use strict;
use warnings;
use Test::More;
use List::Util qw(min);
use Testbed qw(wait_until slow);
use Testbed::Http qw(get);
use Testbed::Process;

use constant REQUESTS => 10_000;

plan skip_all => 'sanitizers keep what was freed' if ($ENV{TEST_NGINX_MODULE} // '-') eq '';

my $bed   = Testbed->new;
my $redis = $bed->redis;
my $nginx = $bed->serve(
    REDIS => $redis->address, STREAMS => REQUESTS,
    store  => 'server %%REDIS%%; timeout 1m; connect_timeout 1m;',
    http   => <<'HTTP',
    keepalive_requests 1000000;
    http2_max_concurrent_streams %%STREAMS%%;
    server {
        listen 127.0.0.1:%%PORT2%% http2;
        location / { sliding_log_limit spike key=$arg_k limit=100000 window=1h; empty_gif; }
    }
HTTP
    server => 'location / { sliding_log_limit spike key=$arg_k limit=100000 window=1h; empty_gif; }',
);
my ($worker) = $nginx->workers;

# Its private memory in MB.
sub memory { return Testbed::Process::slurp("/proc/$worker/status") =~ /^RssAnon:\s*(\d+)/m ? $1 / 1024 : die "no RssAnon\n" }
sub served { return get($nginx->port, '/?k=' . int rand 100)->{status} == 200 }

wait_until('Redis to decide', 10, \&served);
my $before = memory();
my $urls   = $bed->write_file('urls', join '', map { 'http://127.0.0.1:' . $nginx->port('PORT2') . "/?k=$_\n" } 1 .. REQUESTS);
my $crowd  = bless { log => $bed->dir . '/h2load' }, 'Testbed::Process';
push @{ $bed->{processes} }, $crowd;

$redis->pause;
$crowd->spawn($crowd->{log}, 'h2load', '-n', REQUESTS, '-c', 1, '-m', REQUESTS, '-i', $urls);
my ($most, $unchanged) = (0, 0);
wait_until('all requests to wait', 30, sub {
    my $now = memory();
    $unchanged = $now == $most && $now > $before + 20 ? $unchanged + 1 : 0;
    $most = $now;
    return $unchanged > 30;
});
$redis->resume;
ok($crowd->wait_end(30 * slow()), 'Redis stops for a while: the spike ends when it continues');
like(Testbed::Process::slurp($crowd->{log}), qr/ ${\ REQUESTS} 2xx/, 'Redis stops for a while: it decides all requests when it continues');

my $least = $most;
ok(wait_until('the memory to be given back', 60, sub {
    served();
    $least = min($least, memory());
    return $least < $before + ($most - $before) / 10;
}), 'the spike is over: nine tenths of its memory are freed') or diag(sprintf '%.1f MB, then %.1f, then %.1f', $before, $most, $least);
note(sprintf '%.1f MB before, %.1f MB at most, %.1f MB after', $before, $most, memory());
ok(served(), 'the spike is over: Redis decides');

$bed->done;
