# password_file is read again at each connection, and once a minute, when open connections are authenticated again. If it
# has no password, the last one stays, and the error log says so once.

use strict;
use warnings;
use Test::More;
use Testbed qw(wait_until slow);
use Testbed::Acl qw(documented_rule);
use Testbed::Clock;
use Testbed::Http qw(get);

my $bed   = Testbed->new;
my $clock = Testbed::Clock->new($bed->dir, monotonic => 1);
my $redis = $bed->redis;
$redis->cli('ACL', 'SETUSER', 'limiter', 'reset', split ' ', documented_rule('limiter', 'first-secret'));
my $file  = $bed->write_file('limiter.password', "first-secret\n");
my $nginx = $bed->serve(
    REDIS => $redis->address, FILE => $file, CLOCK => $clock,
    workers => 2,
    store   => 'server %%REDIS%%; username limiter; password_file %%FILE%%; timeout 2s; connect_timeout 2s; reconnect 20ms 100ms;',
    http    => 'sliding_log_on_error deny; sliding_log_status 429;',
    how     => '$sliding_log_source $pid',
    server  => 'location / { sliding_log_limit load key=$arg_k limit=100000 window=1h; empty_gif; }',
);

sub are_served { my ($what) = @_; return ok($nginx->all_serve('/?k=1', 2), "$what: both workers are served") }
sub user { return $redis->cli(qw(ACL SETUSER limiter), @_) }
sub passwords { my ($from, $to) = @_; $bed->write_file('new', $to); rename $bed->dir . '/new', $file; return user(">$from") }

# Waits a little more than a minute, in which both workers read the file.
my $minutes = 0;
sub minute {
    $clock->set(61 * ++$minutes);
    $nginx->all_serve('/?k=1', 2);
    return;
}
sub authenticated { my ($before) = @_; return wait_until('both to authenticate', 5, sub { $redis->calls('auth') >= $before + 2 }) }

# The connections of nginx, not those of this test.
sub ids {
    my @ids = map { / cmd=client/ ? () : /^id=(\d+)/ } split /\n/, $redis->cli(qw(CLIENT LIST TYPE normal));
    return "@ids";
}

are_served('the first password');
like(ids(), qr/^\d+ \d+$/, 'a connection of each worker');
my ($ids, $auths) = (ids(), $redis->calls('auth'));

# ---- another password, the old one still valid

passwords('second-secret', "second-secret\n");
is($redis->calls('auth'), $auths, 'within the minute nobody looks');
minute();
ok(authenticated($auths), 'after a minute open connections are authenticated again');
is(ids(), $ids, 'they are the same connections');
user('<first-secret');
are_served('the first password is gone');
$auths = $redis->calls('auth');
minute();
is($redis->calls('auth'), $auths, 'a password that is the same is not sent again');

# ---- a file of no use

my $tells = sub { return $nginx->logged(qr/\[error\].* password_file ".*limiter\.password" .*the last password stays/) };
my $mended = sub { return $nginx->logged(qr/\[error\].* password_file ".*limiter\.password" is read again/) };
for (['missing', sub { unlink $file }, qr/cannot be read, the last password stays \(2: No such file or directory\)/],
    ['empty', sub { $bed->write_file('limiter.password', '') }, qr/has no password in its first line, the last password stays/],
    ['too long', sub { $bed->write_file('limiter.password', 'x' x 5000) }, qr/has no password in its first line/],
    ['a directory', sub { unlink $file; mkdir $file }, qr/cannot be read, .*\(21: Is a directory\)/],
) {
    my ($what, $spoil, $says) = @$_;
    my $told = $tells->();
    my $says_before = $nginx->logged($says);
    $spoil->();
    minute();
    ok(wait_until('the line', 5, sub { $tells->() == $told + 1 }), "a file that is $what is told");
    is($nginx->logged($says), $says_before + 1, "a file that is $what: the reason");
    minute();
    $redis->cli(qw(CLIENT KILL USER limiter));
    are_served("a file that is $what");
    is($tells->(), $told + 1, "a file that is $what is told once");
    rmdir $file;
    $bed->write_file('limiter.password', "second-secret\n");
    minute();
    ok(wait_until('the line', 5, sub { $mended->() == $told + 1 }), "a file that was $what is read again");
}

# ---- a password that Redis does not know yet

$auths = $redis->calls('auth');
$ids   = ids();
my $refused = sub { $nginx->logged(qr/AUTH with another password answered: WRONGPASS$/) };
$bed->write_file('limiter.password', "early-secret\n");
minute();
ok(wait_until('the refusal', 5, sub { $refused->() >= 2 }), 'a password that Redis does not know is told');
are_served('a password that Redis does not know');
is(ids(), $ids, 'a password that Redis does not know: the connections go on');
user('>early-secret');
minute();
ok(wait_until('the next look', 5, sub { authenticated($auths + 2) }), 'they are authenticated at the next look');
my $told = $refused->();
minute();
is($refused->(), $told, 'nothing is told after that');

# ---- connections that are cut read the file at once

user('resetpass', '>third-secret');
$bed->write_file('limiter.password', "third-secret\n");
$redis->cli(qw(CLIENT KILL USER limiter));
are_served('a password that is changed while connections are cut');
isnt(ids(), $ids, 'the connections are others');

# ---- a worker that dies: its successor has the configuration of a password that is no longer valid

my ($victim) = $nginx->workers;
$nginx->expect_kills;
kill 'KILL', $victim;
ok(wait_until('a new worker', 10, sub { my @now = $nginx->workers; @now == 2 && !grep { $_ == $victim } @now }), 'a worker is replaced');
are_served('the new worker');
is($nginx->logged(qr/AUTH answered: WRONGPASS/), 0, 'the new worker has read the file')
    or diag(join "\n", grep { /sliding_log|worker process/ } split /\n/, $nginx->error_log);

# ---- a reload, and an old worker that goes on with its requests

$nginx->reload(gone => 1);
are_served('a reload');
is($nginx->logged(qr/-secret/), 0, 'no password is in the error log');

$bed->done;
