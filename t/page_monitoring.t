# The files of monitoring/ work: Prometheus accepts its configuration and rules, the rules fire when they should, and
# rules, dashboard and documentation name only metrics that the module shows.

use strict;
use warnings;
use Cwd ();
use File::Basename ();
use JSON::PP ();
use Test::More;
use Testbed;
use Testbed::Metrics qw(scrape promtool);

my $root = Cwd::abs_path(File::Basename::dirname(__FILE__) . '/..');
my $bed  = Testbed->new;
sub slurp { my ($name) = @_; return Testbed::Process::slurp("$root/$name") }

sub accepted {
    my ($what, @arguments) = @_;
    my ($status, $said) = promtool($bed, '', @arguments);
    is($status, 0, $what) or diag($said);
    return $said;
}

accepted('promtool accepts the scrape example', 'check config', "$root/monitoring/prometheus.yml");
my $checked = accepted('promtool accepts the rules', 'check rules', "$root/monitoring/alerts.yml");
my ($rules) = $checked =~ /(\d+) rules found/;
cmp_ok($rules // 0, '>=', 9, 'promtool finds all rules');
accepted('the rules fire when they should', 'test rules', "$root/monitoring/alerts_test.yml");
my $tests = slurp('monitoring/alerts_test.yml');
for my $alert (slurp('monitoring/alerts.yml') =~ /^ *- alert: (\w+)/mg) {
    like($tests, qr/alertname: $alert\n\s+exp_alerts:\n/, "$alert is seen to fire");
    like(slurp('docs/monitoring.md'), qr/`$alert`/, "$alert is documented");
}

# ---- names

my $redis = $bed->redis;
my $nginx = $bed->serve(REDIS => $redis->address, store => 'server %%REDIS%%;', server => <<'END');
    location /        { sliding_log_limit a key=$arg_k limit=10 window=1h; empty_gif; }
    location /metrics { sliding_log_metrics; }
END
my $shown = scrape($nginx->port);
my %shown = map { $_ => 1 } $shown->families;
for my $family ($shown->text =~ /^# TYPE (\w+) histogram$/mg) {
    $shown{"${family}_$_"} = 1 for qw(bucket sum count);
}
sub unknown {
    my ($text) = @_;
    my %named = map { $_ => 1 } $text =~ /\b(sliding_log_(?:requests_|near_limit_|store_|redis_|zone_)\w*)/g;
    return join ' ', sort grep { !$shown{$_} } keys %named;
}

my $dashboard = JSON::PP->new->decode(slurp('monitoring/grafana-dashboard.json'));
my @queries   = map { $_->{expr} } map { @{ $_->{targets} // [] } } @{ $dashboard->{panels} };
my @variables = map { ref $_->{query} ? $_->{query}{query} : () } @{ $dashboard->{templating}{list} };
cmp_ok(scalar @queries, '>=', 15, 'the dashboard has its panels');
is(unknown($_), '', "the dashboard uses an existing metric: $_") for @queries, @variables;
my %sections = map { (lc($_ =~ s/[^\w ]//gr) =~ tr/ /-/r => 1) } slurp('docs/troubleshooting.md') =~ /^## (.*)$/mg;
my $alerts   = slurp('monitoring/alerts.yml');
my @runbooks = $alerts =~ m{runbook: docs/troubleshooting\.md#(\S+)}g;
is(scalar @runbooks, scalar(() = $alerts =~ /- alert:/g), 'each alert links to a section of troubleshooting.md');
is(join(' ', grep { !$sections{$_} } @runbooks), '', 'the linked sections exist');
is(unknown($alerts), '', 'the rules name only existing metrics');
is(unknown($tests), '', 'the tests of the rules name only existing metrics');

# Prometheus must accept the queries after Grafana has replaced its variables
my %ids;
is(join(' ', grep { $ids{$_}++ } map { $_->{id} } @{ $dashboard->{panels} }), '', 'no two panels have one id');
my %cells;
for my $panel (@{ $dashboard->{panels} }) {
    my ($x, $y, $w, $h) = @{ $panel->{gridPos} }{qw(x y w h)};
    push @{ $cells{$_} }, $panel->{title} for map { my $row = $_; map { "$_,$row" } $x .. $x + $w - 1 } $y .. $y + $h - 1;
}
is(join('; ', map { @{ $cells{$_} } > 1 || /^(\d+)/ && $1 >= 24 ? "$_: @{ $cells{$_} }" : () } sort keys %cells), '', 'the panels stand beside each other');
ok((grep { /^min by \(store, node\) \(sliding_log_store_native\b/ } @queries), 'the dashboard shows which servers decide natively');
my $number = 0;
my $as_rules = "groups:\n- name: dashboard\n  rules:\n" . join '', map {
    my $query = s/\$__rate_interval/5m/gr =~ s/\$(?:job|instance|limit)\b/.*/gr;
    unlike($query, qr/\$/, "every variable is defined in $query") if $query =~ /\$/;
    "  - record: r" . $number++ . "\n    expr: " . JSON::PP->new->allow_nonref->encode($query) . "\n";
} @queries;
accepted('promtool accepts the queries of the dashboard', 'check rules', $bed->write_file('dashboard.yml', $as_rules));

# every label in the queries exists
my %labels;
for my $sample (@{ $shown->{samples} }) {
    $labels{$_} = 1 for keys %{ $sample->{labels} };
}
my %asked = map { $_ => 1 } map { /(?:by|on) \(([^)]*)\)/g } @queries, slurp('monitoring/alerts.yml');
is(join(' ', grep { !$labels{$_} && !/^(?:job|instance)$/ } map { split /,\s*/ } keys %asked), '', 'every label in the queries exists');

# the documentation names every metric, and no other
my $docs = slurp('docs/monitoring.md');
is(unknown($docs), '', 'docs/monitoring.md names only existing metrics');
is(join(' ', grep { $docs !~ /`$_[`{]/ } $shown->families), '', 'docs/monitoring.md names every metric');

$bed->done;
