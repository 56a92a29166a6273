# Redis replies later than the timeout, under load. This is handled as no reply: the connection is closed, and no
# request waits until Redis replies in time again.

use strict;
use warnings;
use Test::More;
use Testbed;
use Testbed::Trial;

my $bed   = Testbed->new;
my $trial = Testbed::Trial->new($bed, relay => { late => 0.16 });

$trial->try('answers late',
    fault => sub { $trial->relay->turn_late },
    lasts => [4, 1],
    mend  => sub { $trial->relay->turn_late },
    check => sub {
        my ($outage) = @_;
        cmp_ok($outage->percentile(0.9), '<=', 0.02 * Testbed::slow(), 'nine of ten requests are not affected');
    },
);

$bed->done;
