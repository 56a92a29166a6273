# prefetch= over a round trip of 80 ms: the next permits of a busy key are asked for before the last ones end, so that no
# request waits. They are not asked for if the key is idle, or the limit is nearly used up.

use strict;
use warnings;
use IO::Select;
use Test::More;
use Testbed qw(wait_until);
use Testbed::Http qw(connect_to get field);
use Testbed::Metrics qw(scrape);
use Testbed::Relay;
use Testbed::Tool qw(tool_json);
use Time::HiRes qw(sleep time);

use constant { LATE => 0.08, RATE => 250, LIFE => 0.6 };    # seconds, requests a second

my $bed   = Testbed->new;
my $redis = $bed->redis;
my $relay = Testbed::Relay->new($bed, to => $redis->port, late => LATE);
my $nginx = $bed->serve(
    workers => 2,
    listen  => 'reuseport',
    store   => 'server 127.0.0.1:' . $relay->port . '; timeout 5s; connect_timeout 5s;',
    how     => '$sliding_log_source $sliding_log_remaining',
    http    => 'keepalive_requests 1000000;',
    server  => <<'END',
    location /compact { sliding_log_limit compact key=$arg_k limit=100000 window=1m algorithm=compact prefetch=10000; empty_gif; }
    location /log     { sliding_log_limit log     key=$arg_k limit=100000 window=1m prefetch=10000; empty_gif; }
    location /cost    { sliding_log_limit cost    key=$arg_k limit=100000 window=1m algorithm=compact cost=3 prefetch=10000; empty_gif; }
    location /two     {
        sliding_log_limit first  key=$arg_k limit=100000 window=1m prefetch=10000;
        sliding_log_limit second key=$arg_k limit=200000 window=1m prefetch=10000;
        empty_gif;
    }
    location /small   { sliding_log_limit small key=$arg_k limit=150 window=1m algorithm=compact prefetch=100; empty_gif; }
    location /metrics { sliding_log_metrics; }
END
);
my $port = $nginx->port;
ok(wait_until('both workers', 10, sub { !grep { (field(get($port, "/compact?k=warm$_"), 'X-How') // '') !~ /^redis/ } 1 .. 12 }), 'both workers are connected');
$relay->turn_late;

# Requests that do not wait for each other, for so many seconds: { source, sent (s), took (s), status, remaining } of each.
sub load {
    my ($path, $seconds) = @_;
    my (%sent, @free, @answers);
    my $select = IO::Select->new;
    my $begin  = time;
    my $count  = 0;
    while ((my $past = time - $begin) < $seconds || %sent) {
        while ($past < $seconds && $count < $past * RATE) {
            my $socket = pop @free // connect_to($port);
            $socket->syswrite("GET $path HTTP/1.1\r\nHost: localhost\r\n\r\n");
            $sent{$socket} = $past;
            $select->add($socket);
            $count++;
        }
        for my $socket ($select->can_read(0.001)) {
            sysread $socket, my $text, 65536 or die "closed\n";
            my ($status) = $text =~ m{^HTTP/1.1 (\d+)};
            my ($source, $remaining) = $text =~ /^X-How: (\w*) (\d*)/m;
            push @answers, { source => $source, status => $status, remaining => $remaining, took => time - $begin - $sent{$socket}, sent => delete $sent{$socket} };
            $select->remove($socket);
            push @free, $socket if $status == 200;
        }
    }
    return @answers;
}

sub number_of { my ($name) = @_; return scrape($port)->value("sliding_log_store_${name}_total") }

for my $name (qw(compact log cost two)) {
    my $before  = number_of('permits');
    my @answers = load("/$name?k=hot", 3.5);
    my @steady  = grep { $_->{sent} > 1.5 } @answers;
    my @waited  = grep { $_->{took} > LATE / 2 } @steady;
    is(scalar(grep { $_->{status} != 200 } @answers), 0, "$name: all are admitted");
    # otherwise the requests of 80 ms in each life of 600 ms wait, an eighth of them; a busy machine has some wait
    cmp_ok(scalar @waited, '<=', @steady / 30, "$name: no request waits for permits") or diag(join ' ', map { sprintf '%.2f', $_->{sent} } @waited);
    my $limits = $name eq 'two' ? 2 : 1;
    cmp_ok(number_of('permits') - $before, '<=', 3 * $limits * @answers, "$name: not many more permits are taken than requests arrive");
}

# ---- what is told

my @all     = load('/log?k=told', 3);
my @answers = sort { $a->{sent} <=> $b->{sent} } grep { $_->{source} eq 'prefetch' } @all;
my $used = $redis->cli('ZCARD', 'rl:sliding:log:{told}');
ok($answers[-1]{remaining} >= 100_000 - $used && $answers[-1]{remaining} <= 100_000 - @all + 50, 'remaining counts the permits of both lots as left') or diag("$answers[-1]{remaining} of $used");
ok(wait_until('the permits', 5, sub { $redis->cli('ZCARD', 'rl:sliding:log:{told}') == @all }), 'what was not used is returned') or diag($redis->cli('ZCARD', 'rl:sliding:log:{told}'));

# ---- a key that is idle, and a limit that is nearly used up

my $calls = number_of('calls');
load('/compact?k=idle', 0.7);
get($port, '/compact?k=idle');
sleep 2 * LIFE;
ok(wait_until('no more calls', 5, sub { my $now = number_of('calls'); my $is_quiet = $now == $calls; $calls = $now; sleep LIFE; $is_quiet }), 'nothing is asked for a key that is idle');
my @small = load('/small?k=a', 3);
is(scalar(grep { $_->{status} == 200 } @small), 150, 'exactly the limit is admitted, however few permits there are');
is(tool_json('inspect', '--server', $redis->address, 'small', 'a')->{used}, 150, 'and counted');

$bed->done;
