# What `nginx -t` refuses in http, and what it accepts. The message has the directive, the text and what was expected.

use strict;
use warnings;
use Test::More;
use Testbed;
use Testbed::Checked qw($GOOD $REDIS check);

my $bed = Testbed->new;

# [redis block, what the message must have]
my @wrong_blocks = (
    ['sliding_log_redis { }',                                         qr/invalid block "default" in "sliding_log_redis" directive, expected a server/],
    ['sliding_log_redis { server 127.0.0.1:70000; }',                 qr/invalid address "127.0.0.1:70000" in "server" directive, expected/],
    ['sliding_log_redis { server 127.0.0.1:x; }',                     qr/invalid address "127.0.0.1:x" in "server" directive, expected/],
    ['sliding_log_redis { server [::1; }',                            qr/invalid address "\[::1" in "server" directive, expected/],
    ['sliding_log_redis { server unix:; }',                           qr/invalid address "unix:" in "server" directive, expected/],
    ['sliding_log_redis { server 127.0.0.1; server 127.0.0.2; }',     qr/invalid second address "127.0.0.2" in "server" directive, expected one server/],
    ['sliding_log_redis { server 127.0.0.1 127.0.0.2; }',             qr/invalid second address "127.0.0.2" in "server" directive, expected one server/],
    ['sliding_log_redis { server 127.0.0.1; mode replicated; }',      qr/invalid value "replicated" in "mode" directive, expected standalone or sentinel or cluster/],
    ['sliding_log_redis { server 127.0.0.1; mode sentinel; }',        qr/invalid value "sentinel" in "mode" directive, expected the master's name after sentinel/],
    ['sliding_log_redis { server 127.0.0.1; mode sentinel a b; }',    qr/invalid number of arguments in "mode" directive, expected 1 or 2/],
    ['sliding_log_redis { server 127.0.0.1; mode sentinel "a b"; }',  qr/invalid master "a b" in "mode" directive, expected a name without spaces/],
    ['sliding_log_redis { server 127.0.0.1; mode cluster main; }',    qr/invalid value "main" in "mode" directive, expected nothing after standalone and cluster/],
    ['sliding_log_redis { server 127.0.0.1; mode cluster; mode cluster; }', qr/"mode" directive is duplicate/],
    ['sliding_log_redis { server 127.0.0.1; mode cluster; database 1; }', qr/"database 1" is not allowed here, expected none in mode cluster/],
    ['sliding_log_redis { server unix:/tmp/s 127.0.0.1; mode cluster; }', qr/invalid address "unix:\/tmp\/s" in "server" directive, expected host, IPv4 or \[IPv6\] in mode cluster/],
    ['sliding_log_redis { server 127.0.0.1; sentinel_password p; }',  qr/"sentinel_password" is not allowed here, expected mode sentinel MASTER with it/],
    ['sliding_log_redis { server 127.0.0.1; mode cluster; sentinel_username u; sentinel_password p; }', qr/"sentinel_username u" is not allowed here, expected mode sentinel MASTER with it/],
    ['sliding_log_redis { server 127.0.0.1; mode sentinel m; sentinel_username u; }', qr/"sentinel_username u" is not allowed here, expected sentinel_password with it/],
    ['sliding_log_redis { server 127.0.0.1; database -1; }',          qr/invalid number "-1" in "database" directive, expected/],
    ['sliding_log_redis { server 127.0.0.1; database 1; database 2; }', qr/"database" directive is duplicate/],
    ['sliding_log_redis { server 127.0.0.1; timeout 0; }',            qr/invalid time "0" in "timeout" directive, expected an nginx time/],
    ['sliding_log_redis { server 127.0.0.1; connect_timeout fast; }', qr/invalid time "fast" in "connect_timeout" directive, expected/],
    ['sliding_log_redis { server 127.0.0.1; reconnect 50ms; }',       qr/invalid number of arguments in "reconnect" directive, expected 2/],
    ['sliding_log_redis { server 127.0.0.1; reconnect 5s 50ms; }',    qr/invalid MAX "50ms" in "reconnect" directive, expected a time not below MIN/],
    ['sliding_log_redis { server 127.0.0.1; reconnect 1q 5s; }',      qr/invalid time "1q" in "reconnect" directive, expected/],
    ['sliding_log_redis { server 127.0.0.1; clock wall; }',           qr/invalid value "wall" in "clock" directive, expected redis or nginx/],
    ['sliding_log_redis { server 127.0.0.1; prefix "a{b}:"; }',       qr/invalid value "a\{b\}:" in "prefix" directive, expected/],
    ['sliding_log_redis { server 127.0.0.1; username bob; }',         qr/"username bob" is not allowed here, expected password or password_file with it/],
    ['sliding_log_redis { server 127.0.0.1; password ""; }',          qr/invalid value "" in "password" directive, expected/],
    ['sliding_log_redis { server 127.0.0.1; password_file none; }',   qr/invalid file ".*none" in "password_file" directive, expected a readable file/],
    ['sliding_log_redis { server 127.0.0.1; password a; password_file b; }', qr/"password_file" is not allowed here, expected one of password and password_file, once/],
    ['sliding_log_redis { server 127.0.0.1; pool 5; }',               qr/invalid directive "pool" in "sliding_log_redis" directive, expected one of server, /],
    ['sliding_log_redis local { server 127.0.0.1; }',                 qr/invalid NAME "local" in "sliding_log_redis" directive, expected/],
    ['sliding_log_zone 16k;',                                         qr/invalid size "16k" in "sliding_log_zone" directive, expected a size of at least 32k/],
    ['sliding_log_zone 65g;',                                         qr/invalid size "65g" in "sliding_log_zone" directive, expected a size of at least 32k and at most 64g, as 10m/],
    ['sliding_log_zone 99999999999999999999g;',                       qr/invalid size "9+g" in "sliding_log_zone" directive, expected/],
    ['sliding_log_zone 1t;',                                          qr/invalid size "1t" in "sliding_log_zone" directive, expected/],
    ['sliding_log_redis { server $redis; }',                          qr/invalid address "\$redis" in "server" directive, expected host, .*without variables in/],
    ['sliding_log_redis { server 127.0.0.1 "${redis}:6379"; }',       qr/invalid address "\$\{redis\}:6379" in "server" directive, expected host, .*without variables/],
    ['sliding_log_redis { server 127.0.0.1; username $user; password p; }', qr/invalid value "\$user" in "username" directive, expected a text as it is: no variable works here/],
    ['sliding_log_redis { server 127.0.0.1; password_file $file; }',  qr/invalid file "\$file" in "password_file" directive, expected a text as it is: no variable/],
    ['sliding_log_redis { server 127.0.0.1; mode sentinel $master; }', qr/invalid master "\$master" in "mode" directive, expected a name without spaces and variables/],
    ['sliding_log_redis { server 127.0.0.1; mode sentinel m; sentinel_username $u; sentinel_password p; }', qr/invalid value "\$u" in "sentinel_username" directive, expected a text as it is/],
    ['sliding_log_redis { server 127.0.0.1; tls on; tls_certificate $file; }', qr/invalid value "\$file" in "tls_certificate" directive, expected a text as it is/],
    ['sliding_log_zone big;',                                         qr/invalid size "big" in "sliding_log_zone" directive, expected/],
    ['sliding_log_zone 1m; sliding_log_zone 2m;',                     qr/"sliding_log_zone" directive is duplicate/],
    ["$REDIS $REDIS",                                                 qr/duplicate name "default" in "sliding_log_redis" directive/],
    ["$REDIS sliding_log_redis default { server 127.0.0.2; }",        qr/duplicate name "default" in "sliding_log_redis" directive/],
    ['sliding_log_redis { server 127.0.0.1; include /nowhere/redis.conf; }', qr/open\(\) "\/nowhere\/redis\.conf" failed/],
    ['sliding_log_redis { server; }',                                 qr/invalid number of arguments in "server" directive, expected 1 or more/],
    ['sliding_log_redis { server ""; }',                              qr/invalid address "" in "server" directive, expected/],
    ['sliding_log_redis { server 127.0.0.1:0; }',                     qr/invalid address "127.0.0.1:0" in "server" directive, expected/],
    ['sliding_log_redis { server a..b; }',            qr/host not found in "a..b" of "server" directive, expected a name that resolves, or an address/],
    ['sliding_log_redis { server 127.0.0.1; server { } }',            qr/unexpected "\{"/],
    ['sliding_log_redis { server 127.0.0.1; timeout 367d; }',         qr/invalid time "367d" in "timeout" directive, expected/],
    ['sliding_log_redis { server 127.0.0.1; database 0.5; }',         qr/invalid number "0.5" in "database" directive, expected/],
    ['sliding_log_redis { server 127.0.0.1; prefix a; prefix b; }',   qr/"prefix" directive is duplicate/],
    ['sliding_log_redis { server 127.0.0.1; clock redis nginx; }',    qr/invalid number of arguments in "clock" directive, expected 1/],
    ['sliding_log_redis a b { server 127.0.0.1; }',                   qr/invalid number of arguments in "sliding_log_redis"/],
);
for my $row (@wrong_blocks) {
    my ($block, $message) = @$row;
    my ($accepted, $printed) = check($bed, $block, "$GOOD;");
    ok(!$accepted, 'refused: ' . ($block || 'no redis block'));
    like($printed, qr/\[emerg\].*$message/, 'refused with the reason: ' . ($block || 'no redis block'));
    is(scalar(() = $printed =~ /^\d{4}\/.*\[emerg\]/mg), 1, 'refused with one message: ' . ($block || 'no redis block'));
}

# a misplaced password is never printed
for my $inside ('password s3cret s4cret;', 'password s3cret; password s4cret;', 'password_file p; password s3cret;', 'password s3cret; timeout 0;',
    'password s3cret; username a b;', 'password s3cret', 'sentinel_password s3cret;', 'sentinel_password s3cret s4cret;')
{
    $bed->write_file('p', "s4cret\n");
    my ($accepted, $printed) = check($bed, "sliding_log_redis { server 127.0.0.1; $inside }", "$GOOD;");
    ok(!$accepted, "refused: $inside");
    unlike($printed, qr/s[34]cret/, "refused without a secret: $inside");
}

# accepted: [redis block, server]
my @right = (
    [$REDIS, "$GOOD;"],
    [$REDIS, "$GOOD; location / { $GOOD; }"],
    [$REDIS, "$GOOD; location / { sliding_log_limit off; }"],
    (map { [$REDIS, "$GOOD; location / { sliding_log_limit $_; }"] } qw(OFF Off)),
    [$REDIS, 'sliding_log_on_error ALLOW; sliding_log_dry_run On; sliding_log_headers LEGACY; sliding_log_answer Problem; sliding_log_log_level Notice;'],
    [$REDIS, "$GOOD cap=OFF algorithm=Compact excess=DROP count=Allowed;"],
    ['sliding_log_redis { server 127.0.0.1; mode STANDALONE; clock Nginx; tls OFF; }', "$GOOD;"],
    ['sliding_log_zone 1g;', "$GOOD;"],
    [$REDIS, 'sliding_log_limit api key=a limit=0 window=1s cost=5;'],
    [$REDIS, 'sliding_log_limit api key=a limit=$tenant window=1s cap=10 cost=10;'],
    [$REDIS, 'sliding_log_limit api key=a limit=$tenant window=1s cap=off cost=1000;'],
    [$REDIS, 'sliding_log_limit api key=a limit=$tenant window=1s algorithm=bucket burst=10 cap=10 cost=10;'],
    [$REDIS, 'sliding_log_limit api key=a limit=0 window=1s algorithm=bucket burst=3 cost=5;'],
    [$REDIS, 'sliding_log_limit api key=a limit=1000 window=1s cost=1000;'],
    [$REDIS, 'sliding_log_limit api key=a limit=1000000000000 window=1s cost=1000000000000 algorithm=compact;'],
    [$REDIS, 'sliding_log_limit api key=a limit=1000000 window=1s cost=1000000 algorithm=sampled sample=1000;'],
    [$REDIS, 'sliding_log_limit api key=a limit=1000000000000 window=1s cost=1000000000000 algorithm=counter;'],
    [$REDIS, 'sliding_log_limit api key=a limit=2 window=1s cost=1000000000000 burst=1000000000000 algorithm=bucket;'],
    [$REDIS, "location /a { sliding_log_metrics; location /a/b { empty_gif; } if (\$arg_x) { set \$y 1; } limit_except GET { deny all; } }"],
    [$REDIS, 'location /a { sliding_log_metrics; if ($arg_x) { return 404; } }'],
    [$REDIS, "$GOOD; location / { sliding_log_limit api key=b limit=5 window=60s slack=6s; }"],
    ['', "$GOOD;"],
    ['', 'location / { sliding_log_metrics; }'],
    [$REDIS, "$GOOD; location / { sliding_log_metrics; }"],
    [$REDIS, "location / { sliding_log_metrics; $GOOD; }"],
    ['sliding_log_zone 1m;', "$GOOD store=local;"],
    [$REDIS, "$GOOD store=local; sliding_log_on_error local nodes=3;"],
    [$REDIS, "$GOOD cap=12;"],
    [$REDIS, "$GOOD algorithm=counter cost=0 refund=1xx,2xx,404,599 block=0;"],
    [$REDIS, "$GOOD algorithm=bucket burst=1 delay=366d count=all excess=drop;"],
    [$REDIS, "$GOOD algorithm=sampled sample=1000000 delay=1ms block=366d count=allowed excess=reject;"],
    [$REDIS, "$GOOD cost=\$tenant delay=2s; location / { $GOOD cost=2 block=1m refund=5xx; }"],
    [$REDIS, "$GOOD block=1m,10m,1h; location / { $GOOD block=1ms,366d,1s,1s,1s,1s,1s,1s,1s,1s algorithm=log; } location /b { $GOOD block=5m; }"],
    ['', "$GOOD block=1m,1h algorithm=bucket;"],
    [$REDIS, "$GOOD cap=off id=\$request_id;"],
    [$REDIS, "$GOOD settle=\$tenant algorithm=compact cap=off delay=1s block=1m cost=0; location / { $GOOD algorithm=compact cost=\$tenant settle=\$upstream_http_x_cost; }"],
    [$REDIS, 'sliding_log_limit api key=a limit=5 algorithm=quota period=month settle=$tenant;'],
    [$REDIS, "$GOOD prefetch=1 delay=1s block=1m refund=5xx count=all;"],
    [$REDIS, "$GOOD prefetch=10000 delay=0 block=0 count=allowed cost=5 dry_run=on secret=on excess=drop cap=off slack=0; location / { $GOOD secret=on slack=0 cap=off delay=5s count=allowed; }"],
    [$REDIS, "$GOOD override=on delay=1s block=1m refund=5xx count=all; location / { $GOOD override=on prefetch=9; }"],
    [$REDIS, 'sliding_log_limit api key=a limit=1 algorithm=quota period=day override=on;'],
    [$REDIS, 'sliding_log_limit api key=a limit=$tenant algorithm=inflight override=on cost=$tenant excess=drop secret=on slack=1s dry_run=on; location / { sliding_log_limit b key=a limit=0 algorithm=inflight lease=100ms; }'],
    ['', 'sliding_log_limit api key=a limit=50 algorithm=inflight lease=366d;'],
    [$REDIS, 'sliding_log_limit api key=$remote_addr$uri limit=$tenant window=1ms;'],
    [$REDIS, 'sliding_log_limit api key=a limit=0 window=366d;'],
    [$REDIS, 'sliding_log_limit A-b_c.9 key=a limit=1 window=1m30s;'],
    ['sliding_log_redis one { server localhost:6379; } sliding_log_redis two { server unix:/tmp/x.sock; }', "$GOOD store=two;"],
    ['sliding_log_redis { server [::1]; mode standalone; username u; password p; database 15; prefix ""; connect_timeout 1s; timeout 50ms; reconnect 1ms 1m; clock nginx; }', "$GOOD;"],
    [$REDIS, 'sliding_log_status 503; sliding_log_on_error allow; sliding_log_dry_run on; sliding_log_headers all; sliding_log_log_level info;'],
);
push @right, map { ["sliding_log_redis { server $_; }", "$GOOD;"] } qw(127.0.0.1 127.0.0.1:1 [::1]:65535 localhost unix:/tmp/s);
push @right, map { ["sliding_log_redis { $_ }", "$GOOD;"] } 'server 127.0.0.1; mode sentinel m;', 'mode sentinel m; server [::1]:5 localhost unix:/tmp/s;',
    'server 127.0.0.1:7000 127.0.0.1:7001; server [::1]:7002; mode cluster; username u; password p;',
    'server 127.0.0.1; mode sentinel m; sentinel_username u; sentinel_password p; database 3;';
$bed->write_file('redis.conf', "timeout 50ms; password p;\n");
push @right, ["sliding_log_redis { server 127.0.0.1; include $bed->{dir}/redis.conf; database 1; }", "$GOOD;"];
push @right, ['', "$GOOD; } $REDIS server { listen 127.0.0.1:" . Testbed::free_port() . ';'];    # the block may come last
push @right, ["$REDIS $GOOD; sliding_log_status 400; sliding_log_on_error deny;", 'sliding_log_status 599;'];
push @right, [$REDIS, 'sliding_log_limit api "key=$remote_addr $http_user_agent" limit=1 window=1m;'];
push @right, [$REDIS, 'sliding_log_limit ' . 'n' x 64 . ' key=a limit=1000000000000 window=1m slack=0;'];
for my $row (@right) {
    my ($block, $server) = @$row;
    my ($accepted, $printed) = check($bed, $block, $server);
    ok($accepted, "accepted: $server") or diag($printed);
}

$bed->done;
