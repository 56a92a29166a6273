# Passwords and rights change in Redis under load. on_error decides at once, the cause is in the error log, and Redis
# decides again as soon as it is permitted.

use strict;
use warnings;
use Test::More;
use Testbed;
use Testbed::Trial;

my $bed   = Testbed->new;
my $trial = Testbed::Trial->new($bed, more => 'password secret;',
    redis => { args => ['--requirepass', 'secret'], auth => ['-a', 'secret'] });
my $redis = $trial->redis;

# another password: the open connection is kept, a new one cannot log in
$trial->try('another password',
    fault => sub {
        $redis->cli(qw(CONFIG SET requirepass other));
        $redis->{auth} = ['-a', 'other'];
        $redis->cli(qw(CLIENT KILL TYPE normal));
    },
    lasts => 0.5,
    mend  => sub {
        $redis->cli(qw(CONFIG SET requirepass secret));
        $redis->{auth} = ['-a', 'secret'];
    },
    logged => qr/is down: AUTH answered: WRONGPASS/,
);

$trial->try('a command forbidden',
    fault  => sub { $redis->cli(qw(ACL SETUSER default -evalsha)) },
    lasts  => 0.5,
    mend   => sub { $redis->cli(qw(ACL SETUSER default +@all)) },
    logged => qr/answered: NOPERM /,
);

$trial->try('keys forbidden',
    fault  => sub { $redis->cli(qw(ACL SETUSER default resetkeys ~other:*)) },
    lasts  => 0.5,
    mend   => sub { $redis->cli(qw(ACL SETUSER default ~*)) },
    logged => qr/answered: NOPERM /,
);

$bed->done;
