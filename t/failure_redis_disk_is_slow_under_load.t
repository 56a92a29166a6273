# appendfsync always on a slow disk: Redis's event loop waits for the disk each time. If that takes less than the
# timeout, Redis decides all requests. If it takes longer, on_error decides, without a wait after the first request,
# until the disk is fast again.

use strict;
use warnings;
use Test::More;
use Testbed;
use Testbed::Trial;

local $ENV{TMPDIR} = '/dev/shm' if -w '/dev/shm';    # the disk of this machine must not be slow, too
my $bed   = Testbed->new;
my $trial = Testbed::Trial->new($bed, timeout => 0.3, redis => { args => [qw(--appendonly yes --appendfsync always --enable-debug-command yes)] });

sub flushes_in { my ($ms) = @_; return $trial->redis->cli(qw(DEBUG AOF-FLUSH-SLEEP), 1000 * $ms) }

is(flushes_in(0), 'OK', 'Redis can be told to flush slowly');
$trial->try('a flush takes 15 ms', lasts => 1.5, keeps_answering => 1, fault => sub { flushes_in(15) }, mend => sub { flushes_in(0) });
$trial->try('a flush takes longer than the timeout', lasts => 4, logged => qr/timed out|answers later than/, fault => sub { flushes_in(600) }, mend => sub { flushes_in(0) });

$bed->done;
