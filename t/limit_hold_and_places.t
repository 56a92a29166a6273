# A request that `delay=` holds takes no place of algorithm=inflight: it asks for one after the hold. If there is none, it
# gives back what it took, or waits. In every pair of stores, in both orders of the directives.

use strict;
use warnings;
use Test::More;
use Testbed qw(slow wait_until);
use Testbed::Http qw(get field);
use Testbed::Metrics qw(scrape);
use Testbed::UnderWay;
use Time::HiRes qw(sleep time);

my $bed    = Testbed->new;
my %redis  = map { $_ => $bed->redis } qw(one two);
my $silent = Testbed::UnderWay->new;
my ($seed) = $bed->cluster(masters => 1)->nodes;

# the store of the limit that holds, and that of the places
my @pairs = map { [split /-/] } qw(one-one one-local local-one one-two local-local many-many);
sub pair { return join '-', @{ $_[0] } }

# `pace` holds for up to a window, `all` has $arg_l places.
sub locations {
    my ($pair) = @_;
    my ($name, $holds, $places) = (pair($pair), @$pair);
    my $pace = "sliding_log_limit pace-$name key=\$arg_u limit=1 window=2s delay=20s store=$holds;";
    my $look = $pace =~ s/delay=20s/cost=0/r;
    my $all  = "sliding_log_limit all-$name key=\$arg_a limit=\$arg_l algorithm=inflight lease=3s store=$places";
    my $pass = 'proxy_pass http://127.0.0.1:%%SILENT%%;';
    return <<"END";
    location /$name/first  { $pace $all; $pass }
    location /$name/last   { $all; $pace $pass }
    location /$name/queue  { $all delay=20s; $pace $pass }
    location /$name/short  { $pace $all delay=300ms; $pass }
    location /$name/other  { $pace $all; sliding_log_limit more-$name key=\$arg_m limit=1 window=1h; $pass }
    location /$name/counts { $pace $all; sliding_log_limit tries-$name key=\$arg_m limit=5 window=1h count=all cap=5; $pass }
    location /$name/place  { $all; $pass }
    location /$name/pace   { $pace empty_gif; }
    location /$name/look   { $look $all cost=0; sliding_log_limit more-$name key=\$arg_m limit=1 window=1h cost=0; empty_gif; }
    location /$name/before { sliding_log_limit before-$name key=\$arg_a limit=1 algorithm=inflight lease=3s store=$places; try_files /none \@$name; }
    location \@$name { $pace $all; $pass }
    location /$name/dry    { sliding_log_limit dry-$name key=\$arg_u limit=1 window=1h delay=1h dry_run=on store=$holds; $all; $pass }
    location /$name/rehearsal {
        sliding_log_dry_run on;
        sliding_log_limit rehearsed-$name key=\$arg_u limit=1 window=1h delay=1h store=$holds;
        $all;
        $pass
    }
    location /$name/dry_places { $pace $all dry_run=on; $pass }
    location /$name/plain { sliding_log_limit plain-$name key=\$arg_u limit=1 window=1h store=$holds; $all; $pass }
END
}
my $locations = join '', map { locations($_) } @pairs;

my $nginx = $bed->serve(
    ONE => $redis{one}->address, TWO => $redis{two}->address, SEED => $seed->address, SILENT => $silent->port,
    workers => 2,
    listen  => 'reuseport',
    how     => '$sliding_log_status $sliding_log_name $sliding_log_source',
    http    => <<'HTTP',
    sliding_log_redis one { server %%ONE%%; timeout 5s; connect_timeout 5s; reconnect 20ms 200ms; }
    sliding_log_redis two { server %%TWO%%; timeout 5s; connect_timeout 5s; reconnect 20ms 200ms; }
    sliding_log_redis many { server %%SEED%%; mode cluster; timeout 5s; connect_timeout 5s; reconnect 20ms 200ms; }
    sliding_log_on_error deny;
    sliding_log_log_level notice;
    log_format ends '$request_uri $status $sliding_log_status';
    access_log %%DIR%%/ends.log ends;
HTTP
    server  => "$locations location /metrics { sliding_log_metrics; }",
);
my $port = $nginx->port;

sub queue  { my ($path) = @_; return $silent->queue($port, $path) }
sub begin  { my ($path) = @_; return $silent->decided(queue($path)) }
sub answer { my ($one) = @_; return Testbed::UnderWay::end($one) }
sub said   { my ($one) = @_; return ($one->{denied}{status} // 'none') . ' ' . (field($one->{denied}, 'X-How') // '') }
# What is left of one limit of the pair.
sub left {
    my ($pair, $which, $arguments) = @_;
    my $name = pair($pair);
    my %left = (field(get($port, "/$name/look?$arguments"), 'RateLimit') // '') =~ /"([\w-]+)";r=(\d+)/g;
    return $left{"$which-$name"} // 'unknown';
}
# `result:number` of one limit, from all sources.
sub results { return scrape($port)->result_counts(@_) }
sub each_pair { my ($do) = @_; $do->($_, pair($_)) for @pairs; return }

# The slot of the user is taken, so that the next request is held for up to two seconds.
sub use_slot { my ($name, $user) = @_; return get($port, "/$name/pace?u=$user")->{status} }

ok(wait_until('the stores', 10, sub { !grep { my $pair = $_; grep { left($pair, $_, 'u=w&a=w&l=1') ne '1' } qw(pace all) } @pairs }), 'all stores decide');

# ---- many connections of one user take no places while they are held

each_pair(sub {
    my ($pair, $name) = @_;
    for my $order (qw(first last)) {
        my $of   = "a=$order&l=3";
        my $one  = begin("/$name/$order?u=many$order&$of");
        my @held = map { queue("/$name/$order?u=many$order&$of") } 1 .. 8;
        ok(!$silent->next_one(0.2), "$name, pace is $order: eight are held");
        my @others = map { begin("/$name/$order?u=$_$order&$of") } 1, 2;
        is(scalar(grep { $_->{backend} } @others), 2, "$name, pace is $order: others take the places that are left");
        like(said(begin("/$name/$order?u=3$order&$of")), qr/^429 REJECTED all-$name /, "$name, pace is $order: there are no more places than the limit");
        close $_->{client} for @held;
        answer($_) for grep { $_->{backend} } $one, @others;
        ok(wait_until('the places', 5, sub { left($pair, 'all', $of) eq '3' }), "$name, pace is $order: all places are free again");
    }
});

# ---- all at once for all pairs: what happens after the hold

my %of;    # scenario of a pair => its requests
each_pair(sub {
    my ($pair, $name) = @_;
    for my $case (qw(denied denied_more counts queue short leaves leaves_queue)) {
        my $place = $of{"$name $case"}{place} = begin("/$name/place?a=$case&l=1");
        use_slot($name, $case);
        my $path = { denied => 'first', denied_more => 'other', leaves => 'last', leaves_queue => 'queue' }->{$case} // $case;
        $of{"$name $case"}{one} = queue("/$name/$path?u=$case&a=$case&l=1&m=$case");
    }
    # redirect: a place taken in an earlier location stays
    use_slot($name, 'redirect');
    $of{"$name redirect"}{one} = queue("/$name/before?u=redirect&a=redirect&l=1");
});
each_pair(sub {
    my ($pair, $name) = @_;
    ok(wait_until('the other limit', 5, sub { left($pair, 'more', 'm=denied_more&a=x&l=1&u=x') eq '0' }), "$name: the other limit has counted the request that is held");
});
each_pair(sub { my ($pair, $name) = @_; close $of{"$name leaves"}{one}{client} });
each_pair(sub {
    my ($pair, $name) = @_;
    like(said(begin("/$name/before?u=redirect2&a=redirect&l=1")), qr/^429 REJECTED before-$name/, "$name: the place of the location before stays while the request is held");
});

each_pair(sub {
    my ($pair, $name) = @_;
    for my $case (qw(denied denied_more counts short)) {
        my $one = $silent->decided($of{"$name $case"}{one});
        like(said($one), qr/^429 REJECTED all-$name (?:redis|local)$/, "$name, $case: no place after the hold");
        is(field($one->{denied}, 'Retry-After'), 1, "$name, $case: it shall come again in a second");
    }
});
each_pair(sub {
    my ($pair, $name) = @_;
    ok(wait_until('the other limit', 5, sub { left($pair, 'more', 'm=denied_more&a=x&l=1&u=x') eq '1' }), "$name: a request without a place gives back what it took elsewhere");
    my $redirected = $of{"$name redirect"}{one};
    ok($silent->arrives($redirected), "$name: the redirected request comes when its hold is over");
    like(field(answer($redirected), 'X-How'), qr/^DELAYED pace-$name /, "$name: as delayed");
    ok(wait_until('the place', 5, sub { my $next = begin("/$name/place?a=redirect&l=1"); answer($next) if $next->{backend}; $next->{backend} }), "$name: and gives its places back");

    my $queued = $of{"$name queue"}{one};
    ok(!$silent->arrives($queued, 0.1), "$name: one that may wait for a place waits");
    answer($of{"$name queue"}{place});
    ok($silent->arrives($queued), "$name: until there is one");
    like(field(answer($queued), 'X-How'), qr/^DELAYED (?:pace|all)-$name /, "$name: it was delayed");

    close $of{"$name leaves_queue"}{one}{client};
    ok(wait_until('the line', 5, sub { Testbed::Process::slurp($nginx->dir . '/ends.log') =~ m{^/$name/queue\?u=leaves_queue\S* 499 DELAYED$}m }), "$name: a client leaves while its request waits after a hold");
    like(Testbed::Process::slurp($nginx->dir . '/ends.log'), qr{^/$name/last\?u=leaves&\S* 499 DELAYED$}m, "$name: and one while it is held");
    for my $case (qw(leaves leaves_queue)) {
        is(left($pair, 'all', "a=$case&l=1"), 0, "$name, $case: the place is that of another one");
        answer($of{"$name $case"}{place});
        ok(wait_until('the place', 5, sub { left($pair, 'all', "a=$case&l=1") eq '1' }), "$name, $case: it took none");
    }
    answer($of{"$name $_"}{place}) for qw(denied denied_more counts short);

    like(results("tries-$name"), qr/^(?:passed|delayed):1$/, "$name: a limit with count=all is counted once");
    like($nginx->error_log, qr/\[info\].*delaying request, by limit "pace-$name": key "queue", 1 in 2s, next in/, "$name: the error log tells that it is held");
    like($nginx->error_log, qr/\[info\].*delaying request, by limit "all-$name": key "queue", 1 at once, waited /, "$name: and that it has waited for a place");
    my $lines = () = $nginx->error_log =~ /delaying request, by limit "pace-$name": key "queue"/g;
    is($lines, 1, "$name: once");
});

# ---- the slot of a request without a place is free, and each is counted once

each_pair(sub {
    my ($pair, $name) = @_;
    my $before = results("pace-$name");
    my $place  = begin("/$name/place?a=slot&l=1");
    use_slot($name, 'slot');
    my $held = $silent->decided(queue("/$name/short?u=slot&a=slot&l=1"));
    is($held->{denied}{status}, 429, "$name: no place after the hold");
    my $watch = time;
    ok(wait_until('the slot', 1.5, sub { left($pair, 'pace', 'u=slot&a=x&l=1') eq '1' }), "$name: the slot is given back");
    cmp_ok(time - $watch, '<', 1.7, "$name: before it would have left");
    answer($place);
    my %results = map { split /:/ } split ' ', results("pace-$name");
    my %last    = map { split /:/ } split ' ', $before;
    is($results{delayed} - $last{delayed}, 1, "$name: the limit that held it has counted it once");
});

# ---- where nothing holds, the order stays

each_pair(sub {
    my ($pair, $name) = @_;
    for my $path (qw(dry rehearsal)) {
        my @two = map { begin("/$name/$path?u=$path&a=$path&l=2") } 1, 2;
        is(scalar(grep { $_->{backend} } @two), 2, "$name, $path: a dry limit holds nobody");
        is(left($pair, 'all', "a=$path&l=2"), 0, "$name, $path: they take places");
        answer($_) for grep { $_->{backend} } @two;
    }
    if ($name eq 'one-local') {
        my $place = begin("/$name/place?a=plain&l=1");
        my $calls = $redis{one}->calls('zadd');
        is(begin("/$name/plain?u=plain&a=plain&l=1")->{denied}{status}, 429, "$name: a place is asked for first");
        is($redis{one}->calls('zadd'), $calls, "$name: nothing is taken elsewhere");
        answer($place);
    }
    use_slot($name, 'dry_places');
    my $one = queue("/$name/dry_places?u=dry_places&a=dry_places&l=1");
    ok(!$silent->arrives($one, 0.1), "$name: it is held before dry places");
    is(left($pair, 'all', 'a=dry_places&l=1'), 1, "$name: and takes none of these");
    ok($silent->arrives($one), "$name: it comes");
    is(left($pair, 'all', 'a=dry_places&l=1'), 0, "$name: and takes one");
    answer($one);
});

# ---- a reload: the old worker asks after the hold

my %reloaded = map { my $name = pair($_); ($name => do { use_slot($name, 'reload'); queue("/$name/last?u=reload&a=reload&l=1") }) } @pairs;
sleep 0.3;
my %before = map { $_ => 1 } $nginx->workers;
$nginx->reload;
ok(wait_until('new workers', 10, sub { scalar(grep { !$before{$_} } $nginx->workers) == 2 }), 'a reload');
for my $pair (@pairs) {
    my $name = pair($pair);
    ok($silent->arrives($reloaded{$name}), "$name: one that is held during a reload comes");
    is(left($pair, 'all', 'a=reload&l=1'), 0, "$name: with a place");
    like(field(answer($reloaded{$name}), 'X-How'), qr/^DELAYED pace-$name /, "$name: and is answered");
}
ok(wait_until('old workers', 15, sub { !grep { $before{$_} } $nginx->workers }), 'the old workers exit');

$bed->done;
