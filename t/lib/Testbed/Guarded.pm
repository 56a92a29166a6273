package Testbed::Guarded;

# A master, its replica and three Sentinels, all with passwords, and an nginx that uses them: /deny and /local have the
# on_error of that name.

use strict;
use warnings;
use Test::More;
use Testbed ();
use Testbed::Http qw(get field);
use Testbed::Load;
use Time::HiRes qw(time);

my $redis_password    = 'redis-pass';
my $sentinel_password = 'watch-pass';

my $conf = Testbed::conf(
    workers => '%%WORKERS%%',
    store   => <<'STORE',
    server 127.0.0.1:%%NOBODY%%; server %%STRANGER%% %%SENTINELS%%; mode sentinel limits;
    sentinel_password %%SENTINEL_PASSWORD%%; password %%REDIS_PASSWORD%%; timeout 300ms;
    connect_timeout 300ms; reconnect %%RECONNECT%%;
STORE
    how     => '$sliding_log_source $pid $sliding_log_latency',
    server  => <<'END',
    location /deny  { sliding_log_limit load key=$arg_k limit=100000 window=1h; sliding_log_on_error deny; empty_gif; }
    location /local { sliding_log_limit near key=$arg_k limit=100000 window=1h; empty_gif; }
END
);

# workers => how many; reconnect => MIN MAX
sub new {
    my ($class, $bed, %options) = @_;
    my @redis = (args => ['--requirepass', $redis_password, '--masterauth', $redis_password, '--repl-diskless-sync-delay', 0],
        auth => ['-a', $redis_password]);
    my $master  = $bed->redis(@redis);
    my $replica = $bed->redis(@redis);
    $replica->cli('REPLICAOF', '127.0.0.1', $master->port);
    my @lines = ("requirepass $sentinel_password", "sentinel sentinel-pass $sentinel_password");
    my @auth  = (auth => ['-a', $sentinel_password]);
    my $self  = bless {
        redis     => [$master, $replica],
        stranger  => $bed->sentinel(conf => \@lines, @auth),
        sentinels => [map { $bed->sentinel(master => $master, quorum => 2, conf => \@lines, @auth) } 1 .. 3],
    }, $class;
    $_->cli('SENTINEL', 'SET', 'limits', 'auth-pass', $redis_password) for $self->sentinels;
    Testbed::wait_until('Sentinels to know each other and the replica', 20, sub {
        !grep { ($_->field('num-other-sentinels') // 0) != 2 || ($_->field('num-slaves') // 0) != 1 } $self->sentinels;
    }) or die "no Sentinels\n";
    $self->wait_agreed($master);
    $self->{bed}   = $bed;
    $self->{nginx} = $bed->nginx(
        $conf,
        NOBODY            => Testbed::free_port(),
        STRANGER          => $self->{stranger}->address,
        SENTINELS         => join(' ', map { $_->address } $self->sentinels),
        SENTINEL_PASSWORD => $sentinel_password,
        REDIS_PASSWORD    => $redis_password,
        WORKERS           => $options{workers} // 2,
        RECONNECT         => $options{reconnect} // '20ms 200ms',
    );
    return $self;
}

sub nginx { return $_[0]{nginx} }
sub conf  { return $conf }

# The decision of one request: (status, source, worker).
sub ask {
    my ($self, $path) = @_;
    my $answer = get($self->nginx->port, $path);
    return ($answer->{status}, split / /, field($answer, 'X-How') // '');
}

# Tests that Redis serves both workers.
sub both_serve {
    my ($self, $what) = @_;
    return ok($self->nginx->all_serve('/deny?k=both', 2, 15), $what);
}

# Tests that the other server takes over under load, and the effect on requests.
sub fails_over {
    my ($self, $what, $begin, $to) = @_;
    my $load = Testbed::Load->start($self->{bed}, $self->nginx->port, paths => ['/local?k=%d', '/deny?k=%d'], rate => 200);
    $begin->();

    # a replica has the same logs: only scripts that it runs itself show that it is asked
    ok(Testbed::wait_until("$what to be over", 20, sub { $to->cli('ROLE') =~ /^master/ && $to->calls('evalsha') > 100 }),
        "$what: the other server is asked");
    my $over = time + 0.5;
    Testbed::wait_until('some requests more', 5, sub { time > $over });
    my $record = $load->stop;
    my $local  = $record->that(path => qr/local/);
    is($local->statuses, '200:' . $local->count, "$what: no request fails under on_error local");
    cmp_ok($record->longest_wait, '<', 0.3 + 0.1 * Testbed::slow(), "$what: no request waits past the timeout");
    cmp_ok($record->that(source => 'redis', from => $over - 0.5)->count, '>', 0, "$what: Redis decides again");
    like($record->statuses, qr/^200:\d+(?: 503:\d+)?$/, "$what: the answers are 200 and 503 only");
    return;
}

sub redis     { return @{ $_[0]{redis} } }
sub sentinels { return @{ $_[0]{sentinels} } }

# A Sentinel that does not know the master.
sub stranger { return $_[0]{stranger} }

# Waits until that server is the master for all Sentinels, and the other one its replica in sync.
sub wait_agreed {
    my ($self, $master) = @_;
    my ($other) = grep { $_ != $master } $self->redis;
    return Testbed::wait_until('master, replica and Sentinels to agree', 20, sub {
        $other->cli('ROLE') =~ /^slave/
            && ($other->info('master_link_status') // '') eq 'up'
            && !grep { $_->master_port != $master->port || ($_->field('flags') // '') ne 'master' } $self->sentinels;
    });
}

1;
