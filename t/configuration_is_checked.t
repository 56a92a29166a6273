# What `nginx -t` refuses, and that it says which directive, which text, and what was expected.

use strict;
use warnings;
use Test::More;
use Testbed;

my $bed = Testbed->new;

my $frame = <<'END';
%%GLOBALS%%
events { }
http {
    %%HTTP%%
    access_log off;
    %%BLOCK%%
    map $http_x_tenant $tenant { default 10; }
    server {
        listen 127.0.0.1:%%PORT%%;
        %%SERVER%%
    }
}
END

sub check {
    my ($block, $server) = @_;
    return $bed->configuration($frame, BLOCK => $block, SERVER => $server)->check;
}

my $redis = 'sliding_log_redis { server 127.0.0.1:6379; }';
my $good  = 'sliding_log_limit api key=$remote_addr limit=10 window=1m';

# [limit directive in the server, what the message must hold]
my @wrong_limits = (
    ['sliding_log_limit;',                                       qr/invalid number of arguments in "sliding_log_limit"/],
    ['sliding_log_limit api;',                                   qr/"sliding_log_limit" has no "key".*expected key=/],
    ['sliding_log_limit api limit=1 window=1s;',                 qr/"sliding_log_limit" has no "key".*expected key=/],
    ['sliding_log_limit api key=a window=1s;',                   qr/"sliding_log_limit" has no "limit".*expected limit=/],
    ['sliding_log_limit api key=a limit=1;',                     qr/"sliding_log_limit" has no "window".*expected window=/],
    ['sliding_log_limit a/b key=a limit=1 window=1s;',           qr/"sliding_log_limit" has invalid NAME "a\/b", expected 1 to 64/],
    ['sliding_log_limit "" key=a limit=1 window=1s;',            qr/"sliding_log_limit" has invalid NAME "", expected/],
    ['sliding_log_limit ' . 'n' x 65 . ' key=a limit=1 window=1s;', qr/"sliding_log_limit" has invalid NAME "n{65}", expected/],
    ['sliding_log_limit api key= limit=1 window=1s;',            qr/"sliding_log_limit" has invalid key "", expected/],
    ['sliding_log_limit api key=$nonesuch limit=1 window=1s;',   qr/unknown "nonesuch" variable/],
    ['sliding_log_limit api key=a limit=ten window=1s;',         qr/invalid limit "ten", expected a whole number/],
    ['sliding_log_limit api key=a limit=-1 window=1s;',          qr/invalid limit "-1", expected a whole number/],
    ['sliding_log_limit api key=a limit=1.5 window=1s;',         qr/invalid limit "1.5", expected a whole number/],
    ['sliding_log_limit api key=a limit=10r/s window=1s;',       qr/invalid limit "10r\/s", expected a whole number/],
    ['sliding_log_limit api key=a limit= window=1s;',            qr/invalid limit "", expected a whole number/],
    ['sliding_log_limit api key=a limit=9999999999999 window=1s;', qr/invalid limit "9999999999999", expected/],
    ['sliding_log_limit api key=a limit=1 window=10x;',          qr/invalid window "10x", expected an nginx time/],
    ['sliding_log_limit api key=a limit=1 window=0;',            qr/invalid window "0", expected an nginx time from 1ms/],
    ['sliding_log_limit api key=a limit=1 window=;',             qr/invalid window "", expected/],
    ['sliding_log_limit api key=a limit=1 window=367d;',         qr/invalid window "367d", expected.*366d/],
    ['sliding_log_limit api key=a limit=1 window=-1s;',          qr/invalid window "-1s", expected/],
    ['sliding_log_limit api key=a limit=10 window=1s cap=9;',    qr/"sliding_log_limit" api has invalid cap "9", expected a whole number not below.*nginx\.conf:\d+/],
    ['sliding_log_limit api key=a limit=10 window=1s cap=0;',    qr/invalid cap "0", expected/],
    ['sliding_log_limit api key=a limit=10 window=1s cap=none;', qr/invalid cap "none", expected a whole number/],
    ['sliding_log_limit api key=a limit=1 window=1s slack=x;',   qr/invalid slack "x", expected/],
    ['sliding_log_limit api key=a limit=1 window=1s algorithm=zset;', qr/invalid algorithm "zset", expected log, compact, counter, bucket or sampled/],
    ['sliding_log_limit api key=a limit=1 window=1s id=$request_id algorithm=compact;', qr/invalid id "\$request_id", expected algorithm=log with it/],
    ['sliding_log_limit api key=a limit=1 window=1s id=;',       qr/invalid id "", expected/],
    ['sliding_log_limit api key=a limit=1 window=1s id=same;',   qr/invalid id "same", expected a text with a variable/],
    ['sliding_log_limit api key=a limit=1 window=1s store=other;', qr/invalid store "other", expected/],
    ['sliding_log_limit api key=a limit=1 window=1s id=$request_id algorithm=sampled;', qr/invalid id "\$request_id", expected algorithm=log with it/],
    ['sliding_log_limit api key=a limit=1 window=1s cost=;', qr/invalid cost "", expected a whole number from 0/],
    ['sliding_log_limit api key=a limit=1 window=1s cost=-1;', qr/invalid cost "-1", expected a whole number from 0/],
    ['sliding_log_limit api key=a limit=1 window=1s cost=1.5;', qr/invalid cost "1\.5", expected a whole number from 0/],
    ['sliding_log_limit api key=a limit=1 window=1s cost=1000000000001;', qr/invalid cost "1000000000001", expected a whole number from 0 to 1000000000000/],
    ['sliding_log_limit api key=a limit=1 window=1s cost=100001;', qr/invalid cost "100001", expected at most 1000 with algorithm=log, which keeps an entry for each: algorithm=compact takes up to 100000 in/],
    ['sliding_log_limit api key=a limit=5000 window=1s cost=1001;', qr/invalid cost "1001", expected at most 1000 with algorithm=log.*algorithm=compact/],
    ['sliding_log_limit api key=a limit=$tenant window=1s cost=1001;', qr/invalid cost "1001", expected at most 1000/],
    ['sliding_log_limit api key=a limit=0 window=1s cost=1001;', qr/invalid cost "1001", expected at most 1000/],
    ['sliding_log_limit api key=a limit=999999 window=1s algorithm=compact cost=100001;', qr/invalid cost "100001", expected at most 100000 with algorithm=compact, which keeps an entry for each in/],
    ['sliding_log_limit api key=a limit=999999 window=1s algorithm=sampled cost=10001;', qr/invalid cost "10001", expected at most 10000 with algorithm=sampled, which keeps an entry for each 10: algorithm=compact takes/],
    ['sliding_log_limit api key=a limit=999999 window=1s algorithm=sampled sample=1 cost=1001;', qr/invalid cost "1001", expected at most 1000 with algorithm=sampled/],
    (map { [
        "sliding_log_limit api key=a limit=10 window=1s algorithm=$_ cost=11;", qr/invalid cost "11", expected at most 10, the limit: a larger one would be denied for ever/ ] } qw(log compact counter bucket sampled)),
    ['sliding_log_limit api key=a limit=10 window=1s algorithm=bucket burst=5 cost=6;', qr/invalid cost "6", expected at most 5, the burst: a larger one/],
    ['sliding_log_limit api key=a limit=10 window=1s algorithm=bucket burst=20 cost=21;', qr/invalid cost "21", expected at most 20, the burst/],
    ['sliding_log_limit api key=a limit=$tenant window=1s cap=10 cost=11;', qr/"sliding_log_limit" api has invalid cost "11", expected at most the cap, 10, which a variable limit never exceeds in \S+nginx\.conf:\d+/],
    ['sliding_log_limit api key=a limit=$tenant window=1s algorithm=bucket burst=5 cost=6;', qr/invalid cost "6", expected at most 5, the burst/],
    ['sliding_log_limit api key=a limit=1 window=1s count=denied;', qr/invalid count "denied", expected allowed or all/],
    ['sliding_log_limit api key=a limit=1 window=1s count=all cap=off;', qr/invalid count "all", expected a cap with it/],
    ['sliding_log_limit api key=a limit=1 window=1s limit=$tenant count=all;', qr/duplicate limit/],
    ['sliding_log_limit api key=a limit=1 window=1s refund=;', qr/invalid refund "", expected statuses from 100 to 599/],
    ['sliding_log_limit api key=a limit=1 window=1s refund=6xx;', qr/invalid refund "6xx", expected statuses/],
    ['sliding_log_limit api key=a limit=1 window=1s refund=99;', qr/invalid refund "99", expected statuses/],
    ['sliding_log_limit api key=a limit=1 window=1s refund=2xx,;', qr/invalid refund "2xx,", expected statuses/],
    ['sliding_log_limit api key=a limit=1 window=1s refund=2xx,4x4;', qr/invalid refund "2xx,4x4", expected statuses/],
    ['sliding_log_limit api key=a limit=1 window=1s delay=soon;', qr/invalid delay "soon", expected an nginx time up to 366d/],
    ['sliding_log_limit api key=a limit=1 window=1s delay=367d;', qr/invalid delay "367d", expected an nginx time up to 366d/],
    ['sliding_log_limit api key=a limit=1 window=1s block=-1;', qr/invalid block "-1", expected an nginx time up to 366d/],
    ['sliding_log_limit api key=a limit=1 window=1s burst=10;', qr/invalid burst "10", expected algorithm=bucket with it/],
    ['sliding_log_limit api key=a limit=1 window=1s algorithm=bucket burst=0;', qr/invalid burst "0", expected a whole number from 1 to 1000000000000/],
    ['sliding_log_limit api key=a limit=1 window=1s algorithm=bucket burst=10 cap=9;', qr/invalid cap "9", expected a whole number not below/],
    ['sliding_log_limit api key=a limit=1 window=1s sample=5;', qr/invalid sample "5", expected algorithm=sampled with it/],
    ['sliding_log_limit api key=a limit=1 window=1s algorithm=sampled sample=0;', qr/invalid sample "0", expected a whole number from 1 to 1000000/],
    ['sliding_log_limit api key=a limit=1 window=1s excess=444;', qr/invalid excess "444", expected reject or drop/],
    ['sliding_log_limit api key=a limit=1 window=1s color=red;', qr/invalid parameter "color=red", expected one of key=, limit=/],
    ['sliding_log_limit api key=a limit=1 window=1s nodelay;',   qr/invalid parameter "nodelay", expected one of key=, limit=.*from-limit-req\.md/],
    ['sliding_log_limit api key=a rate=9r/s;',                   qr/invalid parameter "rate=9r\/s", expected one of key=.*from-limit-req\.md/],
    ['sliding_log_limit zone=api key=a;',                        qr/invalid NAME "zone=api", expected/],
    ['sliding_log_limit api zone=api;',                          qr/invalid parameter "zone=api", expected one of key=.*from-limit-req\.md/],
    ['sliding_log_limit api key=a limit=1 limit=2 window=1s;',   qr/"sliding_log_limit" has duplicate limit/],
    ["$good; $good;",                                            qr/"sliding_log_limit" has duplicate api/],
    ['sliding_log_limit off; ' . $good . ';',                    qr/"sliding_log_limit" has invalid value "api", expected off alone/],
    ["$good; sliding_log_limit off;",                            qr/"sliding_log_limit" has invalid value "off", expected off alone/],
    ["SLIDING_LOG_LIMIT api;",                                   qr/unknown directive "SLIDING_LOG_LIMIT"/],
    ["$good; sliding_log_limit OFF;",                            qr/"sliding_log_limit" has invalid value "off", expected off alone/],
    ['sliding_log_limit OFF key=a limit=1 window=1s;',           qr/invalid parameter "key=a", expected off alone/],
    ['location = /m { sliding_log_metrics; stub_status; }',      qr/"sliding_log_metrics" has invalid location "\/m", expected one that no other directive answers in \S+nginx\.conf:\d+/],
    ['location = /m { stub_status; sliding_log_metrics; }',      qr/"sliding_log_metrics" has invalid location "\/m", expected one that no other directive answers in/],
    ['location /d/ { sliding_log_dashboard; proxy_pass http://127.0.0.1:1; }', qr/"sliding_log_dashboard" has invalid location "\/d\/", expected one that no other/],
    ['location /d/ { proxy_pass http://127.0.0.1:1; sliding_log_dashboard; }', qr/"sliding_log_dashboard" has invalid location "\/d\/", expected one that no other/],
    ['location /d/ { sliding_log_dashboard; empty_gif; }',       qr/"sliding_log_dashboard" has invalid location "\/d\/", expected one that no other/],
    ['location /d/ { sliding_log_dashboard; sliding_log_metrics; }', qr/"sliding_log_metrics" has invalid location "\/d\/", expected one that no other/],
    ['location /d/ { sliding_log_metrics; sliding_log_dashboard; }', qr/"sliding_log_dashboard" has invalid location "\/d\/", expected one that no other/],
    ['location /d/ { sliding_log_dashboard; return 204; }',      qr/"sliding_log_dashboard" has invalid location "\/d\/", expected one that no other/],
    ['location /d/ { return 200 "text"; sliding_log_metrics; }', qr/"sliding_log_metrics" has invalid location "\/d\/", expected one that no other/],
    ['sliding_log_limit off key=a;',                             qr/invalid parameter "key=a", expected off alone/],
    ["$good; location / { sliding_log_limit api key=b limit=10 window=2m; }",   qr/api has another window \("2m"\) than the limit of that name above \("1m"\), expected the same/],
    ["$good; location / { $good slack=1s; }",                    qr/api has another slack \("1s"\) than the limit of that name above \("6s"\), expected the same/],
    ["sliding_log_limit api key=a limit=1 window=90500ms; location / { sliding_log_limit api key=a limit=1 window=500ms; }", qr/api has another window \("500ms"\) than.*\("1m30s500ms"\)/],
    ["$good algorithm=sampled; location / { $good algorithm=sampled sample=5; }", qr/api has another sample \("5"\).*expected the same/],
    ["$good; location / { $good secret=on; }",                   qr/api has another secret \("on"\).*expected the same/],
    ["$good secret=on; location / { $good; }",                   qr/api has another secret \("off"\).*expected the same/],
    ["$good secret=yes;",                                        qr/"sliding_log_limit" has invalid secret "yes", expected on or off/],
    ["$good secret=on secret=on;",                               qr/"sliding_log_limit" has duplicate secret/],
    ["$good; location / { $good id=\$request_id; }",             qr/api has another id \("\$request_id"\).*expected the same/],
    ["$good; location / { $good cap=100; }",                     qr/api has invalid cap "100", expected the same as in \S+nginx\.conf:\d+, where none is written and 12 is the default: write cap=100 there, too in \S+nginx\.conf:\d+/],
    ["$good cap=100; location / { $good cap=50; }",              qr/api has invalid cap "50", expected the same as cap=100 in \S+nginx\.conf:\d+: they share one log in/],
    ["$good cap=20; location / { sliding_log_limit api key=a limit=30 window=1m cap=20; }", qr/api has invalid cap "20", expected.*not below the largest limit/],
    ['sliding_log_status 399;',                                  qr/"sliding_log_status" has invalid code "399", expected a status from 400 to 599/],
    ['sliding_log_status 600;',                                  qr/"sliding_log_status" has invalid code "600", expected/],
    ['sliding_log_status teapot;',                               qr/"sliding_log_status" has invalid code "teapot", expected/],
    ['sliding_log_status 429; sliding_log_status 503;',          qr/"sliding_log_status" has duplicate value/],
    ['sliding_log_on_error deny nodes=3;',                       qr/"sliding_log_on_error" has invalid parameter "nodes=3", expected nodes=NUMBER after local/],
    ['sliding_log_on_error local nodes=0;',                      qr/"sliding_log_on_error" has invalid parameter "nodes=0", expected/],
    ['sliding_log_on_error local 3;',                            qr/"sliding_log_on_error" has invalid parameter "3", expected/],
    ['sliding_log_metrics;',                                     qr/"sliding_log_metrics" directive is not allowed here/],
    ['location / { sliding_log_metrics on; }',                   qr/invalid number of arguments in "sliding_log_metrics" directive/],
    ['location / { sliding_log_metrics; sliding_log_metrics; }', qr/"sliding_log_metrics" has duplicate directive, expected it once/],
    ['sliding_log_zone 1m;',                                     qr/"sliding_log_zone" directive is not allowed here/],
    [(join ' ', map { "sliding_log_limit n$_ key=a limit=1 window=1s;" } 1 .. 33), qr/number of limits at one level, with "n33", expected at most 32/],
    ["$good; location / { $good store=local; }",                 qr/api has invalid store "local", expected the one of the other limits/],
    ['sliding_log_on_error open;',                               qr/"sliding_log_on_error" has invalid value "open", expected allow or deny or local/],
    ['sliding_log_dry_run yes;',                                 qr/"sliding_log_dry_run" has invalid value "yes", expected off or on/],
    ['sliding_log_headers draft;',                               qr/"sliding_log_headers" has invalid value "draft", expected off or ietf or legacy or all/],
    ['sliding_log_log_level debug;',                             qr/"sliding_log_log_level" has invalid value "debug", expected info or notice/],
    ['sliding_log_limit api key=a limit=0x10 window=1s;',        qr/invalid limit "0x10", expected a whole number/],
    ['sliding_log_limit api key=a limit=+1 window=1s;',          qr/invalid limit "\+1", expected a whole number/],
    ['sliding_log_limit api key=a "limit=1 " window=1s;',        qr/invalid limit "1 ", expected a whole number/],
    ['sliding_log_limit api KEY=a limit=1 window=1s;',           qr/invalid parameter "KEY=a", expected/],
    ['sliding_log_limit api key=a limit=1 window=1s slack=-1;',  qr/invalid slack "-1", expected/],
    ['sliding_log_limit api key=a limit=1 window=1s cap=1.5;',   qr/invalid cap "1.5", expected/],
    ['sliding_log_limit $name key=a limit=1 window=1s;',         qr/invalid NAME "\$name", expected/],
    ["sliding_log_limit caf\xc3\xa9 key=a limit=1 window=1s;",   qr/invalid NAME "caf\xc3\xa9", expected/],
    ['if ($uri) { sliding_log_limit api key=a limit=1 window=1s; }', qr/"sliding_log_limit" directive is not allowed here/],
    ["$good; location / { sliding_log_limit api key=a limit=10 window=1m store=other; }", qr/invalid store "other", expected/],
    ["sliding_log_limit api key=a limit=10 window=1m cap=off; location / { $good; }", qr/api has no "cap" parameter, expected cap=off instead of the default, 12, as in \S+nginx\.conf:\d+: they share one log in \S+nginx\.conf:\d+/],
    ['sliding_log_status;',                                      qr/invalid number of arguments in "sliding_log_status"/],
    ['sliding_log_status 429 503;',                              qr/invalid number of arguments in "sliding_log_status"/],
    ['sliding_log_status 429.0;',                                qr/"sliding_log_status" has invalid code "429.0", expected/],
    ['sliding_log_dry_run on; sliding_log_dry_run off;',         qr/"sliding_log_dry_run" has duplicate value/],
    ['sliding_log_headers ietf legacy;',                         qr/invalid number of arguments in "sliding_log_headers"/],
    ['location / { sliding_log_redis { server 127.0.0.1; } }',   qr/"sliding_log_redis" directive is not allowed here/],
);
for my $row (@wrong_limits) {
    my ($directive, $message) = @$row;
    my ($accepted, $printed) = check($redis, $directive);
    ok(!$accepted, "refused: $directive");
    like($printed, qr/\[emerg\].*$message/, "refused with the reason: $directive");
}

# [redis block, what the message must hold]
my @wrong_blocks = (
    ['sliding_log_redis { }',                                         qr/"sliding_log_redis" has invalid block "default", expected a server/],
    ['sliding_log_redis { server 127.0.0.1:70000; }',                 qr/"server" has invalid address "127.0.0.1:70000", expected/],
    ['sliding_log_redis { server 127.0.0.1:x; }',                     qr/"server" has invalid address "127.0.0.1:x", expected/],
    ['sliding_log_redis { server [::1; }',                            qr/"server" has invalid address "\[::1", expected/],
    ['sliding_log_redis { server unix:; }',                           qr/"server" has invalid address "unix:", expected/],
    ['sliding_log_redis { server 127.0.0.1; server 127.0.0.2; }',     qr/"server" has invalid second address "127.0.0.2", expected one server/],
    ['sliding_log_redis { server 127.0.0.1 127.0.0.2; }',             qr/"server" has invalid second address "127.0.0.2", expected one server/],
    ['sliding_log_redis { server 127.0.0.1; mode replicated; }',      qr/"mode" has invalid value "replicated", expected standalone or sentinel or cluster/],
    ['sliding_log_redis { server 127.0.0.1; mode sentinel; }',        qr/"mode" has invalid value "sentinel", expected the master's name after sentinel/],
    ['sliding_log_redis { server 127.0.0.1; mode sentinel a b; }',    qr/"mode" has invalid number of arguments 3, expected 1 or 2/],
    ['sliding_log_redis { server 127.0.0.1; mode sentinel "a b"; }',  qr/"mode" has invalid master "a b", expected a name without spaces/],
    ['sliding_log_redis { server 127.0.0.1; mode cluster main; }',    qr/"mode" has invalid value "main", expected nothing after standalone and cluster/],
    ['sliding_log_redis { server 127.0.0.1; mode cluster; mode cluster; }', qr/"mode" has duplicate value/],
    ['sliding_log_redis { server 127.0.0.1; mode cluster; database 1; }', qr/"database" has invalid use "1", expected none in mode cluster/],
    ['sliding_log_redis { server unix:/tmp/s 127.0.0.1; mode cluster; }', qr/"server" has invalid address "unix:\/tmp\/s", expected host, IPv4 or \[IPv6\] in mode cluster/],
    ['sliding_log_redis { server 127.0.0.1; sentinel_password p; }',  qr/"sentinel_password" has invalid use "", expected mode sentinel MASTER with it/],
    ['sliding_log_redis { server 127.0.0.1; mode cluster; sentinel_username u; sentinel_password p; }', qr/"sentinel_username" has invalid use "u", expected mode sentinel MASTER with it/],
    ['sliding_log_redis { server 127.0.0.1; mode sentinel m; sentinel_username u; }', qr/"sentinel_username" has invalid use "u", expected a sentinel_password with it/],
    ['sliding_log_redis { server 127.0.0.1; database -1; }',          qr/"database" has invalid number "-1", expected/],
    ['sliding_log_redis { server 127.0.0.1; database 1; database 2; }', qr/"database" has duplicate value/],
    ['sliding_log_redis { server 127.0.0.1; timeout 0; }',            qr/"timeout" has invalid time "0", expected an nginx time/],
    ['sliding_log_redis { server 127.0.0.1; connect_timeout fast; }', qr/"connect_timeout" has invalid time "fast", expected/],
    ['sliding_log_redis { server 127.0.0.1; reconnect 50ms; }',       qr/"reconnect" has invalid number of arguments 1, expected 2/],
    ['sliding_log_redis { server 127.0.0.1; reconnect 5s 50ms; }',    qr/"reconnect" has invalid MAX "50ms", expected a time not below MIN/],
    ['sliding_log_redis { server 127.0.0.1; reconnect 1q 5s; }',      qr/"reconnect" has invalid time "1q", expected/],
    ['sliding_log_redis { server 127.0.0.1; clock wall; }',           qr/"clock" has invalid value "wall", expected redis or nginx/],
    ['sliding_log_redis { server 127.0.0.1; prefix "a{b}:"; }',       qr/"prefix" has invalid value "a\{b\}:", expected/],
    ['sliding_log_redis { server 127.0.0.1; username bob; }',         qr/"username" has invalid use "bob", expected a password/],
    ['sliding_log_redis { server 127.0.0.1; password ""; }',          qr/"password" has invalid value "", expected/],
    ['sliding_log_redis { server 127.0.0.1; password_file none; }',   qr/"password_file" cannot open ".*none", expected a readable file/],
    ['sliding_log_redis { server 127.0.0.1; password a; password_file b; }', qr/"password_file" has duplicate password/],
    ['sliding_log_redis { server 127.0.0.1; pool 5; }',               qr/"sliding_log_redis" has invalid directive "pool", expected one of server, /],
    ['sliding_log_redis local { server 127.0.0.1; }',                 qr/"sliding_log_redis" has invalid NAME "local", expected/],
    ['sliding_log_zone 16k;',                                         qr/"sliding_log_zone" has invalid size "16k", expected a size of at least 32k/],
    ['sliding_log_zone 65g;',                                         qr/"sliding_log_zone" has invalid size "65g", expected a size of at least 32k and at most 64g, as 10m/],
    ['sliding_log_zone 99999999999999999999g;',                       qr/"sliding_log_zone" has invalid size "9+g", expected/],
    ['sliding_log_zone 1t;',                                          qr/"sliding_log_zone" has invalid size "1t", expected/],
    ['sliding_log_redis { server $redis; }',                          qr/"server" has invalid address "\$redis", expected host, .*without variables in/],
    ['sliding_log_redis { server 127.0.0.1 "${redis}:6379"; }',       qr/"server" has invalid address "\$\{redis\}:6379", expected host, .*without variables/],
    ['sliding_log_redis { server 127.0.0.1; username $user; password p; }', qr/"username" has invalid value "\$user", expected a text as it is: no variable works here/],
    ['sliding_log_redis { server 127.0.0.1; password_file $file; }',  qr/"password_file" has invalid file "\$file", expected a text as it is: no variable/],
    ['sliding_log_redis { server 127.0.0.1; mode sentinel $master; }', qr/"mode" has invalid master "\$master", expected a name without spaces and variables/],
    ['sliding_log_redis { server 127.0.0.1; mode sentinel m; sentinel_username $u; sentinel_password p; }', qr/"sentinel_username" has invalid value "\$u", expected a text as it is/],
    ['sliding_log_redis { server 127.0.0.1; tls on; tls_certificate $file; }', qr/"tls_certificate" has invalid value "\$file", expected a text as it is/],
    ['sliding_log_zone big;',                                         qr/"sliding_log_zone" has invalid size "big", expected/],
    ['sliding_log_zone 1m; sliding_log_zone 2m;',                     qr/"sliding_log_zone" has duplicate value/],
    ["$redis $redis",                                                 qr/"sliding_log_redis" has duplicate default/],
    ["$redis sliding_log_redis default { server 127.0.0.2; }",        qr/"sliding_log_redis" has duplicate default/],
    ['sliding_log_redis { server; }',                                 qr/"server" has invalid number of arguments 0, expected 1 or more/],
    ['sliding_log_redis { server ""; }',                              qr/"server" has invalid address "", expected/],
    ['sliding_log_redis { server 127.0.0.1:0; }',                     qr/"server" has invalid address "127.0.0.1:0", expected/],
    ['sliding_log_redis { server a..b; }',            qr/"server" has invalid address "a..b", expected/],
    ['sliding_log_redis { server 127.0.0.1; server { } }',            qr/unexpected "\{"/],
    ['sliding_log_redis { server 127.0.0.1; timeout 367d; }',         qr/"timeout" has invalid time "367d", expected/],
    ['sliding_log_redis { server 127.0.0.1; database 0.5; }',         qr/"database" has invalid number "0.5", expected/],
    ['sliding_log_redis { server 127.0.0.1; prefix a; prefix b; }',   qr/"prefix" has duplicate value/],
    ['sliding_log_redis { server 127.0.0.1; clock redis nginx; }',    qr/"clock" has invalid number of arguments 2, expected 1/],
    ['sliding_log_redis a b { server 127.0.0.1; }',                   qr/invalid number of arguments in "sliding_log_redis"/],
);
for my $row (@wrong_blocks) {
    my ($block, $message) = @$row;
    my ($accepted, $printed) = check($block, "$good;");
    ok(!$accepted, 'refused: ' . ($block || 'no redis block'));
    like($printed, qr/\[emerg\].*$message/, 'refused with the reason: ' . ($block || 'no redis block'));
}

# however a password is misplaced, it is not told
for my $inside ('password s3cret s4cret;', 'password s3cret; password s4cret;', 'password_file p; password s3cret;', 'password s3cret; timeout 0;',
    'password s3cret; username a b;', 'password s3cret', 'sentinel_password s3cret;', 'sentinel_password s3cret s4cret;')
{
    $bed->write_file('p', "s4cret\n");
    my ($accepted, $printed) = check("sliding_log_redis { server 127.0.0.1; $inside }", "$good;");
    ok(!$accepted, "refused: $inside");
    unlike($printed, qr/s[34]cret/, "refused without a secret: $inside");
}

# what must be accepted: [redis block, server]
my @right = (
    [$redis, "$good;"],
    [$redis, "$good; location / { $good; }"],
    [$redis, "$good; location / { sliding_log_limit off; }"],
    (map { [$redis, "$good; location / { sliding_log_limit $_; }"] } qw(OFF Off)),
    [$redis, 'sliding_log_on_error ALLOW; sliding_log_dry_run On; sliding_log_headers LEGACY; sliding_log_log_level Notice;'],
    [$redis, "$good cap=OFF algorithm=Compact excess=DROP count=Allowed;"],
    ['sliding_log_redis { server 127.0.0.1; mode STANDALONE; clock Nginx; tls OFF; }', "$good;"],
    ['sliding_log_zone 1g;', "$good;"],
    [$redis, 'sliding_log_limit api key=a limit=0 window=1s cost=5;'],
    [$redis, 'sliding_log_limit api key=a limit=$tenant window=1s cap=10 cost=10;'],
    [$redis, 'sliding_log_limit api key=a limit=$tenant window=1s cap=off cost=1000;'],
    [$redis, 'sliding_log_limit api key=a limit=$tenant window=1s algorithm=bucket burst=10 cap=10 cost=10;'],
    [$redis, 'sliding_log_limit api key=a limit=0 window=1s algorithm=bucket burst=3 cost=5;'],
    [$redis, 'sliding_log_limit api key=a limit=1000 window=1s cost=1000;'],
    [$redis, 'sliding_log_limit api key=a limit=100000 window=1s cost=100000 algorithm=compact;'],
    [$redis, 'sliding_log_limit api key=a limit=1000000 window=1s cost=1000000 algorithm=sampled sample=1000;'],
    [$redis, 'sliding_log_limit api key=a limit=1000000000000 window=1s cost=1000000000000 algorithm=counter;'],
    [$redis, 'sliding_log_limit api key=a limit=2 window=1s cost=1000000000000 burst=1000000000000 algorithm=bucket;'],
    [$redis, "location /a { sliding_log_metrics; location /a/b { empty_gif; } if (\$arg_x) { set \$y 1; } limit_except GET { deny all; } }"],
    [$redis, 'location /a { sliding_log_metrics; if ($arg_x) { return 404; } }'],
    [$redis, "$good; location / { sliding_log_limit api key=b limit=5 window=60s slack=6s; }"],
    ['', "$good;"],
    ['', 'location / { sliding_log_metrics; }'],
    [$redis, "$good; location / { sliding_log_metrics; }"],
    [$redis, "location / { sliding_log_metrics; $good; }"],
    ['sliding_log_zone 1m;', "$good store=local;"],
    [$redis, "$good store=local; sliding_log_on_error local nodes=3;"],
    [$redis, "$good cap=12;"],
    [$redis, "$good algorithm=counter cost=0 refund=1xx,2xx,404,599 block=0;"],
    [$redis, "$good algorithm=bucket burst=1 delay=366d count=all excess=drop;"],
    [$redis, "$good algorithm=sampled sample=1000000 delay=1ms block=366d count=allowed excess=reject;"],
    [$redis, "$good cost=\$tenant delay=2s; location / { $good cost=2 block=1m refund=5xx; }"],
    [$redis, "$good cap=off id=\$request_id;"],
    [$redis, 'sliding_log_limit api key=$remote_addr$uri limit=$tenant window=1ms;'],
    [$redis, 'sliding_log_limit api key=a limit=0 window=366d;'],
    [$redis, 'sliding_log_limit A-b_c.9 key=a limit=1 window=1m30s;'],
    ['sliding_log_redis one { server localhost:6379; } sliding_log_redis two { server unix:/tmp/x.sock; }', "$good store=two;"],
    ['sliding_log_redis { server [::1]; mode standalone; username u; password p; database 15; prefix ""; connect_timeout 1s; timeout 50ms; reconnect 1ms 1m; clock nginx; }', "$good;"],
    [$redis, 'sliding_log_status 503; sliding_log_on_error allow; sliding_log_dry_run on; sliding_log_headers all; sliding_log_log_level info;'],
);
push @right, map { ["sliding_log_redis { server $_; }", "$good;"] } qw(127.0.0.1 127.0.0.1:1 [::1]:65535 localhost unix:/tmp/s);
push @right, map { ["sliding_log_redis { $_ }", "$good;"] } 'server 127.0.0.1; mode sentinel m;', 'mode sentinel m; server [::1]:5 localhost unix:/tmp/s;',
    'server 127.0.0.1:7000 127.0.0.1:7001; server [::1]:7002; mode cluster; username u; password p;',
    'server 127.0.0.1; mode sentinel m; sentinel_username u; sentinel_password p; database 3;';
push @right, ['', "$good; } $redis server { listen 127.0.0.1:" . Testbed::free_port() . ';'];    # the block may come last
push @right, ["$redis $good; sliding_log_status 400; sliding_log_on_error deny;", 'sliding_log_status 599;'];
push @right, [$redis, 'sliding_log_limit api "key=$remote_addr $http_user_agent" limit=1 window=1m;'];
push @right, [$redis, 'sliding_log_limit ' . 'n' x 64 . ' key=a limit=1000000000000 window=1m slack=0;'];
for my $row (@right) {
    my ($block, $server) = @$row;
    my ($accepted, $printed) = check($block, $server);
    ok($accepted, "accepted: $server") or diag($printed);
}

$bed->done;
