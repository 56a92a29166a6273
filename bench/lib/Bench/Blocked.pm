package Bench::Blocked;

# The cost of clients that are denied all the time, by the number of their keys: a known denial lasts a second on the
# node, then one request of each key asks Redis. Not in turns, unlike the other tables: known denials would end in a
# pause.

use strict;
use warnings;

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
    my $result = $node->run($seconds);
    $node->stop;
    $redis->kill;
    return [
        $keys, sprintf('%.0f', $result->{rate}), map({ sprintf '%.1f', $result->{$_} } qw(nginx redis sum)),
        sprintf('%.0f', $result->{call_rate}), sprintf('%.2f', $result->{call_rate} / $keys),
    ];
}

1;
