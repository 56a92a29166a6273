# A record of a whole NAME (sliding-log set NAME --all): another limit, allow, deny or a dry run for all keys, on all nodes
# within two seconds, under every algorithm, while Redis is away, too. A record of a key goes before it.

use strict;
use warnings;
use JSON::PP ();
use Test::More;
use Testbed qw(wait_until slow);
use Testbed::Algorithm qw(@ALL_ALGORITHMS horizon);
use Testbed::Http qw(get field many statuses);
use Testbed::Metrics qw(scrape);
use Testbed::Tool qw(tool tool_json);
use Time::HiRes qw(sleep time);

my $bed    = Testbed->new;
my $redis  = $bed->redis;
my $limits = join "\n", map {
    my $algorithm = $_;
    my $horizon   = $algorithm eq 'inflight' ? '' : horizon($algorithm, '1h', 'month');
    my $sample    = $algorithm eq 'sampled' ? 'sample=1' : '';
    map { "location /$algorithm-$_ { sliding_log_limit $algorithm-$_ key=\$arg_k limit=3 $horizon algorithm=$algorithm override=$_ $sample; empty_gif; }" } qw(name on);
} @ALL_ALGORITHMS, 'inflight';
my $server = <<"END";
    $limits
    location /metrics { sliding_log_metrics; }
    location /board   { sliding_log_dashboard; }
    location /first  { sliding_log_limit two key=\$arg_k limit=3 window=1h override=name; empty_gif; }
    location /second { sliding_log_limit two key=\$arg_k limit=5 window=1h override=name; empty_gif; }
    location /variable { sliding_log_limit variable key=\$arg_k limit=\$arg_l cost=\$arg_c window=1h override=name; empty_gif; }
    location /burst  { sliding_log_limit burst key=\$arg_k limit=3 window=1h algorithm=bucket burst=6 override=name; empty_gif; }
    location /delay  { sliding_log_limit delay key=\$arg_k limit=2 window=300ms delay=10s override=name; empty_gif; }
    location /count  { sliding_log_limit count key=\$arg_k limit=2 window=1h count=all override=name; empty_gif; }
    location /prefetch { sliding_log_limit prefetch key=\$arg_k limit=100000 window=1h override=name prefetch=100; empty_gif; }
    location /drop   { sliding_log_limit drop key=\$arg_k limit=3 window=1h excess=drop override=name; empty_gif; }
    location /dry    { sliding_log_limit dry key=\$arg_k limit=3 window=1h dry_run=on override=name; empty_gif; }
    location /level  { sliding_log_dry_run on; sliding_log_limit enforced key=\$arg_k limit=1 window=1h dry_run=off override=name; empty_gif; }
    location /several {
        sliding_log_limit one   key=\$arg_k limit=9 window=1h override=name;
        sliding_log_limit other key=\$arg_k limit=2 window=1h override=on;
        sliding_log_limit third key=\$arg_k limit=9 window=1h algorithm=compact;
        add_header X-How \$sliding_log_source always;
        add_header X-Each "\$sliding_log_status_one \$sliding_log_status_other \$sliding_log_status_third" always;
        empty_gif;
    }
    location /allow { sliding_log_on_error allow; sliding_log_limit away key=\$arg_k limit=3 window=1h override=name; empty_gif; }
    location /deny  { sliding_log_on_error deny;  sliding_log_limit away key=\$arg_k limit=3 window=1h override=name; empty_gif; }
    location /local { sliding_log_on_error local nodes=2; sliding_log_limit away key=\$arg_k limit=3 window=1h override=name; empty_gif; }
    location /both  { sliding_log_on_error local; sliding_log_limit away2 key=\$arg_k limit=3 window=1h override=on; sliding_log_limit away3 key=\$arg_k limit=3 window=1h; empty_gif; }
END
my @nodes = map {
    $bed->serve(
        workers => 2,
        listen  => 'reuseport',
        store   => 'server ' . $redis->address . '; timeout 5s; connect_timeout 5s; reconnect 10ms 50ms;',
        how     => '$sliding_log_source $sliding_log_limit $sliding_log_status',
        http    => "sliding_log_log_level info;\nsliding_log_headers all;",
        server  => $server)
} 1 .. 2;
my ($nginx, $second) = @nodes;
my @at = ('--server', $redis->address);

# "status source limit" of one request.
sub asked_of { my ($node, $path) = @_; my $answer = get($node->port, $path); return "$answer->{status} " . (field($answer, 'X-How') // '') =~ s/ [A-Z_]+$//r }
sub asked { return asked_of($nginx, @_) }

# The tool sets it, and both nodes obey within two seconds: all their workers, so for several requests.
sub all_obey {
    my ($path, $expected, $what) = @_;
    my $begin = time;
    my $is;
    my $obeyed = wait_until($what, 2 * slow(), sub {
        for my $node (@nodes) {
            $is = asked_of($node, $path . int rand 1e9);
            return 0 if $is !~ $expected;
        }
        return 1;
    });
    ok($obeyed, $what) or diag("$path: $is");
    return;
}
sub set   { my ($name, @how) = @_; my $ran = tool('set', $name, '--all', @how, @at); is("$ran->{status} $ran->{err}", '0 ', "set $name --all @how"); return }
sub unset { my ($name) = @_; my $ran = tool('unset', $name, '--all', @at); is("$ran->{status} $ran->{err}", '0 ', "unset $name --all"); return }

# ---- every algorithm, with records of keys and without: all of them in one phase after the other

my @names = map { ("$_-name", "$_-on") } @ALL_ALGORITHMS, 'inflight';
sub phase {
    my ($what, $expected, $check, @how) = @_;
    @how ? set($_, @how) : unset($_) for @names;
    for my $name (@names) {
        all_obey("/$name?k=", $expected, "$name: $what");
        $check->($name, "/$name?k=");
    }
    return;
}
sub fields_of { my ($path) = @_; return get($nginx->port, $path) }

is(asked("/$_?k=a"), '200 redis 3', "$_: as configured") for @names;
phase('another limit', qr/^200 redis 9$/, sub {
    my ($name, $path) = @_;
    like(field(fields_of("${path}b"), 'RateLimit-Policy'), qr/^"\Q$name\E";q=9;/, "$name: the fields have it");
    return if $name =~ /inflight/;
    is(join(' ', map { asked("${path}c") } 1 .. 10), join(' ', ('200 redis 9') x 9, '429 redis 9'), "$name: it counts");
}, '--limit', 9);
phase('a limit of 0', qr/^429 redis 0$/, sub { }, '--limit', 0);
phase('allow', qr/^200 override 3$/, sub {
    my ($name, $path) = @_;
    is(statuses(many([map { [$nginx->port, "${path}d"] } 1 .. 20])), '200:20', "$name: all requests are admitted");
    is($redis->cli('EXISTS', "rl:sliding:$name:{d}"), 0, "$name: and not logged");
}, '--allow');
phase('deny', qr/^429 override 3$/, sub {
    my ($name, $path) = @_;
    like(field(fields_of("${path}e"), 'Retry-After'), qr/^(?:600|59\d)$/, "$name: until the record ends");
    is(field(fields_of("${path}e"), 'X-RateLimit-Remaining'), 0, "$name: nothing remains");
}, '--deny', '--for', '10m');
phase('a dry run', qr/^200 redis 3$/, sub {
    my ($name, $path) = @_;
    return if $name =~ /inflight/;
    my @how = map { field(fields_of("${path}f"), 'X-How') } 1 .. 4;
    is("@how", join(' ', ('redis 3 PASSED') x 3, 'redis 3 REJECTED_DRY_RUN'), "$name: it decides and denies nothing");
}, '--dry-run');
phase('deny, beside records of keys', qr/^429 override 3$/, sub {
    my ($name, $path) = @_;
    return if $name !~ /-on$/;
    tool('set', $name, 'mine', '--limit', 5, @at);
    is(asked("${path}mine"), '200 redis 5', "$name: the limit of a key's record goes before it");
    tool('set', $name, 'mine', '--allow', @at);
    is(asked("${path}mine"), '200 override 3', "$name: so does its allow");
}, '--deny');
phase('allow, beside records of keys', qr/^200 override 3$/, sub {
    my ($name, $path) = @_;
    return if $name !~ /-on$/;
    tool('set', $name, 'mine', '--deny', @at);
    is(asked("${path}mine"), '429 override 3', "$name: a key's deny goes before allow");
    $redis->cli('SET', "rl:sliding:$name:{broken}:override", 'nonsense');
    is(asked("${path}broken"), '200 override 3', "$name: a broken record of a key counts as none");
}, '--allow');
phase('as configured again', qr/^200 redis 3$/, sub { });

# ---- what else a limit may have

set('two', '--limit', 4);
all_obey('/first?k=', qr/^200 redis 4$/, 'a NAME with two limits: one limit for both');
is(asked('/second?k=x'), '200 redis 4', 'for the other one, too');
set('variable', '--limit', 4);
all_obey('/variable?l=9&k=', qr/^200 redis 4$/, 'a limit from a variable');
is(asked('/variable?k=a&l='), '200 ', 'an empty one does not apply');
is(asked('/variable?k=a&l=x') =~ /^429 invalid/ ? 1 : 0, 1, 'an invalid one is denied');
is(asked('/variable?k=a&l=0&c=4'), '200 redis 4', 'one of 0 is replaced; a cost counts');
is(asked('/variable?k=a&l=0&c=1'), '429 redis 4', 'up to the limit');
set('burst', '--limit', 5);
all_obey('/burst?k=', qr/^200 redis 5$/, 'a bucket');
is(field(get($nginx->port, '/burst?k=a'), 'X-RateLimit-Limit'), 10, 'burst= keeps its proportion');
set('delay', '--limit', 100);
all_obey('/delay?k=', qr/^200 redis 100$/, 'delay=');
is(statuses(many([map { [$nginx->port, '/delay?k=many'] } 1 .. 50])), '200:50', 'nobody is held within the limit');
set('count', '--deny');
all_obey('/count?k=', qr/^429 override 2$/, 'count=all');
is($redis->cli('KEYS', 'rl:sliding:count:{*}') =~ /\d/ ? 1 : 0, 1, 'requests before it were logged');
$redis->cli('FLUSHALL');
asked('/count?k=late');
is($redis->cli('EXISTS', 'rl:sliding:count:{late}'), 0, 'a denial by the record is not logged');
set('prefetch', '--limit', 10);
all_obey('/prefetch?k=', qr/^200 (?:redis|prefetch) 10$/, 'prefetch=');
is(statuses(many([map { [$nginx->port, '/prefetch?k=p'] } 1 .. 30])), '200:10 429:20', 'the limit of the record is exact');
set('drop', '--deny');
ok(wait_until('drop', 2 * slow(), sub { !get($nginx->port, '/drop?k=a')->{status} }), 'excess=drop closes the connection');
set('dry', '--limit', 1);
all_obey('/dry?k=', qr/^200 redis 1$/, 'a dry limit');
is(field(get($nginx->port, '/dry?k=a'), 'X-How') . ', ' . field(get($nginx->port, '/dry?k=a'), 'X-How'), 'redis 1 PASSED, redis 1 REJECTED_DRY_RUN', 'a dry limit has it, too');
is(join(' ', map { get($nginx->port, '/level?k=a')->{status} } 1 .. 2), '200 429', 'dry_run=off in a dry level');
set('enforced', '--dry-run');
all_obey('/level?k=', qr/^200 redis 1$/, 'is in a dry run now');
ok(wait_until('dry', 2 * slow(), sub { field(get($nginx->port, '/level?k=b'), 'X-How') =~ /REJECTED_DRY_RUN$/ && field(get($nginx->port, '/level?k=b'), 'X-How') =~ /DRY_RUN$/ }), 'with its level');

# ---- several limits of one request

sub each_of { my ($key) = @_; my $answer = get($nginx->port, "/several?k=$key"); return "$answer->{status} " . field($answer, 'X-Each') }
is(each_of('a'), '200 PASSED PASSED PASSED', 'three limits');
set('one', '--deny');
all_obey('/several?k=', qr/^429 override$/, 'one of three limits denies by its record');
$redis->cli('FLUSHALL');
is(each_of('b'), '429 REJECTED  ', 'the others are not asked');
is($redis->cli('DBSIZE'), 0, 'nor logged');
set('one', '--allow');
all_obey('/several?k=', qr/^200 /, 'one of three limits allows by its record');
is(join(', ', map { each_of('c') } 1 .. 3), '200 PASSED PASSED PASSED, 200 PASSED PASSED PASSED, 429 PASSED REJECTED ', 'the others decide');
is($redis->cli('EXISTS', 'rl:sliding:one:{c}'), 0, 'it logs nothing');
is($redis->cli('ZCARD', 'rl:sliding:other:{c}'), 2, 'they log what is admitted');
set('other', '--allow');
all_obey('/several?k=', qr/^200 /, 'two of three allow');
ok(wait_until('both', 2 * slow(), sub { each_of('d') eq '200 PASSED PASSED PASSED' && each_of('d') && each_of('d') =~ /^200/ }), 'only the third one counts');
set('one', '--dry-run');
set('other', '--limit', 1);
ok(wait_until('both', 2 * slow(), sub { my $key = int rand 1e9; join(' ', map { each_of("e$key") } 1 .. 2) eq '200 PASSED PASSED PASSED 429 REJECTED ' }), 'a dry one is asked when the others admit');

# ---- while Redis is away

set('away', '--deny');
all_obey("/$_?k=", qr/^429 override 3$/, "deny, on_error $_") for qw(allow deny local);
set('away2', '--allow');
all_obey('/both?k=', qr/^200 redis 3$/, 'one of two limits is allowed');
$nginx->reload;
is(asked('/allow?k=r'), '429 override 3', 'it counts at once after a reload');
$redis->kill;
is(asked("/$_?k=a"), '429 override 3', "Redis is away: deny counts, on_error $_") for qw(allow deny local);
is(join(' ', map { asked('/both?k=a') } 1 .. 4), '200 local 3 200 local 3 200 local 3 429 local 3', 'Redis is away: the other limit is decided locally');
$redis->start;
set('away', '--limit', 10);
all_obey('/allow?k=', qr/^200 redis 10$/, 'Redis is back: another record');
$redis->kill;
like(asked('/allow?k=a'), qr/^200 error 10$/, 'Redis is away: the limit of the record, on_error allow');
is(join(' ', map { asked('/local?k=a') } 1 .. 6), join(' ', ('200 local 5') x 5, '429 local 5'), 'on_error local nodes=2 has half of it');
$redis->start;

# ---- what is told

$redis->cli('FLUSHALL');
set('away', '--limit', 7, '--for', '1h', '--by', 'alice', '--why', 'a launch');
my $told = qr/\[error\].* limit "away": all keys have override limit=7 until \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ, by "alice": a launch$/;
for my $node (@nodes) {
    ok(wait_until('the line', 3 * slow(), sub { $node->logged($told) > 0 }), 'each node tells when it begins or changes');
    is($node->logged($told), 1, 'once');
    is(scrape($node->port)->value('sliding_log_override_active', limit => 'away'), 1, 'the metrics tell');
    is(scrape($node->port)->value('sliding_log_override_active', limit => 'third'), undef, 'limits that obey none have no such metric');
    my ($limit) = grep { $_->{name} eq 'away' } @{ JSON::PP::decode_json(get($node->port, '/board?format=json')->{body})->{limits} };
    is("$limit->{records}[0]{what} $limit->{records}[0]{value}", 'limit 7', 'the dashboard tells');
}
my ($listed) = grep { $_->{all} } @{ tool_json('overrides', @at)->{overrides} };
is("$listed->{key} $listed->{what} $listed->{by} $listed->{why}", 'rl:sliding:away limit=7 alice a launch', 'the list has it');
like(tool('overrides', 'away', @at)->{out}, qr/^all keys of away +limit=7 +\S+Z +a launch +\S+Z +alice$/m, 'also that of one limit, for people');
$redis->cli('SET', 'rl:sliding:away:override', 'nonsense');
ok(wait_until('the line', 3 * slow(), sub { $_->logged(qr/limit "away": the override of all keys has ended: it was removed, or is over; the configuration counts$/) > 0 }), 'a broken one ends it') for @nodes;
is($nginx->logged(qr/limit "away": the override of all keys, "rl:sliding:away:override", is broken, and counts as none$/), 1, 'and is told');
$redis->cli('DEL', 'rl:sliding:away:override');
$redis->cli('RPUSH', 'rl:sliding:away:override', 'x');
is(asked('/allow?k=' . rand), '200 redis 3', 'another type counts as none');
$redis->cli('DEL', 'rl:sliding:away:override');
set('away', '--deny', '--for', '1s');
ok(wait_until('its end', 5 * slow(), sub { $nginx->logged(qr/all keys have override deny/) > 0 && asked('/allow?k=' . int rand 1e9) eq '200 redis 3' }), 'a record ends by itself');
is(scrape($nginx->port)->value('sliding_log_override_active', limit => 'away'), 0, 'the metrics tell that, too');

$bed->done;
