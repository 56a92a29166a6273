# If Redis refuses the log of one limit, on_error decides this limit only: neither another limit in the same call nor
# another limit of the same request. Their logs have exactly the requests that passed. NOPERM for the keys, WRONGTYPE,
# OOM. Each request and its error are counted once.

use strict;
use warnings;
use Test::More;
use Testbed qw(wait_until);
use Testbed::Http qw(get field many statuses);
use Testbed::Metrics qw(scrape);

my $bed   = Testbed->new;
my $redis = $bed->redis;
my $nginx = $bed->serve(
    workers     => 1,    # so requests share calls
    events      => 'multi_accept on;',
    connections => 2048,
    redis       => $redis,
    http        => 'sliding_log_log_level info;',
    how         => '$sliding_log_source',
    server      => <<'END',
    location /metrics { sliding_log_metrics; }
    location /open   { sliding_log_limit open   key=$arg_k limit=1000 window=1h; empty_gif; }
    location /closed { sliding_log_limit closed key=$arg_k limit=1000 window=1h; empty_gif; }
    location /both {
        sliding_log_limit open   key=$arg_k limit=7 window=1h;
        sliding_log_limit closed key=$arg_k limit=3 window=1h;
        sliding_log_limit other  key=$arg_k limit=9 window=1h;
        location /both/allow { sliding_log_on_error allow; empty_gif; }
        location /both/local { sliding_log_on_error local; empty_gif; }
        location /both/deny  { sliding_log_on_error deny; empty_gif; }
        location /both/dry   { sliding_log_on_error deny; sliding_log_dry_run on; empty_gif; }
    }
    location /all {
        sliding_log_limit open   key=$arg_k limit=2 window=1h count=all;
        sliding_log_limit closed key=$arg_k limit=3 window=1h;
        sliding_log_on_error deny;
        empty_gif;
    }
END
);
my $port  = $nginx->port;

sub entries { my ($name, $key) = @_; return $redis->cli('ZCARD', "rl:sliding:$name:{$key}") }

# True as soon as a request with three limits is one call.
sub go_together {
    return wait_until('calls to go together', 5, sub {
        my $calls = $redis->calls('evalsha');
        get($port, '/both/allow?k=' . rand) for 1 .. 4;
        return $redis->calls('evalsha') == $calls + 4;
    });
}

# What the metrics and Redis have counted since then.
my %then;
sub counted {
    my $now    = scrape($port);
    my %counts = (
        (map { my $reason = $_; $reason => $now->value('sliding_log_store_errors_total', reason => $reason) // 0 } qw(forbidden wrong_type out_of_memory)),
        (map { my $limit = $_; $limit => eval { my $sum = 0; $sum += $_->{value} for $now->those('sliding_log_requests_total', limit => $limit); $sum } } qw(open closed other)),
        carried => $now->value('sliding_log_store_requests_total'),
        calls   => $redis->calls('evalsha'),
    );
    my %since = map { $_ => $counts{$_} - ($then{$_} // 0) } keys %counts;
    %then = %counts;
    return \%since;
}

get($port, '/both/allow?k=warm');
counted();

# ---- neighbours in a call: every twentieth is of a limit whose keys the user may not use

my $forbid = sub { $redis->cli(qw(ACL SETUSER default resetkeys ~rl:sliding:open:* ~rl:sliding:other:*)) };
my $permit = sub { $redis->cli(qw(ACL SETUSER default ~*)) };
$forbid->();
# Repeats until a burst is within a second of the previous one, on a busy machine too.
my $fewest;
for my $burst (1 .. 10) {
    my ($worker) = $nginx->workers;
    kill STOP => $worker;    # so all of them come in one turn of its event loop
    system "(sleep 0.3; kill -CONT $worker) &";
    my @answers = many([map { [$port, ($_ % 20 ? '/open' : '/closed') . "?k=n$_"] } 1 .. 800], at_once => 800);
    my %sources;
    $sources{ ($_ % 20 ? 'open ' : 'closed ') . field($answers[$_ - 1], 'X-How') }++ for 1 .. @answers;
    is(join(', ', map { "$_: $sources{$_}" } sort keys %sources), 'closed local: 40, open redis: 760', "NOPERM for the keys of a limit, burst $burst: its neighbours in calls are decided by Redis");
    my $since = counted();
    is("$since->{open} $since->{closed} $since->{forbidden} $since->{carried}", '760 40 40 800', "NOPERM for the keys of a limit, burst $burst: each request, and each error, is counted once");
    $fewest = $since->{calls} if $burst > 1 && $since->{calls} < ($fewest // 1e9);
    last if ($fewest // 1e9) < 300;
}
cmp_ok($fewest, '<', 300, 'NOPERM for the keys of a limit: its neighbours share calls once the limit is known');

# ---- one request with several limits; what: how its log is refused, and the reason

# how many of 20 requests pass, and then the logs of `open` and `other`
sub refused {
    my ($what, $reason, $refuse, $mend) = @_;
    my %expected = (allow => ['200:7 429:13', 7, 7], local => ['200:3 429:17', 3, 3], deny => ['503:20', 0, 0], dry => ['200:20', 0, 0]);
    for my $on_error (qw(allow local deny dry)) {
        my $key = "$reason-$on_error";
        $refuse->($key);
        counted();
        my @answers = map { get($port, "/both/$on_error?k=$key") } 1 .. 20;
        my $since = counted();
        my ($statuses, $open, $other) = @{ $expected{$on_error} };
        is(statuses(@answers), $statuses, "$what, on_error $on_error: the other limits are decided by Redis");
        wait_until('take-backs', 5, sub { entries('open', $key) == $open && entries('other', $key) == $other });
        is(entries('open', $key) . ' ' . entries('other', $key), "$open $other", "$what, on_error $on_error: their logs hold what passed");
        my $asked = $since->{closed};
        is($since->{$reason}, $asked, "$what, on_error $on_error: each error is counted once");
        is($since->{open}, 20, "$what, on_error $on_error: each request is counted once");
        $mend->($key);
    }
    ok(go_together(), "$what, mended: a request is one call again");
    return;
}

refused('NOPERM', 'forbidden', $forbid, $permit);
refused('WRONGTYPE', 'wrong_type', sub { $redis->cli('SET', "rl:sliding:closed:{$_[0]}", 'text') }, sub { $redis->cli('DEL', "rl:sliding:closed:{$_[0]}") });

# count=all
$forbid->();
is(statuses(map { get($port, '/all?k=all') } 1 .. 5), '429:3 503:2', 'NOPERM, count=all beside it, on_error deny: requests are denied');
is(entries('open', 'all'), 5, 'NOPERM, count=all beside it, on_error deny: denied requests are logged');
$permit->();

# a full Redis refuses logs that are new
$redis->cli('DEL', map { "rl:sliding:$_:{oom}" } qw(open closed other));
get($port, '/open?k=oom');
$redis->cli(qw(CONFIG SET maxmemory 1));
counted();
my @answers = map { get($port, '/both/allow?k=oom') } 1 .. 10;
is(statuses(@answers), '200:6 429:4', 'OOM: an existing log is used whatever on_error decides for others');
is(entries('open', 'oom'), 7, 'OOM: the existing log has exactly the admitted requests');
my $since = counted();
is($since->{out_of_memory}, $since->{closed} + $since->{other}, 'OOM: each error is counted once');
$redis->cli(qw(CONFIG SET maxmemory 0));

# limits are not asked one by one if a command is forbidden for all
go_together();
$redis->cli(qw(ACL SETUSER default -evalsha));
counted();
is(statuses(map { get($port, '/both/allow?k=command') } 1 .. 5), '200:5', 'NOPERM for the command: on_error decides');
$since = counted();
is($since->{forbidden}, 5, 'NOPERM for the command: each request counts as one error');
$redis->cli(qw(ACL SETUSER default +@all));

is($nginx->logged(qr/could not be taken back/), 0, 'no take-back was lost');
$bed->done;
