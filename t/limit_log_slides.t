# The window slides: entries leave one by one, each exactly one window after its arrival. Denied requests add nothing.

use strict;
use warnings;
use Test::More;
use Testbed qw(wait_until);
use Testbed::Http qw(get field);
use Time::HiRes qw(sleep);

my $bed   = Testbed->new;
my $redis = $bed->redis;
my $nginx = $bed->serve(workers => 2, redis => $redis, server => <<'END');
    location /full { sliding_log_limit full key=$arg_k limit=3 window=1h; empty_gif; }
    location / {
        sliding_log_limit slide key=$arg_k limit=3 window=1s;
        sliding_log_limit admitted key=$arg_k limit=100000 window=1h;    # records what the other limit admits
        empty_gif;
    }
END
my $port = $nginx->port;

sub scores { my ($name) = @_; my %of = split ' ', $redis->cli('ZRANGE', "rl:sliding:$name:{a}", 0, -1, 'WITHSCORES'); my @sorted = sort { $a <=> $b } values %of; return @sorted }
sub pttl { return $redis->cli('PTTL', 'rl:sliding:full:{a}') }

# a full log
is(join(' ', map { get($port, '/full?k=a')->{status} } 1 .. 3), '200 200 200', 'the limit is admitted');
my @logged = scores('full');
my $left   = pttl();
ok($left > 3_900_000 && $left <= 3_960_000, 'the time to live is the window and a tenth') or diag($left);
sleep 0.01;
for (1 .. 5) {
    my $denied = get($port, '/full?k=a');
    is($denied->{status}, 429, 'a full log: one more request is denied');
    like(field($denied, 'Retry-After'), qr/^3[56]\d\d$/, 'a full log: a denied request gets Retry-After');
}
is(join(' ', scores('full')), "@logged", 'denied requests are not logged');
cmp_ok(pttl(), '<', $left, 'denied requests do not extend the time to live');

# a sliding log: three entries at intervals, then a client that requests all the time
my %seen;
for (1 .. 3) {
    $seen{ get($port, '/?k=a')->{status} }++;
    sleep 0.2;
}
ok(wait_until('a dozen to be admitted', 20, sub {
    $seen{ get($port, '/?k=a')->{status} }++;
    $seen{200} >= 12;
}), 'requests keep being admitted');
my @came = scores('admitted');
is(scalar @came, $seen{200}, 'exactly the admitted requests are logged') or diag(explain(\%seen));
cmp_ok($seen{429} // 0, '>', 12, 'many more requests are denied than admitted');
is(join(' ', grep { $came[$_ + 3] - $came[$_] < 1000 } 0 .. $#came - 3), '', 'no window has more than the limit');
# A fixed window would admit three at once after its end.
my $early = grep { $came[$_ + 3] - $came[$_ + 2] < 1000 } 0 .. $#came - 3;
cmp_ok($early, '>', 0, 'there is room when the oldest entry leaves, not only when all have left');
my @now = scores('slide');
is("@now", "@came[-@now .. -1]", 'the log has the latest entries');
cmp_ok(scalar @now, '<=', 3, 'the log has no more entries than the limit');

$bed->done;
