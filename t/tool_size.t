# sliding-log size measures the memory of logs by filling some, computes that of many, and leaves nothing behind,
# however it ends.

use strict;
use warnings;
use Test::More;
use Testbed qw(wait_until);
use Testbed::Process;
use Testbed::Tool qw(tool tool_json binary);

my $bed   = Testbed->new;
my $redis = $bed->redis(args => ['--maxmemory', '200mb']);
my @at    = ('--server', $redis->address);

my $size = tool_json('size', @at, '--entries', 1000, '--keys', 5000);
my %of   = map { ($_->{algorithm} => $_) } @{ $size->{algorithms} };
is("$size->{entries} $size->{keys} $size->{window_ms} $size->{maxmemory}", '1000 5000 60000 209715200', 'size prints its parameters');
cmp_ok($of{log}{key_bytes}, '>', 60_000, 'a ZSET takes more than 60 bytes an entry');
cmp_ok($of{log}{key_bytes}, '<', 150_000, 'a ZSET takes less than 150 bytes an entry');
cmp_ok($of{compact}{key_bytes}, '<', 2000, 'a compact log takes less than two bytes an entry');
is($of{$_}{bytes}, 5000 * $of{$_}{key_bytes}, "$_: the keys take as many times the bytes of one") for sort keys %of;
is($redis->cli('DBSIZE'), 0, 'size leaves no keys');
cmp_ok(tool_json('size', @at, '--entries', 1000, '--id-length', 32)->{algorithms}[0]{key_bytes}, '>', $of{log}{key_bytes} + 10_000, 'longer ids take more');
my $human = tool('size', @at, '--keys', 50_000, '--entries', 100);
like($human->{out}, qr{^algorithm +one key +an entry +50,000 keys +of maxmemory +suggested maxmemory\nlog .* % +(\d+m)\ncompact .* % +\d+m\ncounter .* % +\d+m\nbucket .* % +\d+m\nsampled .* % +\d+m$}m,
    'size prints a table');
is($human->{status}, 0, 'size exits with 0');
my ($suggested) = $human->{out} =~ /^log .* (\d+m)$/m;
is($redis->cli('CONFIG', 'SET', 'maxmemory', $suggested), 'OK', 'Redis accepts the suggested maxmemory');
my $taken = $redis->info('maxmemory');
$redis->cli('CONFIG', 'SET', 'maxmemory', '200mb');
my $again = tool_json('size', @at, '--keys', '50k', '--entries', 100);
my ($log) = grep { $_->{algorithm} eq 'log' } @{ $again->{algorithms} };
is($again->{keys}, 50_000, '50k keys are 50,000');
is($log->{suggested_maxmemory}, $taken, 'size --json has it in bytes');
my $share = ($log->{bytes} + $again->{used_memory}) / $taken;
cmp_ok($share, '<=', 0.75, 'the logs and the used memory leave a quarter of it free');
cmp_ok($share, '>', 0.65, 'the suggested maxmemory is not larger than needed');

my $large = tool('size', @at, '--entries', 1_000_000);
is($large->{status}, 3, 'a fill that Redis might have no room for is refused');
like($large->{err}, qr/more than half of the free memory: nothing was written/, 'a refused fill has a message');
like($large->{err}, qr/; run it on an empty Redis of the same version instead: redis-server --port 6380 on this machine, and --server 127\.0\.0\.1:6380; or with fewer --entries$/, 'and says where to run it');
is($redis->cli('DBSIZE'), 0, 'a fill that is refused writes nothing');

# on a terminal it shows its progress; a closed terminal, or Ctrl-C, during a long fill
my @long = (binary(), 'size', @at, '--entries', 300_000, '--window', '1h');
sub started {
    my (@command) = @_;
    my $tool = bless { log => '/dev/null' }, 'Testbed::Process';
    push @{ $bed->{processes} }, $tool;
    $tool->spawn_code(sub { open STDIN, '<', '/dev/null'; open STDERR, '>', '/dev/null'; open STDOUT, '>', '/dev/null'; exec @command });
    ok(wait_until('keys', 20, sub { $redis->cli('DBSIZE') > 0 }), 'a long fill begins');
    return $tool;
}
my $screen   = $bed->dir . '/screen';
my $terminal = started('script', '-qfc', "@long", $screen);
ok(wait_until('its progress', 20, sub { Testbed::Process::slurp($screen) =~ /filling one key per algorithm \[#*\.+\] +\d+ %/ }),
    'a long fill shows its progress');
$terminal->kill;
ok(wait_until('no keys', 20, sub { $redis->cli('DBSIZE') == 0 }), 'a long fill removes its keys when the terminal closes');
my $interrupted = started(@long);
unlike($redis->cli('TTL', $redis->cli('KEYS', '*')), qr/^-/, 'keys of a long fill have a time to live');
$interrupted->signal('INT');
ok($interrupted->wait_end(10 * Testbed::slow()), 'Ctrl-C ends a long fill');
is($interrupted->{status} >> 8, 130, 'Ctrl-C: the status is 130');
is($redis->cli('DBSIZE'), 0, 'Ctrl-C: the keys are gone');

$bed->done;
