# Fail-overs with the users that docs/operations.md documents, at the Redis and at the Sentinels: nothing is refused.
# While the Sentinels refuse their user, the master is asked as before, and a later fail-over is followed again.
# prove: first

use strict;
use warnings;
use Test::More;
use Testbed qw(wait_until slow);
use Testbed::Acl qw(documented_rule);
use Testbed::Http qw(field);
use Testbed::Load;
use Time::HiRes qw(sleep time);

my $bed     = Testbed->new;
my @redis   = map { $bed->redis(args => [qw(--repl-diskless-sync-delay 0)]) } 1 .. 2;
my @limiter = (qw(SETUSER limiter reset), split ' ', documented_rule('limiter', 'us3rpass'));
my @watcher = (qw(SETUSER watcher reset), split ' ', documented_rule('watcher', 'w4tchpass'));
$_->cli('ACL', @limiter) for @redis;
my ($master, $replica) = @redis;
$replica->cli('REPLICAOF', '127.0.0.1', $master->port);
my @sentinels = map { $bed->sentinel(master => $master, quorum => 2) } 1 .. 3;
$_->cli('ACL', @watcher) for @sentinels;

sub agree {
    return wait_until('all to agree', 90, sub {
        ($replica->info('master_link_status') // '') eq 'up' && !grep {
            $_->master_port != $master->port || ($_->field('flags') // '') ne 'master' || ($_->field('num-slaves') // 0) != 1 || ($_->field('num-other-sentinels') // 0) != 2
        } @sentinels;
    });
}
ok(agree(), 'the Sentinels know the master and its replica');
my $nginx = $bed->serve(
    SENTINELS => join(' ', map { $_->address } @sentinels),
    workers   => 4,
    listen    => 'reuseport',
    store     => <<'STORE',
    server %%SENTINELS%%; mode sentinel limits; sentinel_username watcher; sentinel_password w4tchpass;
    username limiter; password us3rpass; timeout 150ms; connect_timeout 300ms; reconnect 20ms 300ms;
STORE
    http      => 'sliding_log_on_error deny;',
    how       => '$sliding_log_source $pid $sliding_log_latency',
    server    => 'location / { sliding_log_limit guarded key=$arg_k limit=100000 window=1h; empty_gif; }',
);

sub all_served {
    my ($what) = @_;
    return ok($nginx->all_serve('/?k=all', 4, 15), "$what: every worker is served");
}

sub fails_over {
    my ($what, $begin) = @_;
    my $dies = !$begin;
    $dies ? $master->kill : $begin->();
    my $named = wait_until('the new master', 20, sub { (grep { $_->master_port == $replica->port } @sentinels) && time }) or return fail($what);
    all_served($what);
    cmp_ok(time - $named, '<', 1 + 0.5 * slow(), "$what: within a second");
    # the old master serves until the workers learn of the new one, so it may have served all of these
    ok(wait_until('the new master to be asked', 10, sub { $nginx->all_serve('/?k=all', 4, 15) && $replica->calls('evalsha') > 0 }), "$what: the new master is asked");
    if ($dies) {
        $master->start;
        $master->cli('ACL', @limiter);
    }
    ($master, $replica) = ($replica, $master);
    return ok(agree(), "$what: the old master is a replica");
}
my $by_command = sub { $sentinels[0]->begin_failover };

all_served('at the start');
fails_over('a fail-over by command', $by_command);
fails_over('a fail-over by death');
is(join('', map { $_->cli('ACL', 'LOG') } @redis, @sentinels), '', 'nothing was refused');

# the Sentinels refuse their user in different ways
$sentinels[0]->cli(qw(ACL SETUSER watcher resetpass >another));
$sentinels[1]->cli(qw(ACL SETUSER watcher resetchannels));
$sentinels[2]->cli(qw(ACL SETUSER watcher -sentinel|get-master-addr-by-name));
$_->cli(qw(CLIENT KILL USER watcher)) for @sentinels;
my $load = Testbed::Load->start($bed, $nginx->port, paths => ['/?k=%d'], rate => 200);
sleep 1;
$master->cli(qw(CLIENT KILL USER limiter));
sleep 1;
my $record = $load->stop;
# each worker may have had a call on the connection that was cut
my $decided = $record->that(source => 'redis', status => 200)->count;
cmp_ok($decided, '>=', $record->count - $nginx->workers, 'the Sentinels refuse: the master is still asked, over a new connection too');
is($nginx->logged(qr/us3rpass|w4tchpass/), 0, 'the Sentinels refuse: the error log has no password');
cmp_ok($nginx->logged(qr/\[(?:error|warn)\].*sliding_log_redis/), '<', 100, 'the Sentinels refuse: the error log stays short');
$_->cli('ACL', @watcher) for @sentinels;
ok(wait_until('the subscriptions', 10, sub { 4 == grep { / sub=2 .* user=watcher / } map { split /\n/, $_->cli(qw(CLIENT LIST)) } @sentinels }), 'given back: every worker is subscribed again');
fails_over('a fail-over after that', $by_command);

$bed->done;
