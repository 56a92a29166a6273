# Redis hangs under load. The first requests wait for the timeout; then the connection is closed and no request waits.

use strict;
use warnings;
use Test::More;
use Testbed;
use Testbed::Trial;

my $bed   = Testbed->new;
my $trial = Testbed::Trial->new($bed);

$trial->try('stopped and continued',
    fault => sub { $trial->redis->pause },
    lasts => [4, 1],
    mend  => sub { $trial->redis->resume },
    check => sub {
        my ($outage) = @_;
        cmp_ok($outage->percentile(0.9), '<=', 0.02 * Testbed::slow(), 'nine of ten requests are not affected');
    },
);

$bed->done;
