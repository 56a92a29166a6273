# Under load, each connection to Redis fails one byte later than the previous one, through the whole handshake and the
# first replies: closed, reset, stalled, delayed, corrupted. Every request is decided in time.

use strict;
use warnings;
use Test::More;
use Testbed qw(wait_until slow);
use Testbed::Load;
use Testbed::Relay;
use Time::HiRes qw(time);

my $bed   = Testbed->new;
my $redis = $bed->redis(args => ['--requirepass', 'secret'], auth => ['-a', 'secret']);

use constant BYTES => 420;    # the replies of a handshake have some 90 bytes, a reply some 50

# Slow faults share the bytes.
my @faults = (
    ['close', 0, 1], ['reset', 0, 1], (map { ['flip', $_, 2] } 0, 1), (map { ['delay', $_, 2] } 0, 1),
    (map { ['hold', $_, 5] } 0 .. 4),
);
my ($blocks, $locations, @relays) = ('', '');
for my $i (0 .. $#faults) {
    push @relays, Testbed::Relay->new($bed, to => $redis->port, each_byte => $faults[$i]);
    $blocks .= "sliding_log_redis r$i { server 127.0.0.1:" . $relays[$i]->port
        . "; password secret; database 1; timeout 30ms; connect_timeout 30ms; reconnect 1ms 4ms; }\n";
    $locations .= "location /$i/ { sliding_log_limit l$i key=\$arg_k limit=1000000 window=1h store=r$i; empty_gif; }\n";
}
my $nginx = $bed->serve(
    BLOCKS => $blocks, LOCATIONS => $locations,
    connections => 2048,
    http        => '%%BLOCKS%%',
    how         => '$sliding_log_source $pid $sliding_log_latency',
    server      => '%%LOCATIONS%%',
);
my ($worker) = $nginx->workers;

my $begin = time;
my $load  = Testbed::Load->start($bed, $nginx->port, paths => [map { "/$_/?k=1" } 0 .. $#faults], rate => 900);
sub behind { return grep { $relays[$_]->connections * $faults[$_][2] <= BYTES } 0 .. $#faults }
ok(wait_until('each byte to have its turn', 30, sub { !behind() }), 'a connection failed at each byte')
    or diag(join ', ', map { "$faults[$_][0] " . $relays[$_]->connections } behind());
my $lasted = time - $begin;
my $record = $load->stop;

for my $i (0 .. $#faults) {
    my $mine = $record->that(path => qr{^/$i/});
    my $what = join ' ', @{ $faults[$i] };
    like($mine->statuses, $faults[$i][0] eq 'flip' ? qr/^200:\d+(?: 429:\d+)?$/ : qr/^200:\d+$/, "$what: every request is decided");
    cmp_ok($mine->that(source => 'redis')->count, '>', 0, "$what: some requests are decided by Redis") if $faults[$i][0] ne 'hold';
    cmp_ok($mine->that(source => 'local')->count, '>', 0, "$what: some requests are decided without Redis") if $faults[$i][0] ne 'delay';
    cmp_ok($mine->longest_wait, '<=', 0.03 + 0.1 * slow(), "$what: every request is decided in time");
}
note(sprintf '%d requests in %.1f s, p90 %.1f ms, slowest %.1f ms', $record->count, $lasted,
    map { 1000 * $_ } $record->percentile(0.9), $record->slowest);
is(join(' ', $nginx->workers), $worker, 'the worker survives all failures');
# the listening socket, the master's, and one for each store
ok(wait_until('sockets to be closed', 5, sub { $nginx->sockets <= 2 + @faults }), 'no socket is left');
is(join("
", $nginx->repeated_troubles), '', 'each store writes about a line a second for each cause');

$bed->done;
