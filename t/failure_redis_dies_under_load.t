# Redis is killed under load and comes back empty. No request waits or is refused, and the log of each node takes over.

use strict;
use warnings;
use Test::More;
use Testbed;
use Testbed::Trial;

my $bed   = Testbed->new;
my $trial = Testbed::Trial->new($bed);

$trial->try('killed and started again',
    fault   => sub { $trial->redis->kill },
    lasts   => 1,
    mend    => sub { $trial->redis->start },
    forgets => 1,
);

$bed->done;
