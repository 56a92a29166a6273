# Redis replies with errors, under load. on_error decides at once, the cause is in the error log, and Redis decides
# again as soon as it can.

use strict;
use warnings;
use Test::More;
use Testbed;
use Testbed::Trial;

my $bed   = Testbed->new;
my $trial = Testbed::Trial->new($bed, redis => { args => ['--maxmemory-policy', 'noeviction'] });
my $redis = $trial->redis;

$trial->try('no memory under noeviction',
    fault  => sub { $redis->cli(qw(CONFIG SET maxmemory 1)) },
    lasts  => 0.5,
    mend   => sub { $redis->cli(qw(CONFIG SET maxmemory 0)) },
    logged => qr/answered: OOM /,
);

$trial->try('made a replica',
    fault  => sub { $redis->cli(qw(REPLICAOF 127.0.0.1 1)) },
    lasts  => 0.5,
    mend   => sub { $redis->cli(qw(REPLICAOF NO ONE)) },
    logged => qr/answered: READONLY /,
);

# a master that has lost its replicas, with min-replicas-to-write: the worker does not leave it
my $lost;
sub connections_lost { return $trial->nginx->logged(qr/is down|connection lost|is left/) }
$trial->try('too few replicas',
    fault  => sub { $lost = connections_lost(); $redis->cli(qw(CONFIG SET min-replicas-to-write 1)) },
    lasts  => 0.5,
    mend   => sub { $redis->cli(qw(CONFIG SET min-replicas-to-write 0)) },
    logged => qr/answered: NOREPLICAS /,
    check  => sub {
        my ($during) = @_;
        is(connections_lost(), $lost, 'the connections stay');
        cmp_ok($during->percentile(0.9), '<', 0.05 * Testbed::slow(), 'on_error decides at once');
    },
);

# errors of one key do not affect others
my @others = map { "rl:sliding:many:{$_}" } 1 .. 5;
$trial->try('a key of another type',
    fault => sub { $redis->cli('RENAME', $_, "kept:$_"), $redis->cli('SET', $_, 'text') for @others[0, 1] },
    lasts => 0.5,
    mend  => sub { $redis->cli('RENAME', "kept:$_", $_) for @others[0, 1] },
    check => sub {
        my ($during) = @_;
        my $third = $during->that(path => qr/k=3$/);
        is($third->that(source => 'redis')->count, $third->count, 'Redis decides for the other keys');
    },
    logged => qr/answered: WRONGTYPE /,
);

$bed->done;
