# algorithm=quota: at most `limit` in an hour, day, week or month of UTC, in Redis by its clock or nginx's, and in the memory of
# the node. Retry-After and reset are exact to the second over the ends of months and leap days.

use strict;
use warnings;
use JSON::PP ();
use POSIX qw(ceil);
use Test::More;
use Testbed qw(answers_as_told conf slow wait_until);
use Testbed::Clock;
use Testbed::Http qw(get field many connect_to);
use Testbed::Metrics qw(scrape);
use Time::HiRes qw(sleep time);
use Time::Local qw(timegm);

my @periods = qw(hour day week month);
my @stores  = qw(default clocked local);

my $bed     = Testbed->new;
my $clock   = Testbed::Clock->new($bed->dir);
my $redis   = $bed->redis(clock => $clock);
my $periods = join "\n", map {
    my $store = $_;
    map { "location /$store/$_ { sliding_log_limit ${_}_$store key=\$arg_k limit=2 algorithm=quota period=$_ store=$store; sliding_log_headers all; empty_gif; }" } @periods
} @stores;
my $others = join "\n", map { my $store = $_; <<"END" } @stores;
    location /$store/cost { sliding_log_limit cost_$store key=\$arg_k limit=1000000 algorithm=quota period=month cost=\$arg_c store=$store; empty_gif; }
    location /$store/login { sliding_log_limit login_$store key=\$arg_k limit=3 algorithm=quota period=day refund=1xx,2xx,3xx store=$store; proxy_pass http://127.0.0.1:%%PORT2%%; }
    location /$store/two {
        sliding_log_limit plan_$store key=\$arg_k limit=5 algorithm=quota period=month store=$store;
        sliding_log_limit second_$store key=\$arg_k limit=2 window=1h store=$store;
        empty_gif;
    }
    location /$store/plan { sliding_log_limit plan_$store key=\$arg_k limit=5 algorithm=quota period=month store=$store; empty_gif; }
    location /$store/dry { sliding_log_limit dry_$store key=\$arg_k limit=1 algorithm=quota period=day store=$store dry_run=on; empty_gif; }
    location /$store/drop { sliding_log_limit drop_$store key=\$arg_k limit=1 algorithm=quota period=day store=$store excess=drop; empty_gif; }
    location /$store/secret { sliding_log_limit secret_$store key=\$arg_k limit=1 algorithm=quota period=week secret=on store=$store; empty_gif; }
    location /$store/none { sliding_log_limit none_$store key=\$arg_k limit=\$arg_l algorithm=quota period=day store=$store; empty_gif; }
    location /$store/held {
        sliding_log_limit slow_$store key=\$arg_k limit=1 window=2s delay=5s store=$store;
        sliding_log_limit heldq_$store key=\$arg_k limit=3 algorithm=quota period=day store=$store;
        empty_gif;
    }
    location /$store/heldq { sliding_log_limit heldq_$store key=\$arg_k limit=3 algorithm=quota period=day store=$store; empty_gif; }
END
my $conf = conf(
    workers => 2,
    store   => 'server %%REDIS%%; timeout 5s; connect_timeout 5s;',
    how     => '$sliding_log_status $sliding_log_source $pid',
    http    => answers_as_told(200, 401) . <<'HTTP',
    sliding_log_redis clocked { server %%REDIS%%; database 1; clock nginx; timeout 5s; connect_timeout 5s; }
    sliding_log_on_error deny;
HTTP
    server  => "$periods\n$others" . <<'END',
    location /metrics { sliding_log_metrics; }
    location /board { sliding_log_dashboard; }
END
);
my $nginx = $bed->nginx($conf, REDIS => $redis->address, CLOCK => $clock);
my $port  = $nginx->port;
my $shift = 0;

# Sets the clocks of nginx and Redis to this time of UTC, which is in the future of all before it, and returns it.
sub set_clock {
    my ($text) = @_;
    my ($y, $mo, $d, $h, $m, $s) = split /\D/, $text;
    my $now = timegm($s, $m, $h, $d, $mo - 1, $y);
    $shift = $now - int time;
    $clock->set($shift);
    # workers take over the time when they wake up
    wait_until('the time', 5, sub { my $answer = get($port, '/local/hour?k='); (field($answer, 'Date') // '') =~ / $y / }) or die "no time\n";
    return $now;
}

sub status { return get($port, $_[0])->{status} }

# Asks, and returns whether the answer names the seconds until `end`, however long the answer took.
sub is_exact {
    my ($path, $end, $name) = @_;
    my $before = time + $shift;
    my $answer = get($port, $path);
    my ($most, $least) = (ceil($end - $before + 0.02), ceil($end - time - $shift - 0.02));
    my %told = ('Retry-After' => field($answer, 'Retry-After'), 'X-RateLimit-Reset' => field($answer, 'X-RateLimit-Reset'));
    ($told{t}) = field($answer, 'RateLimit') =~ /;t=(\d+)/;
    delete $told{'Retry-After'} if $answer->{status} == 200;
    my @wrong = grep { ($told{$_} // -1) < $least || $told{$_} > $most } sort keys %told;
    is("@wrong", '', "$name: $answer->{status} tells the seconds until the end of the period") or diag(explain(\%told), " $least..$most");
    return $answer;
}

# ---- the end of each period, over leap days and years

my %end_of = (hour => 0, day => 0, week => 0, month => 0);
for (
    ['2028-02-28 23:00:10', hour => '3590', day => '3590', month => 86_400 + 3590, 'the month has a leap day'],
    ['2028-02-29 12:00:00', hour => 3600, day => 43_200, month => 43_200, 'the leap day is the last of the month'],
    ['2028-12-31 23:59:00', hour => 60, day => 60, week => 60, month => 60, 'a year, and a week, end on Sunday'],
    ['2030-01-05 00:00:00', day => 86_400, week => 2 * 86_400, month => 27 * 86_400, 'the week ends on the second Sunday after'],
    ['2030-02-27 00:00:00', day => 86_400, month => 2 * 86_400, 'a February of 28 days'],
) {
    my $what = pop @$_;
    my ($text, %left) = @$_;
    my $now = set_clock($text);
    for my $store (@stores) {
        for my $period (sort keys %left) {
            my $path = "/$store/$period?k=$now";
            my $end  = $now + $left{$period};
            is_exact($path, $end, "$text, $store, $period, $what") for 1 .. 3;
            is(status($path), 429, "$store, $period: no more than the limit passes");
        }
    }
}
my $now = set_clock('2031-02-10 12:00:00');
like(field(get($port, "/$_/month?k=w"), 'RateLimit-Policy'), qr/^"month_$_";q=2;w=2419200$/, "$_: the policy tells the length of this month") for @stores;
like(field(get($port, '/local/week?k=w'), 'RateLimit-Policy'), qr/;w=604800$/, 'the policy tells the length of a week');

# ---- the end itself: no request passes before it, and all pass at once after it

$now = set_clock('2032-02-29 23:59:55');
my $end = $now + 5;
get($port, "/$_/month?k=end") for (@stores) x 2;
my %passed;
while (keys %passed < @stores && time + $shift < $end + 3 * slow()) {
    for my $store (grep { !$passed{$_} } @stores) {
        $passed{$store} = time + $shift if status("/$store/month?k=end") == 200;
    }
    sleep 0.02;
}
for my $store (@stores) {
    cmp_ok($passed{$store} // 0, '>=', $end - 0.02, "$store: nobody passes before the month ends");
    cmp_ok($passed{$store} // 9e9, '<', $end + 1 + slow(), "$store: the next month is there at once");
}

# ---- costs, refunds, several limits, dry run, excess

$now = set_clock('2033-05-10 12:00:00');
for my $store (@stores) {
    is(join(' ', map { status("/$store/cost?k=a&c=$_") } 999_999, 2, 1, 0, 1), '200 429 200 200 429', "$store: a cost is taken whole or not at all");
    my $large = get($port, "/$store/cost?k=b&c=1000001");
    is("$large->{status} " . (field($large, 'Retry-After') // 'none'), '429 none', "$store: a cost above the limit is denied for ever");
    is(status("/$store/cost?k=b&c=x"), 429, "$store: a cost that is no number is denied");
    is(join(' ', map { status("/$store/login?k=a&status=200") } 1 .. 6), join(' ', (200) x 6), "$store: refunded requests are not counted");
    is(join(' ', map { status("/$store/login?k=b&status=401") } 1 .. 4), '401 401 401 429', "$store: others are");
    is(status("/$store/login?k=b&status=200"), 429, "$store: a denial refunds nothing");
    is(join(' ', map { status("/$store/two?k=a") } 1 .. 4), '200 200 429 429', "$store: with another limit, the smaller denies");
    like(field(get($port, "/$store/plan?k=a"), 'RateLimit'), qr/;r=2;/, "$store: what another limit denies is not in the quota");
    is(status("/$store/plan?k=b"), 200, "$store: another key") for 1 .. 5;
    is(join(' ', map { status("/$store/two?k=b") } 1 .. 3), '429 429 429', "$store: a quota that is used up denies");
    is(join(' ', map { my $answer = get($port, "/$store/dry?k=a"); (split / /, field($answer, 'X-How'))[0] } 1 .. 2), 'PASSED REJECTED_DRY_RUN', "$store: a dry quota never denies");
    is(status("/$store/drop?k=a") . get($port, "/$store/drop?k=a")->{text}, 200, "$store: excess=drop closes the connection");
    is(status("/$store/secret?k=a") . status("/$store/secret?k=a"), '200429', "$store: a quota of a secret");
    is(join(' ', map { status("/$store/none?k=a&l=$_") } 0, 1, 1, 2, '', 'x'), '429 200 429 200 200 429', "$store: the limit may be a variable");
    is(get($port, "/$store/none?k=a&l=0")->{status} . ' ' . (field(get($port, "/$store/none?k=a&l=0"), 'Retry-After') // 'none'), '429 none', "$store: a limit of 0 denies for ever");
    my %seen;
    $seen{ $_->{status} }++ for many([map { [$port, "/$store/day?k=many"] } 1 .. 40]);
    is_deeply(\%seen, { 200 => 2, 429 => 38 }, "$store: of 40 at once the limit passes");
}
like($nginx->error_log, qr/limiting requests, by limit "month_local": key "end", 2 in this month, next in [1-5]s, by local/, 'the error log names the period');
is($redis->cli('HKEYS', 'rl:sliding:cost_default:{a}') =~ s/ \d+$//r, 'month', 'the log in Redis names the period');
my ($ttl, $left) = ($redis->cli('PTTL', 'rl:sliding:cost_default:{a}') / 1000, timegm(0, 0, 0, 1, 5, 2033) - time - $shift);
cmp_ok(abs($ttl - $left - 31 * 8640), '<', 60, 'a log lives until its month ends, and the slack longer');

# a request that another limit holds into the next day counts when it is decided
for my $store (@stores) {
    $end = set_clock({ default => '2034', clocked => '2035', local => '2036' }->{$store} . '-03-31 23:59:58') + 2;
    is(get($port, "/$store/held?k=h")->{status}, 200, "$store: the first request is not held");
    is(get($port, "/$store/held?k=h")->{status}, 200, "$store: the second is held");
    cmp_ok(time + $shift, '>=', $end - 0.2, "$store: until the next day");
    like(field(get($port, "/$store/heldq?k=h"), 'RateLimit'), qr/;r=2;/, "$store: it counted in the day before");
}

# ---- denials that the node knows of, and their end

$now = set_clock('2037-05-10 12:00:00');
get($port, '/default/hour?k=known') for 1 .. 3;
my ($calls, $known) = ($redis->calls('evalsha'), 0);
for (1 .. 50) {
    $known++ if field(get($port, '/default/hour?k=known'), 'X-How') =~ /^REJECTED cache /;
}
cmp_ok($known, '>=', 40, 'a denial is known to the node');
cmp_ok($redis->calls('evalsha') - $calls, '<=', 10, 'and costs no calls');
$redis->cli('DEL', 'rl:sliding:hour_default:{known}');
ok(wait_until('the end of a known denial', 3, sub { status('/default/hour?k=known') == 200 }), 'a known denial lasts a second at most');

# ---- metrics, the dashboard, a reload

like(scrape($port)->results('hour_default'), qr{passed/redis:\d+ rejected/cache:\d+ rejected/redis:\d+}, 'the metrics count a quota');
my ($board) = grep { $_->{name} eq 'month_local' } @{ JSON::PP->new->utf8->decode(get($port, '/board?format=json')->{body})->{limits} };
is("$board->{period} $board->{algorithm} $board->{limit}", 'month quota 2', 'the dashboard tells the period');
get($port, '/local/month?k=reload') for 1 .. 2;
$nginx->reload(gone => 1);
is(status('/local/month?k=reload'), 429, 'a reload forgets nothing');

$bed->done;
