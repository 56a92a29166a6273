# The ACL rule of docs/operations.md permits all that the module does, and nothing that it does not need.

use strict;
use warnings;
use Test::More;
use Testbed qw(conf wait_until);
use Testbed::Acl qw(documented_rule);
use Testbed::FakeRedis;
use Testbed::Http qw(get);

my $bed     = Testbed->new;
my $rule    = documented_rule('limiter', 'us3rpass');
my @granted = $rule =~ /\+(\S+)/g;
cmp_ok(scalar @granted, '>', 5, 'the documented rule: ' . join ' ', @granted);

my @redis = map { $bed->redis } 1 .. 2;
for my $redis (@redis) {
    is($redis->cli('ACL', 'SETUSER', 'limiter', split ' ', $rule), 'OK', 'Redis accepts the documented rule');
}
# replies of some servers and proxies
my $talker = Testbed::FakeRedis->new($bed, greeting => "-ERR unknown command 'AUTH', with args beginning with: 'limiter' 'us3rpass'\r\n");
my $nginx  = $bed->serve(
    REDIS => $redis[0]->address, OTHER => $redis[1]->address, TALKER => $talker->port,
    http   => <<'HTTP',
    sliding_log_redis one   { server %%REDIS%%; username limiter; password us3rpass; timeout 3s; connect_timeout 3s; reconnect 20ms 100ms; }
    sliding_log_redis two   { server %%OTHER%%; username limiter; password us3rpass; timeout 3s; connect_timeout 3s; reconnect 20ms 100ms; }
    sliding_log_redis wrong { server %%REDIS%%; username limiter; password wr0ngpass; timeout 3s; connect_timeout 3s; reconnect 20ms 100ms; }
    sliding_log_redis talker { server 127.0.0.1:%%TALKER%%; username limiter; password us3rpass; timeout 3s; connect_timeout 3s; reconnect 20ms 100ms; }
    sliding_log_on_error deny;
HTTP
    server => <<'END',
    location /log   { sliding_log_limit log key=$arg_k limit=5 window=1h cap=6; empty_gif; }
    location /all   { sliding_log_limit all key=$arg_k limit=5 window=1h cap=6 count=all; empty_gif; }
    location /box   { sliding_log_limit box key=$arg_k limit=1 window=1h algorithm=compact block=1h; empty_gif; }
    location /jail  { sliding_log_limit jail key=$arg_k limit=1 window=1h block=1h; empty_gif; }
    location /steps { sliding_log_limit steps key=$arg_k limit=1 window=1h block=1m,1h; empty_gif; }
    location /brief { sliding_log_limit brief key=$arg_k limit=5 window=1ms slack=1h; empty_gif; }
    location /back  {
        sliding_log_limit back key=$arg_k limit=10 window=1h store=one;
        sliding_log_limit none key=$arg_k limit=1 window=1h store=two;
        empty_gif;
    }
    location /compact { sliding_log_limit compact key=$arg_k limit=1000 window=1h algorithm=compact; empty_gif; }
    location /short  {
        sliding_log_limit short key=$arg_k limit=10 window=1h algorithm=compact store=one;
        sliding_log_limit once key=$arg_k limit=1 window=1h store=two;
        empty_gif;
    }
    location /wrong  { sliding_log_limit wrong key=$arg_k limit=5 window=1h store=wrong; empty_gif; }
    location /talker { sliding_log_limit talker key=$arg_k limit=5 window=1h store=talker; empty_gif; }
END
);
sub statuses { my ($path, $times) = @_; return join ' ', map { get($nginx->port, $path)->{status} } 1 .. $times }

is(statuses('/log?k=a', 6), '200 200 200 200 200 429', 'log: requests are admitted and denied');
ok(wait_until('entries to leave the window', 5, sub { statuses('/brief?k=a', 1); $redis[0]->calls('zremrangebyscore') }), 'log: all entries leave the window');
$redis[0]->cli('ZADD', 'rl:sliding:log:{old}', 1, 'left', time * 1000, 'there');
is(statuses('/log?k=old', 1) . $redis[0]->cli('ZCARD', 'rl:sliding:log:{old}'), '2002', 'log: some entries leave the window');
ok(wait_until('a log beyond its front', 10, sub { statuses('/compact?k=a', 20); $redis[0]->calls('setrange') }), 'compact: a log grows');
is(statuses('/short?k=a', 2), '200 429', 'compact: the request that another limit denies is taken back');
$redis[0]->cli(qw(DEL rl:sliding:short:{a}));
is(statuses('/short?k=a', 1), '429', 'compact: the request is taken back from a log that has nothing else');
ok(wait_until('it to be gone', 5, sub { !$redis[0]->cli(qw(EXISTS rl:sliding:short:{a})) }), 'compact: an empty log is removed');
is(statuses('/back?k=a', 3), '200 429 429', 'log: the requests that another limit denies are taken back');
ok(wait_until('the take-backs', 5, sub { $redis[0]->cli(qw(ZCARD rl:sliding:back:{a})) == 1 }), 'log: the admitted request stays');

my $now = time * 1000;
is(statuses('/all?k=full', 9), '200 200 200 200 200 429 429 429 429', 'count=all: denied attempts are counted');
is($redis[0]->cli('ZCARD', 'rl:sliding:all:{full}'), 6, 'count=all: the cap bounds the log');
is(statuses('/box?k=a', 2), '200 429', 'block=: a denied key is blocked');
is(statuses('/jail?k=a', 2), '200 429', 'block=: a denied key is blocked, with algorithm=log');
is(statuses('/steps?k=a', 2), '200 429', 'block= with several times: a denied key is blocked');
$redis[0]->cli('ZADD', 'rl:sliding:log:{ahead}', map { ($now + 1e6, "ahead$_") } 1 .. 5);
is(statuses('/log?k=ahead', 1), '429', 'log: entries ahead of the clock count');
$redis[0]->cli('SCRIPT', 'FLUSH');
is(statuses('/log?k=b', 1), '200', 'scripts that Redis lost are loaded again');
is(statuses('/wrong?k=a', 1), '503', 'a wrong password: on_error decides');
ok(wait_until('its cause', 5, sub { $nginx->logged(qr/"wrong".*AUTH answered: WRONGPASS; on_error \w+ decides$/) }), 'the error log has the wrong password as the cause');
is(statuses('/talker?k=a', 1), '503', 'a server that repeats its input: on_error decides');
ok(wait_until('its cause', 5, sub { $nginx->logged(qr/"talker".*AUTH answered: ERR; on_error \w+ decides$/) }), 'a server that repeats its input: the error log has no password');

# ---- sufficient, and no more

ok(wait_until('the first health check', 5, sub { $redis[0]->calls('info') > 0 }), 'the memory of Redis is checked');

my @refused = grep { /^(?:command|key)$/ } split /\n/, $redis[0]->cli('ACL', 'LOG');
is("@refused", '', 'Redis refused nothing but the wrong password');
my $other = $redis[1]->cli('ACL', 'LOG');
is($other, '', 'the other Redis refused nothing');
my $stats = $redis[0]->cli('INFO', 'commandstats');
is(join(' ', grep { $stats !~ /^cmdstat_\Q$_\E:calls=[1-9]/m } @granted), '', 'every command that the rule grants is used');
is($redis[0]->cli(qw(ACL SETUSER limiter -config|get)), 'OK', 'Redis accepts the rule without the optional right to CONFIG GET');
$redis[0]->cli(qw(CLIENT KILL TYPE normal SKIPME yes));
ok(wait_until('a new connection', 5, sub { statuses('/log?k=c', 1) =~ /^(?:200|429)$/ }), 'requests are decided without the right to CONFIG GET');

# ---- a missing right, and the secrets

$redis[0]->cli(qw(ACL SETUSER limiter -zadd));
is(statuses('/log?k=lacks', 1), '503', 'a missing right: on_error decides');
my $key = 0;
ok(wait_until('its cause', 5, sub { statuses('/log?k=lacks' . $key++, 1); $nginx->logged(qr/sliding_log_redis "one".*answered: .*(?:permission|can't run this command)/) }),
    'a missing right: the error log has the cause');
like($redis[0]->cli('ACL', 'LOG'), qr/^zadd$/m, 'a missing right: ACL LOG has the command');
is($nginx->logged(qr/us3rpass|wr0ngpass/), 0, 'no password is in the error log');

my $refused = $bed->configuration(conf(store => 'server 127.0.0.1; username limiter; password us3rpass; timeout never;'));
my ($accepted, $printed) = $refused->check;
ok(!$accepted, 'a wrong timeout is refused');
unlike($printed, qr/us3rpass/, 'the message of a refused configuration has no password');

$bed->done;
