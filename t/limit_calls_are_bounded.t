# One call takes Redis about a millisecond at most, bounded by the number of its logs, requests and entries, not by the
# clock. Requests are still decided in the order of their arrival, and a popular log does not delay the other logs of
# its worker.

use strict;
use warnings;
use IO::Socket::INET;
use List::Util qw(max sum0);
use Test::More;
use Testbed qw(wait_until slow);
use Testbed::Http qw(get);
use Testbed::Http2 qw(open_http2 ask_stream answers);

use constant {
    MOST_ENTRIES => 1000,    # in one call: about a microsecond each
    MOST_LOGS    => 150,     # some seven microseconds each
    MOST_HELD    => 100,     # some ten microseconds each
};

my $bed   = Testbed->new;
my $redis = $bed->redis;
my $nginx = $bed->serve(
    REDIS  => $redis->address,
    store  => 'server %%REDIS%%; timeout 20s; connect_timeout 5s;',
    http   => <<'HTTP',
    keepalive_requests 100000;
    http2_max_concurrent_streams 10000;
    sliding_log_on_error deny;
    sliding_log_log_level info;
HTTP
    server => <<'END',
    listen 127.0.0.1:%%PORT2%% http2;
    location /log     { sliding_log_limit log key=$arg_k limit=$arg_l cost=$arg_c window=1h; empty_gif; }
    location /sampled { sliding_log_limit sampled key=$arg_k limit=$arg_l cost=$arg_c window=1h algorithm=sampled sample=1; empty_gif; }
    location /compact { sliding_log_limit compact key=$arg_k limit=$arg_l cost=$arg_c window=1h algorithm=compact; empty_gif; }
    location /held    { sliding_log_limit held key=$arg_k limit=$arg_l window=1s delay=1m; empty_gif; }
    location /free    { empty_gif; }
END
);
my $port = $nginx->port;

my $monitor = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $redis->port) or die "connect: $!";
$monitor->syswrite("MONITOR\r\n");
<$monitor>;

# The calls since the last time, without take-backs: { keys, requests, entries (with log) }
sub calls {
    my ($cost) = @_;
    $redis->cli('ECHO', 'that is all');
    my @calls;
    while (defined(my $line = <$monitor>)) {
        last if $line =~ /"ECHO" "that is all"/i;
        my ($text) = $line =~ /\] "evalsha" (.*)/i or next;
        my (undef, $keys, @words) = $text =~ /"([^"]*)"/g;
        my @names = splice @words, 0, $keys;
        if (grep { @words == $_ } 3, 4, $keys + 3, $keys + 4) {    # a plain call, perhaps with options: a request for each log
            push @calls, { names => \@names, requests => $keys, entries => $keys * $cost };
            next;
        }
        shift @words;    # the time
        my $requests = 0;
        for (1 .. $keys) {    # each batch has one log here
            my (undef, $here) = splice @words, 0, 2;
            splice @words, 0, $here;
            splice @words, 0, $words[0] eq '' ? 1 : 5;
            $requests += $here;
        }
        push @calls, { names => \@names, requests => $requests, entries => $requests * $cost };
    }
    return @calls;
}

# Statuses of these paths, requested in this order on one connection while Redis is stopped, in writes of this size.
sub ask_in_order {
    my (@paths) = @_;
    my $socket  = open_http2($nginx->port('PORT2'));
    my @streams = map { 2 * $_ + 1 } 0 .. $#paths;
    $redis->pause;
    ask_stream($socket, $streams[$_], $paths[$_]) for 0 .. $#paths;
    ask_stream($socket, 2 * @paths + 1, '/free');
    my $free = answers($socket, [2 * @paths + 1], 20);    # nginx has read them all
    $redis->resume;
    my $answers = answers($socket, \@streams, 20);
    return map { $answers->{$_}{status} } @streams;
}

get($port, '/log?k=warm&l=9&c=1');
get($port, "/$_?k=warm&l=9&c=1") for qw(sampled compact held);
calls(1);

for my $of (['log', 1, 1500], ['log', 2, 700], ['log', 10, 500], ['log', 100, 60], ['log', 1000, 6], ['sampled', 10, 400], ['compact', 1, 1500]) {
    my ($algorithm, $cost, $requests) = @$of;
    my $fits     = int $requests * 0.7;
    my $what     = "$requests requests of one key under $algorithm, cost $cost";
    my @statuses = ask_in_order(map { '/' . $algorithm . "?k=$cost-$requests&c=$cost&l=" . $fits * $cost } 1 .. $requests);
    is(join(' ', @statuses), join(' ', (200) x $fits, (429) x ($requests - $fits)), "$what: the first $fits are admitted");
    my @calls = calls($cost);
    cmp_ok(max(map { $_->{requests} == 1 ? 0 : $_->{entries} } @calls), '<=', MOST_ENTRIES, "$what: no call has too many entries") if $algorithm ne 'compact';
    my $asked = sum0(map { $_->{requests} } @calls);
    ok($fits < $asked && $asked <= $requests, "$what: each is asked once, or denied by what was denied before it") or diag($asked);
    cmp_ok(scalar @calls, '<=', 5 + 3 * $requests * $cost / MOST_ENTRIES, "$what: in few calls");
}

# reservations
my @statuses = ask_in_order(map { '/held?k=held&l=500' } 1 .. 700);
is(join(' ', @statuses), join(' ', (200) x 700), '700 requests of one key that are held, or not');
cmp_ok(max(map { $_->{requests} } calls(1)), '<=', MOST_HELD, 'no call has too many requests that may be held');

# many keys
@statuses = ask_in_order(map { "/log?k=many$_&l=1&c=1" } 1 .. 2000);
is(scalar(grep { $_ == 200 } @statuses), 2000, '2000 keys at once');
my @calls = calls(1);
cmp_ok(max(map { scalar @{ $_->{names} } } @calls), '<=', MOST_LOGS, '2000 keys at once: no call has too many logs');
is(sum0(map { $_->{requests} } @calls), 2000, '2000 keys at once: each is in one call');

# denials that take Redis long: of one key one at a time, whatever their costs
get($port, '/compact?k=long&l=100000&c=100000');
calls(1);
for my $of (['growing', 1, map { 40_000 + $_ } 1 .. 20], ['falling', 20, map { 40_000 - $_ } 1 .. 20]) {
    my ($how, $calls, @costs) = @$of;
    @statuses = ask_in_order(map { "/compact?k=long&l=100000&c=$_" } @costs);
    is("@statuses", join(' ', (429) x 20), "a full log and 20 $how costs: all are denied");
    is(join(' ', map { $_->{requests} } calls(1)), join(' ', (1) x $calls), "a full log and 20 $how costs: each call has one, and what is known makes none");
}

# a flood of one key, and the others
@statuses = ask_in_order((map { '/log?k=hot&l=1000000&c=100' } 1 .. 200), map { "/log?k=calm$_&l=100&c=100" } 1 .. 5);
is(scalar(grep { $_ == 200 } @statuses), 205, 'a flood of one key, and others');
my ($hot, $before) = (0, undef);
for (map { @{ $_->{names} } } calls(100)) {
    $hot++ if /hot/;
    $before = $hot if /calm5/;
}
cmp_ok($hot, '>', 20, 'a flood of one key is sent in many calls');
cmp_ok($before, '<=', 2, 'other keys wait for at most two of these calls');

$bed->done;
