# Each example of docs/recipes.md and docs/algorithms.md, and the example of costs in docs/directives.md, does what the
# page says: with Redis, and on one node without Redis.

use strict;
use warnings;
use Cwd ();
use File::Basename ();
use IO::Select;
use IO::Socket::INET;
use Test::More;
use Testbed qw(wait_until);
use Testbed::Examples qw(examples in_context);
use Testbed::Http qw(get request field many connect_to parse);
use Testbed::Tool qw(tool tool_json);
use Time::HiRes qw(time);
use Time::Local qw(timegm);

my $bed    = Testbed->new;
my $redis  = $bed->redis;
my $silent = IO::Socket::INET->new(Listen => 10, LocalAddr => '127.0.0.1', Timeout => 20) or die "listen: $!";
my $root   = Cwd::abs_path(File::Basename::dirname(__FILE__) . '/..');

my $http = <<'END';
log_format joined '$request_id $uri $status';
access_log %%DIR%%/access.log joined;
set_real_ip_from 127.0.0.1;
real_ip_header   X-Client;
%%REDIS%%
server {
    listen 127.0.0.1:%%PORT2%%;
    access_log off;
    location = /auth {
        if ($http_x_who = "") { return 401; }
        add_header X-User $http_x_who;
        return 204;
    }
    location / {
        add_header X-Total-Tokens $arg_tokens;
        add_header X-Query-Cost $arg_points;
        add_header X-Rows $arg_rows;
        if ($arg_slow) { proxy_pass http://127.0.0.1:%%SILENT%%; break; }
        if ($arg_status = 401) { return 401; }
        if ($arg_status = 500) { return 500; }
        return 200;
    }
}
END

my $port;

# The statuses of successive requests: how often each came, in order.
sub statuses {
    my ($times, $path, %headers) = @_;
    my @seen;
    for (1 .. $times) {
        my $status = get($port, $path, headers => \%headers)->{status};
        push @seen, [$status, 0] if !@seen || $seen[-1][0] != $status;
        $seen[-1][1]++;
    }
    return join ' ', map { "$_->[1]x$_->[0]" } @seen;
}

# Of this number of requests of a client, how many passed, and in how many seconds.
sub passed_at_once {
    my ($count, $path, $field) = @_;
    my $begin   = time;
    my @answers = many([map { [$port, $path, "$field: a\r\n"] } 1 .. $count]);
    return (scalar(grep { $_->{status} == 200 } @answers), time - $begin);
}

# The remaining requests of a limit, from an answer.
sub remaining {
    my ($name, $path, %headers) = @_;
    my ($left) = (field(get($port, $path, headers => \%headers), 'RateLimit') // '') =~ /"$name";r=(\d+);/;
    return $left;
}

# Opens so many requests. They last until they are closed, since their bodies do not come.
sub slow {
    my ($count, $path, $field) = @_;
    my @clients = map { connect_to($port) } 1 .. $count;
    $_->syswrite("POST $path HTTP/1.1\r\nHost: x\r\n$field\r\nContent-Length: 1\r\n\r\n") for @clients;
    return @clients;
}

# Waits until as many of them are under way as the limit admits.
sub are_full { my ($path, %headers) = @_; return wait_until("$path to be full", 10, sub { get($port, $path, headers => \%headers)->{status} == 429 }) }

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
        my @entries = split /\n/, $redis->cli('ZRANGE', 'rl:sliding:audit:{alice}', 0, -1);
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
    'settle=' => sub {
        my @key = ('X-User' => 'a');
        is(remaining('rows', '/query?rows=7', @key), 9900, 'a query takes a hundred rows');
        ok(wait_until('the settling', 5, sub { (remaining('rows', '/query?rows=0', @key) // 0) == 9893 }), 'and has seven when it has ended');
        get($port, '/query?rows=20000', headers => {@key});
        ok(wait_until('the settling', 5, sub { get($port, '/query?rows=0', headers => {@key})->{status} == 429 }), 'later queries wait for many rows');
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
    "Outbound requests: staying within a partner's quota" => sub {
        my @answers = many([map { [$port, '/'] } 1 .. 100]);
        is(scalar(grep { $_->{status} == 200 } @answers), 100, 'a hundred pass at once (store_egress_proxy.t has what follows)');
    },
);

my @costs = grep { $_->[0] eq 'Costs, refunds and delays' } examples("$root/docs/directives.md");
for my $example (@costs, map { examples("$root/docs/$_.md") } qw(recipes algorithms)) {
    my ($title, $text) = @$example;
    next if $text =~ /_by_lua_block/;    # docs_streamed_answers.t
    my $check = delete $recipes{$title};
    $text =~ s/127\.0\.0\.1:8000\b/127.0.0.1:%%PORT%%/;
    $text =~ s/127\.0\.0\.1:(?:8080|9000)\b/127.0.0.1:%%PORT2%%/g;
    for my $store ('sliding_log_redis { server ' . $redis->address . '; timeout 5s; connect_timeout 5s; }', '') {
        $check or next;
        subtest $title . ($store ? ', Redis' : ', one node') => sub {
            my $nginx = $bed->nginx(in_context($text, $http), REDIS => $store, SILENT => $silent->sockport);
            $port = $nginx->port;
            $redis->cli('FLUSHALL');    # pages and examples share names
            $check->($nginx, $store ne '');
        };
    }
    ok($check, "$title: is tried");
}
is(join(', ', sort keys %recipes), '', 'every example tried is on its page');

$bed->done;
