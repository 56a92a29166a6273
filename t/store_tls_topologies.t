# Cluster and Sentinel over TLS, with client certificates: each server must have a certificate for the name by which it
# was found.

use strict;
use warnings;
use Test::More;
use Testbed qw(conf wait_until);
use Testbed::Certificates;
use Testbed::Http qw(get);
use Testbed::Sentinel;
use Testbed::Tls qw(tls_is_built);

plan skip_all => 'hiredis here is older than 1.0: no TLS' unless tls_is_built();

my $bed    = Testbed->new;
my $ca     = Testbed::Certificates->new($bed);
my @server = ($ca->issue(['IP:127.0.0.1', 'DNS:node.test']), $ca->file);
my @client = $ca->issue([]);
my $tls    = 'tls on; tls_trusted_certificate ' . $ca->file . "; tls_certificate $client[0]; tls_certificate_key $client[1];";

my $conf = conf(
    store  => '%%WHERE%% %%TLS%% timeout 3s; connect_timeout 3s; reconnect 20ms 200ms;',
    http   => 'sliding_log_on_error deny;',
    server => 'location / { sliding_log_limit t key=$arg_k limit=3 window=1h; empty_gif; }',
);
sub statuses { my ($nginx, $key) = @_; return join ' ', map { get($nginx->port, "/?k=$key")->{status} } 1 .. 4 }

# ---- Cluster

my $cluster = $bed->cluster(tls => \@server);
my $nginx   = $bed->nginx($conf, TLS => $tls, WHERE => 'mode cluster; server ' . ($cluster->nodes)[0]->address . ';');
for my $node ($cluster->nodes) {
    my $tag = $cluster->tag_on($node);
    is(statuses($nginx, $tag), '200 200 200 429', 'cluster: a node decides');
    is($cluster->zcard('t', $tag), 3, 'cluster: the node that decides has the log');
}
my ($from, $to) = $cluster->nodes;
my $tag = $cluster->tag_on($from);
get($nginx->port, "/?k=$tag") for 1 .. 2;
$cluster->move($cluster->slot_of($tag), $from, $to);
is(statuses($nginx, $tag), '200 429 429 429', 'cluster: a slot that moved is followed');

# nodes that call each other by name
$_->cli('CONFIG', 'SET', 'cluster-announce-hostname', 'node.test', 'cluster-preferred-endpoint-type', 'hostname') for $cluster->nodes;
sub all_called { my ($name) = @_; return !grep { !/^\S+ \S+,\Q$name\E[ ,]/ } map { split /\n/, $_->cli('CLUSTER', 'NODES') } $cluster->nodes }
ok(wait_until('the name to spread', 20, sub { all_called('node.test') }), 'cluster: the nodes are called by name');
$nginx->reload(gone => 1);
is(statuses($nginx, $cluster->tag_on($_)), '200 200 200 429', 'cluster: a node with the name of its certificate is trusted') for $cluster->nodes;
$_->cli('CONFIG', 'SET', 'cluster-announce-hostname', 'elsewhere.test') for $cluster->nodes;
ok(wait_until('the name to spread', 20, sub { all_called('elsewhere.test') }), 'cluster: the nodes are called by another name');
$nginx->reload(gone => 1);
is(statuses($nginx, $cluster->tag_on($to)), '503 503 503 503', 'cluster: a node with another name is not trusted');
ok(wait_until('the cause', 5, sub { $nginx->logged(qr/elsewhere\.test:\d+\): is down: TLS: the server's certificate: hostname mismatch/i) }),
    'cluster: the error log has the name that does not match the certificate');
$nginx->{values}{TLS} = "$tls tls_server_name node.test;";
$nginx->configure($conf)->reload(gone => 1);
is(statuses($nginx, $cluster->tag_on($to)), '200 200 200 429', 'cluster: with tls_server_name the certificate is trusted');

# ---- Sentinel

my $master   = $bed->redis(tls => \@server);
my $replica  = $bed->redis(tls => \@server, args => ['--replicaof', '127.0.0.1', $master->port, '--repl-diskless-sync-delay', 0]);
my $sentinel = Testbed::Sentinel->new($bed, master => $master, tls => \@server);
push @{ $bed->{processes} }, $sentinel;
ok(wait_until('the replica to be known', 20, sub { ($sentinel->field('num-slaves') // 0) == 1 && ($replica->info('master_link_status') // '') eq 'up' }),
    'Sentinel: the replica is known by TLS');
my $guarded = $bed->nginx($conf, TLS => $tls, WHERE => 'mode sentinel limits; server ' . $sentinel->address . ';');
is(statuses($guarded, 'a'), '200 200 200 429', 'Sentinel: the master named by the Sentinels decides');
is($master->cli('ZCARD', 'rl:sliding:t:{a}'), 3, 'Sentinel: the master has the log');
my $failed = $sentinel->begin_failover;
ok($failed, 'Sentinel: a fail-over begins');
my $key = 0;
ok(wait_until('the new master', 30, sub { get($guarded->port, '/?k=n' . $key++)->{status} == 200 && $replica->calls('evalsha') }),
    'Sentinel: the new master is found by TLS');

$bed->done;
