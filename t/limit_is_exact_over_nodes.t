# 3,000 requests at once over two nginx nodes of four workers each: exactly `limit` requests pass, and all of them are
# logged. The same with one worker, over kept-alive connections, and for several keys.

use strict;
use warnings;
use Test::More;
use Testbed qw(conf);
use Testbed::Http qw(flood many);

my $bed   = Testbed->new;
my $redis = $bed->redis;

# on_error allow: a request that the store could not decide would pass, and be one too many.
my $conf = conf(
    workers => '%%WORKERS%%',
    listen  => 'reuseport',
    store   => 'server %%REDIS%%; timeout 20s; connect_timeout 5s;',
    server  => <<'END',
    location / {
        sliding_log_limit exact key=$arg_k limit=500 window=1h;
        sliding_log_on_error allow;
        empty_gif;
    }
END
);

my @nodes = map { $bed->nginx($conf, REDIS => $redis->address, WORKERS => 4) } 1 .. 2;
my $single = $bed->nginx($conf, REDIS => $redis->address, WORKERS => 1);

sub statuses { my %seen = @_; return join ' ', map { "$_:$seen{$_}" } sort keys %seen }
sub zcard { my ($key) = @_; return $redis->cli('ZCARD', "rl:sliding:exact:{$key}") }

# Redis is stopped until every request is sent, so all of them wait at the same time.
$redis->pause;
my $seen = flood([map { [$nodes[$_ % 2]->port, '/?k=flood'] } 1 .. 3000], sub { $redis->resume });
is(statuses(%$seen), '200:500 429:2500', '3,000 at once over two nodes of four workers: exactly the limit passes');
is(zcard('flood'), 500, 'every admitted request is in the log');

my @answers = many([map { [$nodes[0]->port, "/?k=key" . $_ % 4] } 1 .. 2400]);
is(scalar(grep { $_->{status} == 200 } @answers), 2000, 'four keys have a limit each');
is(zcard("key$_"), 500, "the log of key $_ is full") for 0 .. 3;

for my $case (['--h1 -c 30', 'kept alive'], ['--h1 -c 10 -m 20', 'kept alive and pipelined']) {
    my ($how, $what) = @$case;
    my $key    = $what =~ s/\W//gr;
    my $output = `h2load $how -n 1500 'http://127.0.0.1:${\$single->port}/?k=$key' 2>&1`;
    like($output, qr/status codes: 500 2xx, 0 3xx, 1000 4xx, 0 5xx/, "one worker, $what: exactly the limit passes");
    is(zcard($key), 500, "one worker, $what: every admitted request is in the log");
}

$bed->done;
