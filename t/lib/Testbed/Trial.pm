package Testbed::Trial;

# A fault in Redis under load, and the conditions for every fault: no crash, no request waits longer
# than the timeout, 5xx only if on_error denies, exact totals, Redis decides again in time, a short error log, and the
# same connections and memory as before. Each fault is tried twice, the second time with a reload in the middle.

use strict;
use warnings;
use Test::More;
use Testbed qw(conf);
use Testbed::Load;
use Testbed::Redis;
use Testbed::Relay;
use Testbed::Stopwatch;
use Time::HiRes qw(sleep time);

use constant {
    LONGEST => 0.3,    # between two attempts to connect
    LIMIT   => 40,     # of /few
    WORKERS => 2,
};

my $conf = conf(
    workers     => 2,
    connections => 2048,
    listen      => 'reuseport',
    store       => 'server %%REDIS%%; timeout %%TIMEOUT%%ms; connect_timeout %%CONNECT%%; reconnect 20ms 300ms; %%MORE%%',
    http        => 'sliding_log_log_level info;',
    how         => '$sliding_log_source $pid $sliding_log_latency',
    server      => <<'END',
    location /many { sliding_log_limit many key=$arg_k limit=1000000 window=1h; empty_gif; }
    location /few  { sliding_log_limit few key=$arg_k limit=40 window=1h; empty_gif; }
    location /deny { sliding_log_limit many key=$arg_k limit=1000000 window=1h; sliding_log_on_error deny; empty_gif; }
END
);

# redis => options of Testbed::Redis; more => in the sliding_log_redis block; timeout => seconds; connect => its
# connect_timeout; relay => its
# options: Redis is reached through one
sub new {
    my ($class, $bed, %options) = @_;
    my $redis = $bed->redis(%{ $options{redis} // {} });
    my $self  = bless { bed => $bed, redis => $redis, timeout => $options{timeout} // 0.1, tried => 0 }, $class;
    my $address = $redis->address;
    if ($options{relay}) {
        $self->{relay} = Testbed::Relay->new($bed, to => $redis->port, %{ $options{relay} });
        $address = '127.0.0.1:' . $self->{relay}->port;
    }
    $self->{nginx} = $bed->nginx($conf, REDIS => $address, TIMEOUT => 1000 * $self->{timeout}, CONNECT => $options{connect} // '1s', MORE => $options{more} // '');
    return $self;
}

sub redis { return $_[0]{redis} }
sub nginx { return $_[0]{nginx} }
sub relay { return $_[0]{relay} }

# fault => code; lasts => seconds, or [without, with the reload]; mend => code. Expectations:
# keeps_answering => 1: Redis decides all requests during the fault
# logged          => regex of a line with the cause; the fault lasts until it is logged
# forgets         => 1: Redis's logs are lost with the fault
# check           => code that is given the Testbed::Load::Record of the time until it was mended; without the reload
sub try {
    my ($self, $what, %fault) = @_;
    for my $reload (0, 1) {
        subtest $reload ? "$what, with a reload in the middle" : $what => sub { $self->try_once($reload, %fault) };
    }
    return;
}

sub try_once {
    my ($self, $reload, %fault) = @_;
    my ($redis, $nginx) = @$self{qw(redis nginx)};
    my $lasts = ref $fault{lasts} ? $fault{lasts}[$reload] : $fault{lasts};
    my $key = 'key' . ++$self->{tried};
    my $load = Testbed::Load->start($self->{bed}, $nginx->port,
        paths => [(map { "/many?k=$_" } 1 .. 5), "/few?k=$key", '/deny?k=1', '/many?k=new%d'], rate => 320);
    Testbed::wait_until('the stream', 5, sub { $redis->cli('ZCARD', "rl:sliding:few:{$key}") >= 3 });
    my $log_before = length $nginx->error_log;
    my @workers    = $nginx->workers;
    my ($sockets, $memory) = ($self->idle_sockets, $self->memory);

    my $watch = Testbed::Stopwatch->start(@workers);
    my %at = (begin => time);
    $fault{fault}->($self);
    sleep $lasts / 2;
    $nginx->reload if $reload;
    sleep $lasts / 2;
    my $logged = sub { substr $nginx->error_log, $log_before };
    Testbed::wait_until('its cause to be logged', 5, sub { $logged->() =~ /$fault{logged}/ }) if $fault{logged};
    $fault{mend}->($self) if $fault{mend};
    $at{mended} = time;
    my $back = Testbed::wait_until('Redis to decide again', 10, sub { $self->all_ask_redis });
    $at{back} = time;
    my $calls = $redis->calls('evalsha');
    sleep LONGEST;
    # on a busy machine, none may have been decided that was sent since
    Testbed::wait_until('Redis to decide more', 5, sub { $redis->calls('evalsha') >= $calls + 50 });
    my $record = $load->stop;
    ok($back, 'Redis decides again');
    $self->{delayed} = $watch->delayed($nginx->workers);

    $self->check_answers($record, $key, \%at, $reload, %fault);
    $self->check_log($logged->(), time - $at{begin}, $fault{logged});
    is(join(' ', sort $nginx->workers), join(' ', sort @workers), 'no worker has ended') unless $reload;
    $self->check_remains($sockets, $memory, $reload);
    return $record;
}

sub check_answers {
    my ($self, $record, $key, $at, $reload, %fault) = @_;
    is($record->that(status => 0)->count, 0, 'every request is answered');
    my $slack   = 0.05 * Testbed::slow() + $self->{delayed};
    my $longest = $self->{timeout} + $slack;
    cmp_ok($record->slowest, '<=', $longest, 'no request is answered later than the timeout')
        or diag($record->describe(sub { $_->{took} > $longest }, $at->{begin}));
    cmp_ok($record->longest_wait, '<=', $longest, 'no request waits for its store longer than the timeout');
    like($record->that(path => qr/many/)->statuses, qr/^200:\d+$/, 'every request that has room is admitted');
    like($record->that(path => qr/deny/)->statuses, qr/^200:\d+(?: 503:\d+)?$/, '503 is answered only where on_error denies');

    my %admitted = map { $_ => $record->that(path => qr/few/, status => 200, source => $_)->count } qw(redis local);
    like($record->that(path => qr/few/)->statuses, qr/^200:\d+(?: 429:\d+)?$/, 'over the limit: admitted or denied');
    cmp_ok($admitted{redis}, '<=', LIMIT * ($fault{forgets} ? 2 : 1), 'Redis admits no more than the limit');
    cmp_ok($admitted{local}, '<=', LIMIT, 'the local log admits no more than the limit');
    cmp_ok($self->redis->cli('ZCARD', "rl:sliding:few:{$key}"), '>=', $admitted{redis}, 'what Redis admitted is in its log')
        unless $fault{forgets};

    my $undecided = $record->that(path => qr/many|deny/, from => $at->{begin})->count
        - $record->that(path => qr/many|deny/, from => $at->{begin}, source => 'redis')->count;
    is($undecided, 0, 'Redis decides all') if $fault{keeps_answering};
    my ($slowest_back) = sort { $b <=> $a } map {
        my @decided = $record->that(from => $at->{mended}, source => 'redis', worker => $_)->requests;
        @decided ? $decided[0]{at} + $decided[0]{took} - $at->{mended} : ();
    } $record->that(from => $at->{back})->workers;
    cmp_ok($slowest_back // 1e9, '<=', LONGEST + 0.2 * Testbed::slow() + $self->{delayed}, 'Redis decides again within the longest back-off');

    my $over = $record->that(from => $at->{begin}, to => $at->{mended});
    note(sprintf '%d requests during the fault: p50 %.1f ms, p90 %.1f ms, slowest %.1f ms; %d not decided by Redis; '
            . 'longest wait for the store %d ms; back after %.0f ms; '
            . 'allowed beside the timeout %.0f ms', $over->count,
        (map { 1000 * $_ } $over->percentile(0.5), $over->percentile(0.9), $over->slowest), $undecided, 1000 * $record->longest_wait, 1000 * ($slowest_back // 0), 1000 * $slack);
    $fault{check}->($over) if $fault{check} && !$reload;
    return;
}

# About a line a second of each worker, of either generation.
sub check_log {
    my ($self, $text, $seconds, $cause) = @_;
    my @troubles = grep { /\[(?:warn|error)\].*sliding_log/ } split /\n/, $text;
    cmp_ok(scalar @troubles, '<=', 2 * WORKERS * ($seconds + 2), 'a short error log') or diag(join "\n", @troubles);
    ok(scalar(grep { /$cause/ } @troubles), 'the error log tells the cause') or diag(join "\n", @troubles) if $cause;
    return;
}

sub check_remains {
    my ($self, $sockets, $memory, $reloaded) = @_;
    my $nginx = $self->nginx;
    ok(Testbed::wait_until('the old workers to end', 10, sub { $nginx->workers == WORKERS }), 'old workers end');
    ok(Testbed::wait_until('one connection per worker', 5, sub { $self->redis->connections == WORKERS }), 'one connection per worker')
        or diag($self->redis->cli(qw(CLIENT LIST)));
    ok(Testbed::wait_until('sockets to be closed', 5, sub { $self->idle_sockets <= $sockets }), 'no socket is left');
    return if $ENV{TEST_NGINX_BINARY} || $reloaded;    # sanitizers keep freed memory
    cmp_ok($self->memory, '<=', $memory + 1024 * WORKERS, 'memory is as it was, within 1 MiB a worker');
    return;
}

# Sockets of the workers except those of clients, which come and go.
sub idle_sockets {
    my ($self) = @_;
    my $port = sprintf ':%04X', $self->nginx->port;
    my %client = map { (split)[9] => 1 } grep { (split)[1] =~ /\Q$port\E$/ } map { split /\n/ } Testbed::Process::slurp('/proc/net/tcp');
    return scalar grep { /^socket:\[(\d+)\]/ && !$client{$1} } map { readlink // '' } map { glob "/proc/$_/fd/*" } $self->nginx->workers;
}

# Private memory of the workers in KiB.
sub memory {
    my ($self) = @_;
    my $sum = 0;
    for ($self->nginx->workers) {
        $sum += $1 if Testbed::Process::slurp("/proc/$_/status") =~ /^RssAnon:\s+(\d+)/m;
    }
    return $sum;
}

# True if each worker has a connection on which Redis has decided.
sub all_ask_redis {
    my ($self) = @_;
    return $self->redis->connections(cmd => 'evalsha') >= $self->nginx->workers;
}

1;
