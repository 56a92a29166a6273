# The window slides: entries leave one by one, each exactly one window after it came; denied requests add nothing.

use strict;
use warnings;
use Test::More;
use Testbed qw(wait_until);
use Testbed::Http qw(get field);
use Time::HiRes qw(sleep);

my $bed   = Testbed->new;
my $redis = $bed->redis;
my $nginx = $bed->nginx(<<'END', REDIS => $redis->address);
%%GLOBALS%%
worker_processes 2;
events { }
http {
    %%HTTP%%
    access_log off;
    sliding_log_redis { server %%REDIS%%; timeout 5s; connect_timeout 5s; }
    server {
        listen 127.0.0.1:%%PORT%%;
        location / {
            sliding_log_limit slide key=$arg_k limit=3 window=2s;
            sliding_log_headers all;
            empty_gif;
        }
    }
}
END

sub scores { my %of = split ' ', $redis->cli(qw(ZRANGE rl:sliding:slide:{a} 0 -1 WITHSCORES)); return sort values %of }

for my $i (1 .. 3) {
    is(get($nginx->port, '/?k=a')->{status}, 200, "request $i of 3 is admitted");
    sleep 0.6;
}
my @first = scores();
for (1 .. 5) {
    my $denied = get($nginx->port, '/?k=a');
    is($denied->{status}, 429, 'a fourth one in the window is denied');
    like(field($denied, 'Retry-After'), qr/^[12]$/, '  and told when to come back');
}
is(join(' ', scores()), "@first", 'denied requests are not logged');
cmp_ok($redis->cli(qw(PTTL rl:sliding:slide:{a})), '<=', 2200, 'time to live is window + slack at most');
cmp_ok($redis->cli(qw(PTTL rl:sliding:slide:{a})), '>',  1000, 'and counts from the newest entry');

# the next slot frees when the oldest is one window old, not earlier
my $admitted = wait_until('the oldest entry to leave', 5, sub { get($nginx->port, '/?k=a')->{status} == 200 });
ok($admitted, 'a slot frees');
my @second = scores();
is(scalar @second, 3, 'the log holds the limit again');
is("@second[0, 1]", "@first[1, 2]", 'the oldest entry left, the others stayed');
cmp_ok($second[2], '>=', $first[0] + 2000, 'not before its window was over');
is(get($nginx->port, '/?k=a')->{status}, 429, 'one slot, one request: not a new window');

# for any four entries in a row, the fourth is a window after the first
my @all = @first;
ok(wait_until('five more to be admitted', 10, sub {
    get($nginx->port, '/?k=a');
    push @all, grep { $_ > $all[-1] } scores();
    @all >= 8;
}), 'requests keep being admitted');
is(scalar(grep { $all[$_ + 3] - $all[$_] < 2000 } 0 .. $#all - 3), 0, 'no window ever held more than the limit');

$bed->done;
