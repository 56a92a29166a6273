# Under load, the password in password_file changes every five seconds for more than a minute, in all modes: no request
# fails while the old ones are valid. When they are not, and connections are cut, on_error decides for a second at most.
# prove: first

use strict;
use warnings;
use Test::More;
use Testbed qw(wait_until);
use Testbed::Acl qw(documented_rule);
use Testbed::Http qw(get);
use Testbed::Load;
use Testbed::Stopwatch;
use Time::HiRes qw(sleep time);

use constant { EVERY => 5, LOOK => 60, WORKERS => 2 };

my $bed     = Testbed->new;
my $single  = $bed->redis;
my $cluster = $bed->cluster(masters => 2);
my $master  = $bed->redis;
my $watch   = $bed->sentinel(master => $master);
my %servers = (one => [$single], cluster => [$cluster->nodes], sentinel => [$master]);
my @all     = map { @{ $servers{$_} } } sort keys %servers;
my $file    = $bed->write_file('limiter.password', "secret0\n");
my $conf = Testbed::conf(
    workers => WORKERS,
    http    => <<'HTTP',
    sliding_log_redis one      { server %%ONE%%; username limiter; %%PASSWORD%% %%TIMES%% }
    sliding_log_redis cluster  { server %%NODE%%; mode cluster; username limiter; %%PASSWORD%% %%TIMES%% }
    sliding_log_redis sentinel { server %%SENTINEL%%; mode sentinel limits; username limiter; %%PASSWORD%% %%TIMES%% }
    sliding_log_on_error deny;
HTTP
    how     => '$sliding_log_source $pid $sliding_log_latency',
    server  => join("\n", map { "location /$_ { sliding_log_limit $_ store=$_ key=\$arg_k limit=1000000 window=1h; empty_gif; }" } sort keys %servers),
);
my %values = (
    ONE => $single->address, NODE => $all[0]->address, SENTINEL => $watch->address,
    TIMES => 'timeout 1s; connect_timeout 1s; reconnect 20ms 300ms;',
);

sub user { my (@words) = @_; $_->cli(qw(ACL SETUSER limiter), @words) for @all; return }
sub publish { my ($password) = @_; $bed->write_file('new', "$password\n"); return rename $bed->dir . '/new', $file }

user('reset', split(' ', documented_rule('limiter', 'secret0')), qw(+cluster|slots +asking));
my $nginx = $bed->nginx($conf, %values, PASSWORD => "password_file $file;");
my $other = $bed->nginx($conf, %values, PASSWORD => 'password secret0;');
for my $path (sort keys %servers) {
    ok($nginx->all_serve("/$path?k=1", WORKERS), "$path: both workers are served");
    ok($other->all_serve("/$path?k=1", WORKERS), "$path: so are those of a node with a password of its configuration");
}
my @paths = map { ("/$_?k=%d", "/$_?k=1") } sort keys %servers;

# ---- the old ones stay valid

my $load = Testbed::Load->start($bed, $nginx->port, paths => \@paths, rate => 40);
my ($begin, $number, %auths) = (time, 0);
while (time - $begin < LOOK + 2 * EVERY) {
    $number++;
    user(">secret$number");
    publish("secret$number");
    if ($number == 2) {
        $nginx->reload(gone => 1);
        $nginx->all_serve("/$_?k=1", WORKERS) for sort keys %servers;
        %auths = map { $_ => $_->calls('auth') } @all;
    }
    sleep EVERY;
}
is($_->calls('auth') > $auths{$_} ? 1 : 0, 1, 'open connections to ' . $_->address . ' were authenticated again') for @all;
my $record = $load->stop;
is($record->statuses, '200:' . $record->count, "$number passwords in " . int(time - $begin) . ' s, and a reload: every request is admitted');
is($record->that(source => 'redis')->count, $record->count, 'Redis decided each of them');
is($nginx->logged(qr/AUTH.*answered/), 0, 'no password was refused');

# ---- at once: the old ones are gone, and connections are cut

for my $order ('the server first', 'the file first') {
    $load = Testbed::Load->start($bed, $nginx->port, paths => \@paths, rate => 120);
    my $watch = Testbed::Stopwatch->start;
    sleep 1;
    my $at = time;
    $number++;
    publish("secret$number") if $order eq 'the file first';
    user('resetpass', ">secret$number");
    $_->cli(qw(CLIENT KILL USER limiter)) for @all;
    publish("secret$number");
    sleep 1;
    my $end = time + $watch->disturbed;    # a busy machine takes longer
    sleep 1 + $watch->disturbed;
    $record = $load->stop;
    my $after  = $record->that(from => $end);
    my $before = $record->that(to => $at);
    is($_->[1]->statuses, '200:' . ($_->[1]->count || 'some'), "$order: $_->[0], every request is admitted") for ['before', $before], ['a second later', $after];
    like($record->statuses, qr/^200:\d+(?: 503:\d+)?$/, "$order: in between on_error decides");
    note("$order: " . $record->statuses);
}
ok(wait_until('on_error', 5, sub { get($other->port, '/one?k=1')->{status} == 503 }), 'a node whose password is in the configuration is refused');
ok(wait_until('the cause', 5, sub { $other->logged(qr/AUTH answered: WRONGPASS/) }), 'a node whose password is in the configuration tells it');
is($_->logged(qr/secret\d/), 0, 'no password is in the error log') for $nginx, $other;

$bed->done;
