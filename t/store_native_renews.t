# A request under way is renewed by the native module, or by the script if the module is unloaded meanwhile, or is an older
# one that has no such algorithm. A replica has its entry.

use strict;
use warnings;
use IO::Socket::INET;
use Test::More;
use Testbed qw(wait_until);
use Testbed::Http qw(connect_to);
use Testbed::Native qw(native_module unload);
use Testbed::NativeStore qw(asked location);
use Testbed::Relay;

delete $ENV{TEST_NATIVE};
my $bed     = Testbed->new;
my $redis   = $bed->redis(args => ['--loadmodule', native_module(), '--enable-module-command', 'yes']);
my $replica = $bed->redis(args => ['--replicaof', '127.0.0.1', $redis->port]);
wait_until('the replica to follow', 20, sub { $replica->info('master_link_status') eq 'up' });
my $waits = IO::Socket::INET->new(Listen => 9, LocalAddr => '127.0.0.1', Timeout => 20) or die "listen: $!";
my $store = Testbed::NativeStore->new($bed, $redis, location('log', 3, 'log', ''),
    'location /inflight { sliding_log_limit at key=$arg_k limit=2 algorithm=inflight lease=2s; proxy_pass http://127.0.0.1:' . $waits->sockport . "; }\n");

# A request that lasts is renewed twice, then $then is called and it is renewed twice again: the calls since it began.
sub lasts {
    my ($nginx, $key, $then) = @_;
    my $log   = "rl:sliding:at:{$key}";
    my $twice = sub {
        for (1, 2) {
            my $time = $redis->cli('ZRANGE', $log, 0, 0, 'WITHSCORES');
            ok(wait_until('a renewal', 10, sub { $redis->cli('ZRANGE', $log, 0, 0, 'WITHSCORES') ne $time }), "$key: its entry is renewed");
        }
        my @state = (['ZRANGE', $log, 0, -1, 'WITHSCORES'], ['PEXPIRETIME', $log]);
        ok(wait_until('the replica', 10, sub { !grep { $redis->cli(@$_) ne $replica->cli(@$_) } @state }), "$key: on the replica, too");
    };
    my $calls = $store->calls_of(sub {
        my $client = connect_to($nginx->port);
        $client->syswrite("GET /inflight?k=$key HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        my $backend = $waits->accept or die "the request did not arrive\n";
        $twice->();
        if ($then) {
            $then->();
            $twice->();
        }
        close $backend;
        Testbed::Http::read_all($client, 10);
    });
    ok(wait_until('its end', 10, sub { $redis->cli('EXISTS', $log) == 0 }), "$key: and given back");
    return $calls;
}

my $holds = $store->nginx('');
asked($holds, '/log?k=first');
like(lasts($holds, 'native'), qr/^0 evalsha, [3-9] sliding_log[.]2$/, 'the native module decides and renews');
unlike(lasts($holds, 'unloaded', sub { unload($redis) }), qr/^0 evalsha/, 'unloaded meanwhile: the script renews');
is($holds->logged(qr/on_error|unknown/), 0, 'the error log has nothing of it') if $redis->info('redis_version') =~ /^7[.]0[.]/;
$holds->finish;
$redis->cli('MODULE', 'LOAD', native_module());

# an older module, which has no such algorithm: asked for a decision, or first for a renewal
my %older = (
    decides => sub { $_[0] =~ s/(\r\nsliding_log\.2\r\n\$\d+\r\n)inflight/$1infinite/gr },
    renews  => sub { $_[0] =~ s/(\r\nsliding_log\.2\r\n\$8\r\n)inflight(?=\r\n\$1\r\n1\r\n\$\d+\r\n[^\r]*\r\n\$5\r\nrenew)/$1infinite/gr },
);
for my $how (sort keys %older) {
    my $old = $store->nginx('', '127.0.0.1:' . Testbed::Relay->new($bed, to => $redis->port, rewrites => $older{$how})->port);
    asked($old, '/log?k=first');
    # a short call and another one; or a decision and a renewal
    like(lasts($old, $how), qr/^[2-9] evalsha, 2 sliding_log[.]2$/, "$how: the script does what the older module does not");
    is($old->logged(qr/no such algorithm|on_error/), 0, "$how: the error log has nothing of it");
    $old->finish;
}

$bed->done;
