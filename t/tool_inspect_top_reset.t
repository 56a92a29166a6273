# sliding-log inspect, top and reset print and remove what nginx logged, for any key that a client made.

use strict;
use warnings;
use Digest::SHA qw(sha1_hex);
use Test::More;
use Testbed qw(wait_until);
use Testbed::Http qw(get request);
use Testbed::Tool qw(tool tool_json);

my $bed   = Testbed->new;
my $redis = $bed->redis;
my $nginx = $bed->serve(redis => $redis, http => 'sliding_log_on_error deny;', server => <<'END');
    location /log     { sliding_log_limit api key=$http_x_key limit=5 window=1h; empty_gif; }
    location /compact { sliding_log_limit small key=$http_x_key limit=5 window=1h algorithm=compact; empty_gif; }
    location /long    { sliding_log_limit long key=$http_x_key limit=3000 window=1h algorithm=compact; empty_gif; }
END
my @at = ('--server', $redis->address);

sub asked { my ($path, $key) = @_; return request($nginx->port, $path, headers => { 'X-Key' => $key })->{status} }

# ---- inspect

for my $case (['/log', 'api', 'log'], ['/compact', 'small', 'compact']) {
    my ($path, $name, $algorithm) = @$case;
    my $before = time * 1000 - 1000;
    asked($path, 'acct_42') for 1 .. 3;
    my $log = tool_json('inspect', $name, 'acct_42', @at);
    is($log->{key}, "rl:sliding:$name:{acct_42}", "$algorithm: inspect makes the key as the module does");
    is("$log->{algorithm} $log->{entries} $log->{used} $log->{window_ms}", "$algorithm 3 3 3600000",
        "$algorithm: the entries are counted, the window is guessed");
    ok($log->{window_is_guessed}, "$algorithm: inspect says that the window is guessed");
    ok($log->{oldest_ms} >= $before && $log->{newest_ms} >= $log->{oldest_ms} && $log->{newest_ms} <= time * 1000 + 1000,
        "$algorithm: inspect tells the times");

    $log = tool_json('inspect', $name, 'acct_42', @at, '--limit', 5, '--window', '1h');
    is("$log->{remaining} $log->{retry_ms}", '2 0', "$algorithm: a log of three has room for two under a limit of 5");
    asked($path, 'acct_42') for 1 .. 3;
    $log = tool_json('inspect', "rl:sliding:$name:{acct_42}", @at, '--limit', 5, '--window', '1h');
    is("$log->{entries} $log->{remaining}", '5 0', "$algorithm: a full log, named by its whole key, has no room");
    is($log->{retry_ms}, $log->{oldest_ms} + 3_600_000 - $log->{now_ms}, "$algorithm: a full log has a slot when its oldest entry leaves");
    $log = tool_json('inspect', $name, 'acct_42', @at, '--limit', 3, '--window', '1h');
    cmp_ok($log->{retry_ms}, '>', $log->{oldest_ms} + 3_600_000 - $log->{now_ms}, "$algorithm: under a lower limit a younger entry must leave first");
    $log = tool_json('inspect', $name, 'acct_42', @at, '--limit', 5, '--window', '1ms');
    is("$log->{entries} $log->{used} $log->{remaining} $log->{retry_ms}", '5 0 5 0', "$algorithm: entries that left the window do not count");
    is(tool_json('inspect', $name, 'acct_42', @at, '--limit', 0)->{retry_ms}, -1, "$algorithm: a limit of 0 never has room");
    my $human = tool('inspect', $name, 'acct_42', @at, '--limit', 5, '--window', '1h');
    like($human->{out}, qr/^key +rl:sliding:$name:\{acct_42\}\nalgorithm +$algorithm\nentries +5\n.*^remaining +0 of 5\n.*^retry +in 59 m/ms,
        "$algorithm: a full log, told to people");
    is($human->{status}, 0, "$algorithm: inspect of a full log exits with 0");
}

# a compact log whose entries stand in its ring
asked('/long', 'busy') for 1 .. 400;
my $long = tool_json('inspect', 'long', 'busy', @at, '--limit', 300, '--window', '1h');
cmp_ok($redis->cli('STRLEN', 'rl:sliding:long:{busy}'), '>', 101, 'a long compact log has a ring');
is("$long->{entries} $long->{used}", '400 400', 'a compact log with a ring is read in full');
ok($long->{retry_ms} > $long->{oldest_ms} + 3_600_000 - $long->{now_ms} && $long->{retry_ms} < 3_600_000, 'a compact log with a ring is read in order');

is(tool_json('inspect', 'long', 'busy', @at, '--limit', '3k', '--window', '1h')->{remaining}, 2600, 'a limit of 3k is one of 3000');
is(tool_json('inspect', 'long', 'busy', @at, '--limit', '1M', '--window', '1h')->{remaining}, 999_600, 'a limit of 1M is one of a million');

my $none = tool('inspect', 'api', 'nobody', @at);
is("$none->{status} $none->{out}", "1 no log at rl:sliding:api:{nobody}: no request in its window\n", 'inspect of a key without a log exits with 1');
$redis->cli('SADD', 'rl:sliding:api:{a_set}', 'x');
$redis->cli('SET', 'rl:sliding:api:{a_text}', 'x' x 200);
is(tool('inspect', 'api', $_, @at)->{status}, 3, "inspect: $_ is not taken for a log") for 'a_set', 'a_text';

# ---- keys that clients made

my @hostile = ("\e[2J\e]0;x\a", "a b\tc", "caf\xc3\xa9\x9b", '}{', '*', 'x' x 5000, "sha1-x\\");
for my $value (@hostile) {
    asked('/log', $value);
    my $log = tool_json('inspect', 'api', $value, @at);
    is("$log->{key} $log->{entries}", 'rl:sliding:api:{sha1-' . sha1_hex($value) . '} 1', 'inspect finds a key by the hash of ' . length($value) . ' bytes');
}
# only other programs make such keys, but their bytes must not reach a terminal
$redis->cli('ZADD', "rl:sliding:api:{\e[31m\xff\n}", time * 1000, 'one');
my $top = tool('top', @at, '--count', 100);
like($top->{out}, qr/^rl:sliding:api:\{\\x1b\[31m\\xff\\x0a\} /m, 'top escapes bytes');
unlike($top->{out}, qr/[^\x20-\x7e\n]/, 'top writes nothing but printable ASCII');
my $json = tool('top', @at, '--count', 100, '--json');
unlike($json->{out}, qr/[^\x20-\x7e\n]/, 'top --json writes nothing but printable ASCII');
my ($odd) = grep { defined $_->{key_hex} } @{ JSON::PP::decode_json($json->{out})->{logs} };
is($odd->{key_hex}, unpack('H*', "rl:sliding:api:{\e[31m\xff\n}"), 'top --json has the bytes of a key that is no UTF-8');
my $foreign = tool('inspect', "rl:sliding:api:{\e[31m\xff\n}", @at);
is($foreign->{status}, 3, 'inspect refuses a key that nginx never makes');
like($foreign->{err}, qr/^sliding-log: "rl:sliding:api:\{\\x1b\[31m\\xff\\x0a\}" is the key of no log: nginx stores a hash of this VALUE/, 'and tells why, in ASCII');

# ---- top

my $largest = tool_json('top', @at, '--by', 'entries', '--count', 3);
is(join(' ', map { "$_->{key}=$_->{entries}" } @{ $largest->{logs} }[0]), 'rl:sliding:long:{busy}=400', 'top --by entries: the largest log comes first');
is(scalar @{ $largest->{logs} }, 3, 'top prints the requested number of logs');
ok($largest->{complete}, 'top has counted all logs');
my $all = tool_json('top', @at, '--count', 1000);
my $sum = 0;
$sum += $_->{bytes} for @{ $all->{logs} };
is($all->{bytes_seen}, $sum, 'top --json has the bytes of all logs, not of those that are shown');
is(tool_json('top', @at, '--count', 1)->{bytes_seen}, $sum, 'also if few are shown');
cmp_ok($all->{used_memory}, '>', $sum, 'and what Redis uses');
like(tool('top', @at)->{out}, qr/^of \d+ logs, which take [\d.]+ k?B of the [\d.]+ MB that Redis uses, \d+\.\d %$/m, 'top tells the share of the memory');
$redis->cli(qw(ACL SETUSER blind on >secret ~* +@all -memory|usage));
my $blind = tool({ env => { SLIDING_LOG_PASSWORD => 'secret' } }, 'top', @at, '--user', 'blind');
like($blind->{out}, qr/^of \d+ logs$/m, 'without the right to look top tells no share');
my @bytes = map { $_->{bytes} } @{ tool_json('top', @at)->{logs} };
is("@bytes", join(' ', sort { $b <=> $a } @bytes), 'top sorts by memory');
is(join(' ', map { $_->{key} } @{ tool_json('top', 'small', @at)->{logs} }), 'rl:sliding:small:{acct_42}', 'top of one limit prints its logs only');
is(scalar @{ tool_json('top', @at, '--prefix', 'other:')->{logs} }, 0, 'top under another prefix finds nothing');
is(tool('top', 'small', @at)->{status}, 0, 'top of a limit that has logs exits with 0');
for my $words (['NOSUCH'], ['NOSUCH', '--json'], ['api', '--prefix', 'other:']) {
    my $none = tool('top', @$words, @at);
    my ($name, $prefix) = ($words->[0], $words->[2] // 'rl:sliding:');
    is("$none->{status} $none->{err}", "1 sliding-log: no log of $name: no key begins with $prefix$name:\n", "top @$words: a NAME without logs is reported and exits with 1");
}
is(tool('top', @at, '--prefix', 'other:')->{status}, 0, 'top of all limits exits with 0, also without logs');
$redis->cli('EVAL', 'for i = 1, 20000 do redis.call("SET", "unrelated" .. i, "x") end', 0);
my $hasty = tool('top', @at, '--for', '1ms', '--pause', '5ms');
is($hasty->{status}, 1, 'top exits with 1 when its scan is cut short');
like($hasty->{err}, qr/not all keys were seen/, 'top reports that its scan was cut short');
is($redis->calls('keys'), 0, 'top never calls KEYS');

# ---- reset

my $reset = tool('reset', 'api', 'acct_42', @at);
is($reset->{status}, 0, 'reset exits with 0');
like($reset->{out}, qr/^removed rl:sliding:api:\{acct_42\}\n.*may deny this client from memory/, 'reset reports that nodes may have known denials');
is($redis->cli('EXISTS', 'rl:sliding:api:{acct_42}'), 0, 'reset removes the log');
is(tool('reset', 'api', 'acct_42', @at)->{status}, 1, 'reset of a log that is gone exits with 1');
my $refused = tool('reset', 'unrelated1', @at);
is($refused->{status}, 3, 'reset refuses a key that is not a log of the module');
is($redis->cli('EXISTS', 'unrelated1'), 1, 'a key that reset refused stays');

$bed->done;
