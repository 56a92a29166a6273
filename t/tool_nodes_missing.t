# sliding-log on a cluster with a missing node: top, overrides and export print what they can and what is missing, and
# exit with 3.
# doctor reports servers that are outside the cluster.

use strict;
use warnings;
use JSON::PP ();
use Test::More;
use Testbed qw(wait_until free_port);
use Testbed::Process;
use Testbed::Tool qw(tool tool_json);

my $bed = Testbed->new;
my $now = int(time * 1000);

use constant LOGS => 300;    # on each node: more than one reply of SCAN

sub decode { my ($text) = @_; return eval { JSON::PP::decode_json($text) } // {} }

# This number of keys in one slot of that node, each a log with one entry.
sub fill {
    my ($node, $tag) = @_;
    $node->cli('EVAL', 'for i = 1, ARGV[1] do redis.call("ZADD", "rl:sliding:l" .. i .. ":" .. KEYS[1], ARGV[2], "e" .. i) end', 1, "{$tag}", LOGS, $now);
    $node->cli('ZADD', "rl:sliding:audit:{$tag}", $now, "of-$tag");
    $node->cli('SET', "rl:sliding:audit:{$tag}:override", "deny until=0 since=$now by=alice why=");
    return;
}

my $cluster = $bed->cluster(masters => 3, node_timeout => 1000, args => [qw(--cluster-require-full-coverage no --cluster-allow-reads-when-down yes)]);
my @nodes   = $cluster->nodes;
my @tags    = map { $cluster->tag_on($_) } @nodes;
fill($nodes[$_], $tags[$_]) for 0 .. 2;
my @at  = ('--mode', 'cluster', map { ('--server', $_->address) } @nodes[0, 1]);
my $all = tool_json('top', @at, '--pause', '1ms');
is_deeply([@$all{qw(logs_seen missing)}, $all->{complete} ? 1 : 0], [3 * LOGS + 3, [], 1], 'all nodes are up: top has all logs, and nothing is missing');

# Both commands, while that node does not answer.
sub hurt {
    my ($what, $gone, $reason, @options) = @_;
    my $top  = tool('top', @at, '--json', '--count', 10_000, @options);
    my $seen = decode($top->{out});
    my $left = @tags - 1;
    is($top->{status}, 3, "$what: top exits with 3");
    is($seen->{logs_seen}, $left * (LOGS + 1), "$what: top has the logs of the others");
    ok(exists $seen->{complete} && !$seen->{complete}, "$what: top is not complete");
    is(join(' ', map { $_->{server} } @{ $seen->{missing} }), $gone->address, "$what: top has the node among what is missing");
    like($seen->{missing}[0]{text} // '', $reason, "$what: top has the reason");
    my $where = $gone->address;
    like($top->{err}, qr/^sliding-log: missing: \Q$where\E: $reason/m, "$what: top tells on standard error");
    my $human = tool('top', @at, '--count', 3, @options);
    is(scalar(split /\n/, $human->{out}), 5, "$what: top has a table");
    is($human->{status}, 3, "$what: top with a table exits with 3");
    my $overrides = tool('overrides', @at, '--json', @options);
    my $listed    = decode($overrides->{out});
    is($overrides->{status}, 3, "$what: overrides exits with 3");
    is(scalar @{ $listed->{overrides} // [] }, $left, "$what: overrides has the records of the others");
    is_deeply([$listed->{missing}, $listed->{complete} ? 1 : 0], [$seen->{missing}, 0], "$what: overrides has what is missing, too");
    my $export = tool('export', 'audit', @at, @options);
    is($export->{status}, 3, "$what: export exits with 3");
    is(join(' ', sort map { $_->{id} // '?' } map { decode($_) } split /\n/, $export->{out}),
        join(' ', sort map { "of-$tags[$_]" } grep { $nodes[$_] != $gone } 0 .. $#nodes), "$what: export has the entries of the others");
    like($export->{err}, qr/^sliding-log: missing: \Q$where\E: $reason/m, "$what: export tells on standard error");
    return;
}

$nodes[2]->pause;
hurt('a node hangs', $nodes[2], qr/no reply within 200 ms/, '--timeout', '200ms');
$nodes[2]->resume;
ok($cluster->wait_agreed, 'the node is back');

# Runs the tool. Another process kills the node after this number of SCAN replies.
sub while_it_dies {
    my ($node, @words) = @_;
    $node->cli('CONFIG', 'RESETSTAT');
    my $killer = bless { log => '/dev/null' }, 'Testbed::Process';
    push @{ $bed->{processes} }, $killer;
    $killer->spawn_code(sub { wait_until('SCAN', 10, sub { $node->calls('scan') > 3 }); $node->signal('KILL') });
    my $ran = tool(@words);
    $killer->wait_end(10);
    wait_until('its end', 10, sub { !$node->is_running });
    return $ran;
}
$nodes[2]->cli('EVAL', 'for i = 1, 20000 do redis.call("SET", "unrelated" .. i .. KEYS[1], "x") end', 1, "{$tags[2]}");
my $dying = while_it_dies($nodes[2], 'top', @at, '--json', '--pause', '20ms');
is($dying->{status}, 3, 'a node dies meanwhile: top exits with 3');
cmp_ok(decode($dying->{out})->{logs_seen} // 0, '>=', 2 * (LOGS + 1), 'a node dies meanwhile: top has the logs found before');
is(join(' ', map { $_->{server} } @{ decode($dying->{out})->{missing} }), $nodes[2]->address, 'a node dies meanwhile: top names it');
hurt('a node is dead', $nodes[2], qr/Connection refused/);

my $single = $bed->redis;
fill($single, 'x');
$single->cli('EVAL', 'for i = 1, 20000 do redis.call("SET", "unrelated" .. i, "x") end', 0);
my $alone = while_it_dies($single, 'top', '--server', $single->address, '--json', '--pause', '20ms');
is($alone->{status}, 3, 'the only server dies meanwhile: top exits with 3');
is(join(' ', map { $_->{server} } @{ decode($alone->{out})->{missing} }), $single->address, 'the only server dies meanwhile: top prints complete JSON');
my $csv = tool('export', 'audit', '--server', $single->address);
is("$csv->{status} $csv->{err}", '3 sliding-log: ' . $single->address . ": Connection refused\n", 'the only server is dead: export exits with 3');

# slots without a node
my $slot = $cluster->slot_of($tags[0]);
$_->cli('CLUSTER', 'DELSLOTS', $slot) for @nodes[0, 1];
my $holes = tool_json('top', @at, '--timeout', '1s');
ok(scalar(grep { !$_->{server} && $_->{text} eq 'no master serves 1 of 16,384 slots' } @{ $holes->{missing} }), 'slots without a master are missing')
    or diag(explain($holes->{missing}));

# ---- doctor: servers outside the cluster

my $whole = $bed->cluster(masters => 2, replicas => 1, args => [qw(--maxmemory 100mb)]);
my ($first, $second, $replica, $other) = $whole->nodes;
my $joined = $whole->start_node;
$whole->meet($joined);
$whole->wait_agreed;

# The result of doctor for the configuration of that server: "status exit: text".
sub verdict {
    my ($server, @known) = @_;
    my $ran = tool('doctor', '--json', '--mode', 'cluster', '--timeout', '1s', map { ('--server', $_->address) } @known, $server);
    my ($check) = grep { $_->{server} eq $server->address && $_->{check} =~ /^(?:cluster|answers)$/ } @{ decode($ran->{out})->{checks} // [] };
    return ($check ? "$check->{status}: $check->{text}" : "nothing: $ran->{out}$ran->{err}", $ran->{status});
}
is((verdict($replica, $first))[0], 'ok: the server knows the cluster', 'doctor: a replica belongs to the cluster');
$replica->cli(qw(ACL SETUSER default -cluster|nodes));
is((verdict($replica, $first))[0], 'ok: the server knows the cluster', 'doctor: CLUSTER NODES is skipped without the right to it');
$replica->cli(qw(ACL SETUSER default +@all));
is((verdict($joined, $first))[0],   'ok: the server knows the cluster', 'doctor: a node without slots belongs to the cluster');

sub outside {
    my ($what, $expected, $server) = @_;
    for my $known ([$first], []) {
        my ($said, $status) = verdict($server, @$known);
        my $among = @$known ? 'among others' : 'alone';
        like($said, qr/^critical: $expected/, "doctor: $what, $among: critical");
        is($status, 2, "doctor: $what, $among: exits with 2");
    }
    return;
}
my $nothing = qr/the server is not in the cluster: it knows no node that serves a slot$/;
outside('a node that never joined', $nothing, $whole->start_node);
outside('a Redis of its own', qr/CLUSTER SLOTS answered: ERR This instance has cluster support disabled$/, $bed->redis);
my $id = $whole->id($joined);
like(`redis-cli --cluster del-node 127.0.0.1:@{[$first->port]} $id 2>&1`, qr/CLUSTER RESET|SHUTDOWN/, 'redis-cli takes a node out of the cluster');
outside('a node that was taken out', $nothing, $joined);

# a node that the others forgot behaves as before
$id = $whole->id($other);
$_->cli('CLUSTER', 'FORGET', $id) for $first, $second, $replica;
my ($said, $status) = verdict($other, $first);
is($said, 'critical: the server is not in the cluster: no master knows it', 'doctor: a node that the others forgot: critical');
is($status, 2, 'doctor: a node that the others forgot: exits with 2');

my $away = $bed->redis;
$away->kill;
like((verdict($away, $first))[0], qr/^warning: \S+: Connection refused$/, 'doctor: a server of the configuration that does not answer: warning');
my $nobody = tool('doctor', '--mode', 'cluster', '--server', $away->address);
is($nobody->{status}, 3, 'doctor: no server replies: exits with 3');

$bed->done;
