# Settings of the connection to Redis: unix socket, IPv6, passwords, users, databases, prefixes, the clock.

use strict;
use warnings;
use IO::Socket::IP;
use Test::More;
use Testbed qw(conf wait_until);
use Testbed::Http qw(get);

my $bed    = Testbed->new;
my $plain  = $bed->redis;
my $socket = $bed->redis(unix => 1);
my $secret = $bed->redis(auth => ['-a', 'p4ss word"']);
$secret->cli('CONFIG', 'SET', 'requirepass', 'p4ss word"');    # Valkey 8.1 accepts no quote on its command line
my $acl    = $bed->redis;
$acl->cli(qw(ACL SETUSER limiter on >us3rpass ~rl:sliding:* resetchannels -@all +evalsha +script|load +config|get),
    qw(+time +zrange +zrangebyscore +zremrangebyscore +zremrangebyrank +zcard +zadd +zrem +pexpire));
$acl->cli(qw(ACL SETUSER default off));

my $conf = conf(
    http   => <<'HTTP',
    sliding_log_redis plain   { server %%PLAIN%%; %%LIMITS%% }
    sliding_log_redis unix    { server unix:%%PATH%%; %%LIMITS%% }
    sliding_log_redis secret  { server %%SECRET%%; password 'p4ss word"'; %%LIMITS%% }
    sliding_log_redis file    { server %%SECRET%%; password_file secret.txt; database 3; prefix 'my '; %%LIMITS%% }
    sliding_log_redis wrong   { server %%SECRET%%; password wr0ngpass; %%LIMITS%% }
    sliding_log_redis nopass  { server %%SECRET%%; %%LIMITS%% }
    sliding_log_redis acl     { server %%ACL%%; username limiter; password us3rpass; %%LIMITS%% }
    sliding_log_redis acldb   { server %%ACL%%; username limiter; password us3rpass; database 1; %%LIMITS%% }
    sliding_log_redis baddb   { server %%PLAIN%%; database 99; %%LIMITS%% }
    sliding_log_redis noprefix { server %%PLAIN%%; prefix ""; database 1; %%LIMITS%% }
    sliding_log_redis clock   { server %%PLAIN%%; clock nginx; database 2; %%LIMITS%% }
    sliding_log_redis six     { server [::1]:%%SIX%%; %%LIMITS%% }
    sliding_log_redis name    { server localhost:%%PLAINPORT%%; %%LIMITS%% }
    sliding_log_on_error deny;
HTTP
    server => '%%LOCATIONS%%',
);
my @blocks = qw(plain unix secret file wrong nopass acl acldb baddb noprefix clock six name);
my $six = eval { IO::Socket::IP->new(Listen => 1, LocalHost => '::1') } ? $bed->redis(host => '::1') : undef;
my $nginx = $bed->configuration(
    $conf,
    LIMITS    => 'timeout 3s; connect_timeout 3s; reconnect 20ms 100ms;',
    PLAIN     => $plain->address,
    PLAINPORT => $plain->port,
    PATH      => $socket->path,
    SECRET    => $secret->address,
    ACL       => $acl->address,
    SIX       => $six ? $six->port : 1,
    LOCATIONS => join "\n", map { "location /$_ { sliding_log_limit $_ key=\$arg_k limit=5 window=1h store=$_; empty_gif; }" } @blocks,
);
$bed->write_file('nginx1/secret.txt', "p4ss word\"\nsecond line\n");
push @{ $bed->{processes} }, $nginx;
$nginx->start;

sub status { my ($block) = @_; return get($nginx->port, "/$block?k=a")->{status} }

is(status('plain'), 200, 'host and port: a request passes');
is($plain->cli(qw(ZCARD rl:sliding:plain:{a})), 1, 'host and port: the log is under the default prefix, in database 0');
is(status('unix'), 200, 'unix socket: a request passes');
is($socket->cli(qw(ZCARD rl:sliding:unix:{a})), 1, 'unix socket: the log is there');
is(status('secret'), 200, 'requirepass: a request passes');
is(status('file'),   200, 'password_file, database and prefix: a request passes');
is($secret->cli('-n', 3, 'ZCARD', 'my file:{a}'), 1, 'password_file, database and prefix: the log is in that database');
is($secret->cli('-n', 0, 'KEYS', '*file*'), '', 'password_file, database and prefix: the log is in no other database');
is(status('noprefix'), 200, 'prefix "": a request passes');
is($plain->cli(qw(-n 1 ZCARD noprefix:{a})), 1, 'prefix "": the key is the name');
is(status('name'), 200, 'a host name: a request passes');
SKIP: {
    skip 'no IPv6 here', 1 unless $six;
    is(status('six'), 200, 'IPv6: a request passes');
}
is(status('acl'), 200, 'a user with the needed rights only: a request passes');
is(status('acldb'), 503, 'a user without the right to SELECT: on_error decides');
is(status('wrong'),  503, 'a wrong password: on_error decides');
is(status('nopass'), 503, 'a missing password: on_error decides');
is(status('baddb'),  503, 'a database that does not exist: on_error decides');
is($plain->cli(qw(KEYS *baddb*)), '', 'a database that does not exist: no other database has a log');
for my $cause (qr/"wrong".*AUTH answered: WRONGPASS/, qr/"nopass".*NOAUTH/, qr/"baddb".*SELECT answered: ERR DB index/, qr/"acldb".*SELECT answered: NOPERM/) {
    ok(wait_until('the cause', 5, sub { $nginx->logged($cause) }), "the error log has $cause");
}
is($nginx->logged(qr/p4ss|us3r|wr0ng/), 0, 'no secret is in the error log');

# by default entries have Redis's time; with clock nginx, nginx's
is(status('clock'), 200, 'clock nginx: a request passes');
my ($score) = reverse split /\n/, $plain->cli(qw(-n 2 ZRANGE rl:sliding:clock:{a} 0 -1 WITHSCORES));
cmp_ok(abs($score - time * 1000), '<', 5000, 'clock nginx: the entry has the time of day');
cmp_ok($plain->cli(qw(-n 2 PTTL rl:sliding:clock:{a})), '>', 3_600_000, 'clock nginx: the log has a time to live');
is($plain->cli(qw(INFO commandstats)) =~ /cmdstat_time:calls=(\d+)/ ? $1 : 0, 3, 'clock nginx: Redis is not asked for the time');

# a Sentinel instead of a Redis
my $sentinel = $bed->sentinel;
my $mistaken = $bed->serve(
    store  => 'server ' . $sentinel->address . '; timeout 1s; connect_timeout 1s; reconnect 20ms 50ms;',
    server => 'location / { sliding_log_limit a key=$arg_k limit=1 window=1h; empty_gif; }',
);
ok(wait_until('the cause', 10, sub { get($mistaken->port, '/?k=a'); $mistaken->logged(qr/is down: ROLE answered: sentinel: this is a Sentinel, did you mean "mode sentinel MASTER"\?; on_error local decides$/) }),
    'a Sentinel in mode standalone: the error log names it');

$bed->done;
