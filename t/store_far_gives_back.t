# What was admitted by algorithm=inflight, and has ended, is given back in time to a Redis that is 80 ms away, and to one that
# was near before: its replies count as slow then, and other take-backs go one at a time, which the releases do not wait
# for. Each request has a key of its own, so that it is given back by a command of its own. Sixteen at a time would be 200 a
# second: hundreds would still count when they have long ended. The median is compared: the most counts what waits while the
# machine stands still.

use strict;
use warnings;
use Test::More;
use Testbed qw(wait_until);
use Testbed::Http qw(connect_to get field);
use Testbed::Load;
use Testbed::Metrics qw(scrape);
use Testbed::Relay;
use List::Util qw(max);
use Time::HiRes qw(sleep);

use constant { RATE => 500, SECONDS => 4, LATE => 0.08 };

my $bed = Testbed->new;

sub gives_back {
    my ($what, $is_near_at_first, @more) = @_;
    my $redis  = $bed->redis;
    my $relay  = Testbed::Relay->new($bed, to => $redis->port, late => LATE);
    my $client = connect_to($relay->port);
    wait_until('the relay', 10, sub { $relay->connections });
    $relay->turn_late if !$is_near_at_first;
    my $nginx = $bed->serve(
        workers => 1,
        store   => 'server 127.0.0.1:' . $relay->port . '; timeout 2s; connect_timeout 2s;',
        how     => '$sliding_log_source',
        server  => <<'SERVER',
    location /under_way { sliding_log_limit under-way key=$arg_k limit=5 algorithm=inflight lease=1h; empty_gif; }
    location /refund    { sliding_log_limit refund key=$arg_k limit=5 window=1h refund=5xx; proxy_pass http://127.0.0.1:1; }
    location /metrics   { sliding_log_metrics; }
SERVER
    );
    my $empty = sub { $redis->cli('DBSIZE') == 0 };
    ok(wait_until('the store', 10, sub { (field(get($nginx->port, '/under_way?k=first'), 'X-How') // '') eq 'redis' }), "$what: Redis decides");
    ok(wait_until('the first to be given back', 5, $empty), "$what: the first one is given back");
    $relay->turn_late if $is_near_at_first;
    my $load = Testbed::Load->start($bed, $nginx->port, paths => ['/under_way?k=%d', @more], rate => RATE * (1 + @more));
    my $under_way = sub { return scalar grep { /:under-way:/ } split /\n/, $redis->cli(qw(KEYS *)) };
    my (@there, $others);
    for (1 .. 8 * SECONDS) {
        sleep 1 / 8;
        push @there, $under_way->();
        $others = max($others // 0, $redis->cli('DBSIZE') - $there[-1]);
    }
    my $there = (sort { $a <=> $b } @there)[@there / 2];
    my $all    = $load->stop;
    my $record = $all->that(status => 200);
    is($all->that(source => 'redis')->count, $all->count, "$what: Redis admits all");
    cmp_ok($record->count, '>', RATE * SECONDS / 2, "$what: there are many");
    cmp_ok($there, '<', 4 * RATE * LATE, "$what: those that have ended are given back soon");
    ok(wait_until('no request under way', 5, sub { $under_way->() == 0 }), "$what: all are given back") or diag($under_way->());
    cmp_ok($others, '>', RATE / 2, "$what: these wait") if @more;
    note("$what: $there under way, at most ", max(@there), ", $others others");
    is(scrape($nginx->port)->value('sliding_log_store_take_backs_lost_total', store => 'default'), 0, "$what: none is lost");
    return;
}

gives_back('far', 0);
gives_back('first near, then far', 1);
gives_back('beside refunds',       1, '/refund?k=%d');
$bed->done;
