# The master changes while requests are under way, and their costs are settled at the new one: exactly, if it has their
# entries. If the fail-over forgot the entries of a request, nothing is given back, so no entries of others are removed,
# and only an additional cost is added.

use strict;
use warnings;
use List::Util qw(shuffle);
use Test::More;
use Testbed qw(seed wait_until);
use Testbed::Algorithm qw(@ALL_ALGORITHMS horizon takes);
use Testbed::Http qw(get field);
use Testbed::Metrics qw(scrape);
use Testbed::UnderWay;

seed();

my $bed     = Testbed->new;
my @redis   = map { $bed->redis(args => ['--repl-diskless-sync-delay', 0]) } 1 .. 2;
$redis[1]->cli('REPLICAOF', '127.0.0.1', $redis[0]->port);
my $sentinel   = $bed->sentinel(master => $redis[0]);
my $upstream   = Testbed::UnderWay->new;
my @algorithms = grep { takes($_, 'settle') } @ALL_ALGORITHMS;

my $nginx = $bed->serve(
    SENTINEL => $sentinel->address, UPSTREAM => $upstream->port,
    workers  => 2,
    store    => 'server %%SENTINEL%%; mode sentinel limits; timeout 2s; connect_timeout 2s; reconnect 20ms 100ms;',
    http     => 'sliding_log_on_error deny;',
    server   => join("\n", 'location /metrics { sliding_log_metrics; }', map {
        my $limit = "sliding_log_limit $_ key=\$arg_k limit=20 algorithm=$_ " . horizon($_, '366d', 'month');
        "location /slow/$_ { $limit cost=\$arg_cost settle=\$upstream_http_x_cost; proxy_pass http://127.0.0.1:%%UPSTREAM%%; }
         location /look/$_ { $limit cost=\$arg_cost; empty_gif; }"
    } @algorithms),
);
my $port = $nginx->port;
$nginx->expect_in_log(qr/sliding_log_redis/);

sub look { my ($algorithm, $key, $cost) = @_; return (field(get($port, "/look/$algorithm?k=$key&cost=" . ($cost // 0)), 'RateLimit') // '') =~ /;r=(\d+)/ ? $1 : '' }
sub lost { return scrape($port)->value('sliding_log_store_take_backs_lost_total') // 0 }

sub in_step { my ($master) = @_; return $sentinel->in_step($master, grep { $_ != $master } @redis) }

# Requests of each algorithm, one of each of these costs: '': none is told.
sub under_way {
    my ($prefix, $cost, @costs) = @_;
    my @requests;
    for my $algorithm (@algorithms) {
        for my $real (@costs) {
            my $key = "$prefix$real";
            push @requests, { %{ $upstream->begin($port, "/slow/$algorithm?k=$key&cost=$cost") }, key => $key, algorithm => $algorithm, cost => $cost, real => $real };
        }
    }
    return @requests;
}

sub end { my ($one) = @_; return Testbed::UnderWay::end($one, 'X-Cost' => $one->{real})->{status} }

# Waits until so much is left, while the requests are settled: [algorithm, key, what is left].
sub agrees {
    my ($what, @expected) = @_;
    my @wrong;
    wait_until($what, 5, sub { @wrong = grep { look(@$_[0, 1]) ne $_->[2] } @expected; !@wrong });
    return is(join(', ', map { "$_->[0] $_->[1] has " . look(@$_[0, 1]) . " left, not $_->[2]" } @wrong), '', $what);
}

# a fail-over by command: each entry is on both servers
ok(in_step($redis[0]), 'the replica is in step');
my @requests = under_way('kept', 5, '', 0, 2, 9, 25);
is(scalar(grep { $_->{denied} } @requests), 0, 'all are under way');
ok($redis[1]->follows($redis[0]), 'the replica has their entries');
ok($sentinel->begin_failover, 'a fail-over begins');
my @first = (shuffle @requests)[0 .. @requests / 2 - 1];    # end in the middle of it
my %first = map { $_ => 1 } @first;
is(join(' ', map { end($_) } @first), join(' ', (200) x @first), 'requests end during a fail-over');
ok(wait_until('the promotion', 20, sub { $sentinel->master_port == $redis[1]->port && $redis[1]->cli('ROLE') =~ /^master/ }), 'the replica has become the master');
$redis[0]->cli('REPLICAOF', '127.0.0.1', $redis[1]->port);    # the Sentinel would take ten seconds
ok(in_step($redis[1]), 'the old master is its replica');
ok(wait_until('both workers to find it', 20, sub { look('quota', 'found') ne '' && $redis[1]->connections(cmd => 'evalsha') == 2 }), 'both workers found it');
is(join(' ', map { end($_) } grep { !$first{$_} } @requests), join(' ', (200) x (@requests - @first)), 'requests end after a fail-over');
my $settled = sub { my ($one) = @_; return 20 - ($one->{real} eq '' ? 5 : $one->{real}) };
agrees('settled at the new master: those that ended afterwards', map { [$_->{algorithm}, $_->{key}, $settled->($_) < 0 ? 0 : $settled->($_)] } grep { !$first{$_} } @requests);
for my $one (@first) {    # what the old master settled last may be forgotten
    my $left = look($one->{algorithm}, $one->{key});
    my ($is, $estimate) = ($settled->($one) < 0 ? 0 : $settled->($one), 15);
    ok($left == $is || $left == $estimate, "$one->{algorithm}, $one->{real}: settled in a fail-over, or the estimate stands") or diag("$left left");
}

# the master dies with entries that the replica does not have
my ($replica, $master) = @redis;
for my $algorithm (@algorithms) {
    look($algorithm, "part$_", 3) for 0, 2, 9;    # others' entries that the replica has
}
ok($replica->follows($master), 'the replica has what others took');
like($master->cli(qw(ACL SETUSER default -psync -sync)), qr/OK/, 'the replica may not follow any more');
$master->cli(qw(CLIENT KILL TYPE replica));
ok(wait_until('the replica to be behind', 5, sub { ($replica->info('master_link_status') // '') eq 'down' }), 'the replica does not follow');
@requests = (under_way('whole', 5, 0, 2, 9), under_way('part', 5, 0, 2, 9));
is(scalar(grep { $_->{denied} } @requests), 0, 'all are under way whose entries will be lost');
$master->kill;
ok(wait_until('the replica to be promoted', 20, sub { $sentinel->master_port == $replica->port && $replica->cli('ROLE') =~ /^master/ }), 'the replica is promoted');
ok(wait_until('both workers to find it', 20, sub { look('quota', 'found') ne '' && $replica->connections(cmd => 'evalsha') == 2 }), 'both workers found it');
for my $algorithm (@algorithms) {
    for my $real (0, 2, 9) {
        is(look($algorithm, "whole$real", 4), 16, "$algorithm: the entry was lost, and the log with it");
        is(look($algorithm, "part$real", 1), 16, "$algorithm: the entry was lost, and those of others are there");
    }
}
my $before = lost();
is(join(' ', map { end($_) } @requests), join(' ', (200) x @requests), 'requests end whose entries are lost');
agrees('what is owed besides is added', map { ([$_, 'whole9', 12], [$_, 'part9', 12]) } @algorithms);
for my $algorithm (@algorithms) {
    is(look($algorithm, "whole$_"), 16, "$algorithm: of the log of others nothing is given back for $_ of 5") for 0, 2;
    for my $real (0, 2) {
        my $left = look($algorithm, "part$real");
        # counts cannot tell whose entries those are that were taken before
        $algorithm eq 'compact' ? is($left, 16, "compact: of entries of others nothing is given back for $real of 5")
            : ok($left >= 16 && $left <= 16 + 5 - $real, "$algorithm: of entries of others at most the difference is given back for $real of 5") || diag("$left left");
    }
}
is(lost(), $before, 'none of these settlings was lost');

$bed->done;
