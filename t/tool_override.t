# sliding-log set, unset and overrides: nginx obeys the records that they write, in each topology, and Redis ends them. A
# user with the rights of nginx cannot write one.

use strict;
use warnings;
use Digest::SHA ();
use Test::More;
use Testbed qw(seed wait_until);
use Testbed::Acl qw(documented_rule);
use Testbed::Http qw(get field);
use Testbed::Script;
use Testbed::Tool qw(tool tool_json);

my $bed     = Testbed->new;
my $redis   = $bed->redis;
my $cluster = $bed->cluster(masters => 2);
my ($first, $second) = $cluster->nodes;
my $limits = join "\n", map { "location /$_ { sliding_log_limit $_ key=\$arg_k limit=3 window=1h override=on" . ($_ eq 'hidden' ? ' secret=on' : '') . '; empty_gif; }' } qw(api hidden);
my $other  = 'location /other { sliding_log_limit other key=$arg_k limit=3 window=1h; empty_gif; }';
my @nginx  = map { $bed->serve(store => "$_; timeout 5s; connect_timeout 5s;", how => '$sliding_log_source $sliding_log_limit', http => 'sliding_log_on_error deny;', server => "$limits $other") }
    'server ' . $redis->address, 'server ' . $first->address . '; mode cluster';
my @at = ('--server', $redis->address);

sub asked { my ($nginx, $path) = @_; my $answer = get($nginx->port, $path); return "$answer->{status} " . field($answer, 'X-How') }

# ---- the same on one server and in a cluster

for my $case (['one server', $nginx[0], @at], ['cluster', $nginx[1], '--server', $first->address, '--mode', 'cluster']) {
    my ($what, $nginx, @where) = @$case;
    for my $number (1 .. 6) {
        my $ran = tool('set', 'api', "client$number", '--limit', 10 + $number, @where);
        is("$ran->{status} $ran->{err}", '0 ', "$what: a limit is set");
        like($ran->{out}, qr/^rl:sliding:api:\{client$number\}: limit=1$number until unset\n/, "$what: and told");
        is(asked($nginx, "/api?k=client$number"), "200 redis 1$number", "$what: nginx obeys");
    }
    my $before = time;
    my $set    = tool_json('set', 'api', 'client1', '--deny', '--for', '1h', '--why', "scrapes \"all\" prices: \x{e2}\x{82}\x{ac}", '--by', 'alice', @where);
    is("$set->{key} $set->{what} $set->{by}", 'rl:sliding:api:{client1} deny alice', "$what: JSON tells what was set");
    ok(abs($set->{since_ms} / 1000 - $before) < 10 && $set->{until_ms} == $set->{since_ms} + 3_600_000, "$what: since when and until when");
    my $denied = get($nginx->port, '/api?k=client1');
    like("$denied->{status} " . field($denied, 'Retry-After'), qr/^429 (?:3600|359\d)$/, "$what: nginx denies until then");
    my $list = tool_json('overrides', @where);
    is_deeply([$list->{missing}, $list->{complete} ? 1 : 0], [[], 1], "$what: the list is complete");
    is(join(' ', map { "$_->{key}=$_->{what}" } @{ $list->{overrides} }),
        join(' ', 'rl:sliding:api:{client1}=deny', map { "rl:sliding:api:{client$_}=limit=1$_" } 2 .. 6), "$what: it has all records");
    is_deeply({ %{ $list->{overrides}[0] } }, { key => $set->{key}, what => 'deny', why => $set->{why}, by => 'alice', since_ms => $set->{since_ms}, until_ms => $set->{until_ms} },
        "$what: with all that is known of them");
    is(tool_json('unset', 'api', "client$_", @where)->{removed}, JSON::PP::true(), "$what: it is unset") for 2 .. 6;
    is(asked($nginx, '/api?k=client2'), '200 redis 3', "$what: nginx has the configured limit again");
    my $none = tool('unset', 'api', 'client2', @where);
    is("$none->{status} $none->{out}", "1 no override of rl:sliding:api:{client2}\n", "$what: none is left to unset");
}

# ---- ends, people and secrets

tool('set', 'api', 'short', '--deny', '--for', '300ms', @at);
cmp_ok($redis->cli('PTTL', 'rl:sliding:api:{short}:override'), '<=', 300, 'Redis removes a record at its end');
ok(wait_until('its end', 5, sub { asked($nginx[0], '/api?k=short') =~ /^200/ }), 'and nginx admits again');
is($redis->cli('EXISTS', 'rl:sliding:api:{short}:override'), 0, 'the record is gone');
tool('set', 'api', 'kept', '--deny', '--for', '1h', @at);
tool('set', 'api', 'kept', '--allow', @at);
is($redis->cli('PTTL', 'rl:sliding:api:{kept}:override'), -1, 'a record without an end replaces one that has an end');

$redis->cli('SET', 'rl:sliding:api:{bad}:override', 'limit=many');
$redis->cli('RPUSH', 'rl:sliding:api:{list}:override', 'x');
tool('set', 'api', 'people', '--allow', '--why', 'ours', '--by', 'bob', @at);
my $human = tool('overrides', 'api', @at)->{out};
like($human, qr/^key +what +until +why +since +by$/m, 'a table for people');
like($human, qr/^rl:sliding:api:\{people\} +allow +unset +ours +\d{4}-\d\d-\d\dT\S+Z +bob$/m, 'has a record');
like($human, qr/^rl:sliding:api:\{$_\} +broken: counts as none/m, "and what is none: $_") for qw(bad list);
is(tool('overrides', 'other', @at)->{out}, "no overrides\n", 'none of another limit');
is((grep { $_->{key} =~ /people/ } @{ tool_json('overrides', @at)->{overrides} })[0]{by}, 'bob', 'who has set it');
my $by = tool_json({ env => { SUDO_USER => 'carol' } }, 'set', 'api', 'who', '--allow', @at)->{by};
is($by, 'carol', 'by sudo: who called it');
unlike(tool('top', @at)->{out}, qr/override/, 'top lists no records');

$redis->cli('FLUSHALL');
my $conf = $bed->write_file('nginx.conf', 'http { sliding_log_redis { server ' . $redis->address . "; }\nserver { $limits $other } }");
my $secret = tool({ in => "s3cret\n" }, 'set', 'hidden', '-', '--deny', '--nginx-conf', $conf);
is("$secret->{status} $secret->{err}", '0 ', 'a secret from standard input');
like($secret->{out}, qr/^rl:sliding:hidden:\{sha1-[0-9a-f]{8}\}: deny/, 'is shown by eight digits');
is(asked($nginx[0], '/hidden?k=s3cret'), '429 override 3', 'nginx obeys');
like(tool('overrides', '--secret', @at)->{out}, qr/^rl:sliding:hidden:\{sha1-[0-9a-f]{8}\} +deny/m, 'the list shows eight digits, too');
my $unread = tool('set', 'other', 'a', '--deny', '--nginx-conf', $conf);
is($unread->{status}, 1, 'a limit without override=on: a warning');
like($unread->{err}, qr/has no override=on for this limit: nginx does not read what is set/, 'that says so');

like(tool('set', 'nosuch', '--all', '--deny', '--nginx-conf', $conf)->{err}, qr/has no sliding_log_limit nosuch/, 'all keys of a NAME that nginx does not know');
is(tool('unset', 'nosuch', '--all', '--nginx-conf', $conf)->{status}, 3, 'nor is a record of it removed');

# ---- keys that no decision can have: nothing is written, and the reason is told

my $here   = 'http { sliding_log_redis { server ' . $redis->address . '; } sliding_log_redis far { server 127.0.0.1:1; } ';
my $locals = $bed->write_file('locals.conf', $here . 'server { sliding_log_limit api key=$arg_k limit=3 window=1h override=on; sliding_log_limit hidden key=$arg_k limit=3 window=1h override=on secret=on;'
        . ' sliding_log_limit mine key=$arg_k limit=1 window=1s store=local; sliding_log_limit away key=$arg_k limit=1 window=1s store=far; } }');
my @conf = ('--nginx-conf', $conf);
$redis->cli('FLUSHALL');
for my $row (
    [['rl:sliding:'],                                qr/is the key of no log: it has no \{VALUE\}/],
    [['rl:sliding:api'],                             qr/it has no \{VALUE\}/],
    [['rl:sliding:api:k1'],                          qr/it has no \{VALUE\}/],
    [['rl:sliding:api:{k1'],                         qr/it does not end with \}/],
    [['rl:sliding:api:{k1}:override'],               qr/it does not end with \}/],
    [['rl:sliding:api:{}'],                          qr/its VALUE is empty/],
    [['rl:sliding:api:{user@x y}'],                  qr/nginx stores a hash of this VALUE/],
    [['rl:sliding:api:{' . 'x' x 129 . '}'],         qr/nginx stores a hash of this VALUE/],
    [['rl:sliding:api:{a}b}'],                       qr/nginx stores a hash of this VALUE/],
    [['rl:sliding:api:{sha1-' . 'A' x 40 . '}'],     qr/nginx stores a hash of this VALUE/],
    [['rl:sliding:a p:{k}'],                         qr/"a p" is not the NAME of a limit/],
    [['rl:sliding::{k}'],                            qr/"" is not the NAME of a limit/],
    [['other:api:{k}'],                              qr/does not begin with "rl:sliding:"/],
    [['rl:sliding:api:{k}', '--prefix', 'shop:'],    qr/does not begin with "shop:"/],
    [['api', ''],                                    qr/VALUE is empty/],
    [['hidden', 'sha1-8e2683bc'],                    qr/is how the key of a secret is shown, expected --secret/],
    [['rl:sliding:hidden:{sha1-8e2683bc}'],          qr/is how the key of a secret is shown/],
    [['hidden', 'sha1-8e2683bc', '--secret'],        qr/no log of rl:sliding:hidden:\{sha1-8e2683bc\}: no key in Redis begins like this/],
    [['hidden', 'sha1-8e2683bc', @conf],             qr/no log of/],
    [['api', 'sha1-8e2683bc', @conf],                qr/is how the key of a secret is shown/],
    [['rl:sliding:hidden:{s3cret}', @conf],          qr/the key is that of no log: nginx stores a hash of each VALUE of hidden/],
    [['rl:sliding:hidden:{s3cret}', '--secret'],     qr/the key is that of no log/],
    [['rl:sliding:nosuch:{k}', @conf],               qr/has no sliding_log_limit nosuch/],
    [['nosuch', 'k', @conf],                         qr/has no sliding_log_limit nosuch/],
) {
    my ($words, $why) = @$row;
    my @target = "@$words" =~ /--nginx-conf/ ? @$words : (@$words, @at);
    for my $command (['set', '--deny'], ['unset'], ['unblock'], ['reset'], ['inspect']) {
        my ($name, @more) = @$command;
        my $ran = tool($name, @target, @more);
        is("$ran->{status} $ran->{out}", '3 ', "$name @$words: refused");
        like($ran->{err}, $why, "$name @$words: the reason");
        unlike($ran->{err}, qr/s3cret/, "$name @$words: no secret is told");
    }
}
is($redis->cli('DBSIZE'), 0, 'nothing was written');
my $one = $bed->write_file('one.conf', Testbed::Process::slurp($locals) =~ s/sliding_log_redis far \{.*?\}//r);
like(tool('set', 'rl:sliding:mine:{k}', '--deny', '--nginx-conf', $one)->{err}, qr/limit "mine" has store=local in .*in the memory of nginx, not in Redis/, 'the full key of a limit with store=local');
is(tool('set', 'rl:sliding:api:{k}', '--deny', '--nginx-conf', $one)->{status}, 0, 'that of another one');

# eight digits, as the dashboard and the error log show a secret
my %digest = map { $_ => Digest::SHA::sha1_hex($_) } qw(s3cret other);
my $digits = 'sha1-' . substr $digest{s3cret}, 0, 8;
$redis->cli('FLUSHALL');
my $seen;
wait_until('the known denial to end', 5, sub { ($seen = asked($nginx[0], '/hidden?k=s3cret')) !~ /^429/ });
is($seen, '200 redis 3', 'a secret that nginx has seen');
for my $how (['hidden', $digits, '--secret', @at], ['hidden', $digits, @conf], ["rl:sliding:hidden:{$digits}", '--secret', @at], ["rl:sliding:hidden:{$digits}", @conf]) {
    my $set = tool('set', @$how, '--deny');
    is("$set->{status} $set->{err}", '0 ', "set @$how") or diag($set->{err});
    like($set->{out}, qr/^rl:sliding:hidden:\{\Q$digits\E\}: deny until unset$/m, 'shown by eight digits');
    unlike($set->{out}, qr/no log/, 'its log is there');
    is(asked($nginx[0], '/hidden?k=s3cret'), '429 override 3', 'nginx obeys');
    is(tool_json('inspect', @$how)->{entries}, 1, 'inspect finds its log');
    is(tool('unset', @$how)->{status}, 0, 'and it is unset');
}
tool('set', 'hidden', $digits, '--deny', @conf);
$redis->cli('DEL', "rl:sliding:hidden:{sha1-$digest{s3cret}}");
is(tool('unset', 'hidden', $digits, @conf)->{status}, 0, 'a record whose log has left is found by eight digits');
$redis->cli('SET', "rl:sliding:hidden:{$digits" . ($_ x 32) . '}', 'x') for 'a', 'b';
like(tool('set', 'hidden', $digits, @conf, '--deny')->{err}, qr/2 logs of rl:sliding:hidden:\{\Q$digits\E\}: expected the full key of one/, 'several such logs');
is($redis->cli('DBSIZE'), 2, 'nothing is set then');
my $of_cluster = tool('set', 'hidden', $digits, '--secret', '--deny', '--server', $first->address, '--mode', 'cluster');
like($of_cluster->{err}, qr/^sliding-log: no log of/, 'cluster: no such log');
is(asked($nginx[1], "/hidden?k=$_"), '200 redis 3', "cluster: $_") for qw(s3cret other);
is(tool('set', 'hidden', $digits, '--secret', '--deny', '--server', $first->address, '--mode', 'cluster')->{status}, 0, 'cluster: the only one is found on its node');
is(asked($nginx[1], '/hidden?k=s3cret') . ' ' . asked($nginx[1], '/hidden?k=other'), '429 override 3 200 redis 3', 'and it alone is denied');

$redis->cli('FLUSHALL');
my $dos = tool({ in => "s3cret\r\n" }, 'set', 'hidden', '-', '--deny', @conf);
is(asked($nginx[0], '/hidden?k=s3cret'), '429 override 3', 'a secret from a file with CR LF');
like($dos->{out}, qr/^no log is there yet: /m, 'set tells that no log is there yet');
is(tool_json('set', 'hidden', 's3cret', '--deny', @conf)->{has_log}, JSON::PP::false(), 'and so does its JSON');
like(tool('unset', 'api', 'nobody', @at)->{out}, qr/^no override of .*\nno log is there yet: /, 'and unset');
like(tool({ in => "\r\n" }, 'set', 'hidden', '-', '--deny', @conf)->{err}, qr/standard input is empty/, 'an empty line');

# ---- the tool and the script agree for any text on whether it is a record, and on what it says

$redis->cli('FLUSHALL');
seed();
my $script = Testbed::Script->new($redis, 'sliding_log');
my @pieces = (' ', "\t", "\n", "\r", "\x0b", "\x0c", "\0", '=', '0', '9' x 14, 'x', 'by=', 'allow', 'deny ', 'limit=7', "\xa0", '-', '');
my %texts;
for my $number (1 .. 300) {
    my $text = (qw(allow deny limit=5 limit=0007 limit=1000000000000))[rand 5] . ' until=' . (0, 99_999_999_999_999)[rand 2] . ' since=1 by=' . ('', 'bob', "b\tb")[rand 3] . ' why=any text';
    substr $text, rand(length $text), rand(3), $pieces[rand @pieces] for 1 .. rand 3;
    $texts{$number} = $text;
    $script->call('SET', "rl:sliding:any:{$number}:override", $text);
}
my %taken = map { ($_->{key} =~ /(\d+)/)[0] => $_->{what} eq 'broken' ? 0 : 1 } @{ tool_json('overrides', 'any', @at)->{overrides} };
my ($differ, $valid) = (0, 0);
for my $number (sort { $a <=> $b } keys %texts) {
    next if $texts{$number} eq '';
    my $reply = $script->call($script->words(time * 1000, [1, { key => "rl:sliding:any:{$number}", limit => 3, window => 1000, ttl => 2000, options => 'cost=0 override' }]));
    my $is = $reply->[0][5] == -4 ? 0 : 1;
    $valid += $is;
    next if $is == ($taken{$number} // 'none');
    $differ++;
    diag("script: $is, tool: " . ($taken{$number} // 'none') . ': ' . $texts{$number} =~ s/([^ -~])/sprintf '\\x%02x', ord $1/ger);
}
is($differ, 0, "300 texts, $valid of them records");
ok($valid > 30 && $valid < 270, 'some are, and some are not');

# ---- who may set them, and who may only decide

my $rule = tool('acl', '--algorithms', 'log,compact', '--override', '--user', 'decider')->{out} =~ s/PASSWORD/d3cide/r;
is($rule, 'ACL SETUSER decider ' . documented_rule('decider', 'd3cide') . "\n", 'operations.md has the rule of a user who only decides');
like(tool('acl', '--nginx-conf', $conf)->{out}, qr/ ~rl:sliding:\*\} %R~rl:sliding:\*:override .* \+get /, 'acl knows by the configuration that records are read');
unlike(tool('acl', '--algorithms', 'counter')->{out}, qr/override|\+get /, 'and without override=on they are not');
$redis->cli('ACL', 'SETUSER', 'decider', split ' ', documented_rule('decider', 'd3cide'));
$redis->cli('ACL', 'SETUSER', 'operator', split ' ', documented_rule('operator', '0perate'));
my $decider = $bed->serve(
    store  => 'server ' . $redis->address . '; username decider; password d3cide; timeout 5s; connect_timeout 5s;',
    how    => '$sliding_log_source $sliding_log_limit',
    http   => 'sliding_log_on_error deny;',
    server => $limits . 'location /escalates { sliding_log_limit escalates key=$arg_k limit=1 window=1h override=on block=1m,10m; empty_gif; }');
is(join(' ', map { asked($decider, '/escalates?k=a') =~ s/ .*//r } 1 .. 2), '200 429', 'blocks of several times are remembered');
is($redis->cli('EXISTS', 'rl:sliding:escalates:{a}:blocks'), 1, 'beside the log');
$bed->write_file('decider.password',  "d3cide\n");
$bed->write_file('operator.password', "0perate\n");
my @as = map { ['--user', $_, '--password-file', $bed->dir . "/$_.password", @at] } qw(decider operator);
is(tool('set', 'api', 'x', '--limit', 7, @{ $as[1] })->{status}, 0, 'the operator sets a record') or diag(tool('set', 'api', 'x', '--limit', 7, @{ $as[1] })->{err});
is(asked($decider, '/api?k=x'), '200 redis 7', 'who decides obeys it');
is(asked($decider, '/api?k=y'), '200 redis 3', 'and finds none of others');
for my $words (['set', 'api', 'x', '--allow'], ['unset', 'api', 'x']) {
    my $ran = tool(@$words, @{ $as[0] });
    is($ran->{status}, 3, "@$words: refused to who only decides");
    like($ran->{err}, qr/NOPERM/, 'by Redis');
}
is(tool('overrides', @{ $as[1] })->{status}, 0, 'the operator lists them');
is(tool('unset', 'api', 'x', @{ $as[1] })->{status}, 0, 'and removes them');
is($decider->logged(qr/override may not be read|NOPERM/), 0, 'no right was missing');

$bed->done;
