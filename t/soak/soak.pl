#!/usr/bin/env perl
# Soak test: two nginx nodes with many different clients, and random faults of Redis, the network and nginx, one after
# another. t/soak/soak.pl MINUTES [SEED]; the printed seed repeats the same choices.
#
# One node is reloaded repeatedly. The other one is not: its memory must not grow, its local log must be exact, and it
# must respond to a stream of requests in time.

use strict;
use warnings;
use Test::More;
use Testbed qw(conf slow wait_until);
use Testbed::Algorithm qw(@ALGORITHMS);
use Testbed::Chaos;
use Testbed::Crowd;
use Testbed::Load;
use Time::HiRes qw(sleep time);

my $minutes = shift // 10;
my $seed    = shift // int(time) % 1_000_000;
srand $seed;
diag("seed $seed");

use constant { TIMEOUT => 0.15, WINDOW => 1, LIMIT => 20 };

my $bed = Testbed->new;
my $far = $bed->redis(clock => 1, args => [qw(--busy-reply-threshold 20 --maxmemory-policy noeviction), qw(--user limiter on), '>' . Testbed::Chaos::PASSWORD, qw(~* &* +@all)]);
my $near = $bed->redis;
my $chaos = Testbed::Chaos->new($bed, redis => $far, conf => \&configuration);

my $header = <<'END';
%%GLOBALS%%
worker_processes 2;
events { worker_connections 2048; }
http {
    %%HTTP%%
    error_log %%DIR%%/error.log notice;
    log_format waits '$status $sliding_log_status $sliding_log_source $sliding_log_latency';
    access_log %%DIR%%/access.log waits;
    sliding_log_redis far  { server 127.0.0.1:%%FAR%%; username limiter; password %%PASSWORD%%; timeout 150ms; connect_timeout 150ms; reconnect 20ms 300ms; }
    sliding_log_redis near { server %%NEAR%%; timeout 150ms; connect_timeout 150ms; reconnect 20ms 300ms; }
    sliding_log_log_level info;
    sliding_log_zone 1m;    # small, so that logs are evicted
    server {
        listen 127.0.0.1:%%PORT%% reuseport;
        listen 127.0.0.1:%%PORT2%% http2 reuseport;
        location /watch {
            add_header X-How "$sliding_log_source $pid $sliding_log_latency" always;
            location /watch/local { sliding_log_limit watch key=$arg_k limit=20 window=1s store=local; empty_gif; }
            location /watch/many  { sliding_log_limit many key=$arg_k limit=1000000 window=1h; empty_gif; }
        }
END

# Algorithms that nginx -t accepts are used.
my @algorithms = grep { accepted("sliding_log_limit x key=\$arg_k limit=1 window=1s algorithm=$_;") } @ALGORITHMS;
diag("algorithms: @algorithms");

sub accepted {
    my ($directive) = @_;
    my $try = $bed->configuration(conf(server => $directive));
    return ($try->check)[0];
}

my %locations = (
    hot     => 'sliding_log_limit hot key=hot limit=%d window=10s',
    keys    => 'sliding_log_limit keys key=$arg_k limit=%d window=3s',
    few     => 'sliding_log_limit few key=$arg_k limit=2 window=5s',
    near    => 'sliding_log_limit near key=$arg_k limit=%d window=1s store=near',
    local   => 'sliding_log_limit local key=$arg_k limit=%d window=2s store=local',
    named   => 'sliding_log_limit named key=$arg_k limit=%d window=10s id=$arg_id',
    vary    => 'sliding_log_limit vary key=$arg_k limit=$arg_l window=10s',
    zero    => 'sliding_log_limit zero key=$arg_k limit=0 window=1s',
    several => 'sliding_log_limit s1 key=$arg_k limit=%d window=1s; sliding_log_limit s2 key=$uri limit=500 window=10s',
    apart   => 'sliding_log_limit a1 key=$arg_k limit=%d window=2s; sliding_log_limit a2 key=$arg_k limit=3 window=2s store=near; '
        . 'sliding_log_limit a3 key=$arg_k limit=5 window=2s store=local',
    deny    => 'sliding_log_limit keys key=$arg_k limit=%d window=3s; sliding_log_on_error deny',
    allow   => 'sliding_log_limit keys key=$arg_k limit=%d window=3s; sliding_log_on_error allow; sliding_log_headers all',
    nodes   => 'sliding_log_limit nodes key=$arg_k limit=%d window=3s; sliding_log_on_error local nodes=2',
    dry     => 'sliding_log_limit keys key=$arg_k limit=%d window=3s; sliding_log_dry_run on',
    forward => 'sliding_log_limit forward key=$arg_k limit=%d window=3s; try_files /none /hot',
    page    => 'sliding_log_limit few key=$arg_k limit=2 window=5s; error_page 429 /hot',
    caps    => 'sliding_log_limit caps key=$arg_k limit=%d window=3s cap=%d00 count=all',
    way     => 'sliding_log_limit way key=$arg_k limit=%d window=3s refund=2xx,404 block=500ms; try_files /none /way/dry',
    'way/dry'    => 'sliding_log_limit w1 key=$arg_k limit=%d window=3s delay=1s; sliding_log_limit w2 key=$arg_k limit=3 window=2s store=near; '
        . 'sliding_log_dry_run on; error_page 502 404 = @way; proxy_intercept_errors on; proxy_pass http://127.0.0.1:%%PORT3%%',
    '@way'       => 'sliding_log_limit w1 key=$arg_k limit=%d window=3s delay=500ms; sliding_log_limit w3 key=$arg_k limit=5 window=2s algorithm=compact; '
        . 'sliding_log_limit w2 key=$arg_k limit=4 window=2s store=near; error_page 429 = /way/denied',
    'way/denied' => 'sliding_log_limit w4 key=$arg_k limit=1 window=1s',
    logins  => 'sliding_log_limit logins key=$arg_k limit=5 window=5s block=2s refund=2xx,3xx; proxy_pass http://127.0.0.1:%%PORT3%%',
    secret  => 'sliding_log_limit secret key=$arg_k limit=%d window=5s secret=on algorithm=compact',
    quota   => 'sliding_log_limit quota key=$arg_k limit=%d00 algorithm=quota period=hour cost=$arg_l refund=2xx; proxy_pass http://127.0.0.1:%%PORT3%%',
    quotas  => 'sliding_log_limit q1 key=$arg_k limit=%d00 algorithm=quota period=day; sliding_log_limit q2 key=$arg_k limit=%d00 algorithm=quota period=month store=local; '
        . 'sliding_log_limit q3 key=$arg_k limit=5 window=1s delay=1s store=near',
    settled => 'sliding_log_limit settled key=$arg_k limit=%d00 window=5s algorithm=compact cost=$arg_l settle=$arg_id cap=off; proxy_pass http://127.0.0.1:%%PORT3%%',
    spent   => 'sliding_log_limit spent key=$arg_k limit=%d00 algorithm=quota period=day cost=5 settle=$arg_id; sliding_log_limit settled key=$arg_k limit=%d00 window=5s algorithm=compact cap=off',
    under   => 'sliding_log_limit under key=$arg_k limit=5 algorithm=inflight lease=1s; proxy_pass http://127.0.0.1:%%PORT3%%',
    queue   => 'sliding_log_limit under key=$arg_k limit=3 algorithm=inflight lease=1s delay=1s; sliding_log_limit line key=$arg_id limit=8 algorithm=inflight lease=2s delay=500ms cost=2; '
        . 'proxy_pass http://127.0.0.1:%%PORT3%%',
    queued  => 'sliding_log_limit line key=$arg_id limit=4 algorithm=inflight lease=2s delay=700ms; sliding_log_limit queued key=$arg_k limit=3 algorithm=inflight lease=2s delay=300ms store=near; '
        . 'sliding_log_limit here key=$arg_k limit=2 algorithm=inflight lease=1s delay=400ms store=local; sliding_log_limit w1 key=$arg_k limit=%d window=3s delay=500ms; '
        . 'error_page 404 = /queue?$args; proxy_intercept_errors on; proxy_pass http://127.0.0.1:%%PORT3%%',
    vary_cost => 'sliding_log_limit vary_cost key=$arg_k limit=%d window=5s cost=$arg_l refund=404',
    map({ ("with_$_" => "sliding_log_limit with_$_ key=\$arg_k limit=%d window=2s algorithm=$_") } @algorithms),
    map({ ("cost_$_" => "sliding_log_limit cost_$_ key=\$arg_k limit=%d window=2s algorithm=$_ cost=3 count=all cap=300 refund=404") } @algorithms),
    map({ ("held_$_" => "sliding_log_limit held_$_ key=\$arg_k limit=%d window=2s algorithm=$_ delay=1s block=1s") } @algorithms),
);

# The limits differ between configurations.
sub configuration {
    my $text = $header;
    for my $name (sort keys %locations) {
        my $inside = $locations{$name} =~ s/%d/5 + int rand 60/gre;
        $text .= 'location ' . ($name =~ /^@/ ? $name : "/$name") . " { $inside;" . ($inside =~ /proxy_pass/ ? '' : ' empty_gif;') . " }\n";
    }
    my $slow = 'location ~ ^/(under|queue) { sliding_log_limit pace key=$arg_k limit=9 window=1s delay=500ms store=local; empty_gif; }';
    return "$text}\nserver { listen 127.0.0.1:%%PORT3%%; $slow location / { if (\$arg_id ~ 1) { return 404; } return 200; } }\n}\n";
}

my @names = grep { !/^@/ } sort keys %locations;
my @paths = map {
    my $name = $names[rand @names];
    "/$name?k=" . (rand() < 0.05 ? '%7B' . 'long' x rand 40 : int rand 60) . '&id=' . int(rand 30) . '&l=' . ('', 3, 50, 'x')[rand 4];
} 1 .. 400;

my @nodes = map { $bed->nginx(configuration(), FAR => $chaos->relay_port, NEAR => $near->address, PASSWORD => Testbed::Chaos::PASSWORD) } 1 .. 2;
my ($reloaded, $steady) = @nodes;
$chaos->{nginx} = $reloaded;
wait_until('the workers', 10, sub { $steady->workers == 2 }) or die "no workers\n";
my @workers = $steady->workers;

my $begin = time;
my $load  = Testbed::Load->start($bed, $steady->port, paths => ['/watch/local?k=1', '/watch/many?k=%d'], rate => 100);
my @crowd = Testbed::Crowd->start($bed, seed => $seed, paths => \@paths,
    plain => [map { $_->port('PORT') } @nodes], http2 => [map { $_->port('PORT2') } @nodes]);

sub own_memory {
    my ($most) = sort { $b <=> $a } map { Testbed::Process::slurp("/proc/$_/status") =~ /^RssAnon:\s+(\d+)/m ? $1 : 0 } $steady->workers;
    return $most // 0;
}

# KiB of the larger worker at each step; printed every half minute
my (@memory, $told);
while ((my $passed = time - $begin) < 60 * $minutes) {
    my $fault = $chaos->step;
    push @memory, [$passed, own_memory()];
    note(sprintf '%6.1f s %s', $passed, $fault);
    if ($passed - ($told // -30) >= 30) {
        $told = $passed;
        diag(sprintf '%4d s: %d KiB, %d sockets, %d requests', $passed, own_memory(), $steady->sockets,
            map { $_ // 0 } (split ' ', `wc -l @{[map { $_->dir . '/access.log' } @nodes]} | tail -n 1`)[0]);
    }
    last if grep { !$_->is_running } @nodes;
    sleep rand 0.7;
}

my $record = $load->stop;
$_->kill for @crowd;
is(join(' ', sort $steady->workers), join(' ', sort @workers), 'no worker has exited on the node that is not reloaded');
ok(wait_until('Redis to decide again', 10, sub {
    my @answers = map { Testbed::Http::get($_->port, '/watch/many?k=end') } map { ($_) x 4 } @nodes;
    return !grep { ($_->{text} =~ /^X-How: (\w+)/m ? $1 : '') ne 'redis' } @answers;
}), 'Redis decides again on all nodes');
ok(wait_until('old workers to end', 20, sub { $reloaded->workers == 2 }), 'old workers exit');
ok(wait_until('the connections', 10, sub { $near->connections <= 4 && $far->connections <= 4 }), 'one connection per worker and store')
    or diag($near->connections . ' and ' . $far->connections);

# Sanitizers keep a part of freed memory, so memory grows for a while.
sub typical { my @sorted = sort { $a <=> $b } @_; return $sorted[@sorted / 2] // 0 }
my $length = 60 * $minutes;
my $early  = typical(map { $_->[1] } grep { $_->[0] > 0.3 * $length && $_->[0] < 0.5 * $length } @memory);
my $late   = typical(map { $_->[1] } grep { $_->[0] > 0.8 * $length } @memory);
cmp_ok($late, '<', 1.05 * $early + 1024, 'memory does not grow');

is($record->that(status => 0)->count, 0, 'every request of the stream has a response');
like($record->that(path => qr/many/)->statuses, qr/^200:\d+$/, 'requests within the limit are admitted');
cmp_ok($record->longest_wait, '<=', TIMEOUT + 0.2 * slow(), 'no request waits for its store longer than the timeout');
cmp_ok($record->that(path => qr/local/, status => 200)->most_within(WINDOW), '<=', LIMIT, 'the local log is exact');
is($record->that(path => qr/local/)->count, $record->that(path => qr/local/, source => 'local')->count, 'the local log does not use Redis');

my %statuses;
for my $log (map { $_->dir . '/access.log' } @nodes) {
    open my $file, '<', $log or next;
    /^(\d+) .*?(\w+) [\d.]*$/ && $statuses{"$1 $2"}++ while <$file>;
}
my %happened = %{ $chaos->happened };
diag("seed $seed: " . join ', ', map { "$_ $happened{$_}" } sort keys %happened);
diag(join ', ', map { "$_: $statuses{$_}" } sort keys %statuses);
diag(sprintf 'stream: %d requests, p50 %.1f ms, p90 %.1f ms, p99 %.1f ms, slowest %.1f ms, longest wait for a store %.0f ms; memory %d KiB, later %d KiB',
    $record->count, (map { 1000 * $record->percentile($_) } 0.5, 0.9, 0.99), 1000 * $record->slowest, 1000 * $record->longest_wait, $early, $late);
is(join(', ', grep { /^5/ && !/^503 (?:error|local)/ } keys %statuses), '', 'there is no 5xx except by on_error deny');

$bed->done;
