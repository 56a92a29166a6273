# Options that are not given to sliding-log come from /etc/sliding-log.conf and from nginx's configuration: the Redis,
# the login, the limits. The command line overrides both. Errors have file and line.

use strict;
use warnings;
use Digest::SHA qw(sha1_hex);
use Test::More;
use Testbed qw(conf wait_until);
use Testbed::Certificates;
use Testbed::Http qw(get request);
use Testbed::Process;
use Testbed::Tls qw(tls_is_built);
use Testbed::Tool qw(tool tool_json);

my $bed = Testbed->new;
my ($near, $shared, $other) = map { $bed->redis } 1 .. 3;
my $sentinel = $bed->sentinel(master => $shared, conf => ['requirepass w4tchpass'], auth => ['-a', 'w4tchpass']);
$near->cli(qw(ACL SETUSER limiter on >us3rpass ~* +@all));
$shared->cli(qw(ACL SETUSER limiter on >sh4redpass ~* +@all));

# ---- a configuration with everything that the tool reads, run by nginx

my $nginx = $bed->configuration(conf(
    http   => <<'HTTP',
    upstream backend { server 127.0.0.1:1; }    # a server of another kind
    include stores.conf;
    sliding_log_on_error deny;
    map $http_x_key $of_key { default 7; }
HTTP
    server => <<'END',
    location /burst   { sliding_log_limit burst key=$http_x_key limit=5 window=1h; empty_gif; }
    location /secret  { sliding_log_limit secret key=$http_x_key limit=5 window=1h secret=on algorithm=compact; empty_gif; }
    location /sampled { sliding_log_limit sampled key=$http_x_key limit=99 window=1h algorithm=sampled sample=2 cost=3; empty_gif; }
    location /bucket  { sliding_log_limit bucket key=$http_x_key limit=5 burst=8 window=1h algorithm=bucket; empty_gif; }
    location /free    { sliding_log_limit free key=$http_x_key limit=$of_key window=1h; empty_gif; }
    location /two/a   { sliding_log_limit two key=$http_x_key limit=5 window=1h; empty_gif; }
    location /two/b   { sliding_log_limit two key=$http_x_key limit=6 window=1h; empty_gif; }
    location /day     { sliding_log_limit day key=$http_x_key limit=5 window=1d store=shared; empty_gif; }
    location /local   { sliding_log_limit own key=$http_x_key limit=5 window=1h store=local; empty_gif; }
END
));
sub write_conf { my ($name, $content) = @_; open my $file, '>', $nginx->dir . "/$name" or die $!; print $file $content; close $file; return $nginx->dir . "/$name" }
write_conf('limiter.password', "us3rpass\n");
write_conf('stores.conf', <<"END");
sliding_log_redis near {
    include near.conf;
    prefix        "near:rl:";
    database      3;
    username      limiter;
    password_file limiter.password;
}
sliding_log_redis shared {
    server ${\ $sentinel->address };
    mode   sentinel limits;
    timeout 5s;
    connect_timeout 5s;
    username limiter;
    password sh4redpass;
    sentinel_password "w4tchpass";
}
END
write_conf('near.conf', 'server ' . $near->address . '; timeout 5s; connect_timeout 5s;');
push @{ $bed->{processes} }, $nginx->start;

my $conf = $nginx->dir . '/nginx.conf';
my @conf = ('--nginx-conf', $conf);
for my $path (qw(/burst /secret /sampled /bucket /free /two/a /day /local)) {
    is(join(' ', map { request($nginx->port, $path, headers => { 'X-Key' => 'acct_42' })->{status} } 1 .. 4), '200 200 200 200', "$path: nginx admits four requests");
}

# ---- inspect NAME VALUE needs nothing else

sub inspected { my ($name, @more) = @_; return tool_json('inspect', $name, 'acct_42', @conf, @more) }
my $log = inspected('burst');
is("$log->{key} $log->{used} $log->{limit} $log->{remaining} $log->{window_ms}", 'near:rl:burst:{acct_42} 4 5 1 3600000', 'server, login, database, prefix, limit and window are those of nginx');
ok(!$log->{window_is_guessed}, 'the window is not guessed');
$log = inspected('secret');
is("$log->{key} $log->{remaining}", 'near:rl:secret:{sha1-' . substr(sha1_hex('acct_42'), 0, 8) . '} 1', 'a secret is known');
is(inspected('sampled')->{algorithm}, 'sampled', 'an algorithm that the log does not show is known');
is(inspected('sampled')->{used} % 2, 0, 'an entry counts for the number of requests in the configuration');
is(inspected('bucket')->{remaining}, 4, 'the burst is known');
is(inspected('day')->{remaining}, 1, 'the store of the limit is asked, behind a Sentinel with a password');
for my $name (qw(free two)) {
    my $unknown = inspected($name);
    is(defined $unknown->{limit} ? 'known' : 'unknown', 'unknown', "$name: a limit that is a variable, or differs from place to place, is none");
    is(inspected($name, '--limit', 7)->{remaining}, 3, "$name: --limit tells it");
}
is(inspected('burst', '--limit', 4, '--window', '2h')->{remaining}, 0, '--limit overrides that of nginx');
is(inspected('burst', '--window', '2h')->{window_ms}, 7_200_000, '--window overrides that of nginx');

# ---- stores

is(join(' ', map { $_->{key} } @{ tool_json('top', 'day', @conf)->{logs} }), 'rl:sliding:day:{acct_42}', "top: the store is the limit's");
is(join(' ', map { $_->{key} } @{ tool_json('top', @conf, '--store', 'shared')->{logs} }), 'rl:sliding:day:{acct_42}', '--store names another');
is(tool('inspect', 'near:rl:burst:{acct_42}', @conf, '--store', 'near')->{status}, 0, 'a whole key needs --store');
my @refused = (
    [['doctor', @conf],                         qr/\Q$conf\E has several sliding_log_redis: "near", "shared"; expected --store with one of them/],
    [['doctor', @conf, '--store', 'far'],       qr/"--store" has invalid value "far", expected one of "near", "shared" of \Q$conf\E/],
    [['doctor', '--store', 'near'],             qr/"--store" needs "--nginx-conf"/],
    [['inspect', 'own', 'acct_42', @conf],      qr/limit "own" has store=local in \Q$conf\E: its logs are in the memory of nginx, not in Redis/],
    [['inspect', 'none', 'acct_42', @conf, '--store', 'near'], qr/\Q$conf\E has no sliding_log_limit none/],
);
for (@refused) {
    my ($words, $message) = @$_;
    my $ran = tool(@$words);
    is("$ran->{status}$ran->{out}", '3', 'refused: ' . join ' ', map { $_ eq $conf ? 'nginx.conf' : $_ } @$words);
    like($ran->{err}, qr/^sliding-log: $message\n\z/, 'the message has the expected value');
}

# ---- the command line overrides, and a login comes from one source

$other->cli('-n', 3, 'ZADD', 'near:rl:burst:{acct_42}', time * 1000, 'one');
$other->cli(qw(ACL SETUSER limiter on >us3rpass ~* +@all));
is(inspected('burst', '--server', $other->address)->{used}, 1, '--server overrides the server alone');
is(tool('inspect', 'burst', 'acct_42', @conf, '--prefix', 'rl:sliding:')->{status}, 1, '--prefix overrides the prefix');
is(tool('inspect', 'burst', 'acct_42', @conf, '--db', 0)->{status}, 1, '--db overrides the database');
$near->cli(qw(ACL SETUSER operator on >0perator ~* +@all));
my $without = tool('inspect', 'burst', 'acct_42', @conf, '--user', 'operator');
is("$without->{status} $without->{err}", '3 sliding-log: ' . $near->address . ": AUTH answered: WRONGPASS, without a password\n", "--user: nginx's password goes to no other user");
is(tool({ env => { SLIDING_LOG_PASSWORD => '0perator' } }, 'inspect', 'burst', 'acct_42', @conf, '--user', 'operator')->{status}, 0, '--user: with a password of its own');
is(tool({ env => { SLIDING_LOG_PASSWORD => 'wr0ng' } }, 'inspect', 'burst', 'acct_42', @conf)->{status}, 3, 'SLIDING_LOG_PASSWORD overrides the password');

# ---- doctor and size of a store; doctor checks what its limits use

my %said = map { ($_->{check} => $_->{text}) } @{ tool_json('doctor', @conf, '--store', 'near')->{checks} };
is($said{scripts}, 'loaded and run: log, compact, bucket, sampled', 'doctor checks the algorithms of the store');
like($said{rights}, qr/^user "limiter" may run all /, 'doctor uses the user of nginx');
%said = map { ($_->{check} => $_->{text}) } grep { $_->{server} eq $shared->address } @{ tool_json('doctor', @conf, '--store', 'shared')->{checks} };
is($said{scripts}, 'loaded and run: log', "doctor checks those of the other store");

# ---- the file of defaults

sub with_file { my ($content, @words) = @_; return tool({ env => { SLIDING_LOG_CONF => $bed->write_file('tool.conf', $content) } }, @words) }
is(with_file("# for all\n\n  nginx-conf\t$conf  \r\n", 'inspect', 'burst', 'acct_42')->{status}, 0, 'a file of defaults names the configuration of nginx');
is(with_file("nginx-conf $conf\nstore shared\n", 'top', '--json')->{out} =~ /rl:sliding:day/ ? 1 : 0, 1, 'a file of defaults names the store');
is(with_file("nginx-conf $conf\nstore shared\n", 'top', 'burst', '--store', 'near')->{status}, 0, 'the command line overrides the file');
is(with_file("nginx-conf $conf\nserver " . $other->address, 'inspect', 'burst', 'acct_42', '--json')->{out} =~ /"used":1,/ ? 1 : 0, 1, 'the file overrides the configuration of nginx');
my $password = $bed->write_file('operator.password', "0perator\n");
my $operator = "nginx-conf $conf\nuser operator\npassword-file $password\n";
is(with_file($operator, 'inspect', 'burst', 'acct_42')->{status}, 0, 'a file of defaults has a login of its own');
like(with_file($operator, 'doctor', '--store', 'near')->{out}, qr/rights +user "operator" may run all/, 'the commands run as this user');
is(with_file('mode sentinel limits' . "\nserver " . $sentinel->address, 'top')->{err}, 'sliding-log: no Sentinel knows the master "limits"; ' . $sentinel->address . ": NOAUTH Authentication required.\n", 'a mode of two words');
for (
    ["\nfrob 1",                     qr/:2: unknown option "frob", expected one of nginx-conf, store, server, .*/],
    ['--server a',                   qr/:1: unknown option "--server", expected one of nginx-conf, .*/],
    ["tls\nserver",                  qr/:2: "server" requires a value, expected server HOST\[:PORT\]/],
    ['tls on',                       qr/:1: "tls on" takes no value, expected tls alone/],
    ["db 1\n# again\ndb 2",          qr/:3: "db 2" is a duplicate, expected db once: it is in line 1/],
    ['timeout soon',                 qr/:1: "timeout" has invalid value "soon", expected a time from 1ms to 366d/],
    ["server a\nserver a:x",         qr/:1: "server" has invalid value "a:x", expected HOST\[:PORT\], .*/],
    ['mode ring',                    qr/:1: "mode" has invalid value "ring", expected standalone, cluster or sentinel MASTER/],
    ['password-file /nowhere',       qr/:1: "password-file" has invalid value "\/nowhere", expected a readable file .*/],
    ['nginx-conf /nowhere',          qr/:1: "nginx-conf" has invalid value "\/nowhere", expected a readable file/],
    ["store far\nnginx-conf $conf",  qr/:1: "store" has invalid value "far", expected one of "near", "shared" of \S+/],
    ["d\e[1mb 3",                    qr/:1: unknown option "d\\x1b\[1mb", expected .*/],
) {
    my ($content, $message) = @$_;
    my $ran = with_file($content, 'top');
    is("$ran->{status}$ran->{out}", '3', 'refused: ' . ($content =~ s/[^ -~]/?/gr));
    like($ran->{err}, qr/^sliding-log: \S+\/tool\.conf$message\n\z/, 'the message has the file, line, text and expected value');
}
is(with_file('frob', '--help')->{status}, 0, '--help works whatever the file says');
is(tool({ env => { SLIDING_LOG_CONF => '/nowhere' } }, 'top')->{err}, "sliding-log: /nowhere cannot be read: No such file or directory\n", 'a given file must exist');

# ---- errors in the block of nginx have its file and line

for (
    ['server a b:x;',                                qr/"server" has invalid value "b:x", expected HOST.*/],
    ['server a; password_file none;',                qr/"password_file" has invalid value "\S+\/none", expected a readable file .*/],
    ['server a b;',                                  qr/"server" is given more than once, expected once in mode standalone/],
    tls_is_built() ? ['server a; tls on; tls_trusted_certificate none.pem;', qr/"tls_trusted_certificate" has invalid value "\S+\/none\.pem", expected a PEM file of CA certificates: .*/]
                   : ['server a; tls on;', qr/"tls" is not possible: this tool was built with hiredis .*/],
) {
    my ($block, $message) = @$_;
    my $file = $bed->write_file('wrong.conf', "http {\nsliding_log_redis {\n$block\n}\n}\n");
    like(tool('top', '--nginx-conf', $file)->{err}, qr/^sliding-log: \Q$file\E:3: $message\n\z/, "refused: $block");
}
my $empty = $bed->write_file('empty.conf', "http { }\n");
like(tool('top', '--nginx-conf', $empty)->{err}, qr/^sliding-log: \Q$empty\E has no sliding_log_redis, expected one, or --server\n/, 'no block and no server');

# ---- Cluster and TLS

my $cluster = $bed->cluster(masters => 2);
my ($node) = $cluster->nodes;
my $ring = $bed->write_file('cluster.conf', 'http { sliding_log_redis { mode cluster; server ' . join(' ', map { $_->address } $cluster->nodes) . '; } sliding_log_limit a key=$arg_k limit=9 window=1m; }');
my $tag  = $cluster->tag_on(($cluster->nodes)[1]);
($cluster->nodes)[1]->cli('ZADD', "rl:sliding:a:{$tag}", time * 1000, 'one');
is(tool_json('inspect', 'a', $tag, '--nginx-conf', $ring)->{remaining}, 8, 'a cluster of several servers');
SKIP: {
    skip 'hiredis has no TLS', 2 if !tls_is_built();
    my $ca    = Testbed::Certificates->new($bed);
    my $redis = $bed->redis(tls => [$ca->issue(['DNS:redis.example'])]);
    my $tls   = 'server ' . $redis->address . '; tls on; tls_trusted_certificate "' . $ca->file . '";';
    my $file  = $bed->write_file('tls.conf', "http { sliding_log_redis { $tls tls_server_name redis.example; } }");
    is(tool('top', '--nginx-conf', $file)->{status}, 0, 'TLS, with the name in the certificate');
    $file = $bed->write_file('tls.conf', 'http { sliding_log_redis { server ' . $redis->address . '; tls on; tls_verify off; } }');
    is(tool('top', '--nginx-conf', $file)->{status}, 0, 'TLS, with tls_verify off');
}

$bed->done;
