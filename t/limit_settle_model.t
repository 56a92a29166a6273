# Random requests over two nodes, of one limit or two, end late with another cost than estimated. Each answer must be that
# of a model: a list of requests with their costs, to which additional costs are added when a request ends. A request may
# end after its window, or after the other node has asked Redis. Some fail, and another upstream server answers at a cost
# of its own (error_page, X-Accel-Redirect); others have a post_action, whose cost does not count. The clock of nginx and
# Redis leaps by 1,000 s, and windows end half-way between leaps, so the duration of the test itself does not matter.

use strict;
use warnings;
use IO::Select;
use IO::Socket::INET;
use List::Util qw(max min sum0);
use Test::More;
use Testbed qw(seed);
use Testbed::Algorithm qw(@ALL_ALGORITHMS horizon takes);
use Testbed::Clock;
use Testbed::Http qw(get field connect_to);
use Time::HiRes qw(sleep time);
use Time::Local qw(timegm);

use constant LEAP => 1000;

seed();
my $operations = Testbed::operations(2500, 2);

my $bed     = Testbed->new;
my $clock   = Testbed::Clock->new($bed->dir, monotonic => 1);
my $begin   = timegm(0, 0, 0, 5, 0, 131) - CORE::time;    # 5 January 2031: leaps do not reach the next month
$clock->set($begin);
my $redis   = $bed->redis(clock => $clock);
my $backend = IO::Socket::INET->new(Listen => 200, LocalAddr => '127.0.0.1', Timeout => 20) or die "listen: $!";

sub any { return $_[int rand @_] }

# NAME => its parameters. Endless: an end that the leaps do not reach.
my %logs;
for my $algorithm (grep { takes($_, 'settle') } @ALL_ALGORITHMS) {
    for my $store (qw(default local)) {
        my $leaps = $algorithm eq 'compact' ? 1 + int rand 3 : 1e9;
        $logs{"$algorithm-$store"} = { algorithm => $algorithm, store => $store, leaps => $leaps, limit => 5 + int rand 30,
            horizon => horizon($algorithm, $leaps > 1000 ? '366d' : $leaps * LEAP + LEAP / 2 . 's', 'month') };
    }
}

# The answer of a location: of its upstream server, of a second one after that, or with a post_action behind it.
my %ways = (
    plain => '',
    page  => 'proxy_intercept_errors on; error_page 500 = @fallback;',
    accel => '',
    post  => 'post_action @post;',
);

# Locations: limits of one or two NAMEs.
my @locations = map {
    my %names = map { $_ => 1 } map { any(sort keys %logs) } 1 .. any(1, 2);
    { names => [sort keys %names], way => any(sort keys %ways) }
} 1 .. 30;

sub directive {
    my ($name) = @_;
    my $log = $logs{$name};
    return "sliding_log_limit $name key=\$arg_k limit=$log->{limit} $log->{horizon} algorithm=$log->{algorithm} store=$log->{store} cost=\$arg_cost settle=\$upstream_http_x_cost;";
}

my @nginx = map {
    $bed->serve(
        CLOCK => $clock, REDIS => $redis->address, BACKEND => $backend->sockport,
        workers => 1,    # so its calls are executed in their order
        store   => 'server %%REDIS%%; timeout 9s; connect_timeout 9s;',
        http    => 'server { listen 127.0.0.1:%%PORT2%%; add_header X-Cost 50; location / { return 200; } } sliding_log_on_error deny; proxy_read_timeout 300d; proxy_send_timeout 300d; send_timeout 300d;',    # longer than the leaps
        server  => join "\n", <<'END', map { "location /$_/ { @{[map { directive($_) } @{ $locations[$_]{names} }]} $ways{ $locations[$_]{way} } proxy_pass http://127.0.0.1:%%BACKEND%%; }" } 0 .. $#locations,
    location /settled { sliding_log_limit settled key=a limit=1 window=1h cost=0; empty_gif; }
    location @fallback { proxy_pass http://127.0.0.1:%%BACKEND%%; }
    location /fallback { internal; proxy_pass http://127.0.0.1:%%BACKEND%%; }
    location @post { proxy_pass http://127.0.0.1:%%PORT2%%; }
END
    )
} 1 .. 2;

# ---- the model

my $now = 0;    # in leaps
my %requests;   # "LOG KEY" => requests; a local log is that of its node

sub used {
    my ($name, $which) = @_;
    return sum0 map { $_->{cost} } grep { $now - $_->{time} <= $logs{$name}{leaps} } @{ $requests{$which} };
}

sub place { my ($name, $node, $key) = @_; return join ' ', $name, $logs{$name}{store} eq 'local' ? $node : '', $key }

# ---- requests

my ($wrong, @under_way, %seen);

# "LOG KEY NODE" => until when its node may deny without asking; and those where another node has given back since.
my (%denied, %outdated);

sub begin_one {
    my ($number) = @_;
    my ($node, $location, $key, $cost) = (int rand 2, int rand @locations, any("a" .. "h"), any(0, 1, 1, 2, 3));
    my @names  = @{ $locations[$location]{names} };
    my %place  = map { $_ => place($_, $node, $key) } @names;
    my $fits   = !grep { used($_, $place{$_}) + $cost > $logs{$_}{limit} } @names;
    my $used   = join ', ', map { "$_ has used " . used($_, $place{$_}) . " of $logs{$_}{limit}" } @names;
    my $until  = max(map { $outdated{"$place{$_} $node"} // 0 } @names);
    sleep max(0, $until - time) if $fits;
    my $client = connect_to($nginx[$node]->port);
    $client->syswrite("GET /$location/?k=$key&cost=$cost HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    $seen{ $fits ? 'admitted' : 'denied' }++;
    if (!$fits) {
        my $answer = Testbed::Http::parse(Testbed::Http::read_all($client, 5));
        $denied{"$place{$_} $node"} = time + 1.1 for @names;
        $wrong = "request $number of cost $cost at $now: $answer->{status}, though $used" if $answer->{status} != 429;
        return;
    }
    my %left;
    for (@names) {
        push @{ $requests{ $place{$_} } }, { time => $now, cost => $cost };
        $left{$_} = max($logs{$_}{limit} - used($_, $place{$_}), 0);
    }
    my $ready = IO::Select->new($backend, $client);
    my @which = $ready->can_read(20);
    if (!grep { $_ == $backend } @which) {
        my $answer = Testbed::Http::parse(Testbed::Http::read_all($client, 1));
        $wrong = "request $number of cost $cost at $now: $answer->{text}, though $used";
        return;
    }
    push @under_way, { client => $client, backend => scalar $backend->accept, left => \%left, logs => [@place{@names}], requests => [map { $requests{ $place{$_} }[-1] } @names], number => $number, node => $nginx[$node], way => $locations[$location]{way} };
    return;
}

# A cost, and how the upstream server tells it.
sub random_cost {
    my $cost = any('', 0, 1, 2, int rand 8, int rand 8, rand() < 0.2 ? int rand 60 : 3);
    return ($cost, $cost eq '' ? '' : "X-Cost: $cost\r\n");
}

sub answer {
    my ($backend, $status, $head) = @_;
    syswrite $backend, "HTTP/1.0 $status\r\n${head}Content-Length: 0\r\n\r\n";
    return close $backend;
}

sub end_one {
    my $one  = splice @under_way, int rand @under_way, 1;
    my ($cost, $head) = random_cost();
    if ($one->{way} =~ /page|accel/ && rand() < 0.8) {
        my ($failed, $told) = random_cost();
        answer($one->{backend}, $one->{way} eq 'page' ? ('500 Failed', $told) : ('200 OK', "X-Accel-Redirect: /fallback\r\n$told"));
        $one->{backend} = $backend->accept;
        if (!$one->{backend}) {
            $wrong = "request $one->{number}: no second upstream server is asked";
            return;
        }
        $cost = ($cost || 0) + ($failed || 0) if "$cost$failed" ne '';
        $seen{replaced}++;
    }
    $seen{post}++ if $one->{way} eq 'post';
    $seen{ $cost eq '' ? 'stands' : $cost > $one->{requests}[0]{cost} ? 'more' : $cost < $one->{requests}[0]{cost} ? 'less' : 'same' }++;
    $seen{late}++ if $now - $one->{requests}[0]{time} > 3;
    answer($one->{backend}, '200 OK', $head);
    my $answer = Testbed::Http::parse(Testbed::Http::read_all($one->{client}, 20));
    my %is     = (field($answer, 'RateLimit') // '') =~ /"([\w-]+)";r=(\d+)/g;
    my $told   = join ' ', map { "$_=" . ($is{$_} // '') } sort keys %{ $one->{left} };
    my $said   = join ' ', map { "$_=$one->{left}{$_}" } sort keys %{ $one->{left} };
    $wrong = "request $one->{number}: $told, not $said" if $told ne $said;
    get($one->{node}->port, '/settled');    # behind the call that settles it
    for my $i ($cost eq '' ? () : 0 .. $#{ $one->{requests} }) {
        my $request = $one->{requests}[$i];
        push @{ $requests{ $one->{logs}[$i] } }, { time => $now, cost => $cost - $request->{cost} } if $cost > $request->{cost};
        for my $other ($cost < $request->{cost} ? grep { $nginx[$_] != $one->{node} } 0 .. $#nginx : ()) {
            my $which = "$one->{logs}[$i] $other";
            $outdated{$which} = $denied{$which};
        }
        $request->{cost} = min($cost, $request->{cost});
    }
    return;
}

my @kinds = qw(admitted denied stands more less late replaced post);
my $end   = time + 12;
for my $number (1 .. 20 * $operations) {
    last if $wrong || (($number > $operations || time > $end) && !grep { !$seen{$_} } @kinds);
    if (rand() < 0.03) {
        $clock->set($begin + LEAP * ++$now);
        get($_->port, '/none') for @nginx;    # workers take over the time when they wake up
        get($_->port, '/none') for @nginx;
    } elsif (@under_way && rand() < @under_way / 20) {
        end_one();
    } else {
        begin_one($number);
    }
    $seen{operations}++;
}
end_one() while @under_way && !$wrong;
close $_ for map { grep { $_ } @$_{qw(client backend)} } @under_way;
is($wrong, undef, 'each answer is that of the model: ' . join ', ', map { "$seen{$_} $_" } sort keys %seen);
ok($seen{$_}, "some are $_") for @kinds;

$bed->done;
