package Bench::Requests;

# The first table: what one request costs, by variant.

use strict;
use warnings;
use FindBin;
use List::Util qw(max min);
use Time::HiRes qw(sleep time);

use Testbed::Http;
use Bench::Commands;
use Bench::Load;
use Bench::Machine;
use Bench::Table qw(median quantile);
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

sub table {
    my ($world, %options) = @_;
    my @chosen = grep { $_->{name} =~ /$options{only}/ } Bench::Variants::all($options{window});
    @chosen or die "no variant matches $options{only}\n";
    my $script = $world->redis->cli('SCRIPT', 'LOAD', Testbed::Process::slurp("$FindBin::RealBin/peer/original.lua"));
    my $number   = 0;
    my @variants = map { start($world, $_, NAME => 'bench' . ++$number, SCRIPT => $script) } @chosen;

    printf "load     %d connections, %d keys or one, window %s\n", Bench::Load::CONNECTIONS, Bench::Variants::KEYS,
        $options{window};
    count_answers($world, @variants);
    measure_cpu($world, $options{turns}, Bench::Variants::milliseconds($options{window}), @variants);
    measure_latency($world, $options{rounds}, @variants);
    progress('');
    show(@variants);
    return;
}

# Each variant has an nginx of its own, with only the modules it needs.
sub start {
    my ($world, $variant, %fill) = @_;
    my $redis = $world->redis;
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
    return { %$variant, nginx => $nginx, worker => $workers[0], rounds => [], turns => [] };
}

sub load {
    my ($world, $variant, $kind, $seconds) = @_;
    return Bench::Load->start($world, port => $variant->{nginx}->port, path => '/bench',
        keys => Bench::Variants::keys_of($variant), kind => $kind, seconds => $seconds);
}

# Warms up, and counts every status, which is too much work for the load generator while something is measured.
sub count_answers {
    my ($world, @variants) = @_;
    for my $variant (@variants) {
        progress("answers: $variant->{name}");
        my $result = load($world, $variant, 'count', 1)->result;
        check($variant, $result);
        $variant->{$_} = 100 * $result->{$_} / $result->{requests} for qw(passed denied);
    }
    return;
}

# CPU time. Virtual machines share cores, and their speed may halve and double from one second to the next, unseen.
# So the variants take turns of a tenth of a second, by pausing the load generators of all others, and only what lies
# side by side is compared. The first turns, of a whole window, are for nothing but the logs: from then on entries
# leave them as fast as others come, as in any life longer than a window. A turn's requests are nginx's own count.
use constant { TURN => 0.1, LONGEST_WARM_UP => 120 };

sub measure_cpu {
    my ($world, $turns, $window, @variants) = @_;
    my $commands = Bench::Commands->new($world->redis);
    for my $variant (@variants) {
        $variant->{load} = load($world, $variant, 'load', 24 * 3600);
        Testbed::wait_until('wrk to connect', 10, sub { (status($variant))[0] > Bench::Load::CONNECTIONS })
            or die "$variant->{name}: no load\n";
        $variant->{load}->pause;
    }
    my $warm = time + min($window / 1000, LONGEST_WARM_UP);
    while (time < $warm) {
        progress(sprintf 'a window to fill the logs: %.0f s', $warm - time);
        turn($world, $commands, $_) for @variants;
    }
    my @ours  = ($$, $world->redis->pid, map { ($_->{worker}, $_->{load}->pid) } @variants);
    my $whole = Bench::Machine::stopwatch(ours => \@ours);
    for my $turn (1 .. $turns) {
        progress("CPU: turn $turn of $turns");
        push @{ $_->{turns} }, turn($world, $commands, $_) for @variants;
    }
    my %used = $whole->();
    $variants[0]{others} = 100 * ($used{machine} - $used{ours}) / $used{available};
    check($_, $_->{load}->end->result) for @variants;
    return;
}

sub turn {
    my ($world, $commands, $variant) = @_;
    # a machine with other things to do may not let the load generator run in its turn
    for (1 .. 20) {
        my @before = ((status($variant))[1], $commands->so_far);
        my $watch  = Bench::Machine::stopwatch(nginx => [$variant->{worker}], redis => [$world->redis->pid]);
        $variant->{load}->resume;
        sleep TURN;
        $variant->{load}->pause;
        sleep 0.005;    # what is under way comes to its end
        my %used  = $watch->();
        my @after = ((status($variant))[1], $commands->so_far);
        my ($requests, $calls, $all) = map { $after[$_] - $before[$_] } 0 .. 2;
        $requests--;    # the question for the status
        next if $requests < 100;
        my $nginx = $used{nginx} / $requests * 1e6;
        # Redis has things to do of its own, which those who do not ask it must not pay for
        my $redis = $variant->{redis} ? $used{redis} / $requests * 1e6 : 0;
        return {
            nginx    => $nginx,
            redis    => $redis,
            sum      => $nginx + $redis,
            calls    => $calls / $requests,
            commands => $all / $requests,
        };
    }
    die "$variant->{name}: hardly any request is answered\n", $variant->{nginx}->log_tail, "\n";
}

# (open connections, requests begun), those of this question included.
sub status {
    my ($variant) = @_;
    my $body = Testbed::Http::get($variant->{nginx}->port, '/served')->{body};
    $body =~ /connections: (\d+).*?(\d+)\s+Reading/s or die "$variant->{name}: no stub_status\n";
    return ($1, $2);
}

# Throughput and latency, at full load and at about the same modest rate for all: at full load a slower variant's
# latency says no more than its throughput.
sub measure_latency {
    my ($world, $rounds, @variants) = @_;
    for my $round (1 .. $rounds) {
        for my $variant (@variants) {
            progress("latency: round $round of $rounds, $variant->{name}");
            my $load = load($world, $variant, 'load', 1)->result;
            my $paced = load($world, $variant, 'paced', 1)->result;
            check($variant, $_) for $load, $paced;
            push @{ $variant->{rounds} }, {
                rate    => $load->{requests} / $load->{microseconds} * 1e6,
                p50     => $load->{p50} / 1000,
                p99     => $load->{p99} / 1000,
                pace    => $paced->{requests} / $paced->{microseconds} * 1e6,
                paced50 => $paced->{p50} / 1000,
                paced99 => $paced->{p99} / 1000,
            };
        }
    }
    return;
}

# A fast answer that is the wrong one must not end up in a table.
sub check {
    my ($variant, $result) = @_;
    my $denied   = $variant->{kind} eq 'denied';
    my $admitted = $result->{requests} - $result->{refused};
    return
        if $result->{requests}
        && !$result->{broken}
        && !$result->{other}
        && ($denied ? $admitted <= 0.01 * $result->{requests} : $result->{refused} == 0);
    die "\n$variant->{name}: expected ", ($denied ? '429' : '2xx'), ' only, saw ',
        join(' ', map { "$_=$result->{$_}" } sort keys %$result), "\n", $variant->{nginx}->log_tail, "\n";
}

my @columns = (
    ['',                    'req/s',     sub { sprintf '%.0f', $_{rate} }],
    ['full load',           'p50 ms',    sub { sprintf '%.2f', $_{p50} }],
    ['',                    'p99 ms',    sub { sprintf '%.2f', $_{p99} }],
    ['paced',               'p50 ms',    sub { sprintf '%.2f', $_{paced50} }],
    ['',                    'p99 ms',    sub { sprintf '%.2f', $_{paced99} }],
    ['CPU us per request',  'nginx',     sub { sprintf '%.1f', $_{nginx} }],
    ['',                    'Redis',     sub { $_{talks} ? sprintf '%.1f', $_{redis} : '' }],
    ['',                    'sum',       sub { sprintf '%.1f', $_{sum} }],
    ['',                    'quartiles', sub { sprintf '%.1f-%.1f', $_{lower}, $_{upper} }],
    ['Redis per request',   'calls',     sub { $_{talks} ? sprintf '%.3f', $_{calls} : '' }],
    ['',                    'commands',  sub { $_{talks} ? sprintf '%.2f', $_{commands} : '' }],
    ['answers %',           '2xx',       sub { sprintf '%.1f', $_{passed} }],
    ['',                    '429',       sub { sprintf '%.1f', $_{denied} }],
    ['CPU sum in units of', 'limit_req', sub { $_{limit_req} }],
    ['',                    'Lua peer',  sub { $_{lua} }],
);

sub show {
    my (@variants) = @_;
    my (@rows, @pace);
    for my $variant (@variants) {
        my @sums = map { $_->{sum} } @{ $variant->{turns} };
        local %_ = (
            medians(@{ $variant->{turns} }),
            medians(@{ $variant->{rounds} }),
            lower     => quantile(0.25, @sums),
            upper     => quantile(0.75, @sums),
            talks     => $variant->{redis},
            passed    => $variant->{passed},
            denied    => $variant->{denied},
            lua       => ratio($variant, 'lua',       @variants),
            limit_req => ratio($variant, 'limit_req', @variants),
        );
        push @rows, [$variant->{name}, map { $_->[2]->() } @columns];
        push @pace, $_{pace};
    }
    my $others = max(0, $variants[0]{others});
    printf "\n%s\n", Bench::Table::text([['', ''], @columns], @rows);
    printf "CPU: user and system, medians of %d turns of %g s, ratios turn by turn, to the row of the same kind.\n",
        scalar @{ $variants[0]{turns} }, TURN;
    printf "calls: EVALSHA; commands: also those inside scripts. Paced: all variants at %.0f to %.0f req/s.\n",
        min(@pace), max(@pace);
    printf "Meanwhile others used %.0f %% of the machine%s\n", $others,
        $others > 5 ? ': the figures are disturbed, run it again when the machine is idle.' : '.';
    return;
}

sub medians {
    my (@samples) = @_;
    return map { my $what = $_; $what => median(map { $_->{$what} } @samples) } keys %{ $samples[0] };
}

# The CPU of a variant in units of the family's variant of the same kind (limit_req knows no hot keys).
sub ratio {
    my ($variant, $family, @variants) = @_;
    my $kind = $family eq 'limit_req' && $variant->{kind} eq 'hot' ? 'keys' : $variant->{kind};
    my ($unit) = grep { $_->{family} eq $family && $_->{kind} eq $kind } @variants or return '';
    my @ratios = map { $variant->{turns}[$_]{sum} / $unit->{turns}[$_]{sum} } 0 .. $#{ $unit->{turns} };
    return sprintf '%.2f', median(@ratios);
}

sub progress {
    my ($text) = @_;
    printf STDERR "\r%-60s%s", $text, $text eq '' ? "\r" : '' if -t STDERR;
    return;
}

1;
