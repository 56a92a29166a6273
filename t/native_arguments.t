# The native module refuses wrong arguments and does nothing then. It names its keys to clusters and ACLs. Its replies to
# short calls are one text.

use strict;
use warnings;
use Test::More;
use Testbed;
use Testbed::Native qw(native_module);

my $bed   = Testbed->new;
my $redis = $bed->redis(args => ['--loadmodule', native_module()]);

# ---- wrong arguments

my %wrong = (
    'no arguments'         => ['log', '0'],
    'an unknown algorithm' => ['nonsense', '0', '0'],
    'too many keys'        => ['log', '5', 'a', ''],
    'a negative number'    => ['log', '1', 'a', 'n', '-1', '1000', '1100'],
    'a fraction'           => ['log', '1', 'a', 'n', '1.5', '1000', '1100'],
    'an unknown option'    => ['log', '1', 'a', '', '1', '1', 'n', '1', '1000', '0', '1100', 'nonsense=1'],
    'a renewal of no log'  => ['inflight', '0', 'renew', ''],
    'a renewal of nothing' => ['inflight', '1', 'a', 'renew', '', '1100', '0'],
    'a renewal of many'    => ['inflight', '1', 'a', 'renew', '', '1100', '1001', map { "m$_" } 1 .. 1001],
    'a renewal of fewer'   => ['inflight', '2', 'a', 'b', 'renew', '', '1100', '1', 'm', '1100', '2', 'm'],
    'a renewal of a log'   => ['log', '1', 'a', 'renew', '', '1100', '1', 'm'],
    'no requests'          => ['log', '1', 'a', '', '1', '0', '1', '1000', '0', '1100', ''],
    'many requests'        => ['log', '1', 'a', '', '1', '999999999999999', 'n', '1', '1000', '0', '1100', ''],
    'words left'           => ['log', '1', 'a', '', '1', '1', 'n', '1', '1000', '0', '1100', '', 'x'],
    'a short call of an unknown algorithm' => ['nonsense 1 1000 1100', 'a'],
    'a short call without such a form'     => ['bucket 1 1000 1100', 'a'],
    'a short call without a name'          => ['log 1 1000 1100', 'a'],
    'a short call with a name'             => ['compact 1 1000 1100', 'a', 'n'],
    'a short call with a cost'             => ['log 1 1000 1100 2', 'a', 'n'],
    'a short call with two costs'          => ['compact 1 1000 1100 2 2', 'a'],
    'a short call without time to live'    => ['compact 1 1000', 'a'],
    'a short call with no time to live'    => ['inflight 1 1000 0', 'a', 'n'],
    'a short call with two spaces'         => ['compact  1 1000 1100', 'a'],
    'a short call with a space at its end' => ['compact 1 1000 1100 ', 'a'],
    'a short call with a fraction'         => ['compact 1.5 1000 1100', 'a'],
    'a short call of a long text'          => ['compact 1 1000 1100' . ' ' x 100_000, 'a'],
    'a bucket of no size'  => ['bucket', '1', 'a', '', '1', '1', 'n', '1', '1000', '0', '1100', 'cost=1'],
);
like($redis->cli('sliding_log.2', @{ $wrong{$_} }), qr/^ERR (?:sliding_log[.]2: |wrong number)/, "$_: refused") for sort keys %wrong;
is($redis->cli('EXISTS', 'a'), 0, 'what is refused has done nothing');
is($redis->cli(qw(COMMAND GETKEYS sliding_log.2 log 2 a b x y)), "a\nb", 'its keys are known to clusters and ACLs');
is($redis->cli(qw(COMMAND GETKEYS sliding_log.2 inflight 2 a b renew), '', qw(1100 1 x 1100 1 y)), "a\nb", 'those of a renewal, too');
is($redis->cli('COMMAND', 'GETKEYS', 'sliding_log.2', 'log 1 1000 1100', 'a', 'name'), 'a', 'that of a short call');
is($redis->cli('COMMAND', 'GETKEYS', 'sliding_log.2', 'compact 1 1000 1100', 'a'), 'a', 'and of one without a name');

# ---- the replies to short calls

$redis->cli('ACL', 'SETUSER', 'owner', 'on', '>secret', '~mine*', '+sliding_log.2');
my $as_owner = sub { return $redis->cli('--user', 'owner', '--pass', 'secret', '--no-auth-warning', 'sliding_log.2', @_) };
$redis->cli('DEL', 'mine', 'wrong');
$redis->cli('LPUSH', 'wrong', 1);
like($as_owner->('compact 3 3600000 3960000', 'mine'), qr/^1 \d+ 2 3600000 0$/, 'a text');
like($as_owner->('compact 3 3600000 3960000 2', 'mine'), qr/^1 \d+ 0 3\d{6} 0$/, 'with a cost');
like($as_owner->('compact 3 3600000 3960000', 'mine'), qr/^0 \d+ 0 3\d{6} 3\d{6}$/, 'denied');
like($as_owner->('compact 0 3600000 3960000', 'mine2'), qr/^0\n\d+\n0\n3600000\n-1$/, 'left to the frame: an array');
like($as_owner->('compact 3 3600000 3960000', 'other'), qr/^NOPERM /, 'not with the key of another');
like($redis->cli('sliding_log.2', 'log 3 3600000 3960000', 'wrong', 'name'), qr/^WRONGTYPE /, 'another type: an error in an array');
$redis->cli('ACL', 'DELUSER', 'owner');

$bed->done;
