# A broken connection is opened again while requests wait. They are sent in one write with the handshake. If that is
# refused, they are decided once, their own replies are ignored, and no other database gets an entry.

use strict;
use warnings;
use Test::More;
use Testbed qw(wait_until slow);
use Testbed::Http qw(get field connect_to parse);
use Testbed::Process;
use Testbed::Relay;

my $bed   = Testbed->new;
my $redis = $bed->redis(args => [qw(--requirepass secret)], auth => [qw(-a secret)]);    # else a call after a refused AUTH is the default user's
$redis->cli(qw(ACL SETUSER limiter on >us3rpass ~* +@all));
my %tape;
my ($zero, $one) = map { relay($_) } qw(zero one);
sub relay {
    my ($name) = @_;
    my $tape  = $bed->dir . "/$name.tape";
    my $relay = Testbed::Relay->new($bed, to => $redis->port, tape => $tape);
    $tape{$relay} = $tape;
    return $relay;
}
my $nginx = $bed->serve(
    ZERO => $zero->port, ONE => $one->port,
    http   => <<'HTTP',
    sliding_log_redis zero { server 127.0.0.1:%%ZERO%%; username limiter; password us3rpass; timeout 5s; connect_timeout 5s; reconnect 1ms 100ms; }
    sliding_log_redis one  { server 127.0.0.1:%%ONE%%; username limiter; password us3rpass; database 1; timeout 5s; connect_timeout 5s; reconnect 1ms 100ms; }
    add_header X-Source $sliding_log_source always;
HTTP
    server => <<'END',
    location /served { return 204; }
    location /zero { sliding_log_limit zero key=$arg_k limit=1000 window=1h store=zero; empty_gif; }
    location /one  { sliding_log_limit one key=$arg_k limit=1000 window=1h store=one; empty_gif; }
END
);
my $port = $nginx->port;

sub ask {
    my ($path) = @_;
    my $socket = connect_to($port);
    $socket->syswrite("GET $path HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    return $socket;
}
sub source { return field(parse(Testbed::Http::read_all($_[0], 10)), 'X-Source') }

# The commands on the connection of that number, from 0, piece by piece.
sub said {
    my ($relay, $number) = @_;
    my @pieces = map { [split] } split /\n/, Testbed::Process::slurp($tape{$relay});
    return map { uc join ' ', @$_[2 .. $#$_] } grep { $_->[0] == $number } @pieces;
}

# One request is sent, and others for its key wait for its reply, when the connection breaks. Returns the source of the
# first decision, those of the others, and the commands on the next connection.
sub break_connection {
    my ($relay, $path, $meanwhile) = @_;
    wait_until('Redis to decide', 10, sub { field(get($port, $path), 'X-Source') eq 'redis' });
    my $next = $relay->connections;
    $redis->cli(qw(CLIENT PAUSE 60000 WRITE));
    my $first = ask($path);
    wait_until('the call', 5, sub { $redis->cli(qw(CLIENT LIST TYPE normal)) =~ / flags=\w*b/ });
    my @others = map { ask($path) } 1 .. 5;
    get($port, '/served');    # accepted before
    $meanwhile->() if $meanwhile;
    $redis->cli(qw(CLIENT KILL TYPE normal));
    my $of_first = source($first);
    $redis->cli(qw(CLIENT UNPAUSE));
    my $of_others = join ' ', map { source($_) } @others;
    return ($of_first, $of_others, said($relay, $next));
}

wait_until('both to be connected', 10, sub { $redis->connections == 2 });
my ($first, $others, @said) = break_connection($zero, '/zero?k=a');
is($first, 'local', 'the connection breaks: the calls on it are decided without Redis');
is($others, 'redis redis redis redis redis', 'the connection breaks: Redis decides the waiting requests');
is($said[0], 'AUTH ROLE CONFIG SLIDING_LOG EVALSHA', 'the connection breaks: the call is sent in one write with the handshake');
is($redis->cli('ZCARD', 'rl:sliding:zero:{a}'), 6, 'the connection breaks: each request is logged once');

# another database: no call is executed before it is selected
($first, $others, @said) = break_connection($one, '/one?k=a');
is($others, 'redis redis redis redis redis', 'a database: Redis decides the waiting requests');
is("$said[0] | $said[1]", 'AUTH SELECT ROLE CONFIG SLIDING_LOG | EVALSHA', 'a database: the call waits until it is selected');
is($redis->cli(qw(EXISTS rl:sliding:one:{a})), 0, 'a database: nothing is logged in another database');

# the handshake is refused
my %refusals = (
    'another password' => [qw(AUTH WRONGPASS), [qw(ACL SETUSER limiter resetpass >another)], [qw(ACL SETUSER limiter >us3rpass)]],
    'a replica'        => [qw(ROLE slave),     [qw(REPLICAOF 127.0.0.1 1)],                  [qw(REPLICAOF NO ONE)]],
);
for my $what (sort keys %refusals) {
    my ($step, $answer, $refuse, $allow) = @{ $refusals{$what} };
    ($first, $others, @said) = break_connection($zero, "/zero?k=$step", sub { $redis->cli(@$refuse) });
    is("$first $others", 'local local local local local local', "$what: each request is decided without Redis");
    is(join(' | ', @said), 'AUTH ROLE CONFIG SLIDING_LOG EVALSHA', "$what: the call has left with the greeting");
    is($redis->cli('ZCARD', "rl:sliding:zero:{$step}"), 1, "$what: nothing more is logged");
    ok($nginx->logged(qr/$step answered: $answer/), "$what: the error log tells the cause");
    $redis->cli(@$allow);
}

# after a failure the probe is sent with the handshake too
ok(wait_until('Redis to decide', 10, sub { field(get($port, '/zero?k=p'), 'X-Source') eq 'redis' }), 'after a failure: Redis decides');
is((said($zero, $zero->connections - 1))[0], 'AUTH ROLE CONFIG SLIDING_LOG EVALSHA', 'after a failure: the probe is sent in one write with the handshake');

$bed->done;
