package Bench::Node;

# An nginx that runs one variant, with only the modules that it needs, and the load on it.

use strict;
use warnings;
use FindBin;
use Time::HiRes qw(sleep);

use Testbed::Http;
use Bench::Client;
use Bench::Machine;
use Bench::Wrk;

# error_log crit: no limiter may spend time on a log line per denial.
my $conf = <<'END';
%%LOAD%%
%%GLOBALS%%
worker_processes 1;
events { worker_connections 1024; }
http {
    %%HTTP%%
    access_log off;
    error_log %%DIR%%/error.log crit;
    keepalive_requests 1000000000;
    keepalive_timeout 1h;
    %%VARIANT_HTTP%%
    server {
        listen 127.0.0.1:%%PORT%%;
        location /bench {
            %%VARIANT_LOCATION%%
            empty_gif;
        }
        location = /served { stub_status; }
    }
}
END

# redis: the one it may ask; variant: of Bench::Variants; fill: for what its lines leave open
sub new {
    my ($class, $world, $redis, $variant, %fill) = @_;
    %fill = (%fill, REDIS => $redis->address, REDISPORT => $redis->port);
    my %lines = map { $_ => ($variant->{$_} // '') =~ s/%%(\w+)%%/$fill{$1}/gr } qw(http location);
    my @load  = map { 'load_module ' . Bench::Machine::nginx_module($_) . ';' } @{ $variant->{load} // [] };
    my $nginx = $world->nginx(
        $conf,
        MODULE           => $variant->{family} eq 'module',
        LOAD             => join("\n", @load),
        VARIANT_HTTP     => $lines{http},
        VARIANT_LOCATION => $lines{location},
    );
    my @workers = $nginx->workers;
    @workers == 1 or die "$variant->{name}: " . @workers . " workers\n";
    return bless {
        %$variant,
        world  => $world,
        nginx  => $nginx,
        worker => $workers[0],
        server => $redis,
        client => Bench::Client->new($redis),
    }, $class;
}

sub load {
    my ($self, $kind, $seconds) = @_;
    return Bench::Wrk->start($self->{world}, port => $self->{nginx}->port, path => '/bench', keys => $self->{keys},
        connections => $self->{connections}, kind => $kind, seconds => $seconds);
}

# (open connections, requests begun), those of this question included.
sub status {
    my ($self) = @_;
    my $body = Testbed::Http::get($self->{nginx}->port, '/served')->{body};
    $body =~ /connections: (\d+).*?(\d+)\s+Reading/s or die "$self->{name}: no stub_status\n";
    return ($1, $2);
}

# The load that turn() lets run; it is paused until then.
sub connect_load {
    my ($self) = @_;
    my $load = $self->{load} = $self->load('load', 24 * 3600);
    Testbed::wait_until('wrk to connect', 10, sub { ($self->status)[0] > $self->{connections} })
        or die "$self->{name}: no load\n";
    $load->pause;
    return;
}

sub stop { my ($self) = @_; return $self->{world}->stop($self->{nginx}) }

sub end_load { my ($self) = @_; return $self->check($self->{load}->end->result) }

# Lets the load run for this number of seconds; returns what one request took in microseconds of CPU time and calls of
# scripts, and the microseconds inside Redis of one call, if there was any. The number of requests is that of nginx.
sub turn {
    my ($self, $seconds) = @_;
    # on a busy machine the load generator may not run in its turn
    for (1 .. 20) {
        my @before = $self->{client}->decisions_so_far;
        my (undef, $begun) = $self->status;
        my $watch = Bench::Machine::stopwatch(nginx => [$self->{worker}], redis => [$self->{server}->pid]);
        $self->{load}->resume;
        sleep $seconds;
        $self->{load}->pause;
        sleep 0.005;
        # requests in progress are finished: on a busy core nginx may process them only before this answer
        my (undef, $requests) = $self->status;
        my %used = $watch->();
        $requests -= $begun + 1;    # this question
        next if $requests < 50 || $used{nginx} <= 0;
        my @after = $self->{client}->decisions_so_far;
        my $nginx = $used{nginx} / $requests * 1e6;
        # background work of Redis is not charged to variants that do not use it
        my $of_redis = $self->{redis} ? $used{redis} / $requests * 1e6 : 0;
        return {
            requests => $requests,
            nginx    => $nginx,
            redis    => $of_redis,
            sum      => $nginx + $of_redis,
            calls    => ($after[0] - $before[0]) / $requests,
            inside   => $after[0] > $before[0] ? ($after[1] - $before[1]) / ($after[0] - $before[0]) : undef,
        };
    }
    die "$self->{name}: hardly any request is answered\n", $self->{nginx}->log_tail, "\n";
}

# Lets a load run without pauses: requests and calls per second, and the microseconds of one request: CPU time of nginx
# and of Redis, and the median latency. For what ends in a pause.
sub run {
    my ($self, $seconds) = @_;
    my ($before) = $self->{client}->decisions_so_far;
    my $watch    = Bench::Machine::stopwatch(nginx => [$self->{worker}], redis => [$self->{server}->pid]);
    my $result   = $self->load('load', $seconds)->result;
    my %used     = $watch->();
    my ($calls)  = $self->{client}->decisions_so_far;
    $self->check($result);
    my %per_request = map { $_ => $used{$_} / $result->{requests} * 1e6 } qw(nginx redis);
    my ($rate, $call_rate) = map { $_ / $result->{microseconds} * 1e6 } $result->{requests}, $calls - $before;
    return { %per_request, sum => $per_request{nginx} + $per_request{redis}, rate => $rate, call_rate => $call_rate, p50 => $result->{p50} };
}

# Fast but wrong answers must not get into a table.
sub check {
    my ($self, $result) = @_;
    my $denied   = $self->{kind} =~ /denied|blocked/;
    my $admitted = $result->{requests} - $result->{refused};
    return
        if $result->{requests}
        && !$result->{broken}
        && !$result->{other}
        && ($denied ? $admitted <= 0.01 * $result->{requests} : $result->{refused} == 0);
    die "\n$self->{name}: expected ", ($denied ? '429' : '2xx'), ' only, saw ',
        join(' ', map { "$_=$result->{$_}" } sort keys %$result), "\n", $self->{nginx}->log_tail, "\n";
}

1;
