package Testbed;

# The environment of one test: real nginx and real Redis on free loopback ports, in a directory removed at the end.
# Every test ends with done(): nginx must quit gracefully in time, and its error log must be free
# of alerts, crashes and sanitizer reports.

use strict;
use warnings;
use Exporter 'import';
use File::Temp ();
use IO::Socket::INET;
use POSIX ();
use Test::More;
use Time::HiRes qw(sleep time);

use Testbed::Cluster;
use Testbed::Files;
use Testbed::Nginx;
use Testbed::Redis;
use Testbed::Sentinel;

our @EXPORT_OK = qw(answers_as_told conf free_port seed slow wait_until);

# Deadlines stretch by this factor: a shared machine may stand still for a while, and runs under sanitizers or
# valgrind are slower.
sub slow { return $ENV{TEST_SLOW} || 2 }

# Seeds rand, and returns the seed. A test that fails tells it: with it in TEST_SEED all that is random is repeated.
my $seed;
sub seed {
    $seed = $ENV{TEST_SEED} // int rand 2**31;
    srand $seed;
    note("TEST_SEED=$seed");
    return $seed;
}

# How much a test of random operations does: so many of them, or what TEST_OPERATIONS says. With TEST_BRIEF a fifth, or
# another part, in which all that it looks for still happens.
sub operations {
    my ($whole, $part) = @_;
    return $ENV{TEST_OPERATIONS} // ($ENV{TEST_BRIEF} ? POSIX::ceil($whole / ($part // 5)) : $whole);
}

my @reserved;
my @beds;
my $test = $$;

# A free port for a server, which binds it by number (with SO_REUSEADDR). No other process gets it while this test runs:
# a socket is bound to it, and does not listen.
sub free_port {
    my $socket = IO::Socket::INET->new(Proto => 'tcp', LocalAddr => '127.0.0.1', ReuseAddr => 1) or die "no free port: $!";
    push @reserved, $socket;
    return $socket->sockport;
}

# Polls until the code returns true. Returns its value, or undef after the deadline (seconds).
sub wait_until {
    my ($what, $deadline, $code) = @_;
    my $end = time + $deadline * slow();
    while (1) {
        my $value = $code->();
        return $value if $value;
        if (time > $end) {
            diag("waited in vain for $what");
            return undef;
        }
        sleep 0.01;
    }
}

# The same. While the code returns false, tells again every so many seconds what may have been lost.
sub wait_and_tell {
    my ($what, $deadline, $every, $code, $tell) = @_;
    my $told = time;
    return wait_until($what, $deadline, sub {
        my $value = $code->();
        return $value if $value;
        if (time - $told > $every) {
            $tell->();
            $told = time;
        }
        return;
    });
}

sub new {
    my ($class) = @_;
    my $self = bless { dir => File::Temp->newdir('sliding-log-XXXXXX', TMPDIR => 1), processes => [], owner => $$ },
        $class;
    push @beds, $self;
    $SIG{INT} = $SIG{TERM} = $SIG{HUP} = sub { die "interrupted\n" };
    $SIG{PIPE} = 'IGNORE';    # a server that closes early must not kill the test, and with it the clean-up
    return $self;
}

sub dir { return "$_[0]{dir}" }

sub redis {
    my ($self, @options) = @_;
    my $redis = Testbed::Redis->new($self, @options);
    push @{ $self->{processes} }, $redis;
    return $redis;
}

sub sentinel {
    my ($self, @options) = @_;
    my $sentinel = Testbed::Sentinel->new($self, @options);
    push @{ $self->{processes} }, $sentinel;
    return $sentinel;
}

sub cluster { my ($self, @options) = @_; return Testbed::Cluster->new($self, @options) }

# A configuration of the usual form, with one server on %%PORT%%. A test gives its own parts:
#   main, events, http, server  directives of these contexts
#   redis                       a Testbed::Redis or an address: a sliding_log_redis block whose timeouts only a fault exceeds
#   store                       other contents of this block
#   how                         variables that each answer has in its field X-How
#   listen                      more parameters of listen
#   workers (1), connections (1024 of each worker)
sub conf {
    my (%of) = @_;
    my ($redis, $how, $listen, $workers, $connections) = delete @of{qw(redis how listen workers connections)};
    $of{store} = 'server ' . (ref $redis ? $redis->address : $redis) . '; timeout 5s; connect_timeout 5s;' if $redis;
    my ($main, $events, $http, $store, $server) = map { delete $of{$_} // '' } qw(main events http store server);
    !%of or die 'conf: ' . join(' ', sort keys %of) . "?\n";
    my $block  = $store eq '' ? '' : "sliding_log_redis { $store }";
    my $field  = $how ? qq{add_header X-How "$how" always;} : '';
    my $log    = $http =~ /\baccess_log / ? '' : 'access_log off;';
    my $listed = join ' ', '127.0.0.1:%%PORT%% backlog=4096', $listen // ();
    return join "\n", '%%GLOBALS%%', 'worker_processes ' . ($workers // 1) . ';', $main,
        'events { worker_connections ' . ($connections // 1024) . "; $events }",
        "http {\n%%HTTP%%\n$log\n$block\n$http", "server {\nlisten $listed;\n$field\n$server}\n}\n";
}

# For its http context: an upstream server on %%PORT2%% that answers with one of these statuses, the one that its argument
# `status` tells; without, with the first one.
sub answers_as_told {
    my ($usual, @others) = @_;
    my $told = join ' ', map { "if (\$arg_status = $_) { return $_; }" } @others;
    return "server { listen 127.0.0.1:%%PORT2%%; location / { $told return $usual; } }";
}

# An nginx with such a configuration. Options in capitals are values for it.
sub serve {
    my ($self, %options) = @_;
    my %of = map { $_ => delete $options{$_} } grep { !/^[A-Z]/ } keys %options;
    return $self->nginx(conf(%of), %options);
}

# The configuration may use %%GLOBALS%% (main context), %%HTTP%% (http context), %%DIR%%, %%PORT%%, %%PORT2%% ... and
# every name given as an option; CLOCK, a Testbed::Clock, is also the process's.
sub nginx {
    my ($self, $conf, %options) = @_;
    my $nginx = Testbed::Nginx->new($self, $conf, %options);
    push @{ $self->{processes} }, $nginx;
    return $nginx->start;
}

sub configuration {
    my ($self, $conf, %options) = @_;
    return Testbed::Nginx->new($self, $conf, %options);
}

sub write_file {
    my ($self, $name, $content) = @_;
    return Testbed::Files::write_file("$self->{dir}/$name", $content);
}

sub done {
    my ($self) = @_;
    for my $process (reverse @{ $self->{processes} }) {
        $process->finish;
    }
    $self->{finished} = 1;
    done_testing();
}

# No process is left, however the test ends.
END {
    local ($?, $@);
    my @own = grep { $$ == $_->{owner} } splice @beds;
    diag("TEST_SEED=$seed") if defined $seed && $$ == $test && (!Test::More->builder->is_passing || grep { !$_->{finished} } @own);
    for my $bed (@own) {
        for my $process (@{ $bed->{processes} }) {
            diag($process->log_tail) if !$bed->{finished} || !Test::More->builder->is_passing;
            $process->kill;
        }
    }
}

1;
