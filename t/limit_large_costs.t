# algorithm=compact: a request of a large cost is given back in one piece, and takes Redis about as little time as a
# small one.

use strict;
use warnings;
use Test::More;
use Testbed qw(wait_until);
use Testbed::Http qw(get field);

use constant LONGEST_MS => 500;    # of a script; entry by entry it takes some 7 s

my $bed   = Testbed->new;
my $redis = $bed->redis(args => ['--slowlog-log-slower-than', 1000 * LONGEST_MS]);
my $nginx = $bed->serve(
    REDIS  => $redis->address,
    store  => 'server %%REDIS%%; timeout 20s; connect_timeout 5s;',
    http   => 'sliding_log_on_error deny;',
    server => <<'END',
    location /back { sliding_log_limit large key=$arg_k limit=300000 window=1h algorithm=compact cost=$arg_c refund=200; empty_gif; }
    location /kept { sliding_log_limit large key=$arg_k limit=300000 window=1h algorithm=compact cost=$arg_c; empty_gif; }
END
);
sub left { my ($key) = @_; return (field(get($nginx->port, "/kept?k=$key&c=0"), 'RateLimit') // '') =~ /;r=(\d+)/ ? $1 : 'nothing' }

for my $cost (1, 2, 3, 4, 1000, 250_000) {
    for my $before (0, 1, 3, 5000) {
        my $key = "$cost-$before";
        get($nginx->port, "/kept?k=$key&c=$before");
        is(get($nginx->port, "/back?k=$key&c=$cost")->{status}, 200, "a cost of $cost behind one of $before is admitted");
        ok(wait_until('the refund', 5, sub { left($key) == 300_000 - $before }), "a cost of $cost behind one of $before is given back") or diag(left($key));
    }
}
get($nginx->port, "/kept?k=same&c=$_") for 1, 2, 3, 100_000, 5, 199_000, 2, 0;
is(left('same'), 987, 'costs of all sizes are logged');
cmp_ok($redis->cli('STRLEN', 'rl:sliding:large:{same}'), '<', 100, 'a log takes a few bytes a request, whatever their costs');
is($redis->cli(qw(SLOWLOG LEN)), 0, 'no script takes ' . LONGEST_MS . ' ms') or diag($redis->cli(qw(SLOWLOG GET)));

$bed->done;
