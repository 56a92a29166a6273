# A store stalls while a request asks several stores. The entries of a dry run are removed without those of enforced
# limits, and limits of another store are asked in time.

use strict;
use warnings;
use Test::More;
use Testbed qw(wait_until);
use Testbed::Http qw(get field);
use Time::HiRes qw(sleep);

my $bed   = Testbed->new;
my %redis = map { ($_ => $bed->redis) } qw(stalls well);
my $nginx = $bed->serve(
    STALLS => $redis{stalls}->address, WELL => $redis{well}->address,
    connections => 512,
    http        => <<'HTTP',
    sliding_log_redis stalls { server %%STALLS%%; timeout 200ms; connect_timeout 5s; }
    sliding_log_redis well   { server %%WELL%%; timeout 2s; connect_timeout 5s; }
    sliding_log_redis slow   { server %%STALLS%%; timeout 600ms; connect_timeout 5s; prefix slow:; }
    sliding_log_redis quick  { server %%WELL%%; timeout 600ms; connect_timeout 5s; prefix quick:; }
    sliding_log_log_level info;
    add_header X-Source $sliding_log_source always;
HTTP
    server      => <<'END',
    location = /dry {
        sliding_log_dry_run on;
        sliding_log_limit one key=$arg_k limit=5 window=1h store=stalls;
        sliding_log_limit two key=$arg_k limit=50 window=1h store=well;
        try_files /none /enforced?k=$arg_k;
    }
    location = /enforced { sliding_log_limit one key=$arg_k limit=5 window=1h store=stalls; empty_gif; }
    location = /apart {
        sliding_log_limit a key=$arg_k limit=100 window=1h store=slow;
        sliding_log_limit b key=$arg_k limit=100 window=1h store=quick;
        sliding_log_limit c key=$arg_k limit=100 window=1h store=quick;
        empty_gif;
    }
    location = /metrics { sliding_log_metrics; }
END
);
my $port = $nginx->port;

# The answer to a request while a store is stopped for this time.
sub get_stalled {
    my ($path, $seconds) = @_;
    $redis{stalls}->pause;
    my $waker = bless { log => '/dev/null' }, 'Testbed::Process';
    $waker->spawn_code(sub { sleep $seconds; $redis{stalls}->resume });
    my $answer = get($port, $path);
    $waker->wait_end(10);
    return $answer;
}
ok(wait_until('the stores', 10, sub { !grep { (field(get($port, "$_?k=warm"), 'X-Source') // '') ne 'redis' } qw(/dry /apart) }), 'all stores are asked');

for my $round (1 .. 3) {
    my $key = "rl:sliding:one:{k$round}";
    is(get_stalled("/dry?k=k$round", 0.3)->{status}, 200, "round $round: a request passes a dry run and a limit");
    ok(wait_until('the end of what is late', 10, sub { $redis{well}->cli('ZCARD', "rl:sliding:two:{k$round}") == 1 && $redis{stalls}->cli('ZCARD', $key) == 1 }),
        "round $round: one entry is there");
    sleep 0.5;
    is($redis{stalls}->cli('ZCARD', $key), 1, "round $round: the entry of the enforced limit stays after take-backs of the dry run");
    ok(wait_until('the store', 10, sub { (field(get($port, '/enforced?k=warm'), 'X-Source') // '') =~ /redis|cache/ }), "round $round: the store is asked again");
}

$redis{well}->cli(qw(SET quick:c:{p}), 'no log');
is(get_stalled('/apart?k=p', 1.5)->{status}, 200, 'a limit beside a refused limit and a stalled store');
is($redis{well}->cli(qw(ZCARD quick:b:{p})), 1, 'the limit is decided by its own store');

$bed->done;
