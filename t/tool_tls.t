# sliding-log over TLS: trusted and untrusted certificates, alone, in a cluster and behind a Sentinel.

use strict;
use warnings;
use Test::More;
use Testbed;
use Testbed::Certificates;
use Testbed::Tls qw(tls_is_built);
use Testbed::Tool qw(tool tool_json);

plan skip_all => 'hiredis here is older than 1.0: no TLS' unless tls_is_built();

my $bed    = Testbed->new;
my $ca     = Testbed::Certificates->new($bed);
my $other  = Testbed::Certificates->new($bed);
my @server = ($ca->issue(['IP:127.0.0.1', 'DNS:node.test']), $ca->file);
my @client = $ca->issue([]);
my @trust  = ('--tls', '--cacert', $ca->file);
my @us     = ('--cert', $client[0], '--key', $client[1]);

my $redis = $bed->redis(tls => \@server);
$redis->cli('ZADD', 'rl:sliding:api:{a}', int(time * 1000), 'one');
my @ask = ('inspect', 'api', 'a', '--server', $redis->address);
is(tool_json(@ask, @trust, @us)->{entries}, 1, 'a trusted server is asked');
for my $row (
    [[@trust],                                                   qr/certificate required|alert|closed|reset/i, 'without a client certificate'],
    [['--tls', '--cacert', $other->file, @us],                   qr/the server's certificate: unable to get local issuer certificate|self.signed/, 'one of another authority'],
    [[@trust, @us, '--sni', 'elsewhere.test'],                   qr/the server's certificate: hostname mismatch/, 'one of another name'],
    [['--tls', '--cacert', $redis->{log}],                       qr/"--cacert" has invalid value/, 'a file that is no certificate'],
    [['--timeout', '500ms'],                                     qr/no reply within 500 ms|closed|reset/i, 'without TLS'],
) {
    my ($options, $why, $what) = @$row;
    my $refused = tool(@ask, @$options);
    is($refused->{status}, 3, "$what: status 3");
    like($refused->{err}, $why, "$what: the reason is told");
}
is(tool(@ask, @trust, @us, '--sni', 'node.test')->{status}, 0, 'another name of the certificate is trusted');
is(tool(@ask, '--tls', '--insecure', '--cacert', $other->file, @us)->{status}, 0, '--insecure trusts any certificate');

my $cluster = $bed->cluster(tls => \@server);
my ($node, $far) = $cluster->nodes;
my $tag = $cluster->tag_on($far);
$far->cli('ZADD', "rl:sliding:api:{$tag}", int(time * 1000), 'one');
is(tool_json('inspect', 'api', $tag, '--mode', 'cluster', '--server', $node->address, @trust, @us)->{entries}, 1,
    'cluster: a node found through another node is asked');

my $sentinel = $bed->sentinel(master => $redis, tls => \@server, conf => ['tls-replication yes']);
is(tool_json('inspect', 'api', 'a', '--mode', 'sentinel', 'limits', '--server', $sentinel->address, @trust, @us)->{entries}, 1,
    'Sentinel: the master found through it is asked');

$bed->done;
