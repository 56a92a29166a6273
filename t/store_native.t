# nginx finds the native module when it connects, and uses it unless `native off` is set. If the module is unloaded or not
# permitted, nginx uses the scripts; with `native required` it does not. The module changes keys as the scripts do, also
# on a replica and in an AOF of a server without it.

use strict;
use warnings;
use Test::More;
use Testbed qw(wait_until);
use Testbed::Acl qw(documented_rule);
use Testbed::Algorithm qw(@ALL_ALGORITHMS %SCRIPTS);
use Testbed::Http qw(many field);
use Testbed::Native qw(native_module unload);
use Testbed::NativeStore qw(asked is_native location);
use Testbed::Script;

delete $ENV{TEST_NATIVE};
my $bed     = Testbed->new;
my $redis   = $bed->redis(args => ['--loadmodule', native_module(), '--enable-module-command', 'yes', '--appendonly', 'yes', '--appendfsync', 'always']);
my $replica = $bed->redis(args => ['--replicaof', '127.0.0.1', $redis->port]);
wait_until('the replica to follow', 20, sub { $replica->info('master_link_status') eq 'up' });
my $store = Testbed::NativeStore->new($bed, $redis, (map { location($_, 3, $_, ''), location("over/$_", 3, $_, 'override=on') } @ALL_ALGORITHMS), location('many', 1000, 'log', ''));

# ---- found

my $auto = $store->nginx('');
asked($auto, "/$_?k=first") for @ALL_ALGORITHMS;
is($store->calls_of(sub {
    for my $algorithm (@ALL_ALGORITHMS) {
        is(join(', ', map { asked($auto, "/$algorithm?k=a") } 1 .. 4), '200 redis, 200 redis, 200 redis, 429 redis', "$algorithm: three of four are admitted") if $algorithm ne 'sampled';
        asked($auto, "/$algorithm?k=a") if $algorithm eq 'sampled';
    }
}), '0 evalsha, ' . (4 * (@ALL_ALGORITHMS - 1) + 1) . ' sliding_log.2', 'every call is one of the native module');
is(is_native($auto), 1, 'the metrics say so');

my $off = $store->nginx('native off;');
asked($off, '/log?k=b');
is($store->calls_of(sub { is(asked($off, '/log?k=a'), '429 redis', 'native off: the log is the same') }), '1 evalsha, 0 sliding_log.2', 'native off: a script decides');
is(is_native($off), 0, 'native off: the metrics say so');

# ---- a replica and an AOF without it

wait_until('the replica to have all keys', 10, sub { $replica->cli('DBSIZE') == $redis->cli('DBSIZE') });
my @keys = sort split /\n/, $redis->cli('KEYS', '*');
cmp_ok(scalar @keys, '>=', 2 * @ALL_ALGORITHMS - 2, 'there are logs of all algorithms');
for my $key (@keys) {
    wait_until("$key on the replica", 10, sub { $replica->cli('PEXPIRETIME', $key) == $redis->cli('PEXPIRETIME', $key) });
    my $read = { zset => 'DUMP', string => 'GET', hash => 'HGETALL' }->{ $redis->cli('TYPE', $key) };
    is($replica->cli($read, $key), $redis->cli($read, $key), "$key is the same on a replica without the module");
}
my $aof = join '', map { Testbed::Process::slurp($_) } glob "$redis->{dir}/appendonlydir/*.aof";
unlike($aof, qr/sliding_log[.]2/, 'the AOF has plain commands only');
like($aof, qr/ZADD/, 'the AOF has those');

# ---- overrides

$store->deny("over_$_", 'denied') for @ALL_ALGORITHMS;
$redis->cli('RPUSH', 'rl:sliding:over_log:{broken}:override', 'x');
is($store->calls_of(sub {
    is(asked($auto, "/over/$_?k=denied"), '429 override', "$_: the native module obeys a record") for @ALL_ALGORITHMS;
    is(asked($auto, '/over/log?k=broken'), '200 redis', 'a record that is broken counts as none');
}), '0 evalsha, ' . (@ALL_ALGORITHMS + 1) . ' sliding_log.2', 'every call is one of the native module');
is($auto->logged(qr/key "broken": its override is broken, and counts as none/), 1, 'a broken record is told');

$redis->cli('ACL', 'SETUSER', 'decider', split(' ', documented_rule('decider', 'secret')), '+sliding_log.2');
my $decider = $store->nginx('username decider; password secret;');
$store->deny('over_log', $_) for qw(permitted forbidden);
$store->deny('over_compact', 'hidden');
asked($decider, '/over/log?k=first');
is($store->calls_of(sub { is(asked($decider, '/over/log?k=permitted'), '429 override', 'with the documented rule records are obeyed') }), '0 evalsha, 1 sliding_log.2', 'by the native module');
$redis->cli('ACL', 'SETUSER', 'decider', '-get');
is($store->calls_of(sub { is(asked($decider, '/over/log?k=forbidden'), '200 redis', 'a user who may not run GET: the record counts as none') }), '0 evalsha, 1 sliding_log.2', 'by the native module, too');
$redis->cli('ACL', 'SETUSER', 'decider', '+get', 'resetkeys', '~rl:sliding:*}');
is(asked($decider, '/over/compact?k=hidden'), '200 redis', 'a user who may not read records: it counts as none');
is($decider->logged(qr/key "$_": its override may not be read/), 1, "it is told: $_") for qw(forbidden hidden);
is($redis->cli('ACL', 'LOG') =~ /^rl:sliding:over_compact:\{hidden\}:override$/m, 1, 'and ACL LOG has its key');
$decider->finish;
$redis->cli('ACL', 'DELUSER', 'decider');

# ---- unloaded and loaded under load

my ($admitted, @others) = (0);
{
    my $loads = fork // die $!;
    if (!$loads) {
        for (1 .. 10) {
            unload($redis);
            select undef, undef, undef, 0.02;
            $redis->cli('MODULE', 'LOAD', native_module());
            select undef, undef, undef, 0.02;
        }
        POSIX::_exit(0);
    }
    my @answers = many([map { [$auto->port, '/many?k=unload'] } 1 .. 1500], at_once => 30);
    waitpid $loads, 0;
    $admitted = grep { $_->{status} == 200 } @answers;
    @others   = grep { (field($_, 'X-How') // '') !~ /^(?:redis|cache)/ } @answers;
}
is($admitted, 1000, 'the module is unloaded under load: no request is lost, none is counted twice');
is(scalar @others, 0, 'the module is unloaded under load: Redis decides all');
wait_until('scripts to be used', 10, sub { asked($auto, '/log?k=c'); is_native($auto) == 0 }) if is_native($auto);
is($redis->cli('ZCARD', 'rl:sliding:many:{unload}'), 1000, 'the log has each of them once');

# ---- a connection that is idle, or goes on, when the module is unloaded: Redis 8 remembers the last command of each

{
    my $loaded = sub { $redis->cli('MODULE', 'LIST') =~ /sliding_log/ };
    $redis->cli('MODULE', 'LOAD', native_module()) if !$loaded->();
    my ($busy, $idle) = map { Testbed::Script->new($redis, $SCRIPTS{log}, native => 1) } 1 .. 2;
    my @words = ('sliding_log.2', 'log', 1, 'remembered', 'name', 100, 60_000, 66_000);
    $_->call(@words) for $busy, $idle;
    my $first = $redis->cli('MODULE', 'UNLOAD', 'sliding_log');
    like($redis->info('redis_version') =~ /^(?:[89]|\d\d)[.]/ ? $first : '', qr/^(?:ERR .*not possible.*|)$/, 'Redis 8 is asked to wait while connections have the command');
    like($busy->call(@words), qr/^error ERR unknown command 'sliding_log[.]2'/, 'the command is unknown at once');
    is($busy->call('PING'), 'PONG', 'a connection that goes on is not closed');
    ok(unload($redis), 'it is unloaded in the end');
    is($busy->call('PING'), 'PONG', 'that connection is not closed by it either');
    like(eval { $idle->call(@words) } // 'closed', qr/^(?:closed|error ERR unknown command)/, 'an idle one has no command any more');
    is($redis->cli('PING'), 'PONG', 'and Redis lives');
    $redis->cli('MODULE', 'LOAD', native_module());
}

# ---- not permitted

$redis->cli('ACL', 'SETUSER', 'limiter', split(' ', documented_rule('limiter', 'secret')));
my $weak = $store->nginx('username limiter; password secret;');
is(asked($weak, '/log?k=weak'), '200 redis', 'not permitted: a script decides');
is(is_native($weak), 0, 'not permitted: the metrics say so');
is($weak->logged(qr/\[error\].*native module answered: NOPERM .*; scripts are used/), 1, 'not permitted: the error log says so once');
$redis->cli('ACL', 'SETUSER', 'limiter', '+sliding_log.2');
my $strong = $store->nginx('username limiter; password secret;');
is(asked($strong, '/log?k=strong'), '200 redis', 'permitted: decided');
ok(wait_until('the module to be found', 10, sub { is_native($strong) == 1 }), 'permitted: the native module decides');
$redis->cli('ACL', 'SETUSER', 'limiter', '-sliding_log.2');
is(asked($strong, '/log?k=strong'), '200 redis', 'not permitted any more: a script decides at once');

# ---- required

my $required = $store->nginx('native required;');
is(asked($required, '/log?k=required'), '200 redis', 'required and loaded: decided');
my $recomputes = $redis->info('redis_version') !~ /^7[.]0[.]/;
my $refused    = $redis->cli('MODULE', 'UNLOAD', 'sliding_log');
like($refused, $recomputes ? qr/^ERR .*(?:not possible|ACL users reference)/ : qr/^OK$/, 'a server that stops where a rule names an unknown command is not asked to');
is($redis->cli('PING'), 'PONG', 'it lives');
$redis->cli('ACL', 'DELUSER', 'limiter');
unload($redis);
wait_until('the server to count as down', 10, sub { asked($required, '/log?k=required2') =~ / error$/ });
ok(wait_until('the error log', 10, sub { $required->logged(qr/sliding_log[.]2 answered: ERR unknown command.*on_error deny decides/) }), 'required and missing: on_error decides, and the error log says why');
$redis->cli('MODULE', 'LOAD', native_module());
ok(wait_until('the server to be used again', 10, sub { asked($required, '/log?k=required3') eq '200 redis' }), 'required and loaded again: decided');

# ---- a cluster

{
    local $ENV{TEST_NATIVE} = 1;
    my $cluster = $bed->cluster(masters => 2);
    my ($here, $there) = $cluster->nodes;
    my $tag  = '{' . $cluster->tag_on($there) . '}';
    my @call = ('sliding_log.2', 'log', 2, "${tag}a", "${tag}b", '', 2, 1, 'name', 5, 60_000, 0, 66_000, '', '');
    like($here->cli(@call), qr/^MOVED /, 'a node of a cluster sends a call to the node that has its keys');
    like($there->cli(@call), qr/^1\n\d+\n4\n/, 'the node that has them decides');
    my @short = ('sliding_log.2', 'log 5 60000 66000', "${tag}short", 'name');
    like($here->cli(@short), qr/^MOVED /, 'a short call, too');
    like($there->cli(@short), qr/^1 \d+ 4 60000 0$/, 'the node that has its key decides it');
    $call[4] = '{' . $cluster->tag_on($here) . '}b';
    like($there->cli(@call), qr/^CROSSSLOT /, 'keys in two slots are refused');
}

$bed->done;
