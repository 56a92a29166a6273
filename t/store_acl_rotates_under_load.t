# The user's password, rights and existence change under load. A rotation with two passwords affects no request. After a
# right is removed, on_error decides at once. After it is given back, it is used again in time.

use strict;
use warnings;
use Test::More;
use Testbed qw(wait_until slow);
use Testbed::Acl qw(documented_rule);
use Testbed::Load;
use Testbed::Stopwatch;
use Time::HiRes qw(sleep time);

use constant { TIMEOUT => 0.15, LONGEST => 0.3 };

my $bed   = Testbed->new;
my $redis = $bed->redis;
my $file  = $bed->write_file('limiter.password', "first-secret\n");
my $nginx = $bed->serve(
    REDIS => $redis->address, FILE => $file,
    workers => 2,
    store   => <<'STORE',
    server %%REDIS%%; username limiter; password_file %%FILE%%; timeout 150ms; connect_timeout 300ms;
    reconnect 20ms 300ms;
STORE
    http    => 'sliding_log_on_error deny;',
    how     => '$sliding_log_source $pid $sliding_log_latency',
    server  => 'location / { sliding_log_limit load key=$arg_k limit=100000 window=1h; empty_gif; }',
);

sub user { return is($redis->cli(qw(ACL SETUSER limiter), @_), 'OK', 'ACL SETUSER ' . join ' ', map { /secret/ ? '…' : $_ } @_) }
sub hang_up { return $redis->cli(qw(CLIENT KILL USER limiter)) }
$redis->cli('ACL', 'SETUSER', 'limiter', 'reset', split ' ', documented_rule('limiter', 'first-secret'));

sub are_served { return $nginx->all_serve('/?k=1', 2) }
ok(are_served(), 'both workers are served');

# The results of a steady load while the code runs.
sub under_load {
    my ($code) = @_;
    my $load  = Testbed::Load->start($bed, $nginx->port, paths => ['/?k=%d'], rate => 200);
    my $calls = $redis->calls('evalsha');
    my $watch = Testbed::Stopwatch->start($nginx->workers);
    wait_until('the load', 5, sub { $redis->calls('evalsha') > $calls + 20 });
    $code->();
    sleep 0.3;
    my $record = $load->stop;
    cmp_ok($record->longest_wait, '<=', TIMEOUT + 0.05 * slow() + $watch->delayed($nginx->workers), 'no request waits longer than the timeout');
    return $record;
}

# ---- a rotation: the new password is added, the configuration changed, the old one removed

my @hung_up;
my $rotation = under_load(sub {
    user('>second-secret');
    $bed->write_file('limiter.password', "second-secret\n");
    $nginx->reload(gone => 1);
    user('<first-secret');
    @hung_up = (time);
    hang_up();
    push @hung_up, time;
});
# CLIENT KILL loses the answers of the calls that are under way.
sub is_hung_up { return $_->{at} <= $hung_up[1] && $_->{at} + $_->{took} >= $hung_up[0] }
is($rotation->describe(sub { "$_->{source} $_->{status}" ne 'redis 200' && !is_hung_up() }, $hung_up[0]), '', 'a rotation: Redis decides every other request');

# ---- rights removed and given back: name, removed, given, error log

for my $case (
    ['the password',        ['resetpass', '>another-secret'], ['resetpass', '>second-secret'], qr/AUTH answered: WRONGPASS/],
    ['the user, off',       ['off'],                          ['on'],                          qr/AUTH answered: WRONGPASS/],
    ['the right to ask',    ['-evalsha'],                     ['+evalsha'],                    qr/answered: NOPERM/],
    ['a right of a script', ['-zadd'],                        ['+zadd'],                       qr/answered: (?:ERR|NOPERM|ACL) .*(?:can't run|permission|ACL failure)/],
    ['all keys',            ['resetkeys'],                    ['~rl:sliding:*'],               qr/answered: NOPERM/],
    ['the right to TIME',   ['-time'],                        ['+time'],                       qr/answered: (?:ERR|NOPERM|ACL) .*(?:can't run|permission|ACL failure)/],
) {
    my ($what, $taken, $given, $cause) = @$case;
    my ($from, $to, $back);
    my $record = under_load(sub {
        user(@$taken);
        hang_up() if $cause =~ /AUTH/;
        $from = time;
        ok(wait_until('its cause', 5, sub { $nginx->logged($cause) }), "$what: the error log tells the cause");
        sleep 0.5;
        $to = time;
        user(@$given);
        $back = time;
        ok(are_served(), "$what: given back, both workers are served");
    });
    my $over = $record->that(from => $from + 0.1, to => $to - 0.05);
    is($over->that(status => 200, source => 'redis')->count, 0, "$what: no request is decided by Redis meanwhile");
    cmp_ok($over->percentile(0.5), '<', 0.05 * slow(), "$what: on_error decides at once");
    my $later = $record->that(from => $back + LONGEST + 0.2 * slow());
    is($later->that(status => 200)->count, $later->count, "$what: given back, Redis decides every request again");
}

# the connections of a removed user are closed
my $gone = under_load(sub {
    $redis->cli(qw(ACL DELUSER limiter));
    sleep 0.5;
    $redis->cli('ACL', 'SETUSER', 'limiter', 'reset', split ' ', documented_rule('limiter', 'second-secret'));
    ok(are_served(), 'a user that was removed: made again, both workers are served');
});
like($gone->statuses, qr/^200:\d+ 503:\d+$/, 'a user that was removed: on_error decides meanwhile');
is($nginx->logged(qr/-secret/), 0, 'no password is in the error log');
is(join("\n", $nginx->repeated_troubles), '', 'each cause is logged once a second');

$bed->done;
