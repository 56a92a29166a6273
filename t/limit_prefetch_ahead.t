# prefetch= over a round trip of 80 ms: the next permits of a busy key are asked for before the last ones end, so that no
# request waits. They are not asked for if the key is idle, or the limit is nearly used up.

use strict;
use warnings;
use Test::More;
use Testbed qw(wait_until);
use Testbed::Http qw(get field);
use Testbed::Load;
use Testbed::Metrics qw(scrape);
use Testbed::Relay;
use Testbed::Tool qw(tool_json);
use Time::HiRes qw(sleep time);

use constant { LATE => 0.08, RATE => 250, LIFE => 0.6 };    # seconds, requests a second

my $bed   = Testbed->new;
my $redis = $bed->redis;
my $relay = Testbed::Relay->new($bed, to => $redis->port, late => LATE);
my $nginx = $bed->serve(
    workers => 2,
    listen  => 'reuseport',
    store   => 'server 127.0.0.1:' . $relay->port . '; timeout 5s; connect_timeout 5s;',
    how     => '$sliding_log_source $pid $sliding_log_latency',
    server  => <<'END',
    location /compact { sliding_log_limit compact key=$arg_k limit=100000 window=1m algorithm=compact prefetch=10000; empty_gif; }
    location /log     { sliding_log_limit log     key=$arg_k limit=100000 window=1m prefetch=10000; empty_gif; }
    location /cost    { sliding_log_limit cost    key=$arg_k limit=100000 window=1m algorithm=compact cost=3 prefetch=10000; empty_gif; }
    location /two     {
        sliding_log_limit first  key=$arg_k limit=100000 window=1m prefetch=10000;
        sliding_log_limit second key=$arg_k limit=200000 window=1m prefetch=10000;
        empty_gif;
    }
    location /small   { sliding_log_limit small key=$arg_k limit=150 window=1m algorithm=compact prefetch=100; empty_gif; }
    location /metrics { sliding_log_metrics; }
END
);
my $port = $nginx->port;
ok(wait_until('both workers', 10, sub { !grep { (field(get($port, "/compact?k=warm$_"), 'X-How') // '') !~ /^redis/ } 1 .. 12 }), 'both workers are connected');
$relay->turn_late;

# Requests that do not wait for each other, for so many seconds: a Testbed::Load::Record. The code runs at its end.
sub load {
    my ($path, $seconds, $at_end) = @_;
    my $load = Testbed::Load->start($bed, $port, rate => RATE, paths => [$path]);
    sleep $seconds;
    $at_end->() if $at_end;
    return $load->stop;
}

sub number_of { my ($name) = @_; return scrape($port)->value("sliding_log_store_${name}_total") }

for my $name (qw(compact log cost two)) {
    my $before = number_of('permits');
    my $load   = load("/$name?k=hot", 5);
    my $steady = $load->that(from => ($load->requests)[0]{at} + 1.5);
    my @waited = grep { $_->{waited} > LATE / 2 } $steady->requests;
    like($load->statuses, qr/^200:\d+$/, "$name: all are admitted");
    # otherwise the requests of 80 ms in each life of 600 ms wait, an eighth of them; a busy machine has some wait
    cmp_ok(scalar @waited, '<=', $steady->count / 30, "$name: no request waits for permits") or diag(join ' ', map { $_->{waited} } @waited);
    my $limits = $name eq 'two' ? 2 : 1;
    cmp_ok(number_of('permits') - $before, '<=', 3 * $limits * $load->count, "$name: not many more permits are taken than requests arrive");
}

# ---- what is told

my ($at, $left, $used);
my $told = load('/log?k=told', 3, sub {
    ($at, $left) = (time, (field(get($port, '/log?k=told'), 'RateLimit') // '') =~ /r=(\d+)/);
    $used = $redis->cli('ZCARD', 'rl:sliding:log:{told}');
});
my $sent = $told->that(to => $at)->count;
ok($left >= 100_000 - $used && $left <= 100_000 - $sent + 50, 'remaining counts the permits of both lots as left') or diag("$left left, $used used, $sent sent");
my $all = $told->count + 1;
ok(wait_until('the permits', 5, sub { $redis->cli('ZCARD', 'rl:sliding:log:{told}') == $all }), 'what was not used is returned') or diag($redis->cli('ZCARD', 'rl:sliding:log:{told}') . " of $all");

# ---- a key that is idle, and a limit that is nearly used up

my $calls = number_of('calls');
load('/compact?k=idle', 0.7);
get($port, '/compact?k=idle');
sleep 2 * LIFE;
ok(wait_until('no more calls', 5, sub { my $now = number_of('calls'); my $is_quiet = $now == $calls; $calls = $now; sleep LIFE; $is_quiet }), 'nothing is asked for a key that is idle');
is(load('/small?k=a', 3)->that(status => 200)->count, 150, 'exactly the limit is admitted, however few permits there are');
is(tool_json('inspect', '--server', $redis->address, 'small', 'a')->{used}, 150, 'and counted');

$bed->done;
