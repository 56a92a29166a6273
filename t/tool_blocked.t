# sliding-log blocked lists who is blocked, and unblock ends a block on all nodes within a second: in each algorithm, with
# secrets and strange keys, and in a cluster.
# prove: first

use strict;
use warnings;
use JSON::PP ();
use Test::More;
use Testbed qw(conf wait_until);
use Testbed::Algorithm qw(@ALGORITHMS takes);
use Testbed::Http qw(get field);
use Testbed::Script;
use Testbed::Tool qw(tool tool_json);
use Time::HiRes qw(sleep time);

my $bed   = Testbed->new;
my $redis = $bed->redis;
my @at    = ('--server', $redis->address);
my $conf  = conf(
    store  => '%%WHERE%%; timeout 5s; connect_timeout 5s;',
    http   => 'sliding_log_on_error deny;',
    server => join("\n", map {
        my $own = takes($_, 'sample') ? 'sample=1' : '';
        "location /$_ { sliding_log_limit $_ key=\$arg_k limit=2 window=400ms block=30m,1h,2h algorithm=$_ $own; empty_gif; }"
    } @ALGORITHMS) . <<'END',
    location /far    { sliding_log_limit far key=$arg_k limit=2 window=10m block=30m,1h,2h; empty_gif; }
    location /one    { sliding_log_limit one key=$arg_k limit=1 window=1h block=30m; empty_gif; }
    location /none   { sliding_log_limit none key=$arg_k limit=1 window=1h; empty_gif; }
    location /secret { sliding_log_limit secret key=$arg_k limit=1 window=1h block=30m,1h secret=on; empty_gif; }
END
);
my @nodes = map { $bed->nginx($conf, WHERE => 'server ' . $redis->address) } 1 .. 2;

sub statuses { my ($path, $times, $node) = @_; return join ' ', map { get($nodes[$node // 0]->port, $path)->{status} } 1 .. $times }
sub blocked { return { map { ($_->{key} => $_) } @{ tool_json('blocked', @_, @at)->{blocked} } } }

is_deeply(blocked(), {}, 'nobody is blocked');
like(tool('blocked', @at)->{out}, qr/^key +until +ends in +lasts +step\n0 keys are blocked, of 0 logs\n\z/, 'and people read so');

# ---- each algorithm

for my $algorithm (@ALGORITHMS) {
    my ($path, $key, @of) = ("/$algorithm?k=acct_42", "rl:sliding:$algorithm:{acct_42}", ($algorithm, 'acct_42'));
    is(statuses($path, 3), '200 200 429', "$algorithm: the third request begins a block");
    my $before = blocked($algorithm);
    is(join(' ', keys %$before), $key, "$algorithm: blocked lists the key");
    my $it = $before->{$key};
    is("$it->{step} $it->{length_ms}", '1 1800000', "$algorithm: with the step, and how long it lasts");
    cmp_ok(abs($it->{until_ms} - 1000 * time - 1_800_000), '<', 30_000, "$algorithm: and until when");
    cmp_ok(abs($it->{until_ms} - 1000 * time - $it->{blocked_ms}), '<', 10_000, "$algorithm: and for how long");
    is(blocked()->{$key}{until_ms}, $it->{until_ms}, "$algorithm: so without a NAME");
    my $inspected = tool_json('inspect', @of, @at);
    is($inspected->{block_step}, 1, "$algorithm: inspect has the step");
    is($inspected->{block_remembered_until_ms}, $it->{until_ms} + 1_800_000, "$algorithm: and until when it is remembered");
    like(tool('inspect', @of, @at)->{out}, qr/^step +1, of the last block, for 30 m; a block that begins until 20\S+Z has the next one$/m, "$algorithm: people read that")
        or diag(tool('inspect', @of, @at)->{out});
    like(tool('blocked', $algorithm, @at)->{out}, qr/^\Q$key\E +20\S+Z +29 m \d+ s +30 m +1\n1 key is blocked, of 1 log\n\z/m, "$algorithm: and who is blocked");

    sleep 0.85;    # the log has room: two windows are over
    is(statuses($path, 1, 1), '429', "$algorithm: the block holds on the other node");
    my $done = tool('unblock', @of, @at);
    is($done->{status}, 0, "$algorithm: unblock") or diag($done->{err});
    like($done->{out}, qr/^unblocked \Q$key\E, which was blocked until 20\S+Z\n/, "$algorithm: it tells what it did");
    for my $node (0, 1) {
        ok(wait_until('the known denial to end', 1.1, sub { statuses($path, 1, $node) eq '200' }), "$algorithm: node $node admits the client within a second");
    }
    is($redis->cli('EXISTS', "$key:blocks"), 0, "$algorithm: the last block is forgotten");
    my $again = tool('unblock', @of, @at);
    is("$again->{status} $again->{out}", "1 $key is not blocked\n", "$algorithm: nothing is left to end");
    is(statuses("/$algorithm?k=b", 3), '200 200 429', "$algorithm: another client is blocked");
    is_deeply([@{ tool_json('unblock', $algorithm, 'b', @at) }{qw(unblocked forgotten)}], [JSON::PP::true(), JSON::PP::true()], "$algorithm: unblock as JSON");
}

# ---- a block with one time, no block, and what is remembered without a log

is(statuses('/one?k=a', 2), '200 429', 'a block with one time');
is(blocked('one')->{'rl:sliding:one:{a}'}{step}, undef, 'has no step');
is(tool('unblock', 'one', 'a', @at)->{status}, 0, 'and ends');
like(tool('unblock', 'rl:sliding:none:{a}', @at)->{out}, qr/ is not blocked$/, 'a whole key');
is(statuses('/none?k=a', 2), '200 429', 'a limit without block=');
is_deeply(blocked('none'), {}, 'blocks nobody');
is(statuses('/log?k=c', 3), '200 200 429', 'a client is blocked');
$redis->cli('DEL', 'rl:sliding:log:{c}');
my $left = tool('inspect', 'log', 'c', @at);
like("$left->{status} $left->{out}", qr/^1 no log at .*\nstep 1, of the last block/, 'inspect has what is remembered without a log');
is(tool_json('inspect', 'log', 'c', @at)->{block_step}, 1, 'also as JSON');
is(tool('unblock', 'log', 'c', @at)->{out}, "rl:sliding:log:{c} is not blocked; its last block was forgotten\n", 'unblock forgets it');
is(statuses('/log?k=d', 3), '200 200 429', 'a client is blocked');
is(tool('reset', 'log', 'd', @at)->{status}, 0, 'reset');
is($redis->cli('EXISTS', 'rl:sliding:log:{d}', 'rl:sliding:log:{d}:blocks'), 0, 'removes the log and what is remembered');

# ---- a long log of algorithm=compact

is(tool('unblock', 'compact', 'nobody', @at)->{status}, 1, 'no log');
my $script = Testbed::Script->new($redis, 'compact_log');
for my $cost (1, 40) {    # larger costs are stored as runs
    my $key  = "rl:sliding:long:{a$cost}";
    my @long = ({ key => $key, limit => 5000, window => 3_600_000, ttl => 4_000_000, options => "cost=$cost block=60000,90000" });
    $script->call($script->words('', [5000 / $cost + 1, @long]));
    is(blocked('long')->{$key}{length_ms}, 60_000, "a long log of costs of $cost is blocked");
    is(tool('unblock', 'long', "a$cost", @at)->{status}, 0, 'and is not any more');
    is(tool_json('inspect', 'long', "a$cost", @at, '--limit', 6000, '--window', '1h')->{used}, 5000, 'its entries stay');
    $long[0]{limit} = 6000;
    is($script->call($script->words('', [1, @long]))->[0][0], 1, 'and it goes on');
}

# ---- secrets

is(statuses('/secret?k=hunter2', 2), '200 429', 'a secret is blocked');
my $secrets = tool('blocked', 'secret', '--secret', @at);
like($secrets->{out}, qr/^rl:sliding:secret:\{sha1-[0-9a-f]{8}\} /m, 'its first digits are listed');
unlike($secrets->{out}, qr/hunter2|[0-9a-f]{9}/, 'and no more');
is(tool({ in => "hunter2\n" }, 'unblock', 'secret', '-', '--secret', @at)->{status}, 0, 'it is unblocked by a value from standard input');

# ---- wrong words

for my $row (
    [['blocked', 'a', 'b'],  qr/expected at most one NAME/],
    [['blocked', 'a{b'],     qr/"a\{b" is not the NAME of a limit/],
    [['unblock'],            qr/expected a full key, or a limit's NAME and the value of its key/],
    [['unblock', 'api'],     qr/"api" does not begin with "rl:sliding:"/],
) {
    my ($words, $message) = @$row;
    my $wrong = tool(@$words);
    like("$wrong->{status} $wrong->{err}", qr/^3 sliding-log: $message/, "sliding-log @$words");
}

# ---- a cluster

my $cluster = $bed->cluster(masters => 2);
my @masters = $cluster->nodes;
my $node    = $bed->nginx($conf, WHERE => 'mode cluster; server ' . $masters[0]->address);
my @cluster = ('--mode', 'cluster', '--server', $masters[0]->address);
my @tags    = map { $cluster->tag_on($_) } @masters;
for my $tag (@tags) {
    get($node->port, "/$_?k=$tag") for map { ($_) x 3 } @ALGORITHMS;
}
is(join(' ', sort map { "$_->{key} $_->{step}" } @{ tool_json('blocked', @cluster)->{blocked} }),
    join(' ', sort map { my $tag = $_; map { "rl:sliding:$_:{$tag} 1" } @ALGORITHMS } @tags), 'blocked lists the keys of all masters');
is(tool('unblock', 'compact', $_, @cluster)->{status}, 0, 'unblock asks the right one') for @tags;
is(scalar @{ tool_json('blocked', 'compact', @cluster)->{blocked} }, 0, 'which ends the blocks');

# While a hash slot is migrated, a block that begins lasts the next time where the log and what is remembered are on one
# node. Elsewhere it lasts the first time, and no key is made twice: MIGRATE refuses that.
for my $case (['new', 1], ['neither', 2], ['the log', 1], ['what is remembered', 1], ['both', 2]) {
    my ($moved, $step) = @$case;
    my ($from, $to) = @masters;
    my $tag  = $cluster->tag_on($from);
    my @keys = map { "rl:sliding:far:{$tag}$_" } '', ':blocks';
    my $ask  = sub { return field(get($node->port, "/far?k=$tag"), 'Retry-After') // 0 };
    $ask->() for 1 .. ($moved eq 'new' ? 2 : 3);
    $from->cli('ZREMRANGEBYSCORE', $keys[0], '-inf', '(0');    # the block is over, the log is full
    my $slot = $cluster->slot_of($tag);
    $cluster->begin_move($slot, $from, $to);
    my @on_their_way = $moved eq 'the log' ? $keys[0] : $moved eq 'what is remembered' ? $keys[1] : $moved eq 'both' ? @keys : ();
    is($cluster->move_keys($slot, $_), 'OK', "$moved moved: $_") for @on_their_way;
    sleep 1;    # the known denial ends
    my $last;
    ok(wait_until('the block', 3, sub { $last = $ask->(); return abs($last - 1800 * $step) < 60 }), "$moved moved: the block has step $step") or diag("Retry-After $last");
    for my $key (@keys) {
        like($cluster->move_keys($slot, $key), qr/^(?:OK|NOKEY)$/, "$moved moved: $key is on one node at most");
    }
    $cluster->end_move($slot);
    is($to->cli('EXISTS', $keys[1]), $moved eq 'new' ? 0 : 1, "$moved moved: what is remembered is kept");
}

$bed->done;
