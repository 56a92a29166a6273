# Each example of docs/algorithms.md, and the example of costs in docs/directives.md, does what the page says: with Redis,
# and on one node without Redis.

use strict;
use warnings;
use Cwd ();
use File::Basename ();
use IO::Select;
use Test::More;
use Testbed qw(wait_until);
use Testbed::Examples qw(examples);
use Testbed::Http qw(get field many connect_to parse);
use Testbed::Recipes qw($port $redis are_full passed_at_once remaining slow statuses try_examples);
use Time::HiRes qw(time);
use Time::Local qw(timegm);

my $root    = Cwd::abs_path(File::Basename::dirname(__FILE__) . '/..');
my $bed     = Testbed->new;
my %recipes = (
    'log' => sub {
        my ($nginx, $over_redis) = @_;
        is(statuses(21, '/payments/', 'X-Account' => 'a'), '20x200 1x429', 'twenty payments an hour pass');
        my ($id) = Testbed::Process::slurp($nginx->dir . '/access.log') =~ m{^(\w+) /payments/ 200$}m;
        ok($redis->cli('ZSCORE', 'rl:sliding:payments:{a}', $id), 'a payment is in the list by its id') if $over_redis;
    },
    'compact' => sub {
        my @answers = many([map { [$port, '/api/', "X-Api-Key: a\r\n"] } 1 .. 1010]);
        is(scalar(grep { $_->{status} == 200 } @answers), 1000, 'a thousand requests a minute pass');
    },
    'counter' => sub {
        is(statuses(1, '/tiles/'), '1x200', 'a request of a tile passes');
        is(remaining('tiles', '/tiles/'), 5998, 'two requests of tiles count');
    },
    'bucket' => sub {
        my ($passed, $seconds) = passed_at_once(30, '/upload', 'X-User');
        cmp_ok($passed, '>=', 10, 'ten uploads pass at once');
        cmp_ok($passed, '<=', 10 + 1 + $seconds, 'one upload a second passes after ten');
    },
    'sampled' => sub {
        is(statuses(300, '/events', 'X-Site' => 'a'), '300x200', 'three hundred events pass');
        my $left = remaining('events', '/events', 'X-Site' => 'a');
        cmp_ok($left, '>=', 98_000, 'three hundred events count as about three hundred');
        is($left % 100, 0, 'events count in hundreds');
    },
    'cost=' => sub {
        my @key = ('X-Api-Key' => 'a');
        is(statuses(19, '/api/report/1', @key), '19x200', 'nineteen reports of cost 50 pass');
        is(remaining('api', '/api/x', @key), 49, 'nineteen reports and a request of cost 1 leave 49 of a thousand');
        is(statuses(1, '/api/report/1', @key), '1x429', 'a report is denied if 49 are left');
        is(remaining('api', '/quota', @key), 49, '/quota shows what is left');
        is(statuses(9, '/quota', @key), '9x204', '/quota answers as often as it is asked');
        is(remaining('api', '/api/x', @key), 48, '/quota takes nothing');
    },
    'count=all' => sub {
        is(statuses(100, '/search'), '30x200 70x429', 'thirty searches a minute pass');
        cmp_ok(field(get($port, '/search'), 'Retry-After'), '>=', 50, 'the wait is counted from the last attempts, not from the first');
    },
    'quota' => sub {
        my @key = ('X-Account' => 'a');
        is(statuses(3, '/v1/?status=500', @key), '3x500', 'errors of the server pass');
        ok(wait_until('refunds', 5, sub { (remaining('plan', '/v1/', @key) // 0) >= 99_990 }), 'and are not charged');
        my @answers = many([map { [$port, '/v1/', "X-Account: b\r\n"] } 1 .. 60]);
        is(scalar(grep { $_->{status} == 200 } @answers) >= 50, 1, 'fifty a second pass');
        my ($reset) = field(get($port, '/v1/', headers => { 'X-Account' => 'c' }), 'RateLimit') =~ /"plan";r=99999;t=(\d+)/;
        my @now = gmtime;
        my $end = timegm(0, 0, 0, 1, ($now[4] + 1) % 12, $now[5] + 1900 + ($now[4] == 11));
        cmp_ok(abs($end - time - $reset), '<', 5, 'the reset is the first of the next month');
    },
    'inflight' => sub {
        my @slow = slow(4, '/reports/x', 'X-Account: a');
        is(statuses(9, '/reports/x', 'X-Account' => 'a'), '9x200', 'the fifth report at once passes');
        push @slow, slow(1, '/reports/x', 'X-Account: a');
        ok(are_full('/reports/x', 'X-Account' => 'a'), 'the sixth is denied');
        is(field(get($port, '/reports/x', headers => { 'X-Account' => 'a' }), 'Retry-After'), 1, 'for a second');
        is(statuses(9, '/reports/x', 'X-Account' => 'b'), '9x200', 'one after the other they all pass');
        close shift @slow;
        ok(wait_until('the end', 5, sub { get($port, '/reports/x', headers => { 'X-Account' => 'a' })->{status} == 200 }), 'when one has ended, another one passes');
    },
    'Waiting for a place' => sub {
        my @slow = slow(5, '/exports/x', 'X-Account: a');
        ok(wait_until('five', 5, sub { get($port, '/exports/x', headers => { 'X-Account' => 'b' })->{status} == 200 }), 'another account has its own');
        my $sixth = connect_to($port);
        $sixth->syswrite("GET /exports/x HTTP/1.1\r\nHost: x\r\nX-Account: a\r\nConnection: close\r\n\r\n");
        ok(!IO::Select->new($sixth)->can_read(0.5), 'the sixth export of an account waits');
        close shift @slow;
        is(parse(Testbed::Http::read_all($sixth, 15))->{status}, 200, 'until one of the five has ended');
    },
    'Beside a limit that holds' => sub {
        my @held = map { connect_to($port) } 1 .. 20;
        $_->syswrite("GET /render/x HTTP/1.1\r\nHost: x\r\nX-Account: a\r\n\r\n") for @held;
        ok(wait_until('two of them', 5, sub { 2 <= grep { IO::Select->new($_)->can_read(0) } @held }), 'an account that sends twenty at once is held');
        is(join(' ', map { get($port, '/render/x', headers => { 'X-Account' => "b$_" })->{status} } 1 .. 10), join(' ', (200) x 10), 'others are not kept out');
    },
    'settle=' => sub {
        my @key = ('X-User' => 'a');
        is(remaining('rows', '/query?rows=7', @key), 9900, 'a query takes a hundred rows');
        ok(wait_until('the settling', 5, sub { (remaining('rows', '/query?rows=0', @key) // 0) == 9893 }), 'and has seven when it has ended');
        get($port, '/query?rows=20000', headers => {@key});
        ok(wait_until('the settling', 5, sub { get($port, '/query?rows=0', headers => {@key})->{status} == 429 }), 'later queries wait for many rows');
    },
    'refund=' => sub {
        is(statuses(9, '/login'), '9x200', 'logins that succeed pass');
        is(statuses(6, '/login?status=401', 'X-Client' => '192.0.2.1'), '5x401 1x429', 'the sixth login that fails is denied');
        is(statuses(101, '/orders/', 'X-User' => 'a'), '100x200 1x429', 'orders count');
        get($port, '/orders/?status=500', headers => { 'X-User' => 'b' }) for 1 .. 3;
        ok(wait_until('refunds', 5, sub { (remaining('orders', '/orders/?status=500', 'X-User' => 'b') // 0) == 99 }),
            'orders that fail with a server error do not count');
    },
    'delay=' => sub {
        my @answers = many([map { [$port, '/api/', "X-Api-Key: a\r\n"] } 1 .. 110]);
        is(scalar(grep { $_->{status} == 200 } @answers), 100, 'a hundred requests pass at once');
        is(scalar(grep { $_->{status} == 429 } @answers), 10, 'requests that would have to wait for ten seconds are denied');
    },
    'block=' => sub {
        is(statuses(11, '/xmlrpc.php'), '10x200 1x429', 'the eleventh request is denied');
        cmp_ok(field(get($port, '/xmlrpc.php'), 'Retry-After'), '>', 3590, 'the eleventh request costs an hour');
    },
    'burst=' => sub {
        my ($passed, $seconds) = passed_at_once(20, '/chat/', 'X-User');
        cmp_ok($passed, '>=', 5, 'five messages pass at once');
        cmp_ok($passed, '<=', 5 + 1 + $seconds / 2, 'one message in two seconds passes after five');
    },
    'sample=' => sub {
        is(statuses(100, '/beacon', 'X-Site' => 'a'), '100x200', 'a hundred beacons pass');
        my $left = remaining('beacon', '/beacon', 'X-Site' => 'a');
        is($left % 1000, 0, 'beacons count in thousands');
    },
    'prefetch=' => sub {
        my ($nginx, $has_redis) = @_;
        my $before = $redis->calls('evalsha');
        is(statuses(200, '/ingest/', 'X-Customer' => 'a'), '200x200', 'two hundred requests pass');
        my $calls = $redis->calls('evalsha') - $before;
        $has_redis
            ? cmp_ok($calls, '<', 100, 'fewer calls than requests')
            : is($redis->cli('DBSIZE'), 0, 'no log is in Redis');    # the node before may still return permits
    },
    'excess=' => sub {
        is(statuses(601, '/'), '600x200 1x0', 'six hundred requests a minute pass, the next one gets no answer');
        my ($nginx) = @_;
        like(Testbed::Process::slurp($nginx->dir . '/access.log'), qr{ / 444$}m, 'a request that gets no answer is 444 in the access log');
    },
    'Costs, refunds and delays' => sub {
        my $left = sub { my ($query, $user) = @_; return remaining('render', "/render$query", 'X-User' => $user) };
        is($left->('', 'a'), 99, 'a missing number of pages costs one');
        is($left->('?pages=10', 'a'), 89, 'ten pages cost ten');
        is($left->('?pages=99', 'b'), 1, 'ninety-nine pages cost ninety-nine');
        is($left->("?pages=$_", "client$_"), 0, "pages=\"$_\" costs all") for qw(0 x -1 1x 1.5 007 100 100001 1000000000000);
        is(statuses(3, '/render?pages=x', 'X-User' => 'a'), '3x429', 'a cost of the whole limit is denied if some is used');
    },
);
try_examples($bed, \%recipes, examples("$root/docs/algorithms.md"), grep { $_->[0] eq 'Costs, refunds and delays' } examples("$root/docs/directives.md"));

$bed->done;
