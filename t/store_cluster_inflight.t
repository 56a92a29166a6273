# Requests under way in a cluster (algorithm=inflight), while hash slots move between the nodes, single keys first, and
# while masters change. Random requests, of one limit or two, in one slot or two, over HTTP/1.1 and HTTP/2, begin, last
# longer than several leases, and end. Each log has an entry for each request that is under way, never older than a lease,
# and no other.

use strict;
use warnings;
use List::Util qw(sum0);
use Test::More;
use Testbed qw(seed slow wait_until);
use Testbed::Http qw(get);
use Testbed::UnderWay;
use Time::HiRes qw(time);

use constant { LIMIT => 5, LEASE => 3 };

seed();

my $bed      = Testbed->new;
my $cluster  = $bed->cluster(masters => 2, replicas => 1);
my @masters  = ($cluster->nodes)[0, 1];
my %replica  = map { $masters[$_] => ($cluster->nodes)[2 + $_] } 0, 1;
my $upstream = Testbed::UnderWay->new;

# Entries of the short lease have to be renewed. Those of the long one leave only if they are given back.
my %lease = (short => LEASE . 's', long => '1h');

# [NAME, argument with the key] of each limit of a location
my %locations = (
    short    => [['short', 'k']],
    long     => [['long', 'k']],
    together => [['short', 'k'], ['long', 'k']],
    apart    => [['short', 'k'], ['long', 'l']],
);

sub limit_of { my ($name, $argument) = @_; return "sliding_log_limit $name key=\$arg_$argument limit=" . LIMIT . " algorithm=inflight lease=$lease{$name} cost=\$arg_cost;" }
my $conf = join "\n", map {
    my @limits = map { limit_of(@$_) } @{ $locations{$_} };
    "location /$_ { @limits proxy_pass http://127.0.0.1:%%UPSTREAM%%; }"
} sort keys %locations;

my $nginx = $bed->serve(
    UPSTREAM => $upstream->port, SEEDS => join(' ', map { $_->address } @masters),
    workers  => 2,
    store    => 'server %%SEEDS%%; mode cluster; timeout 2s; connect_timeout 2s; reconnect 20ms 100ms;',
    http     => 'sliding_log_on_error deny;',
    server   => "listen 127.0.0.1:%%PORT2%% http2;\n$conf\nlocation /known { sliding_log_limit known key=\$arg_k limit=100000 window=1s; empty_gif; }",
);

# ---- the model

my (@under_way, $wrong, %seen);
my @tags = map { my $node = $_; map { $cluster->tag_on($node) } 1 .. 2 } @masters;
my %slot = map { $_ => $cluster->slot_of($_) } @tags;
my %home = map { my $slot = $_; $slot => $cluster->owner_of($slot) } values %slot;

sub any { return $_[int rand @_] }
sub logs_of { my ($path, %key) = @_; return map { "$_->[0] $key{$_->[1]}" } @{ $locations{$path} } }
sub used { my ($log) = @_; return sum0 map { my $one = $_; map { $one->{cost} } grep { $_ eq $log } @{ $one->{logs} } } @under_way }

# The entries of the log, from the node that has it: those of this lease, and older ones, which do not count.
sub entries {
    my ($log) = @_;
    my ($name, $tag) = split / /, $log;
    my %times = $cluster->entries($name, $tag);
    my $oldest = $name eq 'short' ? time - LEASE : 0;
    my $valid  = grep { $_ / 1000 >= $oldest } values %times;
    return ($valid, keys(%times) - $valid);
}

# No request that is under way is missing at any time; entries of requests that have ended leave at once.
sub agrees {
    my ($what, @logs) = @_;
    for my $log ($wrong ? () : @logs) {
        my $used = used($log);
        my ($valid, $old) = entries($log);
        return $wrong = "$what: $log has $valid entries, and $old older than a lease, of $used" if $valid < $used || $old;
        wait_until("$what: $log", 3, sub { ($valid, $old) = entries($log); $valid == $used }) or return $wrong = "$what: $log has $valid entries of $used";
    }
    return;
}

sub all_logs { return map { my $tag = $_; map { "$_ $tag" } sort keys %lease } @tags }

sub begin_one {
    my ($path, %options) = @_;
    my %key   = (k => $options{k} // any(@tags), l => any(@tags));
    my $cost  = any(1, 1, 2);
    my @logs  = logs_of($path, %key);
    my $fits  = !grep { used($_) + $cost > LIMIT } @logs;
    my $http2 = rand() < 0.3;
    my $what  = "/$path k=$key{k} l=$key{l} cost=$cost";
    my $one   = $upstream->begin($nginx->port($http2 ? 'PORT2' : 'PORT'), "/$path?k=$key{k}&l=$key{l}&cost=$cost", http2 => $http2, denied => !$fits);
    my $is    = $one->{denied} ? $one->{denied}{status} : 200;
    $seen{ $fits ? 'admitted' : 'denied' }++;
    return $wrong = "$what: $is, with " . join ', ', map { "$_ " . used($_) } @logs if $is != ($fits ? 200 : 429);
    push @under_way, { %$one, logs => \@logs, cost => $cost, what => $what, since => time, moves => $seen{moves} // 0 } if $fits;
    return agrees($what, @logs);
}

sub end_one {
    my ($which) = @_;
    my $one    = splice @under_way, $which // int rand @under_way, 1;
    my $moves  = grep { /(\S+)$/ && $cluster->is_moving($slot{$1}) } @{ $one->{logs} };
    if ($one->{http2} ? rand() < 0.5 : rand() < 0.2) {
        Testbed::UnderWay::leave($one);
        $seen{ $one->{http2} ? 'reset streams' : 'left by the client' }++;
    } else {
        my $answer = Testbed::UnderWay::end($one);
        return $wrong = "$one->{what}: answered with $answer->{status}" if $answer->{status} != 200;
    }
    agrees("$one->{what}, ended", @{ $one->{logs} });
    $seen{'moved under way'}++ if ($seen{moves} // 0) > $one->{moves};
    $seen{'moving at the end'}++ if $moves;
    $seen{'longer than two leases'}++ if time - $one->{since} > 2 * LEASE;
    return;
}

# A step of a move: its beginning, some of the keys, or the rest and its end.
sub move_on {
    my $slot = any(sort keys %home);
    end_move($slot) if $cluster->move_on($slot, $home{$slot}, grep { $_ != $home{$slot} } @masters) && rand() < 0.3;
    return;
}

sub end_move {
    my ($slot) = @_;
    $home{$slot} = $cluster->finish_move($slot);
    $seen{moves}++;
    return;
}

# A server that dies takes its count along.
sub occurred { my ($error) = @_; return $seen{$error} ||= $cluster->errors($error) }

# Random steps for this number of seconds, and until these and redirects have occurred. The first four stay under way until the end.
sub play {
    my ($seconds, @kinds) = @_;
    my $begin = time;
    until ($wrong || time > $begin + $seconds && !grep({ !$seen{$_} } @kinds) && !grep({ !occurred($_) } qw(MOVED ASK)) || time > $begin + 10 * slow()) {
        my $ending = @under_way - 4;
        rand() < 0.2 ? move_on() : rand() < 0.3 ? agrees('a look', any(all_logs())) : $ending > 0 && rand() < $ending / 12 ? end_one(4 + int rand $ending) : begin_one(any(sort keys %locations));
        $seen{operations}++;
    }
    return;
}

# A node that has not heard of a new master sends requests, and workers that ask it for the map, to the former one.
sub all_have_heard_of {
    my ($master) = @_;
    return wait_until('all nodes to know the master', 20, sub { !grep { $home{$_} == $master && !$cluster->have_heard_of($master, $_) } keys %home });
}

# ---- hash slots move

begin_one('together', k => $tags[$_]) for 0 .. 3;    # they last until the end
is(scalar @under_way, 4, 'four are under way in all slots');
my @kinds = (qw(admitted denied), 'moved under way', 'moving at the end', 'reset streams');
play(3, @kinds);
is($wrong, undef, 'each log has who is under way while slots move: ' . join ', ', map { "$seen{$_} $_" } sort keys %seen);

# ---- masters change

my $old = $masters[0];
begin_one(any(sort keys %locations)) for 1 .. 3;
end_move($_) for $cluster->moving;    # a replica does not know of moves: it would take moved keys for missing ones
is($replica{$old}->cli('CLUSTER', 'FAILOVER'), 'OK', 'a fail-over by command begins');
ok($cluster->has_failed_over_to($replica{$old}), 'the replica has become the master');
ok(wait_until('the old master', 20, sub { $old->cli('ROLE') =~ /^slave/ }), 'the old master has become a replica');
$masters[0] = $replica{$old};
$_ = $_ == $old ? $masters[0] : $_ for values %home;
ok(all_have_heard_of($masters[0]), 'all nodes know it');
agrees('after the fail-over', all_logs());
play(1);
is($wrong, undef, 'each log has who is under way over a fail-over by command');

# what the replica does not have is entered again
end_move($_) for $cluster->moving;
my $dying = $masters[1];
my $heir  = $replica{$dying};
my @there = grep { $home{ $slot{$_} } == $dying } @tags;
if (!@there) {    # its slots have all moved away
    my ($tag) = @tags;
    $cluster->move($slot{$tag}, $masters[0], $dying);
    $home{ $slot{$tag} } = $dying;
    @there = $tag;
}
my $all = $dying->info('master_repl_offset');
ok(wait_until('the replica', 10, sub { ($heir->info('slave_repl_offset') // 0) >= $all }), 'the replica has all that lasts');    # a long lease is not renewed here
$dying->cli(qw(ACL SETUSER default -psync -sync));
$dying->cli(qw(CLIENT KILL TYPE replica));
ok(wait_until('the replica to be behind', 5, sub { ($heir->info('master_link_status') // '') eq 'down' }), 'the replica does not follow');
begin_one('short', k => $_), begin_one('short', k => $_) for @there;
$dying->kill;
is($heir->cli(qw(CLUSTER FAILOVER TAKEOVER)), 'OK', 'its master dies, and it takes over');
ok(wait_until('the take-over', 20, sub { $heir->cli('ROLE') =~ /^master/ && $heir->cli('CLUSTER', 'INFO') =~ /cluster_state:ok/ }), 'it serves the slots');
$masters[1] = $heir;
$_ = $_ == $dying ? $heir : $_ for values %home;
ok(all_have_heard_of($heir), 'all nodes know it');
ok(wait_until('all workers', 20, sub { !grep { get($nginx->port, "/known?k=$_")->{status} != 200 } map { ($_) x 10 } @tags }), 'all workers know it');
for my $log (map { "short $_" } @tags) {
    ok(wait_until("all of $log", 3 * LEASE, sub { my ($valid, $old) = entries($log); $valid == used($log) && !$old }), "$log: the next renewal enters those again who were forgotten")
        or diag(join ' ', entries($log), 'of', used($log));
}

# ---- the end

play(1) while !$wrong && time < $under_way[0]{since} + 3 * LEASE;
end_one(0) while @under_way && !$wrong;
is($wrong, undef, 'all that lasted longer than several leases have ended, too: ' . join ', ', map { "$seen{$_} $_" } sort keys %seen);
ok(wait_until('empty nodes', 3, sub { !grep { $_->cli('DBSIZE') != 0 } @masters }), 'each entry was given back') or diag(map { $_->cli('KEYS', '*') . "\n" } @masters);
ok($seen{$_}, "some are $_") for @kinds, 'longer than two leases';
cmp_ok(occurred($_), '>', 0, "$_ occurred") for qw(MOVED ASK);
is($nginx->logged(qr/could not be taken back/), 0, 'nothing was lost');

$bed->done;
