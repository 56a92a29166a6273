# clock nginx with two nodes whose clocks are an hour apart, far more than the window. The latest decision in a log is
# the earliest time of the next one, so both share the limit. The node behind logs a warning. When the node ahead gets
# no more requests, the other one is locked out until the log's time to live has passed, and no longer.

use strict;
use warnings;
use List::Util qw(max);
use Test::More;
use Testbed qw(conf slow wait_until);
use Testbed::Algorithm qw(@ALGORITHMS);
use Testbed::Clock;
use Testbed::Http qw(get);
use Testbed::Load;
use Testbed::Stopwatch;
use Time::HiRes qw(sleep time);

use constant { WINDOW => 2, LIMIT => 10 };

my $bed       = Testbed->new;
my $redis     = $bed->redis;
my $locations = join "\n", map {
    my $more = { bucket => 'burst=' . LIMIT, sampled => 'sample=1' }->{$_} // '';
    "location /$_ { sliding_log_limit api_$_ key=\$arg_k limit=${\ LIMIT} window=${\ WINDOW}s algorithm=$_ $more; empty_gif; }"
} @ALGORITHMS;
my $conf = conf(
    store  => 'server %%REDIS%%; clock nginx; timeout 5s; connect_timeout 5s;',
    http   => <<'HTTP',
    sliding_log_on_error deny;
    sliding_log_log_level info;
HTTP
    how    => '$sliding_log_source $pid $sliding_log_latency',
    server => <<'END',
    %%LOCATIONS%%
    location /slow { sliding_log_limit slow key=$arg_k limit=100 window=20s; empty_gif; }
END
);
mkdir $bed->dir . "/$_" for qw(ahead behind);
my ($ahead, $behind) = map {
    my ($name, $seconds) = @$_;
    $bed->nginx($conf, REDIS => $redis->address, LOCATIONS => $locations, CLOCK => Testbed::Clock->new($bed->dir . "/$name")->set($seconds));
} ['ahead', 3600], ['behind', 0];
$behind->expect_in_log(qr/clock nginx: the clock of this node is/);

# the clock of the node ahead is that of the logs from the beginning
my @paths = map { "/$_?k=1" } @ALGORITHMS;
get($ahead->port, $_) for @paths;
my $watch = Testbed::Stopwatch->start;
my @loads = map { Testbed::Load->start($bed, $_->port, paths => \@paths, rate => 150) } $ahead, $behind;
sleep 4.3 * WINDOW;
my @records = map { $_->stop } @loads;
my ($took, $stolen) = ($watch->elapsed, $watch->delayed);

for my $algorithm (@ALGORITHMS) {
    my @of       = map { $_->that(path => qr{/$algorithm\?}) } @records;
    my $together = Testbed::Load::Record->new(map { $_->requests } @of);
    my $passed   = $together->that(status => 200);
    is($together->that(status => 503)->count + $together->that(status => 0)->count, 0, "$algorithm: Redis decides all");
    # the node ahead may remove entries that the other one has just added at the time of its own latest decision; a full
    # bucket and a counter may admit that many in any case, and one more for each 0.2 s between sending and deciding a
    # request
    my $longest = max(map { $_->{waited} || 0 } $passed->requests);
    my $late    = $algorithm eq 'bucket' ? 3 : $algorithm eq 'counter' ? int $longest * LIMIT / WINDOW : 0;
    cmp_ok($passed->most_within(WINDOW), '<=', 2 * LIMIT + $late, "$algorithm: no window has more than twice the limit");
    cmp_ok($passed->count, '<=', LIMIT * ($took / WINDOW + 2), "$algorithm: in the long run the limit holds") or diag sprintf '%.1f s', $took;
    cmp_ok($passed->count, '>=', LIMIT, "$algorithm: requests pass");
}
is($behind->logged(qr/\[error\].*sliding_log_redis "default" \(127.*\): clock nginx: the clock of this node is 3\d\d\d\.\d+s behind that of another node, by limit "api_\w+"/),
    1, 'the node behind logs one warning') or diag $behind->error_log;
is($ahead->logged(qr/clock nginx/), 0, 'the node ahead logs nothing');

# the node ahead fills the logs, and gets no more requests
get($ahead->port, $_) for map { my $path = "/$_?k=2"; ($path) x (LIMIT + 1) } @ALGORITHMS;
my $filled = time;
my %until;
my $longest = 2.2 * WINDOW + 1 + 2 * slow();    # for a counter, which includes a previous window
wait_until('the logs to go', $longest, sub {
    for my $algorithm (grep { !$until{$_} } @ALGORITHMS) {
        $until{$algorithm} = time - $filled if get($behind->port, "/$algorithm?k=2")->{status} == 200;
    }
    return keys %until == @ALGORITHMS;
});
for my $algorithm (@ALGORITHMS) {
    my $windows = $algorithm eq 'counter' ? 2.1 : 1.1;
    cmp_ok($until{$algorithm} // 99, '<=', $windows * WINDOW + 1 + slow() + $stolen, "$algorithm: nobody is locked out for longer than the log lives");
    note(sprintf '%s: %.1f s', $algorithm, $until{$algorithm} // 99);
}

# a tenth of the window is not logged
for my $skew (1, 4) {
    my ($fast, $slow) = map {
        my $dir = $bed->dir . "/$skew-$_";
        mkdir $dir;
        $bed->nginx($conf, REDIS => $redis->address, LOCATIONS => '', CLOCK => Testbed::Clock->new($dir)->set($_));
    } $skew, 0;
    $slow->expect_in_log(qr/clock nginx: the clock of this node is/);
    get($_->port, "/slow?k=$skew") for $fast, $slow;
    is($slow->logged(qr/clock nginx: .* by limit "slow"/), $skew > 2 ? 1 : 0, "a clock $skew s behind, a window of 20 s: " . ($skew > 2 ? 'the node logs it' : 'nothing is logged'));
}

$bed->done;
