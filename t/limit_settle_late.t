# An additional cost (settle=) counts from the end of the answer, in every algorithm that takes it and every store: also
# if the answer lasted longer than the window, or over the end of a period; and if Redis learns of it later, unless it
# would have left the window by then.

use strict;
use warnings;
use Test::More;
use Testbed qw(slow wait_until);
use Testbed::Algorithm qw(@ALL_ALGORITHMS horizon takes);
use Testbed::Clock;
use Testbed::Http qw(get field);
use Testbed::Metrics qw(scrape);
use Testbed::UnderWay;

my $bed      = Testbed->new;
my $clock    = Testbed::Clock->new($bed->dir, monotonic => 1);
my $started  = CORE::time;
my $base     = 90_000 * 21_400;    # windows of 2,500 s and hours begin then
$clock->set($base - $started);
my $redis    = $bed->redis(clock => $clock, args => [qw(--appendonly yes --appendfsync always)]);
my $upstream = Testbed::UnderWay->new;

my @algorithms = grep { takes($_, 'settle') } @ALL_ALGORITHMS;
my @over_redis = map { my $algorithm = $_; map { "$algorithm/$_" } qw(default clocked) } @algorithms;
my @places     = (@over_redis, map { my $algorithm = $_; map { "$algorithm/$_" } qw(local down) } @algorithms);

my $locations = join "\n", map {
    my ($algorithm, $store) = split m{/};
    my $limit = 'sliding_log_on_error ' . ($store eq 'down' ? 'local' : 'deny') . "; sliding_log_limit ${algorithm}_$store key=\$arg_k limit=10 " . horizon($algorithm, '2500s', 'hour') . " algorithm=$algorithm store=$store";
    "location /slow/$_ { $limit cost=\$arg_cost settle=\$upstream_http_x_cost; proxy_pass http://127.0.0.1:%%UPSTREAM%%; }
     location /look/$_ { $limit cost=\$arg_cost; empty_gif; }"
} @places;

my $nginx = $bed->serve(
    CLOCK => $clock, REDIS => $redis->address, UPSTREAM => $upstream->port,
    workers => 1,
    http    => <<'HTTP',
    sliding_log_redis { server %%REDIS%%; timeout 9s; connect_timeout 9s; reconnect 20ms 100ms; }
    sliding_log_redis clocked { server %%REDIS%%; database 1; clock nginx; timeout 9s; connect_timeout 9s; reconnect 20ms 100ms; }
    sliding_log_redis down { server 127.0.0.1:1; timeout 1s; connect_timeout 1s; }
    proxy_read_timeout 300d; proxy_send_timeout 300d; send_timeout 300d;    # longer than the leaps
HTTP
    server  => "$locations location /metrics { sliding_log_metrics; }",
);
my $port = $nginx->port;
$nginx->expect_in_log(qr/is down/)->expect_in_log(qr/broken|lost|refused/);

# Sets the clocks to this second. Time goes on from there.
sub at {
    my ($second) = @_;
    $clock->set($base + $second - $started);
    get($port, '/none') for 1 .. 2;    # workers take over the time when they wake up
    return;
}

# What is left: "r=N", or if there is none "retry=SECONDS".
sub look {
    my ($place, $key, $cost) = @_;
    my $answer = get($port, "/look/$place?k=$key&cost=" . ($cost // 0));
    return 'retry=' . field($answer, 'Retry-After') if $answer->{status} == 429;
    return (field($answer, 'RateLimit') // '') =~ /;(r=\d+)/ ? $1 : "$answer->{status}";
}

sub begin_all {
    my ($key, $cost, @of) = @_;
    my %under_way = map { $_ => $upstream->begin($port, "/slow/$_?k=$key&cost=$cost") } @of;
    is(join(' ', grep { $under_way{$_}{denied} } @of), '', "$key: all are under way");
    return \%under_way;
}

sub end_all {
    my ($under_way, $cost) = @_;
    Testbed::UnderWay::end($_, 'X-Cost' => $cost) for values %$under_way;
    return;
}

# Checks that the limit denies, and that Retry-After is the longest wait of its algorithm here, or a moment less.
sub denies {
    my ($place, $key, $until, $what) = @_;
    my ($seconds) = @$until{ $place =~ /^(\w+)/ };
    my $is = '';
    wait_until($what, 10, sub { ($is = look($place, $key)) =~ /retry/ });
    my ($retry) = $is =~ /retry=(\d+)/;
    return ok(defined $retry && $retry <= $seconds && $retry > $seconds - 60 * slow(), "$place: $what") || diag("$is, not $seconds");
}

sub is_left { my ($place, $key, $left, $what) = @_; my $is; wait_until($what, 10, sub { ($is = look($place, $key)) eq $left }); return is($is, $left, "$place: $what") }

# ---- an answer that lasts longer than the window

at(100);
ok(wait_until('Redis', 10 * slow(), sub { !grep { look($_, 'first') ne 'r=10' } @over_redis }), 'Redis decides');
my $long = begin_all('long', 1, @places);
my $less = begin_all('less', 3, @places);
at(20_100);
is_left($_, 'long', 'r=10', 'the estimate has left') for @places;
look($_, 'less', 3) for @places;
end_all($long, 26);
end_all($less, 0);
# the counter weighs it in the next window; a token returns in 250 s
my %until = (compact => 2500, counter => 3900, bucket => 3750, quota => 1500);
my @other = map { ("counter/$_", "bucket/$_") } qw(local down);    # windows that begin at other times; a bucket that does not know when it was full
my %other = map { $_ => 1 } @other;
denies($_, 'long', \%until, 'it counts from its end') for grep { !$other{$_} || /bucket/ } @places;
is_left($_, 'less', 'r=7', 'what it cost less left with the estimate') for grep { !$other{$_} || /counter/ } @places;
like(look($_, 'long'), qr/retry/, "$_: it counts from its end") for grep { /counter/ } @other;
at(22_000);
is(join(' ', grep { look($_, 'long') !~ /retry/ } grep { !/quota/ && !$other{$_} } @places), '', 'it still counts');
at(22_800);
for my $place (grep { !$other{$_} } @places) {
    $place =~ /compact|quota/ ? is(look($place, 'long'), 'r=10', "$place: it has left") : like(look($place, 'long'), qr/retry/, "$place: it counts longer");
}

# ---- Redis is away at the end, and learns of it within the window

at(30_100);
my $within = begin_all('within', 1, @over_redis);
my $behind = begin_all('behind', 1, @over_redis);
$redis->kill;
end_all($_, 26) for $within, $behind;
at(31_100);
$redis->start;
ok(wait_until('Redis to be back', 20 * slow(), sub { !grep { look($_, 'back') ne 'r=10' } @over_redis }), 'Redis is back');
%until = (compact => 1500, counter => 2938, bucket => 3000, quota => 1300);
denies($_, 'within', \%until, 'it counts from its end, not from when it was learned') for @over_redis;

# ---- and beyond the window

at(40_100);
my $beyond = begin_all('beyond', 1, @over_redis);
$redis->kill;
end_all($beyond, 26);
at(47_100);
$redis->start;
ok(wait_until('Redis to be back', 20 * slow(), sub { !grep { look($_, 'back') ne 'r=10' } @over_redis }), 'Redis is back again');
end_all(begin_all('then', 1, @over_redis), 2);    # sent behind those that were kept
is_left($_, 'then', 'r=8', 'settled at once') for @over_redis;
is(look($_, 'beyond'), 'r=10', "$_: what would have left is not added") for @over_redis;
is(scrape($port)->value('sliding_log_store_take_backs_lost_total', store => $_) // 0, 0, "$_: nothing was lost") for qw(default clocked);

$bed->done;
