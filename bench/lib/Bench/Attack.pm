package Bench::Attack;

# How long other clients wait for Redis while some attack it: each sequence that makes it work for long, by 16 connections,
# one after the other and all at once, with the scripts, with the native module, and in shared memory.

use strict;
use warnings;
use IO::Socket::INET;
use List::Util qw(sum0);
use Time::HiRes qw(sleep);

use Testbed::Http;
use Testbed::Process;
use Bench::Machine;
use Bench::Progress qw(progress);
use Bench::Table;

use constant {
    CONNECTIONS => 16,
    ENTRIES     => 100_000,
    WARM_UP     => 1,          # s
    LONGEST     => 1,          # s that a settled request lasts
    P99_MS      => 10,         # ms that a hundredth of the others may exceed
};

# What the attackers send: name, location, query as Lua, what stands in the location.
my @sequences = (
    {
        name   => 'an upstream dies: refunds',
        path   => '/refund',
        limits => 'sliding_log_limit refund key=k limit=1000000 window=1h algorithm=compact refund=5xx;',
        inside => 'proxy_pass http://127.0.0.1:%%PORT2%%;',
    },
    {
        name   => 'old requests are settled',
        path   => '/settle',
        limits => 'sliding_log_limit settle key=k limit=1000000000 window=1h algorithm=compact cost=500 settle=$costs;',
        inside => 'proxy_read_timeout ' . LONGEST . 's; proxy_pass http://127.0.0.1:%%SILENT%%;',
        beside => '/settle/busy',
    },
    {
        name   => 'chosen costs',
        path   => '/costs',
        query  => '"c=" .. math.random(40000, 60000)',
        limits => 'sliding_log_limit costs key=k limit=100000 window=24h algorithm=compact cost=$arg_c;',
        inside => 'empty_gif;',
        fill   => 'costs',
    },
    {
        name   => 'a held crowd',
        path   => '/held',
        limits => 'sliding_log_limit held key=k limit=10000 window=1m delay=10s algorithm=compact;',
        inside => 'empty_gif;',
    },
    {
        name   => 'a blocked log',
        path   => '/blocked',
        limits => 'sliding_log_limit blocked key=k limit=100000 window=24h algorithm=compact block=1h count=all;',
        inside => 'empty_gif;',
        fill   => 'blocked',
    },
);

my $locations = join "\n", map { "location = $_->{path} { $_->{limits} $_->{inside} }" } @sequences;
my $conf      = <<'END' =~ s/%%LOCATIONS%%/$locations/r;
%%GLOBALS%%
worker_processes 1;
events { worker_connections 4096; }
http {
    error_log %%DIR%%/error.log crit;
    log_format wait '$sliding_log_latency $sliding_log_source $status';
    access_log off;
    keepalive_requests 1000000000;
    %%STORE%%
    map $uri $costs { default 7; }
    sliding_log_zone 64m;
    server {
        listen 127.0.0.1:%%PORT%%;
        location /bare { empty_gif; }
        location /other { access_log %%DIR%%/other.log wait; sliding_log_limit other key=$arg_k limit=1000000 window=1m; empty_gif; }
        location /settle/busy { sliding_log_limit settle key=k limit=1000000000 window=1h algorithm=compact; empty_gif; }
        location /fill/costs   { sliding_log_limit costs key=k limit=100000 window=24h algorithm=compact; empty_gif; }
        location /fill/blocked { sliding_log_limit blocked key=k limit=100000 window=24h algorithm=compact cap=120000; empty_gif; }
        %%LOCATIONS%%
    }
    server { listen 127.0.0.1:%%PORT2%%; return 444; }
}
END

# Options: attack_seconds
sub table {
    my ($world, %options) = @_;
    my $silent = IO::Socket::INET->new(Listen => 4096, LocalAddr => '127.0.0.1') or die "bench: listen: $!";
    my (@rows, @broken);
    for my $how (['scripts', 'native off;'], ['native module', 'native required;'], ['shared memory', undef]) {
        my ($name, $native) = @$how;
        my @sets = ([], map({ [$_] } @sequences), [@sequences]);
        for my $set (@sets) {
            my $what = !@$set ? 'nothing' : @$set == 1 ? $set->[0]{name} : 'all five';
            progress("attack: $name, $what");
            my $row = row($world, $native, $silent, $options{attack_seconds}, @$set);
            push @rows, [$name, $what, map { sprintf $_->[0], $row->{ $_->[1] } } ['%.0f', 'rate'], ['%.0f', 'attacks'], ['%.0f', 'p50'], ['%.0f', 'p99'], ['%.0f', 'longest'], ['%.1f', 'client'], ['%.1f', 'bare'], ['%d', 'without'], ['%.0f', 'busy']];
            push @broken, "$name, $what: p99 is $row->{p99} ms, $row->{client} ms for the client, $row->{bare} ms without a limit, $row->{without} requests decided without Redis"
                if $row->{p99} > P99_MS || $row->{client} > P99_MS || $row->{without};
        }
    }
    progress('');
    my $table = Bench::Table->new(
        title   => 'How long others wait while Redis is attacked',
        columns => [['', 'decided by'], ['', 'attack'], ['others', 'req/s'], ['attackers', 'req/s'], ['ms that others wait for Redis', 'p50'], ['', 'p99'], ['', 'longest'], ['', 'p99 of the answer'], ['', 'that without a limit'], ['', 'decided without it'], ['', 'Redis busy, %']],
        rows    => \@rows,
        notes   => [
            sprintf('One worker, %d connections for each attack, logs of %d entries; the others have one connection and keys picked', CONNECTIONS, ENTRIES),
            sprintf('at random; %d s each. Waits are those of $sliding_log_latency, in whole milliseconds, so those for the', $options{attack_seconds}),
            'worker count, too. *p99 of the answer*: as the client sees it, on the core that nginx and the attackers have;',
            '*that without a limit*: of a client that asks for a location without limits, in the same seconds.',
            '*decided without it*: by on_error.',
        ],
    );
    $table->{broken} = join '', map { "$_\n" } @broken;
    return $table;
}

sub row {
    my ($world, $native, $silent, $seconds, @set) = @_;
    my $redis = defined $native ? $world->redis_with_module : undef;
    my $nginx = $world->nginx(
        $conf,
        MODULE    => 1,
        STORE     => $redis ? 'sliding_log_redis { server ' . $redis->address . "; $native }" : '',
        SILENT    => $silent->sockport,
    );
    my $port = $nginx->port;
    for my $fill (grep { defined } map { $_->{fill} } @set) {
        my $filler = Bench::Attacker->start($world, $port, path => "/fill/$fill", connections => 64, seconds => 600);
        sleep 0.1 until Testbed::Http::get($port, "/fill/$fill")->{status} == 429;
        $filler->requests;
    }
    my @attackers = map {
        my $set = $_;
        map { Bench::Attacker->start($world, $port, query => $set->{query}, connections => CONNECTIONS, seconds => $seconds + 60, path => $_) } $set->{path}, $set->{beside} // ();
    } @set;
    sleep WARM_UP + LONGEST;
    my $watch = $redis && Bench::Machine::stopwatch(redis => [$redis->pid]);
    my $bare  = Bench::Attacker->start($world, $port, path => '/bare', connections => 1, seconds => $seconds, nice => 0);
    my $other = Bench::Attacker->start($world, $port, path => '/other', query => '"k=" .. math.random(1000)', connections => 1, seconds => $seconds, nice => 0);
    $_->wait_end($seconds + 10) for $bare, $other;
    my %used    = $redis ? $watch->() : (redis => 0);
    my $attacks = sum0(map { $_->requests } @attackers);
    my @lines   = split /\n/, Testbed::Process::slurp($nginx->dir . '/other.log');
    my @waits   = sort { $a <=> $b } map { 1000 * (split)[0] } @lines;
    $world->stop($nginx);
    $redis->kill if $redis;
    return {
        rate    => @lines / $seconds,
        attacks => $attacks / ($seconds + WARM_UP + LONGEST),
        p50     => $waits[@waits / 2],
        p99     => $waits[@waits * 0.99],
        longest => $waits[-1],
        client  => $other->figure('p99us') / 1000,
        bare    => $bare->figure('p99us') / 1000,
        without => scalar(grep { $redis && / (?:local|error) / } @lines),
        busy    => 100 * $used{redis} / $seconds,
    };
}

# A wrk that asks for one path.
package Bench::Attacker;

use parent -norequire, 'Testbed::Process';

my $count = 0;

# Options: path, query: a Lua expression, connections, seconds
sub start {
    my ($class, $world, $port, %options) = @_;
    my $name  = $world->dir . '/attacker' . ++$count;
    my $query = $options{query} ? qq{ .. "?" .. $options{query}} : '';
    Testbed::write_file($world->{bed}, "attacker$count.lua", <<"LUA");
math.randomseed($count)
function request() return wrk.format('GET', '$options{path}'$query) end
function done(summary, latency) print('requests=' .. summary.requests .. ' p99us=' .. latency:percentile(99)) end
LUA
    my $self = bless { output => $name }, $class;
    $self->spawn($name, Bench::Machine::pinned($world->cores('load')), 'nice', '-n', $options{nice} // 10, 'wrk', '-t', 1, '-c', $options{connections}, '-d', "$options{seconds}s",
        '--timeout', '10s', '-s', "$name.lua", "http://127.0.0.1:$port/");
    $world->own($self);
    return $self;
}

# Ends it; returns how many there were.
sub requests {
    my ($self) = @_;
    for (1 .. 50) {
        last if !$self->is_running;
        $self->signal('INT');
        $self->wait_end(0.2);
    }
    return $self->figure('requests');
}

sub figure { my ($self, $name) = @_; return Testbed::Process::slurp($self->{output}) =~ /\b$name=(\d+)/ ? $1 : 0 }

1;
