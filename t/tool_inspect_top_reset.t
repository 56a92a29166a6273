# sliding-log inspect, top and reset: what nginx logged is told, for whatever key a client made, and removed.

use strict;
use warnings;
use Digest::SHA qw(sha1_hex);
use Test::More;
use Testbed qw(wait_until);
use Testbed::Http qw(get request);
use Testbed::Tool qw(tool tool_json);

my $bed   = Testbed->new;
my $redis = $bed->redis;
my $nginx = $bed->nginx(<<'END', REDIS => $redis->address);
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    access_log off;
    sliding_log_redis { server %%REDIS%%; timeout 5s; connect_timeout 5s; }
    sliding_log_on_error deny;
    server {
        listen 127.0.0.1:%%PORT%%;
        location /log     { sliding_log_limit api key=$http_x_key limit=5 window=1h; empty_gif; }
        location /compact { sliding_log_limit small key=$http_x_key limit=5 window=1h algorithm=compact; empty_gif; }
        location /long    { sliding_log_limit long key=$http_x_key limit=3000 window=1h algorithm=compact; empty_gif; }
    }
}
END
my @at = ('--server', $redis->address);

sub asked { my ($path, $key) = @_; return request($nginx->port, $path, headers => { 'X-Key' => $key })->{status} }

# ---- inspect

for my $case (['/log', 'api', 'log'], ['/compact', 'small', 'compact']) {
    my ($path, $name, $algorithm) = @$case;
    my $before = time * 1000 - 1000;
    asked($path, 'acct_42') for 1 .. 3;
    my $log = tool_json('inspect', $name, 'acct_42', @at);
    is($log->{key}, "rl:sliding:$name:{acct_42}", "$algorithm: the key is made as the module makes it");
    is("$log->{algorithm} $log->{entries} $log->{used} $log->{window_ms}", "$algorithm 3 3 3600000", '  entries, and the window by the time to live');
    ok($log->{window_is_guessed}, '  which it says');
    ok($log->{oldest_ms} >= $before && $log->{newest_ms} >= $log->{oldest_ms} && $log->{newest_ms} <= time * 1000 + 1000, '  the times');

    $log = tool_json('inspect', $name, 'acct_42', @at, '--limit', 5, '--window', '1h');
    is("$log->{remaining} $log->{retry_ms}", '2 0', '  there is room');
    asked($path, 'acct_42') for 1 .. 3;
    $log = tool_json('inspect', "rl:sliding:$name:{acct_42}", @at, '--limit', 5, '--window', '1h');
    is("$log->{entries} $log->{remaining}", '5 0', '  a full log, by its whole key');
    is($log->{retry_ms}, $log->{oldest_ms} + 3_600_000 - $log->{now_ms}, '  its next slot frees when the oldest leaves');
    $log = tool_json('inspect', $name, 'acct_42', @at, '--limit', 3, '--window', '1h');
    cmp_ok($log->{retry_ms}, '>', $log->{oldest_ms} + 3_600_000 - $log->{now_ms}, '  with a lower limit, a younger one');
    $log = tool_json('inspect', $name, 'acct_42', @at, '--limit', 5, '--window', '1ms');
    is("$log->{entries} $log->{used} $log->{remaining} $log->{retry_ms}", '5 0 5 0', '  those that left the window do not count');
    is(tool_json('inspect', $name, 'acct_42', @at, '--limit', 0)->{retry_ms}, -1, '  a limit of 0 never has room');
    my $human = tool('inspect', $name, 'acct_42', @at, '--limit', 5, '--window', '1h');
    like($human->{out}, qr/^key +rl:sliding:$name:\{acct_42\}\nalgorithm +$algorithm\nentries +5\n.*^remaining +0 of 5\n.*^next slot +in 59 m/ms, '  for people');
    is($human->{status}, 0, '  status 0');
}

# a compact log whose entries stand in its ring
asked('/long', 'busy') for 1 .. 400;
my $long = tool_json('inspect', 'long', 'busy', @at, '--limit', 300, '--window', '1h');
cmp_ok($redis->cli('STRLEN', 'rl:sliding:long:{busy}'), '>', 101, 'a compact log with a ring');
is("$long->{entries} $long->{used}", '400 400', '  is read whole');
ok($long->{retry_ms} > $long->{oldest_ms} + 3_600_000 - $long->{now_ms} && $long->{retry_ms} < 3_600_000, '  and in order');

my $none = tool('inspect', 'api', 'nobody', @at);
is("$none->{status} $none->{out}", "1 no log at rl:sliding:api:{nobody}: no request in its window\n", 'no log: status 1');
$redis->cli('SADD', 'rl:sliding:api:{a_set}', 'x');
$redis->cli('SET', 'rl:sliding:api:{a_text}', 'x' x 200);
is(tool('inspect', 'api', $_, @at)->{status}, 3, "$_ is told from a log") for 'a_set', 'a_text';

# ---- keys that clients made

my @hostile = ("\e[2J\e]0;x\a", "a b\tc", "caf\xc3\xa9\x9b", '}{', '*', 'x' x 5000, "sha1-x\\");
for my $value (@hostile) {
    asked('/log', $value);
    my $log = tool_json('inspect', 'api', $value, @at);
    is("$log->{key} $log->{entries}", 'rl:sliding:api:{sha1-' . sha1_hex($value) . '} 1', 'found by the hash of ' . length($value) . ' bytes');
}
# nobody but another program would make these, yet they must not reach a terminal
$redis->cli('ZADD', "rl:sliding:api:{\e[31m\xff\n}", time * 1000, 'one');
my $top = tool('top', @at, '--count', 100);
like($top->{out}, qr/^rl:sliding:api:\{\\x1b\[31m\\xff\\x0a\} /m, 'bytes are escaped');
unlike($top->{out}, qr/[^\x20-\x7e\n]/, '  all of them');
my $json = tool('top', @at, '--count', 100, '--json');
unlike($json->{out}, qr/[^\x20-\x7e\n]/, '  in JSON too');
my ($odd) = grep { defined $_->{key_hex} } @{ JSON::PP::decode_json($json->{out})->{logs} };
is($odd->{key_hex}, unpack('H*', "rl:sliding:api:{\e[31m\xff\n}"), '  which has the bytes that are no UTF-8');
my $full = tool_json('inspect', "rl:sliding:api:{\e[31m\xff\n}", @at);
is($full->{entries}, 1, '  such a key is inspected whole');

# ---- top

my $largest = tool_json('top', @at, '--by', 'entries', '--count', 3);
is(join(' ', map { "$_->{key}=$_->{entries}" } @{ $largest->{logs} }[0]), 'rl:sliding:long:{busy}=400', 'top: the largest log first');
is(scalar @{ $largest->{logs} }, 3, '  as many as asked');
ok($largest->{complete}, '  of all');
my @bytes = map { $_->{bytes} } @{ tool_json('top', @at)->{logs} };
is("@bytes", join(' ', sort { $b <=> $a } @bytes), '  by memory');
is(join(' ', map { $_->{key} } @{ tool_json('top', 'small', @at)->{logs} }), 'rl:sliding:small:{acct_42}', '  of one limit');
is(scalar @{ tool_json('top', @at, '--prefix', 'other:')->{logs} }, 0, '  under another prefix: none');
$redis->cli('EVAL', 'for i = 1, 20000 do redis.call("SET", "unrelated" .. i, "x") end', 0);
my $hasty = tool('top', @at, '--for', '1ms', '--pause', '5ms');
is($hasty->{status}, 1, '  a scan that is cut short: status 1');
like($hasty->{err}, qr/not all keys were seen/, '  and says so');
is($redis->calls('keys'), 0, '  no KEYS');

# ---- reset

my $reset = tool('reset', 'api', 'acct_42', @at);
is($reset->{status}, 0, 'reset');
like($reset->{out}, qr/^removed rl:sliding:api:\{acct_42\}\n.*may go on from memory/, '  says that nodes may deny from memory');
is($redis->cli('EXISTS', 'rl:sliding:api:{acct_42}'), 0, '  the log is gone');
is(tool('reset', 'api', 'acct_42', @at)->{status}, 1, '  once');
my $refused = tool('reset', 'unrelated1', @at);
is($refused->{status}, 3, 'a key that is no log of the module is refused');
is($redis->cli('EXISTS', 'unrelated1'), 1, '  and stays');

$bed->done;
