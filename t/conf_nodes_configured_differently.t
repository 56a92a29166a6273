# While a configuration is rolled out, nodes use the same logs with different limits, windows, caps, delays, blocks,
# bursts and clocks. Whatever one node has written, the others get a reply that they accept.

use strict;
use warnings;
use Test::More;
use Testbed qw(conf seed);
use Testbed::Algorithm qw(@ALGORITHMS);
use Testbed::Clock;
use Testbed::Http qw(many field);

seed();

my $bed   = Testbed->new;
my $redis = $bed->redis;
my $clock = Testbed::Clock->new($bed->dir);

sub any { return $_[rand @_] }

# Three locations of each log, with the node's window and cap.
sub locations {
    return join "\n", map {
        my $algorithm = $_;
        my $window    = any(300, 700, 1000, 2500);
        my $cap       = any(20, 30);
        map {
            my $limit = any(0, 1, 5, 12, 20);
            my @more  = (
                "cost=" . any(0, 1, 1, 1, '$three', '$seven'),
                rand() < 0.4 ? 'delay=' . any(200, 900) . 'ms' : (),
                rand() < 0.3 ? 'block=' . any(300, 1500) . 'ms' : (),
                rand() < 0.3 ? 'count=all' : (),
                $algorithm eq 'bucket' ? 'burst=' . any(1, 6, 20) : $algorithm eq 'sampled' ? 'sample=3' : (),
            );
            "location /$algorithm/$_ { sliding_log_limit $algorithm key=\$arg_k limit=$limit window=${window}ms cap=$cap"
                . " algorithm=$algorithm @more; empty_gif; }\n";
        } 1 .. 3;
    } @ALGORITHMS;
}

my $conf = conf(
    connections => 2048,
    store       => 'server %%REDIS%%; timeout 5s; connect_timeout 5s; clock %%CLOCK_OF%%;',
    http        => <<'HTTP',
    sliding_log_on_error deny;
    map "" $three { default 3; }    # constants above the limit are refused
    map "" $seven { default 7; }
HTTP
    how         => '$sliding_log_source',
    server      => '%%LOCATIONS%%',
);
my @nodes = map {
    my ($whose, %options) = @$_;
    $bed->nginx($conf, REDIS => $redis->address, CLOCK_OF => $whose, LOCATIONS => locations(), %options);
} ['redis'], ['redis'], ['nginx', CLOCK => $clock];

my (%sources, @wrong);
for my $round (1 .. 12) {
    $clock->set(any(-3600, 0, 1, 3600));
    for my $node (@nodes) {
        next if $round % 4;
        $node->configure($conf, REDIS => $redis->address, CLOCK_OF => any('redis', 'nginx'), LOCATIONS => locations());
        $node->reload;
    }
    my @asked = map { [any(@nodes)->port, '/' . any(@ALGORITHMS) . '/' . any(1 .. 3) . '?k=' . int rand 3] } 1 .. 400;
    my @answers = many(\@asked);
    for my $i (0 .. $#asked) {
        my $source = field($answers[$i], 'X-How') // 'none';
        $sources{$source}++;
        my $status = $answers[$i]{status};
        push @wrong, "$asked[$i][1]: $status $source" if $status !~ /^(?:200|429)$/ || $source !~ /^(?:redis|cache)$/;
    }
}
note join ', ', map { "$_ $sources{$_}" } sort keys %sources;
is(scalar @wrong, 0, 'Redis has decided every request') or diag(join "\n", @wrong[0 .. ($#wrong < 9 ? $#wrong : 9)]);
is($_->logged(qr/unexpected reply/), 0, 'no reply was unexpected') for @nodes;
is($redis->cli('PING'), 'PONG', 'no script runs without end');

$bed->done;
