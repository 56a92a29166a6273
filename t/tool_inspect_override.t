# sliding-log inspect decides as nginx does by the record of a log (override=on), and shows the record.

use strict;
use warnings;
use Test::More;
use Testbed qw(wait_until);
use Testbed::Http qw(get field);
use Testbed::Tool qw(tool tool_json);

my $bed    = Testbed->new;
my $redis  = $bed->redis;
my $limits = 'location /api { sliding_log_limit api key=$arg_k limit=3 window=1h override=on; empty_gif; } location /other { sliding_log_limit other key=$arg_k limit=3 window=1h; empty_gif; }';
my $nginx  = $bed->serve(redis => $redis, how => '$sliding_log_source $sliding_log_limit', http => 'sliding_log_on_error deny;', server => $limits);
my @at     = ('--server', $redis->address);
my $conf   = $bed->write_file('nginx.conf', 'http { sliding_log_redis { server ' . $redis->address . "; }\nserver { $limits } }");

sub asked { my ($nginx, $path) = @_; my $answer = get($nginx->port, $path); return "$answer->{status} " . field($answer, 'X-How') }

asked($nginx, '/api?k=al') for 1 .. 2;
my @inspect = ('inspect', 'api', 'al', '--nginx-conf', $conf);
is_deeply([@{ tool_json(@inspect) }{qw(remaining retry_ms limit override)}], [1, 0, 3, undef], 'inspect without a record');
tool('set', 'api', 'al', '--limit', 2, '--why', 'ticket 7', '--by', 'bob', '--for', '1h', @at);
is(asked($nginx, '/api?k=al'), '429 redis 2', 'with --limit 2 nginx denies');
my $inspected = tool_json(@inspect);
is("$inspected->{remaining} $inspected->{limit}", '0 2', 'so does inspect');
cmp_ok($inspected->{retry_ms}, '>', 3_500_000, 'until an entry leaves');
is(join('|', @{ $inspected->{override} }{qw(what why by obeyed)}), 'limit=2|ticket 7|bob|1', 'it shows what, why and by');
ok($inspected->{override}{until_ms} > $inspected->{now_ms}, 'and until when');
my $shown = tool(@inspect)->{out};
like($shown, qr/^override +limit=2\nuntil +20\S+Z\nwhy +ticket 7\nby +bob\nsince +20\S+Z$/m, 'a table has them, too');
like($shown, qr/^remaining +0 of 2\n.*^retry +in 59 m/ms, 'and when there is room');
tool('set', 'api', 'new', '--deny', '--why', 'abuse', @at);
is(asked($nginx, '/api?k=new'), '429 override 3', 'with --deny nginx denies a key without a log');
my $forbidden = tool('inspect', 'api', 'new', '--nginx-conf', $conf);
is($forbidden->{status}, 0, 'inspect finds the record');
like($forbidden->{out}, qr/^override +deny\nuntil +unset\nwhy +abuse\n.*^log +none.*^retry +never: the override denies until it is unset$/ms, 'and tells who denies');
is_deeply([@{ tool_json('inspect', 'api', 'new', @at) }{qw(entries retry_ms)}], [0, -1], 'also in JSON');
tool('set', 'api', 'new', '--deny', '--for', '1h', @at);
like(tool('inspect', 'api', 'new', @at)->{out}, qr/^retry +in (?:1 h|59 m.*), when the override ends$/m, 'until its end');
tool('set', 'api', 'al', '--allow', @at);
like(tool(@inspect)->{out}, qr/^remaining +3 of 3\n.*^retry +now: the override allows$/ms, 'and what --allow does');
$redis->cli('SET', 'rl:sliding:other:{al}:override', 'deny until=0 since=1 by=bob why=');
is(asked($nginx, '/other?k=al'), '200 redis 3', 'nginx obeys none of a limit without override=on');
my $ignored = tool('inspect', 'other', 'al', '--nginx-conf', $conf);
like($ignored->{out}, qr/^override +deny\nobeyed +no: the limit has no override=on in \Q$conf\E\n.*^remaining +2 of 3\n.*^retry +now: there is room$/ms, 'nor does inspect');
$redis->cli('SET', 'rl:sliding:api:{al}:override', 'deny until=soon');
like(tool(@inspect)->{out}, qr/^override +broken: counts as none\n.*^remaining +1 of 3$/ms, 'a broken record counts as none');
$redis->cli('HSET', 'rl:sliding:bucket:{b}', 'used', 0, 'time', time * 1000);
like(tool('inspect', 'bucket', 'b', '--limit', 10, '--burst', 21, '--window', '1m', @at)->{out}, qr/^remaining +21 of 21$/m, 'a bucket has its size');
is(tool_json('inspect', 'bucket', 'b', '--limit', 10, '--burst', 21, '--window', '1m', @at)->{burst}, 21, 'and in JSON');
tool('set', 'bucket', 'b', '--limit', 20, @at);
like(tool('inspect', 'bucket', 'b', '--limit', 10, '--burst', 21, '--window', '1m', @at)->{out}, qr/^remaining +42 of 42$/m, 'which a record changes in proportion');

$bed->done;
