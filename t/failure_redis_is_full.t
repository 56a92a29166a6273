# A full Redis with noeviction, asked by the scripts and by the native module: which requests of each algorithm it still
# admits and logs, as docs/operations.md tells. A denial needs no memory.

use strict;
use warnings;
use Test::More;
use Testbed qw(wait_until);
use Testbed::Algorithm qw(@ALL_ALGORITHMS horizon takes);
use Testbed::Clock;
use Testbed::Http qw(get);
use Testbed::Native qw(native_module);

# Four keys for each algorithm: without a log; with a log that has room; with one whose first entries have left the
# window; with a full one.
my %expected = (
    log      => '503 200 200 429',
    sampled  => '503 200 200 429',
    compact  => '503 503 503 429',
    counter  => '503 503 503 429',
    bucket   => '503 503 503 429',
    quota    => '503 503 503 429',
    inflight => '503 503 - -',
);

my $bed      = Testbed->new;
my $now      = 1_800_000_000_000;
my $clock    = Testbed::Clock->new($bed->dir, standing => 1)->set($now);
my $redis    = $bed->redis(clock => $clock, args => ['--loadmodule', native_module(), '--maxmemory-policy', 'noeviction']);
my @settings = map {
    my $algorithm = $_;
    my $sample    = takes($algorithm, 'sample') ? 'sample=1' : '';
    map { "location /$_/$algorithm { sliding_log_limit ${_}_$algorithm key=\$arg_k limit=5 algorithm=$algorithm $sample " . horizon($algorithm, $_, 'month') . '; empty_gif; }' } qw(1h 2s);
} @ALL_ALGORITHMS;
my %nginx = map {
    $_ => $bed->serve(
        store   => "server @{[$redis->address]}; timeout 2s; native $_;",
        http    => 'sliding_log_on_error deny;',
        server  => "@settings location /inflight { sliding_log_limit inflight key=\$arg_k limit=5 algorithm=inflight; empty_gif; }",
        workers => 1,
        )
} qw(off auto);

for my $native (sort keys %nginx) {
    my $ask = sub { return get($nginx{$native}->port, $_[0])->{status} };
    my $asked = 0;
    ok(wait_until('Redis to decide', 20, sub { $ask->('/1h/log?k=first' . ++$asked) == 200 }), "native $native: Redis is asked");
    $redis->cli('FLUSHALL');
    for my $algorithm (@ALL_ALGORITHMS) {
        is(join(' ', map { $ask->("/1h/$algorithm?k=$_") } 'room', ('full') x 5), '200 200 200 200 200 200', "native $native, $algorithm: with memory there is room");
        $ask->("/2s/$algorithm?k=left");
    }
    $clock->set($now += 1000);
    $ask->("/2s/$_?k=left") for @ALL_ALGORITHMS;
    $clock->set($now += 1400);    # the first ones have left, and the second ones have not
    $redis->cli('ZADD', 'rl:sliding:inflight:{room}', $now + 30_000, 'of a request under way');
    $redis->cli(qw(CONFIG SET maxmemory 1));
    for my $algorithm (@ALL_ALGORITHMS) {
        my @found = map { $ask->($_) } "/1h/$algorithm?k=new", "/1h/$algorithm?k=room", "/2s/$algorithm?k=left", "/1h/$algorithm?k=full";
        is("@found", $expected{$algorithm}, "native $native, $algorithm: a full Redis admits what the documentation says");
    }
    is($ask->('/inflight?k=new') . ' ' . $ask->('/inflight?k=room') . ' - -', $expected{inflight}, "native $native, inflight: a full Redis takes no new entry");
    $redis->cli(qw(CONFIG SET maxmemory 0));
}
$bed->done;
