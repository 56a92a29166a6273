# Each example of docs/recipes.md does what the page says: with Redis, and on one node without Redis.

use strict;
use warnings;
use Cwd ();
use File::Basename ();
use IO::Select;
use Test::More;
use Testbed qw(wait_until);
use Testbed::Examples qw(examples);
use Testbed::Http qw(get request field many connect_to);
use Testbed::Recipes qw($port $redis $silent are_full remaining slow statuses try_examples);
use Testbed::Tool qw(tool tool_json);

my $root    = Cwd::abs_path(File::Basename::dirname(__FILE__) . '/..');
my $bed     = Testbed->new;
my %recipes = (
    'By address' => sub {
        is(statuses(301, '/', 'X-Client' => '192.0.2.1'), '300x200 1x429', 'three hundred requests of an address pass');
        is(statuses(1, '/', 'X-Client' => '192.0.2.2'), '1x200', 'the next address is another client');
        is(remaining('address', '/', 'X-Client' => '2001:db8::1'), 299, 'an IPv6 address takes one of three hundred');
        is(remaining('address', '/', 'X-Client' => '2001:db8::2'), 298, 'an IPv6 address and its /64 are one client');
    },
    'By user' => sub {
        is(statuses(1, '/app/'), '1x401', 'a request without a user is refused');
        is(statuses(101, '/app/', 'X-Who' => 'alice'), '100x200 1x429', 'a hundred requests of a user pass');
        is(statuses(1, '/app/', 'X-Who' => 'bob'), '1x200', 'another user is not denied');
    },
    'By user, with limits of the authentication' => sub {
        is(statuses(1, '/account/'), '1x401', 'a request without a user is refused');
        is(statuses(4, '/account/', 'X-Who' => 'alice', 'X-Plan' => 3), '3x200 1x429', 'a user has the limit that the authentication tells');
        is(statuses(3, '/account/', 'X-Who' => 'alice', 'X-Plan' => 5), '2x200 1x429', 'a raised one holds at once');
        is(statuses(11, '/account/', 'X-Who' => 'bob'), '10x200 1x429', 'without one there is a limit, too');
        is(statuses(11, '/account/', 'X-Who' => 'carol', 'X-Plan' => 'many'), '10x200 1x429', 'and for what is no number');
    },
    'Room for important requests' => sub {
        is(statuses(81, '/import/a'), '80x200 1x429', 'imports leave room');
        is(statuses(21, '/'), '20x200 1x429', 'which the other requests have');
        is(statuses(1, '/import/a'), '1x429', 'and imports have not');
    },
    'Crawlers' => sub {
        is(join(' ', map { statuses(30, '/', 'User-Agent' => $_->[0], 'X-Client' => "192.0.2.$_->[1]") } ['Googlebot/2.1', 1], ['x gOOGLEBOT', 2]), '30x200 30x200', 'a class of crawlers has one limit');
        is(statuses(1, '/', 'User-Agent' => 'GoogleBot', 'X-Client' => '192.0.2.3'), '1x429', 'from any address, however it writes its name');
        is(field(get($port, '/', headers => { 'User-Agent' => 'googlebot' }), 'Retry-After') > 50, 1, 'it is told when to come back');
        is(statuses(70, '/', 'User-Agent' => 'Mozilla/5.0', 'X-Client' => '192.0.2.1'), '70x200', 'others are not limited');
        is(statuses(21, '/', 'User-Agent' => 'Mozilla/5.0', 'X-Client' => '198.51.100.9'), '20x200 1x429', 'a network has one limit');
        is(statuses(1, '/', 'User-Agent' => 'Mozilla/5.0', 'X-Client' => '2001:db8:5::9'), '1x429', 'by all of its addresses');
    },
    'By session' => sub {
        is(statuses(61, '/shop/', Cookie => 'session=a'), '60x200 1x429', 'sixty requests of a session pass');
        my @answers = many([map { [$port, '/shop/', "Cookie: session=new$_\r\n"] } 1 .. 600]);
        is(scalar(grep { $_->{status} == 200 } @answers), 540, 'new sessions take what the address has left');
        is(statuses(1, '/shop/', 'X-Client' => '192.0.2.1'), '1x200', 'a request without a cookie passes from another address');
    },
    'By API key' => sub {
        is(remaining('api', '/api/', 'X-Api-Key' => 'one'), 999, 'a request of a key takes one of a thousand');
        is(remaining('api', '/api/', 'X-Api-Key' => 'one', 'X-Client' => '192.0.2.1'), 998, 'a key is one client wherever it comes from');
        is(remaining('api', '/api/', 'X-Api-Key' => 'two'), 999, 'another key has a limit of its own');
        is(remaining('api', '/api/', 'X-Client' => '192.0.2.1'), 999, 'a request without a key counts for its address');
        is(remaining('api', '/api/', 'X-Client' => '192.0.2.1'), 998, 'two requests without a key count for their address');
    },
    'Keys that clients make up' => sub {
        my ($nginx, $has_redis) = @_;
        my @answers = many([map { [$port, '/v2/', "X-Api-Key: made$_\r\n"] } 1 .. 400]);
        is(scalar(grep { $_->{status} == 200 } @answers), 300, 'new keys take what the address has left');
        is($redis->cli('DBSIZE'), $has_redis ? 301 : 0, 'requests that the address denies make no logs');
        is(statuses(1, '/v2/', 'X-Client' => '192.0.2.1', 'X-Api-Key' => 'made1'), '1x200', 'a key passes from another address');
    },
    'By endpoint' => sub {
        is(statuses(6, '/reports/a'), '5x200 1x429', 'five requests of a report pass for a client');
        is(statuses(6, '/reports/b'), '5x200 1x429', 'five requests of another report pass for a client');
        is(statuses(6, '/reports/a', 'X-Client' => '192.0.2.1'), '5x200 1x429', 'five requests of a report pass for the next client');
        is(statuses(6, '/reports/b', 'X-Client' => '192.0.2.1'), '5x200 1x429', 'five requests of another report pass for the next client, twenty in all');
        is(statuses(1, '/reports/c', 'X-Client' => '192.0.2.2'), '1x429', 'no more than twenty requests of all reports pass');
    },
    'By tenant, with different limits' => sub {
        is(statuses(11, '/', 'X-Tenant' => 'small'), '10x200 1x429', 'a tenant without a limit of its own has the default');
        is(remaining('tenant', '/', 'X-Tenant' => 'acme'), 499, 'a tenant has a limit of its own');
        is(statuses(1, '/', 'X-Tenant' => 'suspended'), '1x429', 'a limit of 0 denies a tenant');
        is(statuses(20, '/', 'X-Tenant' => 'internal'), '20x200', 'an empty limit does not apply to a tenant');
    },
    'By plan' => sub {
        is(statuses(11, '/', 'X-Api-Key' => 'unknown'), '10x200 1x429', 'a key without a plan has the free one');
        is(remaining('plan', '/', 'X-Api-Key' => 'key-of-acme'), 499, 'a key has the limit of its plan');
        is(remaining('plan', '/', 'X-Api-Key' => 'key-of-zorg'), 499, 'another key of the plan has a log of its own');
        is(statuses(1, '/', 'X-Api-Key' => 'key-of-test'), '1x429', 'a plan with a limit of 0 denies');
    },
    'Requests that cost more' => sub {
        is(remaining('work', '/page'), 99, 'a request takes one point');
        is(remaining('work', '/export'), 79, 'an expensive request takes twenty points');
        is(statuses(5, '/export'), '3x200 2x429', 'an expensive request is admitted in whole or denied');
        is(remaining('work', '/status'), 19, 'a cost of 0 takes nothing');
        is(statuses(20, '/page'), '19x200 1x429', 'cheaper requests take the points that are left');
        is(statuses(1, '/status'), '1x200', 'a cost of 0 is admitted even if nothing is left');
    },
    'Login by POST' => sub {
        my $try = sub { my ($method, $status, $client) = @_; return request($port, "/signin?status=$status", method => $method, headers => { 'X-Client' => $client })->{status} };
        is(join(' ', map { $try->('POST', 401, '192.0.2.1') } 1 .. 6), '401 401 401 401 401 429', 'five failures of an address pass');
        is(join(' ', map { $try->('GET', 200, '192.0.2.1') } 1 .. 3), '200 200 200', 'the form is shown after five failures');
        is(join(' ', map { $try->('POST', 200, '192.0.2.2') } 1 .. 9), join(' ', (200) x 9), 'logins that succeed do not count');
    },
    'Exceptions' => sub {
        is(statuses(6, '/', 'X-Client' => '198.51.100.1'), '5x200 1x429', 'five requests of any client pass');
        is(statuses(9, '/', 'X-Client' => '192.0.2.77'), '9x200', 'an address of our network is not limited');
        is(statuses(9, '/', 'X-Client' => '2001:db8:1::77'), '9x200', 'an IPv6 address of our network is not limited');
        is(statuses(9, '/', 'X-Client' => '198.51.100.1', 'User-Agent' => 'UptimeMonitor/1'), '9x200', 'a monitor is not limited');
    },
    'Soft limits' => sub {
        my ($nginx) = @_;
        is(join(' ', map { field(get($port, '/answers/'), 'X-Pool') } 1 .. 10), join(' ', ('fast') x 5, ('slow') x 5),
            'five requests go to the fast servers, five to the slow ones');
        is(statuses(1, '/answers/'), '1x429', 'more than ten are denied');
        my $log = sub { Testbed::Process::slurp($nginx->dir . '/logs/each.log') };
        ok(wait_until('the log', 5, sub { $log->() =~ / 429 / }), 'the denial is logged');
        like($log->(), qr/ 200 fair=PASSED hard=PASSED left=9\n/, 'the log tells of both limits');
        like($log->(), qr/ 200 fair=REJECTED_DRY_RUN hard=PASSED left=0\n.* 429 fair=- hard=REJECTED left=0\n/s, 'the log tells of each that was asked');
    },
    'Login' => sub {
        is(statuses(30, '/login?user=a'), '30x200', 'logins that succeed are never denied');
        ok(wait_until('the refunds', 5, sub { (remaining('login_address', '/login?user=a') // 0) == 4 }), 'logins that succeed are given back');
        for (1 .. 5) {
            many([map { [$port, '/login?user=d', "X-Client: 192.0.2.9\r\n"] } 1 .. 30]);
        }
        ok(wait_until('a login', 5, sub { get($port, '/login?user=d', headers => { 'X-Client' => '192.0.2.9' })->{status} == 200 }),
            'many logins at once that succeed are not locked out');
        is(statuses(6, '/login?user=a&status=401', 'X-Client' => '192.0.2.1'), '5x401 1x429', 'five failures of an address pass');
        my $denied = get($port, '/login?user=b', headers => { 'X-Client' => '192.0.2.1' });
        is($denied->{status}, 429, 'five failures lock an address out');
        cmp_ok(field($denied, 'Retry-After'), '>', 14 * 60, 'five failures lock an address out for a quarter of an hour');
        is(statuses(5, '/login?user=c&status=401', 'X-Client' => "192.0.2.$_"), '5x401', "five failures of an account pass from address $_") for 2 .. 5;
        is(statuses(1, '/login?user=c&status=401', 'X-Client' => '192.0.2.6'), '1x429', 'twenty failures in all lock an account out');
    },
    'One-time codes' => sub {
        is(statuses(4, '/code/send?phone=1'), '3x200 1x429', 'three messages to a number pass');
        is(statuses(3, "/code/send?phone=$_"), '3x200', "three messages to number $_ pass") for 2 .. 3;
        is(statuses(2, '/code/send?phone=4'), '1x200 1x429', 'ten messages of an address pass');
        is(statuses(9, '/code/check?phone=1'), '9x200', 'right codes are given back');
        is(statuses(20, '/code/check?phone=2&status=401'), '5x401 15x429', 'five wrong guesses of a code pass');
        cmp_ok(field(get($port, '/code/check?phone=2'), 'Retry-After'), '>', 540, 'after five wrong guesses each attempt begins the wait anew');
    },
    'An audit log' => sub {
        my ($nginx, $over_redis) = @_;
        is(statuses(61, '/transfers/', 'X-User' => 'alice'), '60x200 1x429', 'the compact log denies');
        return if !$over_redis;
        my @entries;
        wait_until('the denied request is taken back', 5, sub { (@entries = split /\n/, $redis->cli('ZRANGE', 'rl:sliding:audit:{alice}', 0, -1)) == 60 });
        my $passed  = Testbed::Process::slurp($nginx->dir . '/access.log');
        is(scalar @entries, 60, 'the audit log has the sixty requests');
        is(join(' ', sort @entries), join(' ', sort $passed =~ m{^(\w+) /transfers/ 200$}mg), 'the audit log has the ids of the access log');
        is($redis->cli('TYPE', 'rl:sliding:transfers:{alice}'), 'string', 'the compact log has no ids');
    },
    'Several windows' => sub {
        my @answers = many([map { [$port, '/search'] } 1 .. 40]);
        my $passed  = grep { $_->{status} == 200 } @answers;
        cmp_ok($passed, '<', 40, 'forty searches at once are too many');
        my $next;
        wait_until('a second to pass', 5, sub { $next = get($port, '/search'); $next->{status} == 200 });
        my ($minute, $day) = (60 - $passed - 1, 2000 - $passed - 1);
        like(field($next, 'RateLimit'), qr/"search_second";r=\d;.*"search_minute";r=$minute;.*"search_day";r=$day;/,
            'a request that one limit denies is in no log');
    },
    'WebSockets, downloads and slow reports' => sub {
        my @slow = slow(2, '/report', 'X-User: a');
        ok(are_full('/report', 'X-User' => 'a'), 'two reports of a user are made at once');
        is(statuses(1, '/report', 'X-User' => 'b'), '1x200', 'another user may have one');
        push @slow, slow(19, '/socket', 'X-User: a');
        is(statuses(9, '/socket', 'X-User' => 'a'), '9x200', 'twenty sockets of a user may be open');
        push @slow, slow(1, '/socket', 'X-User: a');
        ok(are_full('/socket', 'X-User' => 'a'), 'and not one more');
        is(statuses(30, '/socket', 'X-User' => 'b'), '30x200', 'those that are closed do not count');
    },
    'A plan with a quota of the month' => sub {
        my @key = ('X-Account' => 'a');
        is(statuses(20, '/v2/x', @key), '20x200', 'requests of the plan pass');
        is(remaining('plan', '/v2/plan', @key), 9980, '/v2/plan tells what is left');
        is(remaining('plan', '/v2/plan', 'X-Account' => 'gold-1'), 1_000_000, 'a larger plan has more');
        is(field(get($port, '/v2/plan', headers => { 'X-Account' => 'internal' }), 'RateLimit'), undef, 'an account without a plan is not limited');
    },
    'Tokens of a language model' => sub {
        my ($path, @key) = ('/v1/chat/x', 'X-Account' => 'a');
        my $left = sub { my ($query, @more) = @_; my %left = (field(get($port, "$path?$query", headers => { @key, @more }), 'RateLimit') // '') =~ /"tokens_(\w+)";r=(\d+)/g; return "@left{qw(minute day)}" };
        is($left->('tokens=300'), '19000 499000', 'a request takes a thousand tokens');
        ok(wait_until('the settling', 5, sub { $left->('tokens=0') eq '18700 498700' }), 'what was not used is given back');
        is($left->('tokens=0', 'X-Max-Tokens' => '9999'), '9701 489701', 'a request takes what it asks for');
        ok(wait_until('the settling', 5, sub { $left->('tokens=0', 'X-Max-Tokens' => 'many') eq '18700 498700' }), 'an answer without tokens costs nothing');
        is($left->('status=500'), '18700 498700', 'an error takes its estimate');
        ok(wait_until('the settling', 5, sub { $left->('tokens=0') eq '18700 498700' }), 'and costs nothing');
        my $client = connect_to($port);
        $client->syswrite("GET $path?slow=1 HTTP/1.1\r\nHost: x\r\nX-Account: a\r\n\r\n");
        ok(wait_until('it to be under way', 5, sub { $left->('tokens=0') eq '17700 497700' }), 'a request is under way');
        my $upstream = $silent->accept or die "accept: $!";
        close $client;
        my $waiting = IO::Select->new($upstream);
        ok(wait_until('the end of its request', 5, sub { $waiting->can_read(0.1) && !sysread $upstream, my $bytes, 65536 }), 'its client leaves');
        ok(wait_until('the settling', 5, sub { !grep { $left->('tokens=0') ne '17700 497700' } 1 .. 3 }), 'and the estimate stands');
        $left->('tokens=30000');
        ok(wait_until('the settling', 5, sub { get($port, "$path?tokens=0", headers => {@key})->{status} == 429 }), 'what was used besides is owed');
        cmp_ok(field(get($port, $path, headers => {@key}), 'Retry-After'), '>', 50, 'until it has left');
    },
    'Bytes sent' => sub {
        is(remaining('bytes', '/files/x'), 1_000_000_000, 'a download takes nothing when it begins');
        ok(wait_until('the settling', 5, sub { my $left = remaining('bytes', '/files/x'); $left < 1_000_000_000 && $left > 999_990_000 }), 'and its bytes when it has ended');
    },
    'GraphQL' => sub {
        my @key = ('X-User' => 'a');
        is(remaining('graphql', '/graphql?points=100', @key), 990, 'a query takes ten points');
        ok(wait_until('the settling', 5, sub { (remaining('graphql', '/graphql?points=10', @key) // 1000) < 910 }), 'and has what it cost when it has ended');
        get($port, '/graphql?points=2000', headers => {@key});
        ok(wait_until('the settling', 5, sub { get($port, '/graphql', headers => {@key})->{status} == 429 }), 'the next query waits');
    },
    'One client, changed at once' => sub {
        my ($nginx, $has_redis) = @_;
        my @acme = ('X-Customer' => 'acme');
        is(statuses(6, '/api/', @acme), '5x200 1x429', 'five requests a minute pass');
        return if !$has_redis;
        my @at = ('--server', $redis->address);
        tool('set', 'customer', 'acme', '--limit', '5000', '--for', '2h', @at);
        ok(wait_until('the larger limit', 5, sub { get($port, '/api/', headers => {@acme})->{status} == 200 }), 'a larger limit for one of them');
        tool('set', 'customer', 'mallory', '--deny', @at);
        is(statuses(3, '/api/', 'X-Customer' => 'mallory'), '3x429', 'another one is denied');
        tool('unset', 'customer', 'mallory', @at);
        ok(wait_until('the end', 5, sub { get($port, '/api/', headers => { 'X-Customer' => 'mallory' })->{status} == 200 }), 'until unset');
    },
    'An abuser' => sub {
        my ($nginx, $has_redis) = @_;
        my @who   = ('X-Client' => '192.0.2.7');
        my $after = sub { return field(get($port, '/catalogue/', headers => {@who}), 'Retry-After') // 0 };
        is(statuses(101, '/catalogue/', @who), '100x200 1x429', 'a hundred requests in ten seconds pass');
        cmp_ok(abs($after->() - 60), '<', 10, 'one more costs a minute');
        return if !$has_redis;
        my @at  = ('--server', $redis->address);
        my $log = 'rl:sliding:catalogue:{192.0.2.7}';
        $redis->cli('ZREMRANGEBYSCORE', $log, '-inf', '(0');    # the minute is over
        ok(wait_until('the known denial to end', 5, sub { $after->() > 500 }), 'then ten minutes');
        my ($blocked) = @{ tool_json('blocked', 'catalogue', @at)->{blocked} };
        is("$blocked->{key} $blocked->{step}", "$log 2", 'the tool lists the client');
        is(tool('unblock', 'catalogue', '192.0.2.7', @at)->{status}, 0, 'the tool lifts the block');
        $redis->cli('DEL', $log);    # ten seconds are over
        ok(wait_until('the known denial to end', 5, sub { statuses(1, '/catalogue/', @who) eq '1x200' }), 'the client is admitted');
        statuses(100, '/catalogue/', @who);
        cmp_ok(abs($after->() - 60), '<', 10, 'and begins with a minute again');
    },
    "Outbound requests: staying within a partner's quota" => sub {
        my @answers = many([map { [$port, '/'] } 1 .. 100]);
        is(scalar(grep { $_->{status} == 200 } @answers), 100, 'a hundred pass at once (store_egress_proxy.t has what follows)');
    },
);
try_examples($bed, \%recipes, examples("$root/docs/recipes.md"));

$bed->done;
