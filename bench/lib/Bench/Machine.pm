package Bench::Machine;

# The machine: its description, the cores of processes, and the CPU time that they have used.

use strict;
use warnings;
use List::Util qw(sum);
use Testbed::Nginx;
use Testbed::Process;

*slurp = \&Testbed::Process::slurp;

# The cores of each part. Processes are pinned, since moving between cores costs a random amount of time, except where a
# table also has the cost of unpinned ones: there each runs on any of these cores. The load generator has a core of its
# own: it is not measured, and must neither wait for nginx nor displace it. So on two cores nginx and Redis share the
# other one. Requests/s are then those of one core, so CPU time per request is the figure to compare. When Redis shared a
# core with the load generator instead, it was the same for the Lua peer and a tenth more for this module, which then
# sends fewer calls at once.
my (@cores, %core);

# layout() chooses; layout('0,1,1') sets the cores of nginx, Redis and the load generator. This process is part of the
# load.
sub layout {
    my ($wish) = @_;
    @cores = allowed_cores();
    $core{any} = join ',', @cores;
    @core{qw(nginx redis load)} =
          $wish       ? split(/,/, $wish)
        : @cores >= 3 ? @cores[0, 1, 2]
        : @cores == 2 ? @cores[0, 0, 1]
        :               @cores[0, 0, 0];
    pin($$, 'load');
    return;
}

# The cores this process may use, which in a container may be fewer than the machine has.
sub allowed_cores {
    my ($list) = slurp('/proc/self/status') =~ /^Cpus_allowed_list:\s*(\S+)/m or die "no list of cores in /proc\n";
    return map { /^(\d+)-(\d+)$/ ? ($1 .. $2) : $_ } split /,/, $list;
}

# Pins all threads of a process.
sub pin {
    my ($pid, $part) = @_;
    system("taskset -apc $core{$part} $pid >/dev/null") == 0 or die "taskset failed for $part\n";
    return;
}

# The words that start a command pinned.
sub pinned { my ($part) = @_; return ('taskset', '-c', $core{$part}) }

# CPU time of a process in nanoseconds, user and system, of all its threads (Redis has several).
sub cpu_ns {
    my ($pid) = @_;
    my @files = glob "/proc/$pid/task/*/schedstat" or die "process $pid is gone, or /proc has no schedstat\n";
    return sum(map { (split ' ', slurp($_))[0] // 0 } @files);
}

# Starts to count. The returned code stops, and returns the seconds of CPU time that each named group of processes used,
# and:
#   machine    what all processes of the machine used, and what its hypervisor took away
#   available  what there was
sub stopwatch {
    my (%pids) = @_;
    my $now = sub { (ticks(), map { $_ => sum(map { cpu_ns($_) / 1e9 } @{ $pids{$_} }) } keys %pids) };
    my %before = $now->();
    return sub {
        my %after = $now->();
        return map { $_ => $after{$_} - $before{$_} } keys %after;
    };
}

sub ticks {
    my (undef, $user, $nice, $system, $idle, $iowait, $irq, $softirq, $steal) = split ' ', slurp('/proc/stat');
    my $busy = $user + $nice + $system + $irq + $softirq + $steal;
    return (machine => $busy / 100, available => ($busy + $idle + $iowait) / 100);    # USER_HZ is 100 everywhere
}

# The file of a dynamic module: one of nginx's own or Debian's by its name, any other by its file.
sub nginx_module {
    my ($name) = @_;
    return $name if $name =~ m{^/};
    my ($dir) = output(Testbed::Nginx::binary() . ' -V') =~ /--modules-path=(\S+)/;
    my $file = ($dir // '/usr/lib/nginx/modules') . "/$name.so";
    -e $file or die "bench: $file is missing (packages: libnginx-mod-http-lua lua-nginx-redis)\n";
    return $file;
}

sub description {
    my ($cpu)    = slurp('/proc/cpuinfo') =~ /^model name\s*:\s*(.*)/m;
    my ($system) = slurp('/etc/os-release') =~ /^PRETTY_NAME="?([^"\n]*)/m;
    my ($kernel) = slurp('/proc/sys/kernel/osrelease') =~ /^(\d+\.\d+)/;
    my @lines    = (
        'machine  ' . @cores . ' cores (' . ($cpu // 'unknown') . '), ' . ($system // 'unknown') . ", Linux $kernel",
        'versions ' . join(', ', versions()),
        "cores    nginx $core{nginx}, Redis $core{redis}, load $core{load}"
            . (@cores < 2 ? ' (one core: the load generator is in the way of what it measures)' : ''),
    );
    return join("\n", @lines) . "\n";
}

sub versions {
    my $nginx = Testbed::Nginx::binary();
    my @found = (
        [nginx => output("$nginx -v") =~ m{nginx/(\S+)}],
        [Redis => output('redis-server --version') =~ /v=(\S+)/],
        [wrk   => output('wrk -v') =~ m{^wrk \D*([\d.]+)}],
        map { [$_ => output("dpkg-query -W -f '\${Version}' $_") =~ /^(\d\S*)/] }
            qw(libnginx-mod-http-lua lua-nginx-redis libhiredis-dev),
    );
    for (@found[0 .. 2]) {
        $_->[1] or die "bench: $_->[0] is missing (packages: nginx redis-server wrk)\n";
    }
    return map { "$_->[0] " . ($_->[1] // 'not installed') } @found;
}

sub output { my ($command) = @_; return scalar(`$command 2>&1`) // '' }

1;
