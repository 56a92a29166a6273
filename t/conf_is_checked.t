# What `nginx -t` refuses. The message has the directive, the text and what was expected.

use strict;
use warnings;
use Test::More;
use Testbed qw(conf);
use Testbed::Algorithm qw(@ALGORITHMS);

my $bed = Testbed->new;

my $frame = conf(
    http   => <<'HTTP',
    %%BLOCK%%
    map $http_x_tenant $tenant { default 10; }
HTTP
    server => '%%SERVER%%',
);

sub check {
    my ($block, $server) = @_;
    return $bed->configuration($frame, BLOCK => $block, SERVER => $server)->check;
}

my $redis = 'sliding_log_redis { server 127.0.0.1:6379; }';
my $good  = 'sliding_log_limit api key=$remote_addr limit=10 window=1m';

# [limit directive in the server, what the message must have]
my @wrong_limits = (
    ['sliding_log_limit;',                                       qr/invalid number of arguments in "sliding_log_limit"/],
    ['sliding_log_limit api;',                                   qr/"sliding_log_limit" directive must have "key" parameter, expected key=/],
    ['sliding_log_limit api limit=1 window=1s;',                 qr/"sliding_log_limit" directive must have "key" parameter, expected key=/],
    ['sliding_log_limit api key=a window=1s;',                   qr/"sliding_log_limit" directive must have "limit" parameter, expected limit=/],
    ['sliding_log_limit api key=a limit=1;',                     qr/"sliding_log_limit" directive must have "window" parameter, expected window=/],
    ['sliding_log_limit a/b key=a limit=1 window=1s;',           qr/invalid NAME "a\/b" in "sliding_log_limit" directive, expected 1 to 64/],
    ['sliding_log_limit "" key=a limit=1 window=1s;',            qr/invalid NAME "" in "sliding_log_limit" directive, expected/],
    ['sliding_log_limit ' . 'n' x 65 . ' key=a limit=1 window=1s;', qr/invalid NAME "n{65}" in "sliding_log_limit" directive, expected/],
    ['sliding_log_limit api key= limit=1 window=1s;',            qr/invalid key "" in "sliding_log_limit" directive, expected/],
    ['sliding_log_limit api key=$nonesuch limit=1 window=1s;',   qr/unknown "nonesuch" variable/],
    ['sliding_log_limit api key=a limit=ten window=1s;',         qr/invalid limit "ten" in "[^"]+" directive, expected a whole number/],
    ['sliding_log_limit api key=a limit=-1 window=1s;',          qr/invalid limit "-1" in "[^"]+" directive, expected a whole number/],
    ['sliding_log_limit api key=a limit=1.5 window=1s;',         qr/invalid limit "1.5" in "[^"]+" directive, expected a whole number/],
    ['sliding_log_limit api key=a limit=10r/s window=1s;',       qr/invalid limit "10r\/s" in "[^"]+" directive, expected a whole number/],
    ['sliding_log_limit api key=a limit= window=1s;',            qr/invalid limit "" in "[^"]+" directive, expected a whole number/],
    ['sliding_log_limit api key=a limit=9999999999999 window=1s;', qr/invalid limit "9999999999999" in "[^"]+" directive, expected/],
    ['sliding_log_limit api key=a limit=1 window=10x;',          qr/invalid window "10x" in "[^"]+" directive, expected an nginx time/],
    ['sliding_log_limit api key=a limit=1 window=0;',            qr/invalid window "0" in "[^"]+" directive, expected an nginx time from 1ms/],
    ['sliding_log_limit api key=a limit=1 window=;',             qr/invalid window "" in "[^"]+" directive, expected/],
    ['sliding_log_limit api key=a limit=1 window=367d;',         qr/invalid window "367d" in "[^"]+" directive, expected.*366d/],
    ['sliding_log_limit api key=a limit=1 window=-1s;',          qr/invalid window "-1s" in "[^"]+" directive, expected/],
    ['sliding_log_limit api key=a limit=10 window=1s cap=9;',    qr/invalid cap "9" in "sliding_log_limit api" directive, expected a whole number not below.*nginx\.conf:\d+/],
    ['sliding_log_limit api key=a limit=10 window=1s cap=0;',    qr/invalid cap "0" in "[^"]+" directive, expected/],
    ['sliding_log_limit api key=a limit=10 window=1s cap=none;', qr/invalid cap "none" in "[^"]+" directive, expected a whole number/],
    ['sliding_log_limit api key=a limit=1 window=1s slack=x;',   qr/invalid slack "x" in "[^"]+" directive, expected/],
    ['sliding_log_limit api key=a limit=1 window=1s algorithm=zset;', qr/invalid algorithm "zset" in "[^"]+" directive, expected log, compact, counter, bucket, sampled, quota or inflight/],
    ['sliding_log_limit api key=a limit=1 window=1s id=$request_id algorithm=compact;', qr/invalid id "\$request_id" in "[^"]+" directive, expected algorithm=log with it/],
    ['sliding_log_limit api key=a limit=1 window=1s id=;',       qr/invalid id "" in "[^"]+" directive, expected/],
    ['sliding_log_limit api key=a limit=1 window=1s id=same;',   qr/invalid id "same" in "[^"]+" directive, expected a text with a variable/],
    ['sliding_log_limit api key=a limit=1 window=1s store=other;', qr/invalid store "other" in "[^"]+" directive, expected/],
    ['sliding_log_limit api key=a limit=1 window=1s id=$request_id algorithm=sampled;', qr/invalid id "\$request_id" in "[^"]+" directive, expected algorithm=log with it/],
    ['sliding_log_limit api key=a limit=1 window=1s cost=;', qr/invalid cost "" in "[^"]+" directive, expected a whole number from 0/],
    ['sliding_log_limit api key=a limit=1 window=1s cost=-1;', qr/invalid cost "-1" in "[^"]+" directive, expected a whole number from 0/],
    ['sliding_log_limit api key=a limit=1 window=1s cost=1.5;', qr/invalid cost "1\.5" in "[^"]+" directive, expected a whole number from 0/],
    ['sliding_log_limit api key=a limit=1 window=1s cost=1000000000001;', qr/invalid cost "1000000000001" in "[^"]+" directive, expected a whole number from 0 to 1000000000000/],
    ['sliding_log_limit api key=a limit=1 window=1s cost=100001;', qr/invalid cost "100001" in "[^"]+" directive, expected at most 1000 with algorithm=log, which keeps an entry for each: algorithm=compact takes any in/],
    ['sliding_log_limit api key=a limit=5000 window=1s cost=1001;', qr/invalid cost "1001" in "[^"]+" directive, expected at most 1000 with algorithm=log.*algorithm=compact/],
    ['sliding_log_limit api key=a limit=$tenant window=1s cost=1001;', qr/invalid cost "1001" in "[^"]+" directive, expected at most 1000/],
    ['sliding_log_limit api key=a limit=0 window=1s cost=1001;', qr/invalid cost "1001" in "[^"]+" directive, expected at most 1000/],
    ['sliding_log_limit api key=a limit=999999 window=1s algorithm=sampled cost=10001;', qr/invalid cost "10001" in "[^"]+" directive, expected at most 10000 with algorithm=sampled, which keeps an entry for each 10: algorithm=compact takes/],
    ['sliding_log_limit api key=a limit=999999 window=1s algorithm=sampled sample=1 cost=1001;', qr/invalid cost "1001" in "[^"]+" directive, expected at most 1000 with algorithm=sampled/],
    (map { [
        "sliding_log_limit api key=a limit=10 window=1s algorithm=$_ cost=11;", qr/invalid cost "11" in "[^"]+" directive, expected at most 10, the limit: a larger one would be denied for ever/ ] } @ALGORITHMS),
    ['sliding_log_limit api key=a limit=10 window=1s algorithm=bucket burst=5 cost=6;', qr/invalid cost "6" in "[^"]+" directive, expected at most 5, the burst: a larger one/],
    ['sliding_log_limit api key=a limit=10 window=1s algorithm=bucket burst=20 cost=21;', qr/invalid cost "21" in "[^"]+" directive, expected at most 20, the burst/],
    ['sliding_log_limit api key=a limit=$tenant window=1s cap=10 cost=11;', qr/invalid cost "11" in "sliding_log_limit api" directive, expected at most the cap, 10, which a variable limit never exceeds in \S+nginx\.conf:\d+/],
    ['sliding_log_limit api key=a limit=$tenant window=1s algorithm=bucket burst=5 cost=6;', qr/invalid cost "6" in "[^"]+" directive, expected at most 5, the burst/],
    ['sliding_log_limit api key=a limit=1 window=1s count=denied;', qr/invalid count "denied" in "[^"]+" directive, expected allowed or all/],
    ['sliding_log_limit api key=a limit=1 window=1s count=all cap=off;', qr/invalid count "all" in "[^"]+" directive, expected a cap with it/],
    ['sliding_log_limit api key=a limit=1 window=1s limit=$tenant count=all;', qr/duplicate parameter "limit" in "sliding_log_limit" directive/],
    ['sliding_log_limit api key=a limit=1 window=1s refund=;', qr/invalid refund "" in "[^"]+" directive, expected statuses from 100 to 599/],
    ['sliding_log_limit api key=a limit=1 window=1s refund=6xx;', qr/invalid refund "6xx" in "[^"]+" directive, expected statuses/],
    ['sliding_log_limit api key=a limit=1 window=1s refund=99;', qr/invalid refund "99" in "[^"]+" directive, expected statuses/],
    ['sliding_log_limit api key=a limit=1 window=1s refund=2xx,;', qr/invalid refund "2xx," in "[^"]+" directive, expected statuses/],
    ['sliding_log_limit api key=a limit=1 window=1s refund=2xx,4x4;', qr/invalid refund "2xx,4x4" in "[^"]+" directive, expected statuses/],
    ['sliding_log_limit api key=a limit=1 window=1s delay=soon;', qr/invalid delay "soon" in "[^"]+" directive, expected an nginx time up to 366d/],
    ['sliding_log_limit api key=a limit=1 window=1s delay=367d;', qr/invalid delay "367d" in "[^"]+" directive, expected an nginx time up to 366d/],
    ['sliding_log_limit api key=a limit=1 window=1s block=-1;', qr/invalid block "-1" in "[^"]+" directive, expected an nginx time up to 366d/],
    ['sliding_log_limit api key=a limit=1 window=1s block=1m,;', qr/invalid block "1m," in "[^"]+" directive, expected 2 to 10 nginx times from 1ms to 366d, as block=1m,10m,1h in/],
    ['sliding_log_limit api key=a limit=1 window=1s block=1m,0;', qr/invalid block "1m,0" in "[^"]+" directive, expected 2 to 10 nginx times from 1ms to 366d, as block=1m,10m,1h in/],
    ['sliding_log_limit api key=a limit=1 window=1s block=1m,soon;', qr/invalid block "1m,soon" in "[^"]+" directive, expected 2 to 10 nginx times from 1ms to 366d, as block=1m,10m,1h in/],
    ['sliding_log_limit api key=a limit=1 window=1s block=1s,367d;', qr/invalid block "1s,367d" in "[^"]+" directive, expected 2 to 10 nginx times from 1ms to 366d, as block=1m,10m,1h in/],
    ['sliding_log_limit api key=a limit=1 window=1s block=1s,1s,1s,1s,1s,1s,1s,1s,1s,1s,1s;', qr/invalid block "1s,1s,1s,1s,1s,1s,1s,1s,1s,1s,1s" in "[^"]+" directive, expected 2 to 10 nginx times from 1ms to 366d, as block=1m,10m,1h in/],
    ['sliding_log_limit api key=a limit=9 window=1s prefetch=5 block=1m,1h;', qr/invalid prefetch "5" in "[^"]+" directive, expected no block= with it in/],
    ['sliding_log_limit api key=a limit=1 algorithm=quota period=day block=1m,1h;', qr/invalid block "1m,1h" in "[^"]+" directive, expected algorithm=/],
    ['sliding_log_limit api key=a limit=1 window=1s burst=10;', qr/invalid burst "10" in "[^"]+" directive, expected algorithm=bucket with it/],
    ['sliding_log_limit api key=a limit=1 window=1s algorithm=bucket burst=0;', qr/invalid burst "0" in "[^"]+" directive, expected a whole number from 1 to 1000000000000/],
    ['sliding_log_limit api key=a limit=1 window=1s algorithm=bucket burst=10 cap=9;', qr/invalid cap "9" in "[^"]+" directive, expected a whole number not below/],
    ['sliding_log_limit api key=a limit=1 window=1s sample=5;', qr/invalid sample "5" in "[^"]+" directive, expected algorithm=sampled with it/],
    ['sliding_log_limit api key=a limit=1 window=1s algorithm=sampled sample=0;', qr/invalid sample "0" in "[^"]+" directive, expected a whole number from 1 to 1000000/],
    ['sliding_log_limit api key=a limit=1 algorithm=quota;',     qr/"sliding_log_limit" directive must have "period" parameter, expected period=hour, day, week or month in/],
    ['sliding_log_limit api key=a limit=1 algorithm=quota period=year;', qr/invalid period "year" in "[^"]+" directive, expected hour, day, week or month in/],
    ['sliding_log_limit api key=a limit=1 period=day;',          qr/invalid period "day" in "[^"]+" directive, expected algorithm=quota with it in/],
    ['sliding_log_limit api key=a limit=1 algorithm=quota cost=2 period=day;', qr/invalid cost "2" in "[^"]+" directive, expected at most 1, the limit: a larger one/],
    (map { [ "sliding_log_limit api key=a limit=1 algorithm=quota period=day $_->[0]=$_->[1];",
        qr/invalid $_->[0] "\Q$_->[1]\E" in "[^"]+" directive, expected algorithm=$_->[2] with it$_->[3] in/ ] }
        ['window', '1d', 'log, compact, counter, bucket or sampled', ': a quota has period= instead'],
        ['cap', 5, 'log, compact, counter, bucket or sampled', ': a quota is one count, whatever it is'],
        ['count', 'all', 'log, compact, counter, bucket or sampled', ': a quota that is used up denies until its period ends in any case'],
        ['delay', '1s', 'log, compact, counter, bucket, sampled or inflight', ': a quota has no room before its period ends, and then for all at once'],
        ['block', '1m', 'log, compact, counter, bucket or sampled', ': a quota that is used up denies until its period ends'],
        ['id', '$request_id', 'log', ''], ['burst', 5, 'bucket', ''], ['sample', 5, 'sampled', ''], ['prefetch', 5, 'log or compact', '']),
    ['sliding_log_limit api key=a limit=1 algorithm=quota period=day; location / { sliding_log_limit api key=a limit=1 algorithm=quota period=month; }',
        qr/invalid period "month" in "sliding_log_limit api" directive, expected "day", as in the limit of that name above: they share one log/],
    ['sliding_log_limit api key=a limit=1 algorithm=quota period=day; location / { sliding_log_limit api key=a limit=1 window=1d; }',
        qr/invalid algorithm "log" in "sliding_log_limit api" directive, expected "quota", as in the limit of that name above/],
    (map { [ "sliding_log_limit api key=a limit=1 algorithm=inflight $_->[0]=$_->[1];",
        qr/invalid $_->[0] "\Q$_->[1]\E" in "[^"]+" directive, expected algorithm=$_->[2] with it$_->[3] in/ ] }
        ['window', '1d', 'log, compact, counter, bucket or sampled', ': requests under way have lease= instead'],
        ['period', 'day', 'quota', ''],
        ['cap', 5, 'log, compact, counter, bucket or sampled', ': only requests under way are logged'],
        ['count', 'all', 'log, compact, counter, bucket or sampled', ': a denied request is not under way'],
        ['refund', '5xx', 'log, compact, counter, bucket, sampled or quota', ': each request gives its entry back when it ends'],
        ['settle', '$tenant', 'compact, counter, bucket or quota', ': each request gives its entry back when it ends'],
        ['block', '1m', 'log, compact, counter, bucket or sampled', ': a block would outlast the requests that caused it'],
        ['prefetch', 5, 'log or compact', ': no request holds a permit yet, so nothing would renew it'],
        ['id', '$request_id', 'log', ''], ['burst', 5, 'bucket', ''], ['sample', 5, 'sampled', '']),
    (map { ["sliding_log_limit api key=a limit=1 algorithm=inflight lease=$_;", qr/invalid lease "$_" in "[^"]+" directive, expected an nginx time from 100ms to 366d in/] }
        qw(0 99ms 367d soon)),
    ['sliding_log_limit api key=a limit=1 window=1s lease=30s;', qr/invalid lease "30s" in "[^"]+" directive, expected algorithm=inflight with it in/],
    ['sliding_log_limit api key=a limit=1 algorithm=inflight cost=2;', qr/invalid cost "2" in "[^"]+" directive, expected at most 1, the limit: a larger one/],
    ['sliding_log_limit api key=a limit=9999 algorithm=inflight cost=1001;', qr/invalid cost "1001" in "[^"]+" directive, expected at most 1000 with algorithm=inflight, which keeps an entry for each in/],
    ['sliding_log_limit api key=a limit=1 algorithm=inflight; location / { sliding_log_limit api key=a limit=1 algorithm=inflight lease=1m; }',
        qr/invalid lease "1m" in "sliding_log_limit api" directive, expected "30s", as in the limit of that name above: they share one log/],
    (map { ["sliding_log_limit api key=a limit=1 window=1s prefetch=$_;", qr/invalid prefetch "$_" in "[^"]+" directive, expected a whole number from 1 to 10000/] } qw(0 10001 many)),
    (map { ["sliding_log_limit api key=a limit=1 window=1s prefetch=5 algorithm=$_;", qr/invalid prefetch "5" in "[^"]+" directive, expected algorithm=log or compact with it/] }
        qw(counter bucket sampled)),
    (map { ["sliding_log_limit api key=a limit=1 window=1s prefetch=5 $_->[0];", qr/invalid prefetch "5" in "[^"]+" directive, expected no \Q$_->[1]\E with it/] }
        ['id=$request_id', 'id='], ['delay=1s', 'delay='], ['count=all', 'count=all'], ['refund=5xx', 'refund='], ['block=1m', 'block='],
        ['cost=$arg_c', 'variable cost=']),
    (map { ["sliding_log_limit api key=a limit=1 window=1s settle=\$tenant algorithm=$_;",
        qr/invalid settle "\$tenant" in "[^"]+" directive, expected algorithm=compact, counter, bucket or quota with it: log and sampled keep a member/] } qw(log sampled)),
    (map { ["sliding_log_limit api key=a limit=1 window=1s algorithm=compact settle=$_;", qr/invalid settle "$_" in "[^"]+" directive, expected a variable, as settle=/] } '', 5, 'x'),
    (map { ["sliding_log_limit api key=a limit=1 window=1s algorithm=compact settle=\$tenant $_->[0];", qr/invalid $_->[1] in "[^"]+" directive, expected \Q$_->[2]\E/] }
        ['refund=5xx', 'settle "\$tenant"', 'no refund= with it'], ['count=all', 'settle "\$tenant"', 'no count=all with it'], ['cap=5', 'settle "\$tenant"', 'cap=off with it'],
        ['prefetch=5', 'prefetch "5"', 'no settle= with it']),
    ['sliding_log_limit api key=a limit=1 window=1s algorithm=compact settle=$tenant; location / { sliding_log_limit api key=a limit=1 window=1s algorithm=compact cap=5; }',
        qr/invalid cap "5" in "sliding_log_limit api" directive, expected the same as in \S+, where none is written and off is the default/],
    ['sliding_log_limit api key=a limit=1 window=1s excess=444;', qr/invalid excess "444" in "[^"]+" directive, expected reject or drop/],
    ['sliding_log_limit api key=a limit=1 window=1s color=red;', qr/invalid parameter "color=red" in "[^"]+" directive, expected one of key=, limit=/],
    ['sliding_log_limit api key=a limit=1 window=1s nodelay;',   qr/invalid parameter "nodelay" in "[^"]+" directive, expected one of key=, limit=.*from-limit-req\.md/],
    ['sliding_log_limit api key=a rate=9r/s;',                   qr/invalid parameter "rate=9r\/s" in "[^"]+" directive, expected one of key=.*from-limit-req\.md/],
    ['sliding_log_limit zone=api key=a;',                        qr/invalid NAME "zone=api" in "[^"]+" directive, expected/],
    ['sliding_log_limit api zone=api;',                          qr/invalid parameter "zone=api" in "[^"]+" directive, expected one of key=.*from-limit-req\.md/],
    ['sliding_log_limit api key=a limit=1 limit=2 window=1s;',   qr/duplicate parameter "limit" in "sliding_log_limit" directive/],
    ["$good; $good;",                                            qr/duplicate limit "api" in "sliding_log_limit" directive/],
    ['sliding_log_limit off; ' . $good . ';',                    qr/invalid value "api" in "sliding_log_limit" directive, expected off alone/],
    ["$good; sliding_log_limit off;",                            qr/invalid value "off" in "sliding_log_limit" directive, expected off alone/],
    ["SLIDING_LOG_LIMIT api;",                                   qr/unknown directive "SLIDING_LOG_LIMIT"/],
    ["$good; sliding_log_limit OFF;",                            qr/invalid value "off" in "sliding_log_limit" directive, expected off alone/],
    ['sliding_log_limit OFF key=a limit=1 window=1s;',           qr/invalid parameter "key=a" in "[^"]+" directive, expected off alone/],
    ['location = /m { sliding_log_metrics; stub_status; }',      qr/invalid location "\/m" in "sliding_log_metrics" directive, expected one that no other directive answers in \S+nginx\.conf:\d+/],
    ['location = /m { stub_status; sliding_log_metrics; }',      qr/invalid location "\/m" in "sliding_log_metrics" directive, expected one that no other directive answers in/],
    ['location /d/ { sliding_log_dashboard; proxy_pass http://127.0.0.1:1; }', qr/invalid location "\/d\/" in "sliding_log_dashboard" directive, expected one that no other/],
    ['location /d/ { proxy_pass http://127.0.0.1:1; sliding_log_dashboard; }', qr/invalid location "\/d\/" in "sliding_log_dashboard" directive, expected one that no other/],
    ['location /d/ { sliding_log_dashboard; empty_gif; }',       qr/invalid location "\/d\/" in "sliding_log_dashboard" directive, expected one that no other/],
    ['location /d/ { sliding_log_dashboard; sliding_log_metrics; }', qr/invalid location "\/d\/" in "sliding_log_metrics" directive, expected one that no other/],
    ['location /d/ { sliding_log_metrics; sliding_log_dashboard; }', qr/invalid location "\/d\/" in "sliding_log_dashboard" directive, expected one that no other/],
    ['location /d/ { sliding_log_dashboard; return 204; }',      qr/invalid location "\/d\/" in "sliding_log_dashboard" directive, expected one that no other/],
    ['location /d/ { return 200 "text"; sliding_log_metrics; }', qr/invalid location "\/d\/" in "sliding_log_metrics" directive, expected one that no other/],
    ['sliding_log_limit off key=a;',                             qr/invalid parameter "key=a" in "[^"]+" directive, expected off alone/],
    ["$good; location / { sliding_log_limit api key=b limit=10 window=2m; }",   qr/invalid window "2m" in "sliding_log_limit api" directive, expected "1m", as in the limit of that name above: they share one log/],
    ["$good; location / { $good slack=1s; }",                    qr/invalid slack "1s" in "sliding_log_limit api" directive, expected "6s", as in the limit of that name above: they share one log/],
    ["sliding_log_limit api key=a limit=1 window=90500ms; location / { sliding_log_limit api key=a limit=1 window=500ms; }", qr/invalid window "500ms" in "sliding_log_limit api" directive, expected "1m30s500ms", as in/],
    ["$good algorithm=sampled; location / { $good algorithm=sampled sample=5; }", qr/invalid sample "5" in "sliding_log_limit api" directive, expected ".*", as in the limit of that name above/],
    ["$good; location / { $good secret=on; }",                   qr/invalid secret "on" in "sliding_log_limit api" directive, expected ".*", as in the limit of that name above/],
    ["$good secret=on; location / { $good; }",                   qr/invalid secret "off" in "sliding_log_limit api" directive, expected ".*", as in the limit of that name above/],
    ["$good; location / { $good override=on; }",                 qr/invalid override "on" in "sliding_log_limit api" directive, expected "off", as in the limit of that name above: they share one log/],
    ["$good override=on; location / { $good; }",                 qr/invalid override "off" in "sliding_log_limit api" directive, expected "on", as in the limit of that name above/],
    ["$good override=yes;",                                      qr/invalid override "yes" in "sliding_log_limit" directive, expected on or off/],
    ["$good secret=yes;",                                        qr/invalid secret "yes" in "sliding_log_limit" directive, expected on or off/],
    ["$good dry_run=yes;",                                       qr/invalid dry_run "yes" in "sliding_log_limit" directive, expected on or off/],
    ["location / { if (\$arg_x) { $good; } }",                    qr/"sliding_log_limit" directive is not allowed here/],
    ["$good dry_run=;",                                          qr/invalid dry_run "" in "sliding_log_limit" directive, expected on or off/],
    ["$good dry_run=on dry_run=off;",                            qr/duplicate parameter "dry_run" in "sliding_log_limit" directive/],
    ["$good secret=on secret=on;",                               qr/duplicate parameter "secret" in "sliding_log_limit" directive/],
    ["$good; location / { $good id=\$request_id; }",             qr/invalid id "\$request_id" in "sliding_log_limit api" directive, expected ".*", as in the limit of that name above/],
    ["$good; location / { $good cap=100; }",                     qr/invalid cap "100" in "[^"]+" directive, expected the same as in \S+nginx\.conf:\d+, where none is written and 12 is the default: write cap=100 there, too in \S+nginx\.conf:\d+/],
    ["$good cap=100; location / { $good cap=50; }",              qr/invalid cap "50" in "[^"]+" directive, expected the same as cap=100 in \S+nginx\.conf:\d+: they share one log in/],
    ["$good cap=20; location / { sliding_log_limit api key=a limit=30 window=1m cap=20; }", qr/invalid cap "20" in "[^"]+" directive, expected.*not below the largest limit/],
    ['sliding_log_status 399;',                                  qr/invalid code "399" in "sliding_log_status" directive, expected a status from 400 to 599/],
    ['sliding_log_status 600;',                                  qr/invalid code "600" in "sliding_log_status" directive, expected/],
    ['sliding_log_status teapot;',                               qr/invalid code "teapot" in "sliding_log_status" directive, expected/],
    ['sliding_log_status 429; sliding_log_status 503;',          qr/"sliding_log_status" directive is duplicate/],
    ['sliding_log_on_error deny nodes=3;',                       qr/invalid parameter "nodes=3" in "sliding_log_on_error" directive, expected nodes=NUMBER after local/],
    ['sliding_log_on_error local nodes=0;',                      qr/invalid parameter "nodes=0" in "sliding_log_on_error" directive, expected/],
    ['sliding_log_on_error local 3;',                            qr/invalid parameter "3" in "sliding_log_on_error" directive, expected/],
    ['sliding_log_metrics;',                                     qr/"sliding_log_metrics" directive is not allowed here/],
    ['location / { sliding_log_metrics on; }',                   qr/invalid number of arguments in "sliding_log_metrics" directive/],
    ['location / { sliding_log_metrics; sliding_log_metrics; }', qr/"sliding_log_metrics" directive is duplicate/],
    ['sliding_log_zone 1m;',                                     qr/"sliding_log_zone" directive is not allowed here/],
    [(join ' ', map { "sliding_log_limit n$_ key=a limit=1 window=1s;" } 1 .. 33), qr/invalid limit "n33" in "sliding_log_limit" directive, expected at most 32 limits at one level/],
    ["$good; location / { $good store=local; }",                 qr/invalid store "local" in "[^"]+" directive, expected the one of the other limits/],
    ['sliding_log_on_error open;',                               qr/invalid value "open" in "sliding_log_on_error" directive, expected allow or deny or local/],
    ['sliding_log_dry_run yes;',                                 qr/invalid value "yes" in "sliding_log_dry_run" directive, expected off or on/],
    ['sliding_log_headers draft;',                               qr/invalid value "draft" in "sliding_log_headers" directive, expected off or ietf or legacy or all/],
    ['sliding_log_answer json;',                                 qr/invalid value "json" in "sliding_log_answer" directive, expected plain or problem/],
    ['sliding_log_answer problem; sliding_log_answer plain;',    qr/"sliding_log_answer" directive is duplicate/],
    ['sliding_log_log_level debug;',                             qr/invalid value "debug" in "sliding_log_log_level" directive, expected info or notice/],
    ['sliding_log_limit api key=a limit=0x10 window=1s;',        qr/invalid limit "0x10" in "[^"]+" directive, expected a whole number/],
    ['sliding_log_limit api key=a limit=+1 window=1s;',          qr/invalid limit "\+1" in "[^"]+" directive, expected a whole number/],
    ['sliding_log_limit api key=a "limit=1 " window=1s;',        qr/invalid limit "1 " in "[^"]+" directive, expected a whole number/],
    ['sliding_log_limit api KEY=a limit=1 window=1s;',           qr/invalid parameter "KEY=a" in "[^"]+" directive, expected/],
    ['sliding_log_limit api key=a limit=1 window=1s slack=-1;',  qr/invalid slack "-1" in "[^"]+" directive, expected/],
    ['sliding_log_limit api key=a limit=1 window=1s cap=1.5;',   qr/invalid cap "1.5" in "[^"]+" directive, expected/],
    ['sliding_log_limit $name key=a limit=1 window=1s;',         qr/invalid NAME "\$name" in "[^"]+" directive, expected/],
    ["sliding_log_limit caf\xc3\xa9 key=a limit=1 window=1s;",   qr/invalid NAME "caf\xc3\xa9" in "[^"]+" directive, expected/],
    ['if ($uri) { sliding_log_limit api key=a limit=1 window=1s; }', qr/"sliding_log_limit" directive is not allowed here/],
    ["$good; location / { sliding_log_limit api key=a limit=10 window=1m store=other; }", qr/invalid store "other" in "[^"]+" directive, expected/],
    ["sliding_log_limit api key=a limit=10 window=1m cap=off; location / { $good; }", qr/"sliding_log_limit api" directive must have "cap" parameter, expected cap=off instead of the default, 12, as in \S+nginx\.conf:\d+: they share one log in \S+nginx\.conf:\d+/],
    ['sliding_log_status;',                                      qr/invalid number of arguments in "sliding_log_status"/],
    ['sliding_log_status 429 503;',                              qr/invalid number of arguments in "sliding_log_status"/],
    ['sliding_log_status 429.0;',                                qr/invalid code "429.0" in "sliding_log_status" directive, expected/],
    ['sliding_log_dry_run on; sliding_log_dry_run off;',         qr/"sliding_log_dry_run" directive is duplicate/],
    ['sliding_log_headers ietf legacy;',                         qr/invalid number of arguments in "sliding_log_headers"/],
    ['location / { sliding_log_redis { server 127.0.0.1; } }',   qr/"sliding_log_redis" directive is not allowed here/],
);
for my $row (@wrong_limits) {
    my ($directive, $message) = @$row;
    my ($accepted, $printed) = check($redis, $directive);
    ok(!$accepted, "refused: $directive");
    like($printed, qr/\[emerg\].*$message/, "refused with the reason: $directive");
}

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
    ["$redis $redis",                                                 qr/duplicate name "default" in "sliding_log_redis" directive/],
    ["$redis sliding_log_redis default { server 127.0.0.2; }",        qr/duplicate name "default" in "sliding_log_redis" directive/],
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
    my ($accepted, $printed) = check($block, "$good;");
    ok(!$accepted, 'refused: ' . ($block || 'no redis block'));
    like($printed, qr/\[emerg\].*$message/, 'refused with the reason: ' . ($block || 'no redis block'));
    is(scalar(() = $printed =~ /^\d{4}\/.*\[emerg\]/mg), 1, 'refused with one message: ' . ($block || 'no redis block'));
}

# a misplaced password is never printed
for my $inside ('password s3cret s4cret;', 'password s3cret; password s4cret;', 'password_file p; password s3cret;', 'password s3cret; timeout 0;',
    'password s3cret; username a b;', 'password s3cret', 'sentinel_password s3cret;', 'sentinel_password s3cret s4cret;')
{
    $bed->write_file('p', "s4cret\n");
    my ($accepted, $printed) = check("sliding_log_redis { server 127.0.0.1; $inside }", "$good;");
    ok(!$accepted, "refused: $inside");
    unlike($printed, qr/s[34]cret/, "refused without a secret: $inside");
}

# accepted: [redis block, server]
my @right = (
    [$redis, "$good;"],
    [$redis, "$good; location / { $good; }"],
    [$redis, "$good; location / { sliding_log_limit off; }"],
    (map { [$redis, "$good; location / { sliding_log_limit $_; }"] } qw(OFF Off)),
    [$redis, 'sliding_log_on_error ALLOW; sliding_log_dry_run On; sliding_log_headers LEGACY; sliding_log_answer Problem; sliding_log_log_level Notice;'],
    [$redis, "$good cap=OFF algorithm=Compact excess=DROP count=Allowed;"],
    ['sliding_log_redis { server 127.0.0.1; mode STANDALONE; clock Nginx; tls OFF; }', "$good;"],
    ['sliding_log_zone 1g;', "$good;"],
    [$redis, 'sliding_log_limit api key=a limit=0 window=1s cost=5;'],
    [$redis, 'sliding_log_limit api key=a limit=$tenant window=1s cap=10 cost=10;'],
    [$redis, 'sliding_log_limit api key=a limit=$tenant window=1s cap=off cost=1000;'],
    [$redis, 'sliding_log_limit api key=a limit=$tenant window=1s algorithm=bucket burst=10 cap=10 cost=10;'],
    [$redis, 'sliding_log_limit api key=a limit=0 window=1s algorithm=bucket burst=3 cost=5;'],
    [$redis, 'sliding_log_limit api key=a limit=1000 window=1s cost=1000;'],
    [$redis, 'sliding_log_limit api key=a limit=1000000000000 window=1s cost=1000000000000 algorithm=compact;'],
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
    [$redis, "$good block=1m,10m,1h; location / { $good block=1ms,366d,1s,1s,1s,1s,1s,1s,1s,1s algorithm=log; } location /b { $good block=5m; }"],
    ['', "$good block=1m,1h algorithm=bucket;"],
    [$redis, "$good cap=off id=\$request_id;"],
    [$redis, "$good settle=\$tenant algorithm=compact cap=off delay=1s block=1m cost=0; location / { $good algorithm=compact cost=\$tenant settle=\$upstream_http_x_cost; }"],
    [$redis, 'sliding_log_limit api key=a limit=5 algorithm=quota period=month settle=$tenant;'],
    [$redis, "$good prefetch=1 delay=1s block=1m refund=5xx count=all;"],
    [$redis, "$good prefetch=10000 delay=0 block=0 count=allowed cost=5 dry_run=on secret=on excess=drop cap=off slack=0; location / { $good secret=on slack=0 cap=off delay=5s count=allowed; }"],
    [$redis, "$good override=on delay=1s block=1m refund=5xx count=all; location / { $good override=on prefetch=9; }"],
    [$redis, 'sliding_log_limit api key=a limit=1 algorithm=quota period=day override=on;'],
    [$redis, 'sliding_log_limit api key=a limit=$tenant algorithm=inflight override=on cost=$tenant excess=drop secret=on slack=1s dry_run=on; location / { sliding_log_limit b key=a limit=0 algorithm=inflight lease=100ms; }'],
    ['', 'sliding_log_limit api key=a limit=50 algorithm=inflight lease=366d;'],
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
$bed->write_file('redis.conf', "timeout 50ms; password p;\n");
push @right, ["sliding_log_redis { server 127.0.0.1; include $bed->{dir}/redis.conf; database 1; }", "$good;"];
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
