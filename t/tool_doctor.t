# sliding-log doctor: each problem of a Redis is reported and sets the exit status.

use strict;
use warnings;
use JSON::PP ();
use Test::More;
use Testbed qw(wait_until free_port);
use Testbed::Acl qw(documented_rule);
use Testbed::Redis;
use Testbed::Tool qw(tool tool_json);

my $bed   = Testbed->new;
my $redis = $bed->redis(clock => 1, args => [qw(--maxmemory 100mb --enable-protected-configs yes --repl-diskless-sync-delay 0)]);
my @at    = ('--server', $redis->address);

# The result of one check: "status: text".
sub check {
    my ($name, @more) = @_;
    my ($check) = grep { $_->{check} eq $name } @{ tool_json('doctor', @at, @more)->{checks} };
    return $check ? "$check->{status}: $check->{text}" : 'nothing';
}
sub config { return $redis->cli('CONFIG', 'SET', @_) }

# A PING that takes long on a busy machine is a warning, too.
sub is_well { my (@words) = @_; return wait_until('a fast reply', 20, sub { tool('doctor', @at, @words)->{status} == 0 }) }

ok(is_well(), 'a Redis that is well: status 0');
like(tool('doctor', @at)->{out}, qr/^  ok  +rights  +user "default" may run all \d+ commands.*^status: \w+$/ms, 'a Redis that is well: a table');
is($redis->cli('DBSIZE'), 0, 'doctor leaves nothing in Redis');
like(tool_json('doctor', @at)->{status}, qr/^(?:ok|warning)$/, 'doctor --json has the status');

# ---- memory, so large that buffers of connections do not matter

$redis->cli('EVAL', 'for i = 1, 20 do redis.call("SET", "filled" .. i, string.rep("x", 1000000)) end', 0);

config('maxmemory', 0);
like(check('memory'), qr/^warning: .* maxmemory is not set/, 'no maxmemory is a warning');
is(tool('doctor', @at)->{status}, 1, 'no maxmemory: status 1');
my $used = $redis->info('used_memory');
config('maxmemory', int($used / 0.82));
like(check('memory'), qr/^warning: .* used, \d\d %/, 'memory that is three quarters full is a warning');
config('maxmemory', int($redis->info('used_memory') / 0.95));
like(check('memory'), qr/^critical: /, 'memory that is nine tenths full is critical');
is(tool('doctor', @at)->{status}, 2, 'memory that is nine tenths full: status 2');
config('maxmemory', '100mb');
config('maxmemory-policy', 'allkeys-lru');
like(check('policy'), qr/^warning: allkeys-lru can evict logs in use, .* use noeviction or volatile-ttl$/, 'a policy that evicts live logs is a warning');
config('maxmemory-policy', 'volatile-ttl');
is(check('policy'), 'ok: volatile-ttl', 'a policy that evicts no live logs is ok');
config('maxmemory-policy', 'allkeys-random');
$redis->cli('SET', "big$_", 'x' x 100_000) for 1 .. 6;
config('maxmemory', '1mb');
$redis->cli('SET', 'more', 'x');
config('maxmemory', '100mb');
config('maxmemory-policy', 'noeviction');
like(check('evictions'), qr/^warning: \d+ keys since the server was started/, 'keys that were evicted are a warning');
$redis->cli('CONFIG', 'RESETSTAT');
is(check('evictions'), 'ok: none', 'no evicted keys are ok');

# ---- restarts and flushes, and the share of the memory that the logs take

like(check('uptime'), qr/^ok: started [\d.]+ m?s(?: \d+ s)? ago$/, 'the uptime is told');
$redis->cli('FLUSHALL');
like(check('uptime'), qr/^ok: started .* ago, flushed 1 time since then$/, 'a flush is told');
$redis->cli('FLUSHDB');
like(check('uptime'), qr/, flushed 2 times since then$/, 'each flush is told');
my $stored = $bed->redis(args => [qw(--save 3600 1)]);
$stored->cli('SET', 'kept', 'x');
$stored->cli('SAVE');
$stored->kill;
$stored->start;
my ($since) = grep { $_->{check} eq 'uptime' } @{ tool_json('doctor', '--server', $stored->address)->{checks} };
like($since->{text}, qr/^started .* ago with 1 stored key$/, 'what was loaded at the start is told');

$redis->cli('ZADD', 'rl:sliding:api:{acct_42}', map { ($_, "request$_") } 1 .. 1000);
$redis->cli('SET', 'other', 'x');
my $bytes = $redis->cli('MEMORY', 'USAGE', 'rl:sliding:api:{acct_42}');
my ($kilobytes) = check('share') =~ /^ok: keys with the prefix take ([\d.]+) kB, \d+ % of what is used, by 2 keys$/;
cmp_ok(abs(($kilobytes // 0) - $bytes / 1000), '<', 1, 'the share of the memory is told');
like(check('share', '--prefix', 'none:'), qr/^ok: keys with the prefix take 0 B, 0 % of/, 'keys with another prefix have no share');
$redis->cli('DEL', 'rl:sliding:api:{acct_42}');    # one of a thousand that is as large as all others would make the estimate wild
$redis->cli('EVAL', 'for i = 1, 10000 do redis.call("SET", "rl:sliding:many:{" .. i .. "}", "x") redis.call("SET", "others" .. i, "x") end', 0);
my ($about, $seen) = check('share') =~ /take about (\d+) kB, \d+ % of what is used, by (1,\d+) of 20,001 keys$/;
my $one = $redis->cli('MEMORY', 'USAGE', 'rl:sliding:many:{1}');
ok($about && abs($about * 1000 / (10_000 * $one) - 1) < 0.3, 'the share of many keys is estimated from a thousand');
$redis->cli(qw(ACL SETUSER unseeing on >secret ~* +@all -scan));
my ($unseen) = grep { $_->{check} eq 'share' } @{ JSON::PP::decode_json(tool({ env => { SLIDING_LOG_PASSWORD => 'secret' } }, 'doctor', @at, '--user', 'unseeing', '--json')->{out})->{checks} };
is("$unseen->{status}: $unseen->{text}", 'ok: not known: this user lacks +scan or +memory|usage', 'without the right to look the share is not known');
$redis->cli('FLUSHALL');

# ---- differences from the configuration of another node

sub conf_of { my ($name, $store, $limits) = @_; return $bed->write_file($name, 'http { sliding_log_redis { server ' . $redis->address . "; $store } $limits }") }
sub compared {
    my ($here, $there) = @_;
    my $found = tool_json('doctor', '--nginx-conf', conf_of('here.conf', @$here), '--compare', conf_of('there.conf', @$there));
    return join "\n", map { "$_->{status}: $_->{text}" } grep { $_->{check} eq 'compare' } @{ $found->{checks} };
}
my $places = 'sliding_log_limit p key=a limit=1 algorithm=inflight';
is(compared(['', "$places;"], ['', "$places lease=30000ms;"]), 'ok: the limits and their stores are the same', '--compare: a default, and another spelling, are no difference');
is(compared(['', "$places;"], ['', "$places lease=2m;"]),
    'warning: limit "p": lease is 30s here, and 2m there; too many requests are admitted: roll it out in steps of at most twice the lease or half', '--compare: another lease');
my $window = 'sliding_log_limit w key=a limit=1 window=1m';
like(compared(['', "$window;"], ['', "$window override=on;"]), qr/^warning: limit "w": override is off here, and on there; /, '--compare: override=on of one node');
like(compared(['', "$window;"], ['', "$window store=local;"]), qr/^warning: limit "w": store is default here, and local there; each has logs of its own/, '--compare: another store');
like(compared(['', "$window;"], ['prefix other:;', "$window;"]), qr/^warning: store "default": prefix is rl:sliding: here, and other: there; /, '--compare: another prefix');
is(compared(['', "$window;"], ['', 'sliding_log_limit w key=a limit=2 window=60s;']), 'ok: limit "w": limit is 1 here, and 2 there; each node decides by its own', '--compare: another limit is safe');
like(compared(['', "$window;"], ['', '']), qr/^warning: limit "w" is only in .*here[.]conf$/, '--compare: a limit of one node');
is(tool('doctor', @at, '--compare', conf_of('there.conf', '', ''))->{status}, 3, '--compare needs --nginx-conf');

# ---- clock, clients

$redis->set_clock(3600);
like(check('clock'), qr/^warning: (?:1 h|59 m 59 s|1 h 0 m) ahead of the local clock/, 'a clock that is ahead is a warning');
$redis->set_clock(-3600);
like(check('clock'), qr/^warning: .* behind the local clock/, 'a clock that is behind is a warning');
$redis->set_clock(0);
config('maxclients', 1);
my $busy = tool('doctor', @at);
config('maxclients', 100);
like($busy->{out} . $busy->{err}, qr/WARNING +clients|max number of clients/, 'connections close to maxclients are reported');

# ---- rights, of the tool's user and of another one

$redis->cli(qw(ACL SETUSER poor on >secret ~rl:sliding:* +@all -setrange -zadd));
my %as_poor = (env => { SLIDING_LOG_PASSWORD => 'secret' });
my $poor = tool(\%as_poor, 'doctor', @at, '--user', 'poor');
like($poor->{out}, qr/CRITICAL +rights +user "poor" lacks \+setrange \+zadd/, 'missing rights of a user are reported');
is($poor->{status}, 2, 'a user that lacks rights: status 2');
like(check('rights', '--check-user', 'poor'), qr/^critical: user "poor" lacks \+setrange \+zadd$/, '--check-user: the rights that another user lacks are told');
like(check('rights', '--check-user', 'poor', '--algorithms', 'compact'), qr/^critical: user "poor" lacks \+setrange$/,
    '--algorithms: the rights that one algorithm needs are told');
like(check('rights', '--check-user', 'default'), qr/^ok: user "default" may run all /, '--check-user: a user that lacks nothing is ok');
$redis->cli(qw(ACL SETUSER poor ~other:* resetkeys ~other:* +@all));
like(check('rights', '--check-user', 'poor'), qr/^critical: /, '--check-user: keys that are not granted are critical');
like(tool(\%as_poor, 'doctor', @at, '--user', 'poor')->{out}, qr/CRITICAL +rights +user "poor": EVALSHA answered: NOPERM/, 'keys that are not granted are reported');
$redis->cli(qw(ACL SETUSER poor resetkeys ~rl:sliding:* -info -ping));
my $blind = tool(\%as_poor, 'doctor', @at, '--user', 'poor');
like($blind->{out}, qr/WARNING +server +could not be checked: NOPERM.*ok +scripts/s, 'a check without the needed right is a warning');
like(tool(\%as_poor, 'doctor', @at, '--user', 'poor', '--check-user', 'default')->{out}, qr/rights +user "default" may run all /, '--check-user: a user with the right checks another user');
$redis->cli(qw(ACL SETUSER poor -acl|dryrun));
like(tool(\%as_poor, 'doctor', @at, '--user', 'poor', '--check-user', 'default')->{out},
    qr/WARNING +rights +user "default" could not be checked: ACL DRYRUN requires \+acl\|dryrun/, '--check-user: without that right it is a warning');
like(check('rights', '--check-user', 'nobody'), qr/^critical: user "nobody": ACL DRYRUN answered: ERR User 'nobody' not found/, '--check-user: a user that is not there is critical');
my $wrong = tool({ env => { SLIDING_LOG_PASSWORD => 's3cret' } }, 'doctor', @at, '--user', 'poor');
is("$wrong->{status} $wrong->{err}", '3 sliding-log: ' . $redis->address . ": AUTH answered: WRONGPASS\n", 'a wrong password: status 3, and no secret');
$redis->cli('ACL', 'SETUSER', 'poor', '+@all');
my $file = $bed->write_file('password', "secret\nmore\n");
ok(is_well('--user', 'poor', '--password-file', $file), '--password-file: the password is its first line');

# the rule of docs/operations.md for the module
$redis->cli(qw(ACL SETUSER limiter), split ' ', documented_rule('limiter', 'secret'));
like(check('rights', '--check-user', 'limiter', '--algorithms', 'log,compact'), qr/^ok: user "limiter" may run all /, 'the documented rights are sufficient');
$redis->cli(qw(ACL SETUSER limiter -zscore));
is(check('rights', '--check-user', 'limiter', '--algorithms', 'log,compact'), 'warning: user "limiter" lacks +zscore, required by block=',
    'a right that block= needs is a warning if the use of block= is not known');
for (['', qr/^ok: /], ['block=1s', qr/^critical: user "limiter" lacks \+zscore$/]) {
    my ($more, $said) = @$_;
    my $conf = $bed->write_file('nginx.conf', 'http { sliding_log_redis { server ' . $redis->address . "; } sliding_log_limit a key=a limit=1 window=1s $more; }");
    my ($check) = grep { $_->{check} eq 'rights' } @{ tool_json('doctor', '--nginx-conf', $conf, '--check-user', 'limiter')->{checks} };
    like("$check->{status}: $check->{text}", $said, "--nginx-conf tells it: '$more'");
}

# records of override=on, which nginx's user reads
sub rights_for_overrides { return check('rights', '--check-user', 'decider', '--algorithms', 'log,compact', @_) }
$redis->cli(qw(ACL SETUSER decider), split ' ', documented_rule('decider', 'secret'));
like(rights_for_overrides('--override'), qr/^ok: user "decider" may run all /, '--override: the documented rights are sufficient');
$redis->cli(qw(ACL SETUSER decider resetkeys ~rl:sliding:*} ~rl:sliding:*:blocks));
is(rights_for_overrides('--override'), 'critical: user "decider" lacks %R~rl:sliding:*:override', '--override: keys of records that may not be read are critical');
like(rights_for_overrides(), qr/^ok: /, 'without it they are not asked for');
my $overrides = $bed->write_file('overrides.conf', 'http { sliding_log_redis { server ' . $redis->address . '; } sliding_log_limit a key=a limit=1 window=1s override=on; }');
my ($told) = grep { $_->{check} eq 'rights' } @{ tool_json('doctor', '--nginx-conf', $overrides, '--check-user', 'decider')->{checks} };
is($told->{text}, 'user "decider" lacks %R~rl:sliding:*:override', '--nginx-conf tells override=on');
like(tool({ env => { SLIDING_LOG_PASSWORD => 'secret' } }, 'doctor', @at, '--user', 'decider', '--override')->{out}, qr/CRITICAL +rights +user "decider" lacks [^\n]* ?%R~rl:sliding:\*:override/,
    'the keys of records are checked for the user of the connection, too');
$redis->cli(qw(ACL SETUSER decider %R~rl:sliding:*:override -get));
is(rights_for_overrides('--override'), 'critical: user "decider" lacks +get %R~rl:sliding:*:override', '--override: without GET records cannot be read');

# ---- scripts, replication, persistence

$redis->cli(qw(ACL SETUSER poor -script|load));
like(tool(\%as_poor, 'doctor', @at, '--user', 'poor')->{out}, qr/CRITICAL +scripts +log: SCRIPT LOAD answered: NOPERM/,
    'scripts that cannot be loaded are critical');
my $replica = $bed->redis(args => [qw(--maxmemory 100mb)]);
$replica->cli('REPLICAOF', '127.0.0.1', $redis->port);
ok(wait_until('a replica', 15, sub { check('replication') eq 'ok: 1 replica' }), 'a master with a replica is ok');
my ($at_replica) = grep { $_->{check} eq 'replication' } @{ tool_json('doctor', '--server', $replica->address)->{checks} };
is("$at_replica->{status}: $at_replica->{text}", 'critical: the server is a replica and refuses writes', 'a replica asked for a master is critical');
$redis->cli('SET', 'x', 1);
config('dir', '/proc');
$redis->cli('BGSAVE');
ok(wait_until('a failed save', 10, sub { check('persistence') =~ /^critical: the last BGSAVE failed/ }), 'a save that failed is critical');

# ---- no server

my $port = free_port();
my $gone = tool('doctor', '--server', "127.0.0.1:$port");
is("$gone->{status} $gone->{err}", "3 sliding-log: 127.0.0.1:$port: Connection refused\n", 'no Redis: status 3');
$replica->pause;
my $stuck = tool('doctor', '--server', $replica->address, '--timeout', '200ms');
is($stuck->{status}, 3, 'a Redis that hangs: status 3');
like($stuck->{err}, qr/no reply within 200 ms/, 'a Redis that hangs ends doctor in time');
$replica->resume;

$bed->done;
