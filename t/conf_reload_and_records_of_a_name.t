# A worker that quits obeys the record of a whole NAME, too: newer workers read it for all that have their zone, and it
# reads itself what no newer worker does.

use strict;
use warnings;
use Test::More;
use Testbed qw(conf wait_until);
use Testbed::Http qw(connect_to get parse field);
use Time::HiRes qw(sleep);

my $bed   = Testbed->new;
my $redis = $bed->redis;

sub with {
    my ($zone, $limit) = @_;
    return conf(redis => $redis, how => '$sliding_log_source', http => "sliding_log_zone $zone;", server => "location / { $limit empty_gif; }");
}

my $limit = 'sliding_log_limit api key=$arg_k limit=3 window=1h override=name;';
my $nginx = $bed->nginx(with('10m', $limit));

# A request that the worker of now has, and that is not whole yet; it is decided when it is. No record is in force.
sub begin {
    ok(wait_until('the end of a record', 5, sub { get($nginx->port, '/?k=' . rand)->{status} == 200 }), 'nobody is denied');
    my $sockets = $nginx->sockets;
    my $client  = connect_to($nginx->port);
    $client->syswrite("GET /?k=1 HTTP/1.1\r\nHost: localhost\r\n");
    ok(wait_until('the connection', 5, sub { $nginx->sockets > $sockets }), 'a worker has a connection');
    return $client;
}

sub answer_to {
    my ($client) = @_;
    $client->syswrite("Connection: close\r\n\r\n");
    my $answer = parse(Testbed::Http::read_all($client, 10));
    return "$answer->{status} " . (field($answer, 'X-How') // '');
}

sub told { return $nginx->logged(qr/limit "api": all keys have override deny/) }

sub old_worker_ends { ok(wait_until('one worker', 5, sub { $nginx->workers == 1 }), 'it ends'); return }

sub record {
    my ($what) = @_;
    $redis->cli($what ? ('SET', 'rl:sliding:api:override', "$what until=0 since=1 by=tester why=") : ('DEL', 'rl:sliding:api:override'));
    return;
}

# the same zone

my $client = begin();
$nginx->configure(with('10m', $limit))->reload(told => 1);
record('deny');
ok(wait_until('the record', 5, sub { told() == 1 }), 'the same zone: the new worker reads the record');
my ($reads, $connects) = ($redis->calls('get'), $redis->info('total_connections_received'));
sleep 4;
$reads = $redis->calls('get') - $reads;
ok($reads >= 3 && $reads <= 5, 'once a second') or diag($reads);
is($redis->info('total_connections_received') - $connects, 2, 'only redis-cli connects meanwhile');
is(answer_to($client), '429 override', 'the old worker obeys it');
old_worker_ends();
record();

# another zone; and a NAME that nobody has any more

for (['another zone', '11m', $limit, 2], ['no such NAME', '11m', '', 1]) {
    my ($what, $zone, $new, $workers) = @$_;
    $client = begin();
    my $told = told();
    $nginx->configure(with($zone, $new))->reload(told => 1);
    record('deny');
    ok(wait_until('the record', 8, sub { told() == $told + $workers }), "$what: the old worker reads the record");
    is(answer_to($client), '429 override', "$what: it obeys");
    old_worker_ends();
    record();
}

$bed->done;
