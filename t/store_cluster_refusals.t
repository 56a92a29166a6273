# A cluster refuses for long: hash slots without a node, a server that takes its cluster for down (CLUSTERDOWN). After
# the first timeouts on_error decides at once, for those slots only. Connections stay, and Redis decides again soon
# after.

use strict;
use warnings;
use Test::More;
use Testbed qw(wait_until slow);
use Testbed::Http qw(get field);
use Testbed::Load;
use Time::HiRes qw(time sleep);

my $bed     = Testbed->new;
my $cluster = $bed->cluster(masters => 2, node_timeout => 60_000, args => ['--cluster-require-full-coverage', 'no']);
my ($first, $second) = $cluster->nodes;
my $nginx = $bed->serve(
    SEEDS   => $first->address,
    workers => 2,
    listen  => 'reuseport',
    store   => 'server %%SEEDS%%; mode cluster; timeout 100ms; connect_timeout 1s; reconnect 20ms 200ms;',
    how     => '$sliding_log_source $pid $sliding_log_latency',
    server  => <<'END',
    location /one { sliding_log_limit one key=$arg_k limit=100000 window=1h; empty_gif; }
    location /two {
        sliding_log_limit two_a key=$arg_k limit=100000 window=1h;
        sliding_log_limit two_b key=$arg_k limit=100000 window=1d;
        empty_gif;
    }
END
);
my $port = $nginx->port;
my ($well, $ill, $elsewhere) = ($cluster->tag_on($second), $cluster->tag_on($second), $cluster->tag_on($first));
my $slot = $cluster->slot_of($ill);

sub source { my ($path) = @_; return field(get($port, $path), 'X-How') =~ s/ .*//r }
sub sources { my ($record) = @_; my %n; $n{ $_->{source} }++ for $record->requests; return join ' ', sort keys %n }
sub ids { my ($node) = @_; return join ' ', sort map { / cmd=(?:evalsha|cluster|config|info|asking)/ && /^id=(\d+)/ ? $1 : () } split /\n/, $node->cli(qw(CLIENT LIST TYPE normal)) }
sub warm { my @paths = @_; return wait_until('all to be well', 10, sub { !grep { source($_) ne 'redis' } map { ($_) x 4 } @paths }) }

# Requests for all these paths for some seconds, with the trouble made after the first of them.
#   ill => paths that on_error decides meanwhile, well => those that Redis decides throughout
sub trouble {
    my ($what, %with) = @_;
    my @paths = (@{ $with{ill} }, @{ $with{well} });
    warm(@paths);
    my $before = ids($second);
    my $load   = Testbed::Load->start($bed, $port, paths => \@paths, rate => 400);
    sleep 0.3;
    $with{make}->();
    my $made = time;
    sleep 3;
    my $ended = time;
    $with{end}->();
    ok(wait_until('an end', 10, sub { !grep { source($_) ne 'redis' } map { ($_) x 4 } @{ $with{ill} } }), "$what: Redis decides again");
    my $over = time - $ended;
    sleep 0.3;
    my $record = $load->stop;
    cmp_ok($over, '<', 2 * slow(), sprintf "$what: Redis decides again in time, after %.1f s", $over);
    my %ill = map { $_ => 1 } @{ $with{ill} };
    my ($is_ill, $is_well) = map { my $wanted = $_; Testbed::Load::Record->new(grep { !!$ill{ $_->{path} } eq $wanted } $record->requests) } 1, '';
    is(sources($is_well), 'redis', "$what: Redis decides the other requests throughout");
    cmp_ok($is_well->percentile(0.99), '<', 0.05 * slow(), "$what: the other requests do not wait");
    my $lasting = $is_ill->that(from => $made + 0.5, to => $ended);
    cmp_ok($lasting->that(source => 'local')->count, '>', 0.9 * $lasting->count, "$what: on_error decides what is refused");
    my $waited = grep { ($_->{waited} || 0) - $_->{stalled} > 0.05 } $lasting->requests;
    cmp_ok($waited, '<', 0.02 * $lasting->count, sprintf "$what: on_error decides at once, %d of %d requests waited", $waited, $lasting->count);
    is(ids($second), $before, "$what: the connections stay");
    return;
}

trouble(
    'a slot without a server',
    ill  => ["/one?k=$ill"],
    well => ["/one?k=$well", "/two?k=$well", "/one?k=$elsewhere"],
    make => sub { $second->cli('CLUSTER', 'DELSLOTS', $slot) },
    end  => sub { $second->cli('CLUSTER', 'ADDSLOTS', $slot) },
);

my $asked = $second->calls('evalsha');
trouble(
    'a server that takes the cluster for down',
    ill  => ["/one?k=$ill", "/one?k=$well", "/two?k=$well"],
    well => ["/one?k=$elsewhere"],
    make => sub { $second->cli('CONFIG', 'SET', 'cluster-require-full-coverage', 'yes'); $second->cli('CLUSTER', 'DELSLOTS', $cluster->slot_of('nobody' . $well)) },
    end  => sub { $second->cli('CONFIG', 'SET', 'cluster-require-full-coverage', 'no') },
);
cmp_ok($nginx->logged(qr/sliding_log_redis.*CLUSTERDOWN/), '>', 4, 'the error log names the causes');
cmp_ok($nginx->logged(qr/\[(?:error|warn)\].*sliding_log_redis/), '<', 2 * 5 * 7, 'the error log has about one line a second and worker');

$bed->done;
