# dry_run=on: one limit decides, counts and logs beside enforced limits without any other effect, with every parameter,
# in every algorithm and store; t/limit_dry_run_over_stores.t has limits of several stores. dry_run=off: one limit is
# enforced in a level that is in dry run.
# prove: first

use strict;
use warnings;
use Test::More;
use Testbed qw(wait_until);
use Testbed::Everywhere qw(@PLACES);
use Testbed::Http qw(get field connect_to);
use Testbed::Metrics qw(new_results);

my $bed   = Testbed->new;
my %redis = map { $_ => $bed->redis } qw(one two);

# Parameters of the dry limit; the results of three requests, and the entries that stay.
my %parameters = (
    plain  => ['',                      'passed:1 rejected_dry_run:2',  1],
    block  => ['block=1h',              'passed:1 rejected_dry_run:2',  2],    # one member is the block
    all    => ['count=all cap=3',       'passed:1 rejected_dry_run:2',  3],
    drop   => ['excess=drop',           'passed:1 rejected_dry_run:2',  1],
    looks  => ['cost=0',                'passed:3',                     0],
    refund => ['refund=200',            'passed:3',                     0],
    delay  => ['delay=365d',            'delayed_dry_run:2 passed:1',   3],
    secret => ['secret=on',             'passed:1 rejected_dry_run:2',  1],
);

sub locations {
    my ($place, $name) = @_;
    my ($algorithm, $store) = split m{/}, $place;
    my $sample = $algorithm eq 'sampled' ? 'sample=1' : '';
    my $limit  = $parameters{$name}[0];
    return '' if !is_possible($algorithm, $name);
    my $log = sub { my ($limit, $which) = @_; return "sliding_log_limit ${limit}_${name}_${algorithm}_$store key=\$arg_k $which window=100d algorithm=$algorithm store=$store $sample;" };
    return "location /$name/$place { " . $log->('dry', "limit=1 dry_run=on $limit") . $log->('enforced', 'limit=3') . ' empty_gif; }';
}
sub is_possible { my ($algorithm, $name) = @_; return $name ne 'delay' || $algorithm !~ /counter|sampled/ }

my $nginx = $bed->serve(
    ONE => $redis{one}->address, TWO => $redis{two}->address, LOCATIONS => join("\n", map { my $place = $_; map { locations($place, $_) } sort keys %parameters } @PLACES),
    main   => 'worker_shutdown_timeout 100ms;',
    http   => <<'HTTP',
    sliding_log_redis default { server %%ONE%%; timeout 9s; connect_timeout 9s; }
    sliding_log_redis two     { server %%TWO%%; timeout 2s; connect_timeout 2s; reconnect 20ms 50ms; }
    sliding_log_headers all;
    add_header X-Says "$sliding_log_status $sliding_log_name $sliding_log_source" always;
HTTP
    server => <<'END',
    %%LOCATIONS%%
    location /off {
        sliding_log_dry_run on;
        sliding_log_limit off_dry  key=$arg_k limit=0 window=1h;
        sliding_log_limit off_wide key=$arg_k limit=9 window=1h;
        sliding_log_limit off_on   key=$arg_k limit=2 window=1h dry_run=off;
        empty_gif;
    }
    location /alone {
        sliding_log_limit alone_none key=$arg_k limit=0 window=1h dry_run=on;
        sliding_log_limit alone_more key=$arg_k limit=2 window=1h dry_run=on;
        sliding_log_limit alone_same key=$arg_k limit=5 window=1h;
        empty_gif;
    }
    location /both {
        sliding_log_limit both_over key=$arg_k limit=10 window=1h cost=4 dry_run=on;
        sliding_log_limit both_less key=$arg_k limit=4 window=1h dry_run=on;
        empty_gif;
    }
    location /only { sliding_log_limit only key=$arg_k limit=1 window=1h dry_run=on; empty_gif; }
    location /invalid {
        sliding_log_limit invalid_dry key=$arg_k limit=$arg_d window=1h dry_run=on;
        sliding_log_limit invalid_on  key=$arg_k limit=$arg_l window=1h;
        empty_gif;
    }
    location /leaves {
        sliding_log_limit leaves_on   key=$arg_k limit=9 window=1h;
        sliding_log_limit leaves_held key=$arg_k limit=1 window=1h dry_run=on delay=365d;
        sliding_log_limit leaves_dry  key=$arg_k limit=9 window=1h dry_run=on store=two;
        empty_gif;
    }
    location /cap {
        sliding_log_limit cap_on  key=$arg_k limit=1 window=1h count=all cap=2;
        sliding_log_limit cap_dry key=$arg_k limit=1 window=1h delay=365d dry_run=on;
        empty_gif;
    }
    location /other { sliding_log_limit other key=$arg_k limit=9 window=1h store=two; empty_gif; }
    location /held {
        sliding_log_limit held_on  key=$arg_k limit=1 window=2s delay=1m;
        sliding_log_limit held_dry key=$arg_k limit=9 window=1h dry_run=on;
        empty_gif;
    }
    location /answer {
        sliding_log_limit answer_on  key=$arg_k limit=5 window=1h;
        sliding_log_limit answer_dry key=$arg_k limit=5 window=1h dry_run=on refund=404;
        location /answer/200 { empty_gif; }
        location /answer/404 { try_files /none =404; }
    }
    location /inside {
        sliding_log_limit inside_before key=$arg_k limit=9 window=1h;
        sliding_log_limit inside        key=$arg_k limit=2 window=1h dry_run=on;
        try_files /none @enforced;
    }
    location @enforced {
        sliding_log_limit inside       key=$arg_k limit=2 window=1h;
        sliding_log_limit inside_after key=$arg_k limit=9 window=1h dry_run=on;
        empty_gif;
    }
    location /inherits {
        sliding_log_limit inherits_dry key=$arg_k limit=0 window=1h dry_run=on;
        sliding_log_limit inherits_on  key=$arg_k limit=1 window=1h dry_run=off;
        sliding_log_limit inherits     key=$arg_k limit=1 window=1h;
        location /inherits/dry { sliding_log_dry_run on; empty_gif; }
        empty_gif;
    }
    location /metrics { sliding_log_metrics; }
END
);
my $port = $nginx->port;

sub statuses { my ($path, $times) = @_; return join ' ', map { get($port, $path)->{status} } 1 .. $times }
sub says { return field(get($port, $_[0]), 'X-Says') }
sub zcard { my ($name, $key, $redis) = @_; return $redis{ $redis // 'one' }->cli('ZCARD', "rl:sliding:$name:{" . ($key // 'a') . '}') }
sub results { return new_results($port, @_) }
ok(wait_until('both stores', 10, sub { says('/only?k=warm' . rand) =~ /redis$/ && says('/other?k=warm' . rand) =~ /redis$/ }), 'both stores are asked');

# ---- every parameter, in every algorithm and store

for my $name (sort keys %parameters) {
    my (undef, $expected, $kept) = @{ $parameters{$name} };
    for my $place (grep { is_possible(m{(\w+)}, $name) } @PLACES) {
        my ($algorithm, $store) = split m{/}, $place;
        my $limit   = "dry_${name}_${algorithm}_$store";
        my @answers = map { get($port, "/$name/$place?k=a") } 1 .. 4;
        is(join(' ', map { $_->{status} } @answers), '200 200 200 429', "$place, $name: what is enforced decides");
        my $enforced = $limit =~ s/^dry/enforced/r;
        is(join(' ', map { (split ' ', field($_, 'X-Says'))[0, 1] } @answers), join(' ', ("PASSED $enforced") x 3, "REJECTED $enforced"),
            "$place, $name: the variables tell of what is enforced");
        is(join('', map { (field($_, 'RateLimit') // '') . (field($_, 'RateLimit-Policy') // '') } @answers) =~ /"dry_/ ? 1 : 0, 0,
            "$place, $name: the dry limit is in no response field");
        is(field($answers[2], 'X-RateLimit-Limit'), 3, "$place, $name: nor is it in the legacy ones");
        is(results($limit), $expected, "$place, $name: the dry limit is counted, where the others admit");
        is(results($enforced), 'passed:3 rejected:1', "$place, $name: what is enforced is counted");
        my $lines = () = $expected =~ /rejected|delayed/ ? $nginx->error_log =~ /(?:limiting requests|delaying request), dry run, by limit "$limit"/g : ();
        is($lines, $expected =~ /_dry_run:(\d)/ ? $1 : 0, "$place, $name: the error log tells of what the dry limit would do");
        is($redis{one}->cli('ZCARD', "rl:sliding:$limit:{a}"), $kept, "$place, $name: the log of the dry limit") if $place eq 'log/default' && $name ne 'secret';
    }
}

# ---- the level is in a dry run

is(statuses('/off?k=a', 3), '200 200 429', 'dry_run=off: the limit is enforced in a level in a dry run');
like(says('/off?k=b'), qr/^PASSED off_on /, 'dry_run=off: the variables show this limit');
is(join(' ', map { results("off_$_") } qw(dry wide)), 'rejected_dry_run:3 passed:3', 'dry_run=off: the dry limits are asked if it admits');
is(zcard('off_wide'), 0, 'dry_run=off: the dry limits are asked together: none logs what one of them would deny');
like(field(get($port, '/off?k=c'), 'RateLimit'), qr/^"off_on";r=1;t=\d+$/, 'dry_run=off: only this limit is in the response fields');
is(statuses('/inherits?k=a', 2), '200 429', 'inherited limits: the enforced limit denies');
is(statuses('/inherits/dry?k=b', 2), '200 429', 'inherited limits, a level in a dry run: dry_run=off denies');
is(zcard('inherits', 'b'), 0, 'inherited limits, a level in a dry run: limits with dry_run=on and without the parameter are asked together');
is(results('inherits'), 'passed:2 rejected:1', 'inherited limits: a limit without dry_run= follows its level');

# ---- alone

is(statuses('/alone?k=a', 6), '200 200 200 200 200 429', 'two dry limits: the enforced limit decides');
is(results('alone_none'), 'rejected_dry_run:5', 'two dry limits: one would deny all');
is(results('alone_more'), 'passed:2 rejected_dry_run:3', 'two dry limits: the other one decides independently');
is(zcard('alone_more'), 2, 'two dry limits: the other one logs independently');
like(says('/only?k=a'), qr/^PASSED only redis/, 'nothing is enforced: the variables show the dry limit');
like(says('/only?k=a'), qr/^REJECTED_DRY_RUN only redis/, 'nothing is enforced: the variables show what the dry limit would deny');
is(statuses('/only?k=a', 2), '200 200', 'nothing is enforced: all pass');
says('/both?k=a') for 1 .. 2;
like(says('/both?k=a'), qr/^REJECTED_DRY_RUN both_over redis/, 'nothing is enforced: the variables show the dry limit that denies, not the one with less left');

# ---- numbers that are none

is(statuses('/invalid?k=a&l=2&d=x', 3), '200 200 429', 'an invalid dry limit denies nothing');
is(results('invalid_dry'), 'rejected_dry_run:2', 'an invalid dry limit is counted');
is(zcard('invalid_on'), 2, 'an invalid dry limit: the enforced limit logs');
is(statuses('/invalid?k=b&l=x&d=2', 2), '429 429', 'an invalid limit denies beside a dry one');
is(zcard('invalid_dry', 'b'), 0, 'an invalid limit: the dry one does not log');

# ---- held, and given back

sub ask_and_leave {
    my ($path, $ready) = @_;
    my $client = connect_to($port);
    $client->syswrite("GET $path HTTP/1.1\r\nHost: x\r\n\r\n");
    my $is_ready = wait_until('the moment to leave', 5, $ready);
    close $client;
    return $is_ready;
}
is(get($port, '/held?k=a')->{status}, 200, 'a limit with delay= beside a dry one: the first request passes');
ok(ask_and_leave('/held?k=a', sub { zcard('held_on') == 2 }), 'a limit with delay= beside a dry one: a request is held');
is(zcard('held_dry'), 1, 'a request that is held is not in the dry log');
ok(wait_until('the slot', 5, sub { zcard('held_on') < 2 }), 'the reservation of a held request that leaves is given back');
my $late = get($port, '/held?k=a');
is($late->{status} . zcard('held_dry'), '2002', 'a held request is in the dry log when it continues');

is(statuses('/cap?k=a', 5), '200 429 429 429 429', 'a dry limit with delay= beside count=all: the enforced limit decides');
is(zcard('cap_on'), 2, 'a dry limit with delay= beside count=all: the log is kept to its cap');

is(statuses('/answer/404?k=a', 3), '404 404 404', 'refund= of a dry limit: three answers with its status');
ok(wait_until('the refund', 5, sub { zcard('answer_dry') == 0 }), 'refund= of a dry limit: its entries are given back');
is(zcard('answer_on'), 3, 'refund= of a dry limit: entries of the enforced limit stay');

# a worker at worker_shutdown_timeout closes held requests
is(get($port, '/leaves?k=a')->{status}, 200, 'a client that stays passes');
$redis{two}->pause;
my $client = connect_to($port);
$client->syswrite("GET /leaves?k=a HTTP/1.1\r\nHost: x\r\n\r\n");
ok(wait_until('the other dry limit', 5, sub { zcard('leaves_held') == 2 }), 'a client waits for the store of its dry limit');
$nginx->reload(gone => 1);
is(Testbed::Http::read_all($client, 5), '', 'a request of a worker at its shutdown timeout is not answered');
$redis{two}->resume;
is(zcard('leaves_on'), 2, 'a request that ends while a dry limit is asked: the enforced limit keeps its entry');
is(zcard('leaves_held'), 2, 'a request that ends while a dry limit is asked: a dry limit with a delay keeps its entry');
ok(wait_until('the store', 10, sub { says('/other?k=after' . rand) =~ /redis$/ }), 'the store answers again');

# ---- internal redirects

is(statuses('/inside?k=a', 3), '200 200 429', 'a NAME in a dry run, enforced after a redirect: it denies there');
ok(wait_until('the take-back', 5, sub { zcard('inside_before') < 3 }), 'a NAME in a dry run, enforced after a redirect: a denied request gives back');
is(zcard('inside'), 2, 'a NAME in a dry run, enforced after a redirect: each request is logged once');
is(zcard('inside_before'), 2, 'a NAME in a dry run, enforced after a redirect: a denied request leaves no entry of the first location');
is(zcard('inside_after'), 2, 'a NAME in a dry run, enforced after a redirect: a dry limit there logs what is admitted');

$bed->done;
