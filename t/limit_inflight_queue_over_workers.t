# `delay=` with algorithm=inflight when workers change: requests that wait in an old worker, after a reload, keep their place
# in the order of the node. A worker that is killed leaves the queue, and delays no others.

use strict;
use warnings;
use IO::Select;
use Test::More;
use Testbed qw(wait_until);
use Testbed::Stopwatch;
use Testbed::UnderWay;
use Time::HiRes qw(sleep);

my $bed    = Testbed->new;
my $redis  = $bed->redis;
my $silent = Testbed::UnderWay->new;
my $nginx  = $bed->serve(
    REDIS => $redis->address, SILENT => $silent->port,
    workers => 2,
    listen  => 'reuseport',
    store   => 'server %%REDIS%%; timeout 5s; connect_timeout 5s; reconnect 20ms 200ms;',
    server  => <<'END',
    location /at   { sliding_log_limit at key=$arg_k limit=2 algorithm=inflight lease=3s delay=20s; proxy_pass http://127.0.0.1:%%SILENT%%; }
    location /cost { sliding_log_limit at key=$arg_k limit=$arg_l algorithm=inflight lease=3s delay=20s cost=$arg_c; proxy_pass http://127.0.0.1:%%SILENT%%; }
END
);

sub queue  { my ($path) = @_; return $silent->queue($nginx->port, $path) }
sub begin  { my ($path) = @_; return $silent->decided(queue($path)) }
sub answer { my ($one) = @_; return Testbed::UnderWay::end($one) }
sub comes  { my ($one, $name) = @_; return ok($silent->arrives($one), $name) }
sub waits  { my ($one, $name) = @_; return ok(!$silent->arrives($one, 0.3), $name) }

# ---- a reload: those of the old worker go on waiting, in their order

my @two = map { begin('/at?k=m') } 1, 2;
my $old = queue('/at?k=m');
waits($old, 'one waits');
my %before = map { $_ => 1 } $nginx->workers;
$nginx->reload;
ok(wait_until('new workers', 10, sub { scalar(grep { !$before{$_} } $nginx->workers) == 2 }), 'a reload');
my $new = queue('/at?k=m');
waits($new, 'another one waits behind it in a new worker');
answer(shift @two);
comes($old, 'that of the old worker is first');
answer(shift @two);
comes($new, 'then that of the new one');
answer($_) for $old, $new;
ok(wait_until('m to be free', 5, sub { $redis->cli('EXISTS', 'rl:sliding:at:{m}') == 0 }), 'a reload leaves nothing');
ok(wait_until('old workers', 15, sub { !grep { $before{$_} } $nginx->workers }), 'the old workers exit');

# ---- a worker that is killed leaves the queue

@two = map { begin('/at?k=n') } 1, 2;
my @line = map { my $one = queue('/at?k=n'); sleep 0.05; $one } 1 .. 6;
waits($line[0], 'some wait in each worker');
my ($killed) = $nginx->workers;
kill 'KILL', $killed;
ok(wait_until('another worker', 10, sub { my @pids = $nginx->workers; @pids == 2 && !grep { $_ == $killed } @pids }), 'a worker is killed');
my $after = queue('/at?k=n');
my @alive = grep { !IO::Select->new($_->{client})->can_read(0.1) } @line;
answer($_) for grep { !IO::Select->new($_->{client})->can_read(0.1) } @two;
for my $one (@alive, $after) {
    comes($one, 'those of the other worker come in their order, and one that came later');
    answer($one);
}
$nginx->expect_kills;

# ---- and delays no others: each place that the other worker gives back is used at once

my @held = map { begin('/cost?k=o&c=1&l=20') } 1 .. 20;
@line = map { my $one = queue('/cost?k=o&c=1&l=20'); sleep 0.02; $one } 1 .. 8;
waits($line[0], 'some wait in each worker');
($killed) = $nginx->workers;
my $watch = Testbed::Stopwatch->start;
kill 'KILL', $killed;
wait_until('another worker', 10, sub { my @pids = $nginx->workers; @pids == 2 && !grep { $_ == $killed } @pids });
my ($held, $line) = map { [grep { !IO::Select->new($_->{client})->can_read(0) } @$_] } \@held, \@line;
my @next = splice @$line, 0, @$held;
for my $one (@next) {
    answer(shift @$held);
    comes($one, 'one of the other worker');
}
cmp_ok($watch->net, '<', 0.8, 'none of them waits for the one that was killed');
answer($_) for @$held, @next;
for my $one (@$line) {
    comes($one, 'the rest');
    answer($one);
}

$bed->done;
