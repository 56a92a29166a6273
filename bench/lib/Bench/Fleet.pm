package Bench::Fleet;

# The load of a fleet of nodes on a Redis in trouble: hundreds of workers of several nginx, with moderate load, against
# one server and against a Cluster of three masters. Counts and bytes are those of Redis; each answer of nginx has what
# decided.

use strict;
use warnings;
use FindBin;
use List::Util qw(max sum0);
use Time::HiRes qw(sleep time);

use Testbed;
use Testbed::Load;
use Testbed::Script qw(source);
use Bench::Client;
use Bench::Machine;
use Bench::Progress qw(progress);
use Bench::Table;

use constant {
    RATE         => 1000,      # requests a second, of the whole fleet
    KEYS         => 200,
    USUAL        => 3,         # seconds before an event
    AFTER        => 5,         # seconds watched once it is over
    SLOTS        => 20,        # that move
    NODE_TIMEOUT => 2000,      # ms, of the Cluster
    SERVERS      => 100,       # of the node whose workers ask many
    PLANNED      => 16_000,    # workers: 1,000 nodes of 16
};

my $conf = Testbed::conf(
    workers => '%%WORKERS%%',
    listen  => 'reuseport',
    http    => 'error_log %%DIR%%/error.log crit; %%STORES%%',
    how     => '$sliding_log_source $pid $sliding_log_latency',
    server  => '%%LOCATIONS%%',
);
my @user = ('--user', 'limiter', 'on', '>fleet', '~*', '+@all');
my $login = 'username limiter; password fleet;';

# Options: fleet => [nodes, workers of each]
sub table {
    my ($world, %options) = @_;
    my ($nodes, $workers) = @{ $options{fleet} };
    my $one = one_server($world, $nodes, $workers);
    my $cluster = cluster($world, $nodes, $workers);
    my %memory = (
        none    => memory($world, ''),
        servers => memory($world, many_servers($world)),
    );
    progress('');
    return Bench::Table->new(
        title   => 'Fleet: what Redis gets of ' . $nodes * $workers . " workers, $nodes nginx of $workers",
        columns => [
            ['',               'what happens'],
            ['connects',       'all'],
            ['',               'most per s'],
            ['KB received',    'usual s'],
            ['',               'busiest s'],
            ['SCRIPT LOAD',    'all'],
            ['',               'most per s'],
            ['CLUSTER SLOTS',  'all'],
            ['',               'most per s'],
            ['requests',       'all'],
            ['',               'without Redis'],
            ['last of them, s', 'after the event'],
            ['',               'after it is over'],
        ],
        rows  => [map { row($_) } @{ $one->{events} }, @{ $cluster->{events} }],
        notes => [
            sprintf('%d requests a second of %d keys, on_error local; each worker logs in with a user and a password.', RATE, KEYS),
            'Connects, bytes and commands are sums over all servers; "most per s" is the busiest second of the busiest server.',
            'The last request without Redis is that of the last worker to return.',
            'The event is over when the server answers again, the replica is promoted, or the last slot has moved.',
            'At the start all workers use the same cores at once: on a busy machine some exceed connect_timeout and connect',
            'twice.',
            memory_note($one, $cluster, %memory) . "\n\n" . planned($nodes * $workers, $one, $cluster),
        ],
    );
}

# ---- the fleets

sub one_server {
    my ($world, $nodes, $workers) = @_;
    my $redis = $world->redis(@user);
    my @fleet = start($world, $nodes, $workers, "sliding_log_redis { server ${\ $redis->address}; $login }");
    my $count = $nodes * $workers;
    connected($count, $redis);
    my %found = (
        greeting => sample($redis),
        memory   => own_memory(@fleet),
        client   => Bench::Client->new($redis)->info('memory')->{mem_clients_normal} / $count,
    );
    my $kill  = sub { $redis->kill };
    my $start = sub { $redis->start; Bench::Machine::pin($redis->pid, 'redis') };
    $found{events} = [
        watch($world, \@fleet, [$redis], 'one server: the nodes start, and are asked', undef),
        watch($world, \@fleet, [$redis], 'one server restarts at once', $kill, $start),
        watch($world, \@fleet, [$redis], 'one server is away for 2 s', $kill, sub { sleep 2; $start->() }),
        watch($world, \@fleet, [$redis], 'one server forgets its scripts', sub { $redis->cli(qw(SCRIPT FLUSH)) }),
    ];
    $world->stop(@fleet);
    $redis->kill;
    return \%found;
}

sub cluster {
    my ($world, $nodes, $workers) = @_;
    my $cluster = Testbed::Cluster->new($world->{bed}, masters => 3, replicas => 1, args => \@user);
    my @servers = $cluster->nodes;
    for my $server (@servers) {
        $world->own($server);
        Bench::Machine::pin($server->pid, 'redis');
        $server->cli(qw(CONFIG SET cluster-node-timeout), NODE_TIMEOUT);
    }
    my $seeds = join ' ', map { $_->address } @servers;
    my @fleet = start($world, $nodes, $workers, "sliding_log_redis { server $seeds; mode cluster; $login }");
    my ($first, $second, undef, $replica) = @servers;
    my $start = watch($world, \@fleet, \@servers, 'a Cluster: the nodes start, and are asked', undef);
    my %found = (memory => own_memory(@fleet));
    my $kill     = sub { $first->kill };
    my $promoted = sub {
        Testbed::wait_until('a promotion', 30, sub { $replica->cli('ROLE') =~ /^master/ }) or die "bench: no fail-over\n";
    };
    my @lost   = map { '/?k=' . $cluster->tag_on($first) } 1 .. KEYS / 4;
    my @moving = map { $cluster->tag_on($second) } 1 .. SLOTS;
    my $move   = sub { $cluster->move($cluster->slot_of($_), $second, $servers[2]) for @moving };
    $found{events} = [
        $start,
        watch($world, \@fleet, \@servers, "a Cluster moves ${\ SLOTS} slots, of all these keys", sub { }, $move,
            map { "/?k=$_" } @moving),
        watch($world, \@fleet, \@servers, 'a Cluster loses the master of all these keys', $kill, $promoted, @lost),
    ];
    ($found{map_us}) = Bench::Client->new($second)->ask('INFO', 'commandstats') =~ /^cmdstat_cluster\|slots:.*usec_per_call=([\d.]+)/m;
    $world->stop(@fleet);
    $_->kill for @servers;
    return \%found;
}

sub start {
    my ($world, $nodes, $workers, $stores) = @_;
    return map {
        progress("starting node $_");
        $world->nginx($conf, MODULE => 1, WORKERS => $workers, STORES => $stores,
            LOCATIONS => 'location / { sliding_log_limit fleet key=$arg_k limit=1000000 window=1h; empty_gif; }');
    } 1 .. $nodes;
}

sub connected {
    my ($count, $redis) = @_;
    Testbed::wait_until('all workers to connect', 30, sub { sample($redis)->{connects} >= $count }) or die "bench: not all connect\n";
    return;
}

# ---- events

# What the servers received during an event: `begin` starts it, and it is over when `end` returns. Without `begin` it is
# the start of the fleet: everything that the servers have counted by then belongs to it. Without paths, the keys are of
# all slots.
sub watch {
    my ($world, $fleet, $servers, $name, $begin, $end, @paths) = @_;
    progress($name);
    @paths = map { "/?k=key$_" } 1 .. KEYS if !@paths;
    my @loads = map { Testbed::Load->start($world->{bed}, $_->port, paths => \@paths, rate => RATE / @$fleet) } @$fleet;
    my %series;
    my $look = sub {
        for my $i (grep { $servers->[$_]->is_running } 0 .. $#$servers) {
            my $sample = eval { sample($servers->[$i]) } or next;
            push @{ $series{$i} }, $sample;
        }
    };
    my $until = sub { my ($moment) = @_; while (time < $moment) { $look->(); sleep 0.04 } };
    my $began = time;
    $until->($began + USUAL) if $begin;
    my $usual = max(0, map { per_second($_, 'bytes') } values %series);
    %series = ();
    $look->();
    my $at = time;
    $begin->() if $begin;
    $look->();
    $end->() if $end;
    my $over = time;
    $until->($over + AFTER);
    my @requests = map { $_->stop->requests } @loads;
    my @without = grep { $_->{at} >= $began && $_->{source} ne 'redis' } @requests;
    my @last    = last_of_each_worker(grep { $_->{at} >= $at } @requests);
    my @series = map { since_start($_) } values %series;
    my $all    = sub { my ($what) = @_; return sum0(map { $_->[-1]{$what} - ($begin ? $_->[0]{$what} : 0) } @series) };
    my $most   = sub { my ($what) = @_; return max(0, map { per_second($_, $what) } @series) };
    return {
        name => $name,
        usual => $usual,
        requests => scalar(@requests),
        without => scalar(@without),
        last => max(0, map { $_ - $at } @last),
        last_after => max(0, map { $_ - $over } @last),
        map({ ($_ => $all->($_), "most_$_" => $begin ? $most->($_) : '') } qw(connects loads maps)),
        most_bytes => $most->('bytes'),
    };
}

# For each worker that decided without Redis: when it last did so before it asked Redis again. Later times are due to
# other load of the machine, not to the event.
sub last_of_each_worker {
    my (%last, %recovered);
    for my $one (sort { $a->{at} <=> $b->{at} } @_) {
        my $worker = $one->{worker};
        next if $recovered{$worker};
        $last{$worker} = $one->{at} if $one->{source} ne 'redis';
        $recovered{$worker} = 1 if $last{$worker} && $one->{source} eq 'redis';
    }
    return values %last;
}

# The counters of a server: every login is that of a worker of the fleet.
sub sample {
    my ($server) = @_;
    my $text  = Bench::Client->new($server)->ask('INFO', 'stats', 'commandstats');
    my $calls = sub { return $text =~ /^cmdstat_\Q$_[0]\E:calls=(\d+)/m ? $1 : 0 };
    return {
        at       => time,
        connects => $calls->('auth'),
        bytes    => ($text =~ /^total_net_input_bytes:(\d+)/m)[0],
        loads    => $calls->('script|load'),
        maps     => $calls->('cluster|slots'),
    };
}

# A server that restarts resets its counters: the previous values are added.
sub since_start {
    my ($series) = @_;
    my %before = map { $_ => 0 } qw(connects bytes loads maps);
    my @sums;
    for my $i (0 .. $#$series) {
        my $now = $series->[$i];
        if ($i > 0 && $now->{bytes} < $series->[$i - 1]{bytes}) {
            $before{$_} += $series->[$i - 1]{$_} for keys %before;
        }
        push @sums, { at => $now->{at}, map { $_ => $before{$_} + $now->{$_} } keys %before };
    }
    return \@sums;
}

# The most in any second.
sub per_second {
    my ($series, $what) = @_;
    my ($most, $from) = (0, 0);
    for my $to (0 .. $#$series) {
        $from++ while $series->[$to]{at} - $series->[$from]{at} > 1;
        $most = max($most, $series->[$to]{$what} - $series->[$from]{$what});
    }
    return $most;
}

sub row {
    my ($event) = @_;
    return [
        $event->{name},
        @$event{qw(connects most_connects)},
        map({ $_ ? sprintf('%.0f', $_ / 1000) : '' } @$event{qw(usual most_bytes)}),
        @$event{qw(loads most_loads maps most_maps requests without)},
        map { $event->{without} ? sprintf('%.1f', $_) : '' } @$event{qw(last last_after)},
    ];
}

# ---- memory

# Private memory of a worker, in MB.
sub own_memory {
    my (@fleet) = @_;
    my @workers = map { $_->workers } @fleet;
    return sum0(map { Testbed::Process::slurp("/proc/$_/status") =~ /^RssAnon:\s*(\d+)/m } @workers) / 1024 / @workers;
}

sub memory {
    my ($world, $stores) = @_;
    my @locations = map { "location /$_ { sliding_log_limit $_ key=\$arg_k limit=1000000 window=1h store=$_; }" }
        $stores =~ /sliding_log_redis (\w+)/g;
    my $nginx = $world->nginx($conf, MODULE => 1, WORKERS => 4, STORES => $stores, LOCATIONS => "@locations");
    sleep 1.5;
    my $memory = own_memory($nginx);
    $world->stop($nginx);
    return $memory;
}

sub many_servers {
    my ($world) = @_;
    my $redis = $world->redis(@user);
    return join "\n", map { "sliding_log_redis r$_ { server ${\ $redis->address}; $login }" } 1 .. SERVERS;
}

sub memory_note {
    my ($one, $cluster, %memory) = @_;
    return sprintf 'Private memory of a worker: %.1f MB without a Redis, %.1f with one server, %.1f with the Cluster, %.1f with %d'
        . ' servers, each in its own block.',
        $memory{none}, $one->{memory}, $cluster->{memory}, $memory{servers}, SERVERS;
}

# ---- extrapolation to more workers

sub planned {
    my ($workers, $one, $cluster) = @_;
    my $times = PLANNED / $workers;
    my ($restart) = grep { $_->{name} =~ /restarts/ } @{ $one->{events} };
    my ($lost)    = grep { $_->{name} =~ /loses/ } @{ $cluster->{events} };
    my $greeting  = $one->{greeting}{bytes} / $one->{greeting}{connects};
    my $script    = length source('sliding_log');
    return sprintf(
        '**1,000 nodes** of 16 workers have %s connections to each server. This is above the default `maxclients 10000`,'
            . ' requires as many open files, and takes %.0f MB of Redis memory (%.1f KB a connection). A server that restarts receives'
            . ' the greetings of all workers, %.1f MB (%.0f bytes each), and `SCRIPT LOAD` %.0f times, %.1f MB, if it is sent as often per'
            . ' worker as here. When a Cluster loses a master, each worker requests the map at most once a second: %s requests a second'
            . ' to the remaining masters, %.0f ms in every second of each of two masters (%.0f us a request).',
        commas(PLANNED), PLANNED * $one->{client} / 1e6, $one->{client} / 1000,
        PLANNED * $greeting / 1e6, $greeting,
        $restart->{loads} * $times, $restart->{loads} * $times * $script / 1e6,
        commas(PLANNED), PLANNED / 2 * $cluster->{map_us} / 1000, $cluster->{map_us},
    );
}

sub commas { my ($number) = @_; 1 while $number =~ s/^(\d+)(\d{3})/$1,$2/; return $number }

1;
