# Take-backs that fall due while Redis is down (refunds, requests that another limit denied, clients that left, late
# replies) are executed when Redis is back: exactly under algorithm=log. Entries that stay elsewhere were counted as
# lost. The requests are random; the seed is shown.

use strict;
use warnings;
use IO::Select;
use IO::Socket::INET;
use List::Util qw(shuffle sum);
use Test::More;
use Testbed qw(seed slow wait_until);
use Testbed::Algorithm qw(@ALL_ALGORITHMS horizon);
use Testbed::Http qw(get field connect_to many);
use Testbed::Metrics qw(scrape);
use Time::HiRes qw(sleep);

seed();

my $bed   = Testbed->new;
my @kept  = (args => [qw(--appendonly yes --appendfsync always)]);
my $redis = $bed->redis(@kept);
my $other = $bed->redis;
my $silent = IO::Socket::INET->new(Listen => 200, LocalAddr => '127.0.0.1', Timeout => 20) or die "listen: $!";

# The same log in different locations: kept, given back, or denied by another limit.
my $locations = join "\n", map {
    my $limit = "sliding_log_limit $_ key=\$arg_k limit=10000 algorithm=$_ " . horizon($_, '30d', 'month') . ($_ eq 'sampled' ? ' sample=1' : '');
    "location /serve/$_   { $limit refund=5xx,499; sliding_log_on_error deny; proxy_pass http://127.0.0.1:%%SILENT%%; }
     location /deny/$_   { $limit; sliding_log_on_error deny; empty_gif; }
     location /allow/$_  { $limit refund=200; sliding_log_on_error allow; empty_gif; }
     location /local/$_  { $limit refund=200; sliding_log_on_error local; empty_gif; }
     location /second/$_ { $limit; sliding_log_limit full key=\$arg_k limit=0 window=1h store=other; sliding_log_on_error allow; empty_gif; }
     location /later/$_  { $limit refund=5xx; sliding_log_on_error allow; proxy_pass http://127.0.0.1:%%SILENT%%; }
     location /look/$_   { $limit cost=0; sliding_log_on_error deny; empty_gif; }"
} @ALL_ALGORITHMS;

sub start {
    my ($server) = @_;
    return $bed->serve(
        SERVER => $server, OTHER => $other->address, SILENT => $silent->sockport,
        workers => 2,
        listen  => 'reuseport',
        http    => <<"HTTP",
    sliding_log_redis main { server %%SERVER%% timeout 100ms; connect_timeout 1s; reconnect 20ms 200ms; }
    sliding_log_redis other { server %%OTHER%%; timeout 5s; connect_timeout 5s; }
HTTP
        server  => <<"END",
    $locations
    location /held    { sliding_log_limit held key=\$arg_k limit=1 window=1h delay=2h; sliding_log_on_error allow; empty_gif; }
    location /metrics { sliding_log_metrics; }
END
    );
}

# A request that the backend holds. If Redis was too slow to decide one, another one is made.
sub one_under_way {
    my ($port, $path) = @_;
    for (1 .. 20) {
        my $client = connect_to($port);
        $client->syswrite("GET $path HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        my @ready = IO::Select->new($silent, $client)->can_read(20);
        return { path => $path, client => $client, backend => scalar $silent->accept } if grep { $_ == $silent } @ready;
    }
    die "no request for the backend\n";
}

sub under_way { my ($port, @paths) = @_; return map { one_under_way($port, $_) } @paths }

# The number of entries of that log that count; undef while Redis is unavailable.
sub used {
    my ($port, $algorithm, $key) = @_;
    return (field(get($port, "/look/$algorithm?k=$key"), 'RateLimit') // '') =~ /;r=(\d+)/ ? 10000 - $1 : undef;
}

sub lost { return scrape($_[0])->value('sliding_log_store_take_backs_lost_total', store => 'main') }

my $round = 0;

# A fault, requests of all kinds before and during it, and the contents of the logs after it.
sub try {
    my ($nginx, $what, %fault) = @_;
    my $port = $nginx->port;
    my $key  = $fault{key} // 'key' . ++$round;
    my $lost = lost($port);
    my %kept = map { $_ => 0 } @ALL_ALGORITHMS;
    ok(wait_until('Redis to decide', 20, sub { defined used($port, 'log', $key) }), "$what: Redis decides before");
    get($port, "/deny/$_?k=$key")->{status} == 200 and $kept{$_}++ for map { ($_) x 3 } @ALL_ALGORITHMS;
    my @under_way = under_way($port, map { "/serve/$_?k=$key" } map { ($_) x 8 } @ALL_ALGORITHMS);

    $fault{begin}->();
    my $within = sub {
        my @paths = map { my $place = $_; map { "/$place/$_?k=$key" } @ALL_ALGORITHMS } map { ($_) x (1 + int rand 3) } qw(deny allow local second);
        for my $answer (statuses($port, shuffle @paths)) {
            my ($path, $status) = @$answer;
            $kept{$1}++ if $path =~ m{^/deny/(\w+)} && $status == 200;
        }
    };
    my $finish = sub {
        for my $one (splice @under_way, 0, $_[0]) {
            my ($algorithm) = $one->{path} =~ m{/serve/(\w+)};
            my $end = int rand 3;
            if ($end == 2) {
                close $one->{client};
                next;
            }
            syswrite $one->{backend}, 'HTTP/1.0 ' . ($end ? '200 OK' : '500 Error') . "\r\nContent-Length: 0\r\n\r\n";
            close $one->{backend};
            Testbed::Http::read_all($one->{client}, 10);
            $kept{$algorithm}++ if $end;
        }
    };
    for (shuffle(($within) x 3, (sub { $finish->(10) }) x 2)) {
        $_->();
    }
    $finish->(scalar @under_way);
    $fault{end}->();

    # what stays of one algorithm is final only when all take-backs were executed or counted as lost
    my ($stayed, $gone, %too_many);
    wait_until('the logs to be as they should be', 12, sub {
        %too_many = map { $_ => (used($port, $_, $key) // 1e6) - $kept{$_} } @ALL_ALGORITHMS;
        $stayed   = sum(@too_many{ grep { !/log|sampled/ } @ALL_ALGORITHMS });
        $gone     = lost($port) - $lost;
        return !$too_many{log} && !$too_many{sampled} && $stayed <= $gone;
    });
    is($too_many{$_}, 0, "$what: $_: the log has the $kept{$_} requests that it keeps, and no others") for qw(log sampled);
    cmp_ok($too_many{$_}, '>=', 0, "$what: $_: the log has the $kept{$_} requests that it keeps") for grep { !/log|sampled/ } @ALL_ALGORITHMS;
    cmp_ok($stayed, '<=', $gone, "$what: what stays elsewhere was counted as lost ($gone)");
    is($gone, 0, "$what: nothing is lost") if $fault{loses_none};
    return;
}

# [path, status] of many at once.
sub statuses {
    my ($port, @paths) = @_;
    my @answers = many([map { [$port, $_] } @paths]);
    return map { [$paths[$_], $answers[$_]{status}] } 0 .. $#paths;
}

my $nginx = start($redis->address . ';');
for my $turn (1 .. 2) {
    try($nginx, "stopped and continued, $turn", begin => sub { $redis->pause }, end => sub { $redis->resume });
    try($nginx, "killed and started again, $turn", loses_none => 1, begin => sub { $redis->kill }, end => sub { $redis->start });
    try($nginx, "stopped, killed and started again, $turn", begin => sub { $redis->pause }, end => sub { $redis->kill; $redis->start });
}
try($nginx, 'slow for a moment', begin => sub { $redis->in_background('DEBUG', 'SLEEP', 0.15) }, end => sub { });

# One late reply on a connection that stays open: each algorithm is exact.
my $port = $nginx->port;

sub late {
    my ($path) = @_;
    ok(wait_until('Redis to decide', 10, sub { defined used($port, 'log', 'late') }), "$path: Redis decides before");
    $redis->pause;
    my $answer = get($port, $path);
    $redis->resume;
    return $answer->{status};
}

sub becomes { my ($algorithm, $key, $number, $what) = @_; return ok(wait_until($what, 5, sub { (used($port, $algorithm, $key) // -1) == $number }), $what) }

my $lost = lost($port);
for my $algorithm (@ALL_ALGORITHMS) {
    is(late("/deny/$algorithm?k=denied"), 503, "$algorithm: an answer that comes too late, on_error denies");
    becomes($algorithm, 'denied', 0, "$algorithm: what was denied by on_error leaves its log");
    is(late("/second/$algorithm?k=second"), 429, "$algorithm: an answer that comes too late, another limit denies");
    becomes($algorithm, 'second', 0, "$algorithm: what was denied by another limit leaves its log");
    is(late("/allow/$algorithm?k=refunded"), 200, "$algorithm: an answer that comes too late, on_error allows, and the status refunds");
    becomes($algorithm, 'refunded', 0, "$algorithm: what was refunded leaves its log");
    for my $status (200, 500) {
        my $key = "later$status";
        $redis->pause;
        my ($one) = under_way($port, "/later/$algorithm?k=$key");
        $redis->resume;
        becomes($algorithm, $key, 1, "$algorithm: what on_error allows is logged late");
        syswrite $one->{backend}, "HTTP/1.0 $status Whatever\r\nContent-Length: 0\r\n\r\n";
        close $one->{backend};
        Testbed::Http::read_all($one->{client}, 10);
        becomes($algorithm, $key, $status == 200 ? 1 : 0, "$algorithm: it " . ($status == 200 ? 'stays' : 'leaves when the status refunds it'));
    }
}
is(get($port, '/held?k=a')->{status}, 200, 'one request has the reservation');
is(late('/held?k=a'), 200, 'a reservation that is answered too late, on_error allows');
ok(wait_until('the reservation to leave', 5, sub { $redis->cli('ZCARD', 'rl:sliding:held:{a}') == 1 }), 'an unused reservation is given back');
is(lost($port), $lost, 'nothing is lost if the reply arrives');

# True if the replica has all data of its master.
sub in_step { my ($master, $replica) = @_; return wait_until('the replica to be in step', 10, sub { $master->info('master_repl_offset') == $replica->info('master_repl_offset') }) }

# a fail-over by Sentinel
my ($master, $replica) = map { $bed->redis(args => ['--repl-diskless-sync-delay', 0]) } 1 .. 2;
$replica->cli('REPLICAOF', '127.0.0.1', $master->port);
my $sentinel = $bed->sentinel(master => $master);
ok(wait_until('the Sentinel to know the replica', 20, sub { ($sentinel->field('num-slaves') // 0) == 1 && ($replica->info('master_link_status') // '') eq 'up' }),
    'a Sentinel guards two servers');
try(start($sentinel->address . '; mode sentinel limits;'), 'a fail-over by Sentinel', loses_none => 1,
    begin => sub { in_step($master, $replica); $master->kill },
    end   => sub { wait_until('the promotion', 20, sub { $replica->cli('ROLE') =~ /^master/ }) });

# a fail-over in a cluster
my $cluster = $bed->cluster(masters => 3, replicas => 1, node_timeout => 500 * slow());
my ($first, undef, undef, $successor) = $cluster->nodes;
try(start(join(' ', map { $_->address } $cluster->nodes) . '; mode cluster;'), 'a fail-over in a cluster', loses_none => 1, key => $cluster->tag_on($first),
    begin => sub { in_step($first, $successor); $first->kill },
    end   => sub { wait_until('the promotion', 20, sub { $successor->cli('ROLE') =~ /^master/ }) });

$bed->done;
