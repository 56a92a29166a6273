package Bench::Blocked;

# The cost of clients that are denied all the time, by the number of their keys: a known denial lasts a second on the
# node, then one request of each key asks Redis. Not in turns, unlike the other tables: known denials would end in a
# pause.

use strict;
use warnings;

use Bench::Machine;
use Bench::Node;
use Bench::Progress qw(progress);
use Bench::Table;
use Bench::Variants;

use constant {
    KEYS    => [1, 100, Bench::Variants::KEYS],
    WARM_UP => 2,       # seconds: by then each key is denied, and known to be
    ZONE    => '64m',   # 10m knows of some 4,800 denials at once
};

# Options: blocked_seconds
sub table {
    my ($world, %options) = @_;
    my @rows = map { row($world, $_, $options{blocked_seconds}) } @{ +KEYS };
    progress('');
    return Bench::Table->new(
        title   => 'Blocked crowds: what a denied request costs while the same keys are denied for long',
        columns => [
            ['',                   'keys'],
            ['',                   'req/s'],
            ['CPU us per request', 'nginx'],
            ['',                   'Redis'],
            ['',                   'sum'],
            ['Redis calls',        'per s'],
            ['',                   'per key and s'],
        ],
        rows  => \@rows,
        notes => [
            sprintf('One worker, %d connections, keys picked at random, sliding_log_zone %s; all in one run of %d s each.',
                Bench::Variants::CONNECTIONS, ZONE, $options{blocked_seconds}),
            'A call carries what a turn of the event loop asks, of many keys.',
        ],
    );
}

sub row {
    my ($world, $keys, $seconds) = @_;
    my $redis = $world->redis;
    my $node  = Bench::Node->new($world, $redis, {
        name        => "$keys blocked keys",
        kind        => 'blocked',
        family      => 'module',
        keys        => $keys,
        connections => Bench::Variants::CONNECTIONS,
        redis       => 1,
        http        => 'sliding_log_redis { server %%REDIS%%; } sliding_log_zone ' . ZONE . ';',
        location    => 'sliding_log_limit blocked key=$arg_k limit=1 window=1h;',
    });
    progress("$node->{name}");
    $node->load('load', WARM_UP)->result;
    my ($before) = $node->{client}->decisions_so_far;
    my $watch  = Bench::Machine::stopwatch(nginx => [$node->{worker}], redis => [$redis->pid]);
    my $result = $node->load('load', $seconds)->result;
    my %used   = $watch->();
    my ($calls) = $node->{client}->decisions_so_far;
    $node->check($result);
    $node->stop;
    $redis->kill;
    my ($nginx, $of_redis) = map { $used{$_} / $result->{requests} * 1e6 } qw(nginx redis);
    my ($rate, $call_rate) = map { $_ / $result->{microseconds} * 1e6 } $result->{requests}, $calls - $before;
    return [
        $keys, sprintf('%.0f', $rate), map({ sprintf '%.1f', $_ } $nginx, $of_redis, $nginx + $of_redis),
        sprintf('%.0f', $call_rate), sprintf('%.2f', $call_rate / $keys),
    ];
}

1;
