# The files that compose.yaml mounts exist and work: two nodes with its nginx configuration share the limit and show
# metrics, and Prometheus accepts its configuration. (No container is started.)

use strict;
use warnings;
use Cwd ();
use File::Basename ();
use File::Copy qw(copy);
use Test::More;
use Testbed;
use Testbed::Http qw(get);
use Testbed::Metrics qw(scrape promtool);

my $root = Cwd::abs_path(File::Basename::dirname(__FILE__) . '/..');
my $bed  = Testbed->new;
sub slurp { my ($name) = @_; return Testbed::Process::slurp("$root/$name") }

my %mounted = slurp('compose.yaml') =~ m{^ *- \./(\S+?):(/\S+):ro$}mg;
cmp_ok(scalar keys %mounted, '>=', 6, 'compose.yaml mounts files');
ok(-f "$root/$_", "the file $_ that compose.yaml mounts exists") for sort keys %mounted;

my $limits = slurp('packaging/compose/limits.conf');
$limits =~ s/server redis:6379;/server %%REDIS%%;/      or die 'no Redis';
$limits =~ s/listen 80;/listen 127.0.0.1:%%PORT2%%;/    or die 'no server';
$limits =~ s/listen 9145;/listen 127.0.0.1:%%PORT3%%;/  or die 'no server for metrics';
$limits =~ s/window=10s/window=1h/                      or die 'no window';    # for a slow machine
$limits =~ s{root /usr/share/nginx/html;}{empty_gif;}   or die 'no page';
my $redis = $bed->redis;
my @nodes = map { $bed->serve(http => $limits, REDIS => $redis->address) } 1 .. 2;

my @answers = map { get($nodes[$_ % 2]->port('PORT2'), '/') } 1 .. 6;
is(join(' ', map { $_->{status} } @answers), '200 200 200 200 200 429', 'the nodes share the limit');
my $counted = 0;
for my $node (@nodes) {
    $counted += scrape($node->port('PORT3'))->value('sliding_log_requests_total', limit => 'demo');
}
is($counted, 6, 'the metrics of the nodes show the requests');

my %services = map { $_ => 1 } slurp('compose.yaml') =~ /^  (\w+):(?: &\w+)?$/mg;
my @targets  = slurp('packaging/compose/prometheus.yml') =~ /'(\w+):9145'/g;
is(join(' ', grep { !$services{$_} } @targets), '', 'the targets of Prometheus are services of compose.yaml');
is(scalar @targets, 2, 'Prometheus asks both nodes');

my ($where) = $bed->write_file('prometheus.yml', slurp('packaging/compose/prometheus.yml')) =~ m{^(.*)/};
copy("$root/monitoring/alerts.yml", "$where/alerts.yml") or die $!;
my ($status, $said) = promtool($bed, '', 'check config', "$where/prometheus.yml");
is($status, 0, 'Prometheus accepts its configuration') or diag($said);

$bed->done;
