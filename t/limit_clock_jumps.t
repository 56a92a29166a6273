# Redis's clock jumps an hour under load. Back: no request passes beyond the limit, and each entry leaves at most one
# window later, so no client is locked out for longer than two windows. Ahead: exactly what left the window by the new
# clock has left.

use strict;
use warnings;
use Test::More;
use Testbed qw(slow wait_until);
use Testbed::Load;
use Testbed::Stopwatch;
use Time::HiRes qw(sleep time);

use constant { WINDOW => 0.5, LIMIT => 20, HOUR => 3600 };

my $bed   = Testbed->new;
my $redis = $bed->redis(clock => 1);
my $nginx = $bed->serve(
    REDIS   => $redis->address,
    workers => 2,
    listen  => 'reuseport',
    store   => 'server %%REDIS%%; timeout 5s; connect_timeout 5s; reconnect 10ms 100ms;',
    http    => <<'HTTP',
    sliding_log_on_error deny;
    sliding_log_log_level info;
HTTP
    how     => '$sliding_log_source $pid $sliding_log_latency',
    server  => <<'END',
    location /short { sliding_log_limit short key=$arg_k limit=20 window=500ms; empty_gif; }
    location /long  { sliding_log_limit long key=$arg_k limit=200 window=3h; empty_gif; }
    location /free  { sliding_log_limit free key=$arg_k limit=1000000 window=1m; empty_gif; }
END
);

# The longest time without an admission, from that moment on.
sub longest_gap {
    my ($from, $record) = @_;
    my ($latest, $gap) = ($from, 0);
    for my $at (sort { $a <=> $b } grep { $_ >= $from } map { $_->{at} + $_->{took} } $record->requests) {
        $gap    = $at - $latest if $at - $latest > $gap;
        $latest = $at;
    }
    return $gap;
}

my $total = 0;
for my $case (['back', -1 * HOUR, 1], ['ahead, to the true time', 0, 2], ['ahead', HOUR, 2], ['back, to the true time', 0, 1]) {
    my ($what, $clock, $limits) = @$case;
    my $load = Testbed::Load->start($bed, $nginx->port, paths => ['/short?k=1', '/long?k=1', '/free?k=%d'], rate => 240);
    sleep 1.2 * WINDOW;
    my ($before, $watch) = (time, Testbed::Stopwatch->start);
    $redis->set_clock($clock);
    my $jumped = time;    # requests in between may be decided by either clock
    sleep 0.6 * WINDOW;
    $nginx->reload;
    sleep 2.2 * WINDOW;
    my $record = $load->stop;
    my $stolen = $watch->delayed;
    is($record->that(status => 0)->count + $record->that(status => 503)->count, 0, "an hour $what: Redis decides all");

    my $short = $record->that(path => qr/short/, status => 200);
    cmp_ok($short->that(answered_by => $before)->most_within(WINDOW), '<=', LIMIT, "an hour $what: no window before the jump has more than the limit");
    cmp_ok($short->most_within(WINDOW), '<=', $limits * LIMIT,
        "an hour $what: " . ($limits == 1 ? 'no window has more than the limit' : 'the window of the jump has twice the limit at most'));
    cmp_ok($short->that(from => $jumped)->most_within(WINDOW), '<=', LIMIT, "an hour $what: no window after the jump has more than the limit");
    cmp_ok(longest_gap($jumped, $short), '<=', 2 * WINDOW + 0.1 * slow() + $stolen, "an hour $what: no client is locked out for longer than two windows");
    $total += $record->that(path => qr/long/, status => 200)->count;
    is($record->that(path => qr/free/)->statuses =~ /^200:\d+$/, 1, "an hour $what: a client with room is admitted");
    note(sprintf 'at most %d in a window, longest gap %.0f ms, long log %d', $short->most_within(WINDOW), 1000 * longest_gap($jumped, $short), $total);
}
is($total, 200, 'all jumps: a window of three hours has at most the limit');
is($redis->cli(qw(ZCARD rl:sliding:long:{1})), 200, 'all jumps: the log of three hours has each admitted request');

$bed->done;
