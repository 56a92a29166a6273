# Every parameter in every algorithm and store: cost, count, block, excess, burst, sample. limit_refund.t and
# limit_delay.t test the others. Beside each of these limits are dry limits with any parameters, algorithm and store,
# which have no effect.

use strict;
use warnings;
use Test::More;
use Testbed qw(seed wait_until);
use Testbed::Algorithm qw(@ALGORITHMS);
use Testbed::Everywhere qw(@PLACES locations);
use Testbed::Http qw(get field fields many);
use Time::HiRes qw(sleep time);

seed();

my $bed   = Testbed->new;
my $redis = $bed->redis;

sub any { return $_[int rand @_] }

# Dry limits beside the limit of a location, which would deny nearly all requests.
sub inside {
    my $place = $_[0] =~ tr{/}{-}r;
    my $dry = join ' ', map {
        my $algorithm = any(@ALGORITHMS);
        my @more = (any('', 'cost=0', 'cost=$arg_c'), any('', 'count=all cap=5'), any('', 'block=1h'), any('', 'excess=drop'), any('', 'refund=2xx,4xx'),
            $algorithm =~ /log|compact|bucket/ ? any('', 'delay=1h') : ());
        "sliding_log_limit dry$_-$place-" . int(rand 1e9) . ' key=' . any('all', '$arg_k') . ' limit=' . any(0, 1) . " window=1h dry_run=on algorithm=$algorithm store=" . any(qw(default local)) . " @more;"
    } 1 .. any(0, 1, 2);
    return "$dry empty_gif;";
}

my $nginx = $bed->serve(
    workers => 2,
    redis   => $redis,
    http    => <<'HTTP',
    log_format status '$request_uri $status $sliding_log_status';
    access_log %%DIR%%/access.log status;
    sliding_log_on_error deny;
HTTP
    server  => <<'END'
    location /burst/default { sliding_log_limit burst key=$arg_k limit=1 window=1h burst=5 algorithm=bucket; empty_gif; }
    location /burst/local { sliding_log_limit lburst key=$arg_k limit=1 window=1h burst=5 algorithm=bucket store=local; empty_gif; }
    location /sample/default { sliding_log_limit sample key=$arg_k limit=100 window=1h algorithm=sampled; empty_gif; }
    location /sample/local { sliding_log_limit lsample key=$arg_k limit=100 window=1h algorithm=sampled store=local; empty_gif; }
    location /together {
        sliding_log_limit attempts key=$arg_k limit=5 window=1h count=all;
        sliding_log_limit strict key=$arg_k limit=1 window=1h store=local;
        sliding_log_limit after key=$arg_k limit=9 window=1h algorithm=compact count=all;
        empty_gif;
    }
END
        . locations(cost => limit => 'limit=10 window=366d cost=$arg_c', inside => \&inside)
        . locations(all => limit => 'limit=2 window=2s cap=4 count=all', inside => \&inside)
        . locations(plain => limit => 'limit=2 window=2s', inside => \&inside)
        . locations(block => limit => 'limit=1 window=300ms block=4s', inside => \&inside)
        . locations(drop => limit => 'limit=1 window=366d excess=drop', inside => \&inside),
);
my $port = $nginx->port;

sub status { return get($port, $_[0])->{status} }

# The statuses of these paths, requested at once.
sub statuses { return join ' ', map { $_->{status} } many([map { [$port, $_] } @_]) }

for my $place (@PLACES) {
    my $path = "/cost/$place?k=a&c=";
    is(join(' ', map { status($path . $_) } 4, 4, 3, 2, 0, 1), '200 200 429 200 200 429', "$place: a cost is taken whole or not at all");
    is(field(get($port, "$path" . 0), 'RateLimit') =~ /;r=0;/ ? 1 : 0, 1, "$place: cost 0 looks, and takes nothing");
    my $large = get($port, "/cost/$place?k=b&c=11");
    is($large->{status}, 429, "$place: a cost above the limit is denied");
    is(scalar(fields($large, 'Retry-After')), 0, "$place: a cost above the limit is denied for ever");
    is(status("/cost/$place?k=b&c=10"), 200, "$place: a cost above the limit takes nothing");
    like(field(get($port, "/cost/$place?k=c&c="), 'RateLimit'), qr/;r=9;/, "$place: an empty cost is 1");
    is(status("/cost/$place?k=d&c=two"), 429, "$place: a cost that is no number is denied");
    my %seen;
    $seen{ $_->{status} }++ for many([map { [$port, "/cost/$place?k=e&c=3"] } 1 .. 40]);
    is_deeply(\%seen, { 200 => 3, 429 => 37 }, "$place: of 40 requests of cost 3 at once three fit into 10");
}
cmp_ok($nginx->logged(qr/limit "cost_log_local": invalid "cost" value "two", expected a whole number/), '==', 1,
    'the error log has the invalid cost');

# if denied attempts count, a client stays denied until it sends fewer requests
my (%hammered, %last);
my $begin = time;
while (time < $begin + 5) {
    my @paths = map { ("/all/$_?k=a", "/plain/$_?k=a") } @PLACES;
    my @now   = split ' ', statuses(@paths);
    push @{ $hammered{ $paths[$_] } }, [time - $begin, $now[$_]] for 0 .. $#paths;
}
for my $place (@PLACES) {
    my $passed = grep { $_->[1] == 200 } @{ $hammered{"/all/$place?k=a"} };
    is($passed, 2, "$place: hammering with count=all passes twice") or diag(join ' ', map { "@$_" } grep { $_->[1] == 200 } @{ $hammered{"/all/$place?k=a"} });
    cmp_ok(scalar(grep { $_->[1] == 200 } @{ $hammered{"/plain/$place?k=a"} }), '>', 3, "$place: hammering without count=all passes in each window");
}
$begin = time;
for my $place (@PLACES) {
    my $answer = get($port, "/all/$place?k=a");
    my $wait   = field($answer, 'Retry-After');
    $last{$place} = [time + $wait, $wait];
}
for my $place (@PLACES) {
    my ($at, $wait) = @{ $last{$place} };
    sleep $at - time if $at > time;
    is(status("/all/$place?k=a"), 200, "$place: who waits as told passes") or diag("waited $wait");
    cmp_ok($wait, '<=', 4, "$place: the wait that is told is bounded by the cap");
}
cmp_ok($redis->cli('ZCARD', 'rl:sliding:all_log_default:{a}'), '<=', 4, 'the cap bounds the log');

# the penalty box
is(statuses(map { "/block/$_?k=a" } @PLACES), join(' ', (200) x @PLACES), 'block: the first request passes');
my %blocked;
for my $place (@PLACES) {
    # the window is short: a slow machine may need a few to be denied
    my $answer;
    wait_until('a denial', 5, sub { $answer = get($port, "/block/$place?k=a"); $answer->{status} == 429 });
    $blocked{$place} = time;
    is(field($answer, 'Retry-After'), 4, "$place: a denial tells the length of the block");
}
sleep 0.7;
is(statuses(map { "/block/$_?k=a" } @PLACES), join(' ', (429) x @PLACES), 'block: a client is denied although the window has ended');
is(statuses(map { "/block/$_?k=b" } @PLACES), join(' ', (200) x @PLACES), 'block: no other client is denied');
for my $place (@PLACES) {
    ok(wait_until('the end of the block', 8, sub { status("/block/$place?k=a") == 200 }), "$place: the block ends");
    cmp_ok(time - $blocked{$place}, '>=', 3.9, "$place: the block does not end before its time");
    cmp_ok(time - $blocked{$place}, '<', 3.9 + 6 * Testbed::slow(), "$place: the block ends in time, though the client went on trying");
}

# dropped connections
is(statuses(map { "/drop/$_?k=a" } @PLACES), join(' ', (200) x @PLACES), 'excess=drop: the first request passes');
my @dropped = map { get($port, "/drop/$_?k=a") } @PLACES;
is(scalar(grep { $_->{text} ne '' } @dropped), 0, 'excess=drop: the second request gets no answer');
like(Testbed::Process::slurp($nginx->dir . '/access.log'), qr{^/drop/$_\?k=a 444 REJECTED$}m,
    "$_: the access log tells of a dropped request with 444") for @PLACES;

for my $store (qw(default local)) {
    is(join(' ', map { status("/burst/$store?k=a") } 1 .. 7), '200 200 200 200 200 429 429', "bucket, $store: a burst of five passes at one an hour");
    my %seen;
    $seen{ status("/sample/$store?k=a") }++ for 1 .. 400;
    cmp_ok($seen{200} // 0, '>', 20,  "sampled, $store: about 100 of 400 pass");
    cmp_ok($seen{200} // 0, '<', 320, "sampled, $store: not all of 400 pass");
}

# several limits: denied attempts are in each log that counts them, whichever limit denied
is(status('/together?k=a'), 200, 'three limits: the first request passes');
is(status('/together?k=a'), 429, 'three limits: a request over one of them is denied') for 1 .. 2;
is($redis->cli('ZCARD', 'rl:sliding:attempts:{a}'), 3, 'three limits: denied attempts are counted by the limit with count=all');
like(field(get($port, '/together?k=a'), 'RateLimit'), qr/"after";r=5;/, 'three limits: denied attempts are counted in the other algorithm');

$bed->done;
