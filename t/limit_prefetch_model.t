# Permits (prefetch=) over three nodes with two workers each, on one Redis: however many requests the nodes admit without
# asking, no window has more of them than the limit. One node has another prefetch=, one has none for some limits, one
# has another clock of the day. Keys are used in bursts. In the second half workers are killed and nodes are reloaded.
# Each admission is somewhere between the sending of its request and the arrival of its answer, both by the clock of
# Redis; so a window is too full if it contains more of these spans than the limit allows.

use strict;
use warnings;
use List::Util qw(min);
use Test::More;
use Testbed qw(seed);
use Testbed::Clock;
use Testbed::Http ();
use Testbed::Metrics qw(scrape);
use Testbed::Process;
use Time::HiRes qw(sleep time);

use constant { CLIENTS => 6, PEACE => 7, FAULTS => 7 };    # seconds

# of each NAME: limit and window (ms)
my %limits = (log => [300, 2000], compact => [300, 2000], cost => [300, 1500], fast => [120, 500], slow => [900, 3000]);
my %names  = ('/log' => ['log'], '/plain' => ['log'], '/compact' => ['compact'], '/cost' => ['cost'], '/two' => ['fast', 'slow']);
my $seed = seed();

my $bed   = Testbed->new;
my $redis = $bed->redis;

sub limit {
    my ($name, $prefetch, $more) = @_;
    my ($limit, $window) = @{ $limits{$name} };
    return "sliding_log_limit $name key=\$arg_k limit=$limit window=${window}ms $more" . ($prefetch > 1 ? " prefetch=$prefetch;" : ';');
}

sub node {
    my ($prefetch, $compact, %options) = @_;
    my $log = limit('log', $prefetch, '');
    return $bed->serve(
        redis   => $redis,
        workers => 2,
        how     => '$sliding_log_source $sliding_log_remaining',
        http    => 'sliding_log_on_error deny;',
        server  => join("\n",
            "location /log { $log empty_gif; }",
            'location /plain { ' . limit('log', 1, '') . ' empty_gif; }',
            'location /compact { ' . limit('compact', $compact, 'algorithm=compact') . ' empty_gif; }',
            'location /cost { ' . limit('cost', $prefetch, 'cost=3') . ' empty_gif; }',
            'location /two { ' . limit('fast', $prefetch, '') . limit('slow', $prefetch, '') . ' empty_gif; }',
            'location /metrics { sliding_log_metrics; }'),
        %options);
}

my @nodes = (node(100, 1000), node(20, 1), node(1000, 100, CLOCK => Testbed::Clock->new($bed->dir)->set(-3600)));
my @ports = map { $_->port } @nodes;

# ---- clients: each writes what it saw to a file of its own

# One path and key for a moment: bursts, and pauses longer than a window.
sub client {
    my ($file, $end) = @_;
    open my $out, '>', $file or die $!;
    my %sockets;
    while (time < $end) {
        my @paths = ('/log', '/log', '/compact', '/compact', '/cost', '/two', '/two', '/plain');
        my ($path, $key) = ($paths[rand @paths], (qw(a a b c))[rand 4]);
        my $until = time + rand 0.4;
        while (time < $until) {
            my $port   = $ports[rand @ports];
            my $socket = $sockets{$port} //= eval { Testbed::Http::connect_to($port) } // next;
            my $sent   = time;
            syswrite $socket, "GET $path?k=$key HTTP/1.1\r\nHost: x\r\n\r\n";
            my $answer = '';
            while ($answer !~ /\r\n\r\n/ && sysread $socket, $answer, 65536, length $answer) { }
            my $got = time;
            my ($status) = $answer =~ m{^HTTP/1.1 (\d+)};
            my ($length) = $answer =~ /^Content-Length: (\d+)/mi;
            my ($head)   = $answer =~ /^(.*?\r\n\r\n)/s;
            while (defined $length && length($answer) < length($head) + $length && sysread $socket, $answer, 65536, length $answer) { }
            if (!$status || $answer =~ /^Connection: close/mi || !defined $length) {
                delete $sockets{$port};
                next if !$status;
            }
            my ($how) = $answer =~ /^X-How: (\S+)/m;
            printf {$out} "%.6f %.6f %s %s %s %s\n", $sent, $got, $path, $key, $status, $how // '-';
        }
        sleep rand 0.1 if rand() < 0.3;
    }
    close $out;
    return;
}

sub run_clients {
    my ($seconds, $meanwhile) = @_;
    my $end = time + $seconds;
    my (@files, @pids);
    for my $i (1 .. CLIENTS) {
        push @files, $bed->dir . "/seen$i";
        my $pid = fork // die $!;
        if (!$pid) {
            srand $seed + $i;
            client($files[-1], $end);
            POSIX::_exit(0);
        }
        push @pids, $pid;
    }
    $meanwhile->() while time < $end;
    waitpid $_, 0 for @pids;
    return map { my $file = $_; open my $in, '<', $file or die $!; map { [split] } <$in> } @files;
}

# ---- the reference

# The fullest window of so many ms: how many requests were admitted in it for certain.
sub fullest {
    my ($window, @spans) = @_;
    @spans = sort { $a->[0] <=> $b->[0] } @spans;
    my $most = 0;
    for my $first (0 .. $#spans) {
        my $end = $spans[$first][0] + ($window - 1) / 1000;    # both times are cut to ms
        my $in  = 0;
        for my $i ($first .. $#spans) {
            last if $spans[$i][0] >= $end;
            $in++ if $spans[$i][1] < $end;
        }
        $most = $in if $in > $most;
    }
    return $most;
}

sub check {
    my ($when, @seen) = @_;
    my (%asked, %admitted, %source);
    for my $each (@seen) {
        my ($sent, $got, $path, $key, $status, $source) = @$each;
        $source{"$path $source"}++;
        push @{ $asked{"$_ $key"} }, [$sent, $got] for @{ $names{$path} };
        next if $status != 200;
        push @{ $admitted{"$_ $key"} }, [$sent, $got] for @{ $names{$path} };
    }
    for my $log (sort keys %admitted) {
        my ($name) = split / /, $log;
        my ($limit, $window) = @{ $limits{$name} };
        my $cost = $name eq 'cost' ? 3 : 1;
        my $most = $cost * fullest($window, @{ $admitted{$log} });
        cmp_ok($most, '<=', $limit, "$when: no window of $log has more than its limit");
        next if $when eq 'with faults' || $log !~ / a$/;    # a killed worker returns nothing
        cmp_ok($most, '>=', 0.5 * min($limit, $cost * fullest($window, @{ $asked{$log} })), "$when: what other nodes hold back of $log is not much");
    }
    diag join ', ', map { "$_: $source{$_}" } sort keys %source;
    cmp_ok($source{"$_ prefetch"} // 0, '>', 50, "$when: $_ uses permits") for qw(/log /compact /cost /two);
    ok(!$source{'/plain prefetch'}, "$when: a limit without prefetch= uses none");
    ok(!grep({ $_->[5] eq 'error' } @seen), "$when: Redis decides");
    return;
}

my $paused = sub { sleep 0.1 };
check('in peace', run_clients(PEACE, $paused));
my $round = 0;
check(
    'with faults',
    run_clients(FAULTS, sub {
        my $node = $nodes[rand @nodes];
        if (++$round % 3) {
            my @workers = $node->workers;
            kill 'KILL', $workers[rand @workers] if @workers;
        }
        else {
            kill 'HUP', $node->{pid};
        }
        sleep 0.3 + rand 0.4;
    }));

my %total;
for my $metrics (map { scrape($_->port) } @nodes) {
    $total{$_} += $metrics->value($_, store => 'default') for map { "sliding_log_store_permits${_}_total" } '', '_returned';
}
cmp_ok($total{$_}, '>', 100, $_) for sort keys %total;

$_->expect_kills for @nodes;
$bed->done;
