package Bench::Requests;

# The first table: what one request costs, by variant. All variants take turns in every round, so that a machine
# that gets slower or faster meanwhile does so for all; what is printed are medians of the rounds.

use strict;
use warnings;
use FindBin;
use List::Util qw(max min);

use Bench::Load;
use Bench::Machine;
use Bench::Table qw(median);
use Bench::Variants;

# error_log crit: no limiter may spend its time on a line per denial.
my $conf = <<'END';
%%LOAD%%
%%GLOBALS%%
worker_processes 1;
events { worker_connections 512; }
http {
    %%HTTP%%
    access_log off;
    error_log %%DIR%%/error.log crit;
    keepalive_requests 1000000000;
    %%VARIANT_HTTP%%
    server {
        listen 127.0.0.1:%%PORT%%;
        location /bench {
            %%VARIANT_LOCATION%%
            empty_gif;
        }
    }
}
END

sub table {
    my ($world, %options) = @_;
    my @chosen = grep { $_->{name} =~ /$options{only}/ } Bench::Variants::all($options{window});
    @chosen or die "no variant matches $options{only}\n";
    my $script = $world->redis->cli('SCRIPT', 'LOAD', Testbed::Process::slurp("$FindBin::RealBin/peer/original.lua"));
    my @running = map { start($world, $_, $script) } @chosen;

    print 'load     1 thread, 50 connections, ', Bench::Variants::KEYS, " keys or one, window $options{window}; ",
        "$options{rounds} rounds of $options{seconds} s, in turn\n";
    for my $round (1 .. $options{rounds}) {
        for my $variant (@running) {
            print STDERR sprintf "\rround %d of %d: %-40s", $round, $options{rounds}, $variant->{name} if -t STDERR;
            push @{ $variant->{rounds} }, measure($world, $variant, $options{seconds});
        }
    }
    print STDERR "\r", ' ' x 60, "\r" if -t STDERR;
    show(@running);
    return;
}

# Each variant has an nginx of its own, with only the modules it needs.
sub start {
    my ($world, $variant, $script) = @_;
    my $redis = $world->redis;
    my %fill  = (REDIS => $redis->address, REDISPORT => $redis->port, SCRIPT => $script);
    my %lines = map { $_ => ($variant->{$_} // '') =~ s/%%(\w+)%%/$fill{$1}/gr } qw(http location);
    my $nginx = $world->nginx(
        $conf,
        MODULE           => $variant->{family} eq 'module',
        LOAD             => join("\n", map { 'load_module ' . Bench::Machine::nginx_module($_) . ';' } @{ $variant->{load} // [] }),
        VARIANT_HTTP     => $lines{http},
        VARIANT_LOCATION => $lines{location},
    );
    my @workers = $nginx->workers;
    @workers == 1 or die "$variant->{name}: " . @workers . " workers\n";
    return { %$variant, nginx => $nginx, worker => $workers[0], rounds => [] };
}

# One turn of one variant, from an empty Redis: a second to warm up, in which every status is counted; the measured
# pass, at full load; and a second at about the same modest rate for all, since at full load a slower variant's
# latency says no more than its throughput.
sub measure {
    my ($world, $variant, $seconds) = @_;
    my $redis = $world->redis;
    my @to = (port => $variant->{nginx}->port, path => '/bench', keys => Bench::Variants::keys_of($variant));
    $redis->cli('FLUSHALL', 'SYNC');
    my $count = Bench::Load::pass($world, @to, seconds => 1, kind => 'count');

    $redis->cli('CONFIG', 'RESETSTAT');
    my $cpu  = Bench::Machine::stopwatch(nginx => $variant->{worker}, redis => $redis->pid);
    my $load = Bench::Load::pass($world, @to, seconds => $seconds, kind => 'load');
    my %used = $cpu->();
    my ($calls, $commands) = redis_commands($redis);

    my $paced = Bench::Load::pass($world, @to, seconds => 1, kind => 'paced');
    check($variant, $count, $load, $paced);
    my $requests = $load->{requests};
    return {
        rate     => $requests / $load->{microseconds} * 1e6,
        p50      => $load->{p50} / 1000,
        p99      => $load->{p99} / 1000,
        pace     => $paced->{requests} / $paced->{microseconds} * 1e6,
        paced50  => $paced->{p50} / 1000,
        paced99  => $paced->{p99} / 1000,
        nginx    => $used{nginx} / $requests * 1e6,
        redis    => $used{redis} / $requests * 1e6,
        sum      => ($used{nginx} + $used{redis}) / $requests * 1e6,
        calls    => $calls / $requests,
        commands => $commands / $requests,
        passed   => 100 * $count->{passed} / $count->{requests},
        denied   => 100 * $count->{denied} / $count->{requests},
        others   => 100 * ($used{machine} - $used{nginx} - $used{redis} - $load->{cpu}) / $used{available},
    };
}

# (calls of scripts, all commands) since RESETSTAT; all includes those that scripts call.
sub redis_commands {
    my ($redis) = @_;
    my ($calls, $commands) = (0, 0);
    for (split /\r?\n/, $redis->cli('INFO', 'commandstats')) {
        my ($command, $n) = /^cmdstat_([^:]+):calls=(\d+)/ or next;
        next if $command =~ /^(?:info|config\|resetstat)$/;    # ours
        $commands += $n;
        $calls += $n if $command =~ /^(?:evalsha|eval)(?:_ro)?$/;
    }
    return ($calls, $commands);
}

# A fast answer that is the wrong one must not end up in a table.
sub check {
    my ($variant, @passes) = @_;
    my $denied = $variant->{kind} eq 'denied';
    for my $pass (@passes) {
        my $admitted = $pass->{requests} - $pass->{refused};
        next if $pass->{requests}
            && !$pass->{broken}
            && !$pass->{other}
            && ($denied ? $admitted <= 0.01 * $pass->{requests} : $pass->{refused} == 0);
        die "\n$variant->{name}: expected ", ($denied ? '429' : '2xx'), ' only, saw ',
            join(' ', map { "$_=$pass->{$_}" } sort keys %$pass), "\n", $variant->{nginx}->log_tail, "\n";
    }
    return;
}

my @columns = (
    ['',                    'req/s',     sub { sprintf '%.0f', $_{rate} }],
    ['full load',           'p50 ms',    sub { sprintf '%.2f', $_{p50} }],
    ['',                    'p99 ms',    sub { sprintf '%.2f', $_{p99} }],
    ['paced',               'p50 ms',    sub { sprintf '%.2f', $_{paced50} }],
    ['',                    'p99 ms',    sub { sprintf '%.2f', $_{paced99} }],
    ['CPU us per request',  'nginx',     sub { sprintf '%.1f', $_{nginx} }],
    ['',                    'Redis',     sub { $_{commands} ? sprintf '%.1f', $_{redis} : '' }],
    ['',                    'sum',       sub { sprintf '%.1f', $_{sum} }],
    ['',                    'min-max',   sub { sprintf '%.1f-%.1f', $_{least}, $_{most} }],
    ['Redis per request',   'calls',     sub { $_{commands} ? sprintf '%.3f', $_{calls} : '' }],
    ['',                    'commands',  sub { $_{commands} ? sprintf '%.2f', $_{commands} : '' }],
    ['answers %',           '2xx',       sub { sprintf '%.1f', $_{passed} }],
    ['',                    '429',       sub { sprintf '%.1f', $_{denied} }],
    ['CPU sum in units of', 'limit_req', sub { $_{limit_req} }],
    ['',                    'Lua peer',  sub { $_{lua} }],
);

sub show {
    my (@variants) = @_;
    my (@rows, @others, @pace);
    for my $variant (@variants) {
        my @rounds = @{ $variant->{rounds} };
        local %_ = map { my $what = $_; $what => median(map { $_->{$what} } @rounds) } keys %{ $rounds[0] };
        $_{least}     = min(map { $_->{sum} } @rounds);
        $_{most}      = max(map { $_->{sum} } @rounds);
        $_{lua}       = ratio($variant, 'lua',       @variants);
        $_{limit_req} = ratio($variant, 'limit_req', @variants);
        push @rows, [$variant->{name}, map { $_->[2]->() } @columns];
        push @others, $_{others};
        push @pace,   $_{pace};
    }
    print "\n", Bench::Table::text([['', ''], @columns], @rows);
    print "\nEach row: medians of the rounds; min-max: of the sum. calls: EVALSHA; commands: also those inside scripts.\n";
    printf "paced: all variants at %.0f to %.0f req/s. Ratios: to the row of the same kind.\n", min(@pace), max(@pace);
    printf "While this was measured, others used up to %.0f %% of the machine%s\n", max(0, @others),
        max(@others) > 5 ? ': the figures are disturbed, run it again when the machine is idle.' : '.';
    return;
}

# The CPU of a variant in units of the family's variant of the same kind (limit_req knows no hot keys): the median of
# the rounds' ratios, since what disturbs a round disturbs both.
sub ratio {
    my ($variant, $family, @variants) = @_;
    my $kind = $family eq 'limit_req' && $variant->{kind} eq 'hot' ? 'keys' : $variant->{kind};
    my ($unit) = grep { $_->{family} eq $family && $_->{kind} eq $kind } @variants or return '';
    my @ratios = map { $variant->{rounds}[$_]{sum} / $unit->{rounds}[$_]{sum} } 0 .. $#{ $unit->{rounds} };
    return sprintf '%.2f', median(@ratios);
}

1;
