# Redis is up but cannot work yet, or has lost the scripts, under load. Calls are repeated within the timeout if
# possible, and on_error decides the rest.

use strict;
use warnings;
use Test::More;
use Testbed;
use Testbed::Trial;

my $bed = Testbed->new;

# a timeout that a busy machine does not reach: only the scripts are missing
my $patient = Testbed::Trial->new($bed, timeout => 3);
$patient->try('scripts flushed',
    fault => sub { $patient->redis->cli(qw(SCRIPT FLUSH)) for 1 .. 20 },
    lasts => 0.4,
    mend  => sub { $patient->redis->cli(qw(SCRIPT FLUSH)) },
    keeps_answering => 1,
);

my $trial = Testbed::Trial->new($bed, redis => { args => [qw(--enable-debug-command yes --busy-reply-threshold 20 --loading-process-events-interval-bytes 65536)] });
my $redis = $trial->redis;

# A script that stops when its key exists, which no client can set; SCRIPT KILL ends it
my $busy = "while redis.call('EXISTS', KEYS[1]) == 0 do end";
$trial->try('a script that does not end',
    fault => sub { $redis->in_background('EVAL', $busy, 1, 'never') },
    lasts => 1,
    mend  => sub { $redis->cli(qw(SCRIPT KILL)) },
    logged => qr/BUSY/,
);

# a large data set is loaded: the server accepts connections and answers LOADING
$redis->cli(qw(DEBUG POPULATE 200000 filler 32));
$redis->cli('SAVE');
push @{ $redis->{args} }, '--key-load-delay', -10;    # a pause every ten keys
$trial->try('started again with a large data set',
    fault => sub {
        $redis->kill;
        $redis->start;
    },
    lasts   => 0,
    mend    => sub { Testbed::wait_until('the data to be loaded', 20, sub { $redis->info('loading') eq '0' }) },
    forgets => 1,
    logged  => qr/LOADING/,
);

$bed->done;
