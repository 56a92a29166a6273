# packaging/kubernetes/: the manifests fit the schemas of Kubernetes and one another. What their containers run works: pods
# that come and go share one limit, are ready without Redis, end when they are told to, and use a password that is
# rotated in its Secret. (No cluster is started.)

use strict;
use warnings;
use Cwd            ();
use File::Basename ();
use Test::More;
use Testbed qw(wait_until);
use Testbed::Clock;
use Testbed::Http qw(get);
use Testbed::Manifests qw(manifests manifest printed_monitoring faults);
use Testbed::Metrics qw(scrape promtool);

plan skip_all => 'libyaml-libyaml-perl is not installed' if !Testbed::Manifests::is_available();
my $root = Cwd::abs_path(File::Basename::dirname(__FILE__) . '/..');
sub slurp { my ($name) = @_; return Testbed::Process::slurp("$root/$name") }

my $bed = Testbed->new;

# ---- schemas

my ($kustomization) = manifests('kustomization.yaml');
my @applied = map { manifests($_) } @{ $kustomization->{resources} };
my @others  = map { manifests($_) } qw(podmonitor.yaml nginx-ingress-controller.yaml nginx-gateway-fabric.yaml);
my @all     = (@applied, @others, printed_monitoring());
SKIP: {
    my @seen = faults(@all);
    skip 'no schemas of Kubernetes: ./build.sh check brings them where npm is installed and reaches its registry', 1 if !@seen;
    like($_, qr/: (?:valid|no schema)$/, "schema: $_") for @seen;
    is(join(' ', map { /^(\w+) .*: no schema$/ ? $1 : () } @seen), 'NginxProxy SnippetsPolicy SnippetsFilter', 'all others have a schema');
    my ($nginx) = manifest('nginx.yaml', 'Deployment');
    $nginx->{spec}{template}{spec}{containers}[0]{readinesProbe} = {};
    $nginx->{spec}{template}{spec}{terminationGracePeriodSeconds} = 'a minute';
    my ($wrong) = faults($nginx);
    like($wrong, qr/terminationGracePeriodSeconds must be integer/, 'a wrong value is found');
    my ($right) = manifest('nginx.yaml', 'Deployment');
    $right->{spec}{template}{spec}{containers}[0]{readinesProbe} = {};
    like((faults($right))[0], qr/readinesProbe/, 'an unknown field is found');
}

# ---- what refers to what

my $deployment = manifest('nginx.yaml', 'Deployment');
my $pod        = $deployment->{spec}{template}{spec};
my ($nginx)    = @{ $pod->{containers} };
my %labels     = %{ $deployment->{spec}{template}{metadata}{labels} };
my %selecting  = (
    Deployment          => $deployment->{spec}{selector}{matchLabels},
    spread              => $pod->{topologySpreadConstraints}[0]{labelSelector}{matchLabels},
    Service             => manifest('nginx.yaml', 'Service')->{spec}{selector},
    PodDisruptionBudget => manifest('nginx.yaml', 'PodDisruptionBudget')->{spec}{selector}{matchLabels},
    PodMonitor          => manifest('podmonitor.yaml', 'PodMonitor')->{spec}{selector}{matchLabels},
    NetworkPolicy       => manifest('redis.yaml', 'NetworkPolicy')->{spec}{ingress}[0]{from}[0]{podSelector}{matchLabels},
);
is_deeply($selecting{$_}, \%labels, "$_ selects the pods of nginx") for sort keys %selecting;
my $scaled = manifest('nginx.yaml', 'HorizontalPodAutoscaler')->{spec};
is("$scaled->{scaleTargetRef}{kind} $scaled->{scaleTargetRef}{name}", "Deployment $deployment->{metadata}{name}", 'the HorizontalPodAutoscaler scales the Deployment');
ok(!exists $deployment->{spec}{replicas}, 'which has no number of its own');
ok($nginx->{resources}{requests}{cpu}, 'and tells the CPU that the percentage is of');

my $redis_pod = manifest('redis.yaml', 'Deployment');
my $redis_labels = $redis_pod->{spec}{template}{metadata}{labels};
is_deeply(manifest('redis.yaml', $$_[0])->{spec}{ $$_[1] }, $$_[2], "$$_[0] selects the pod of Redis")
    for (['Service', 'selector', $redis_labels], ['NetworkPolicy', 'podSelector', { matchLabels => $redis_labels }], ['Deployment', 'selector', { matchLabels => $redis_labels }]);

my $conf = slurp('packaging/kubernetes/nginx.conf');
my %ports = map { $_->{name} => $_->{containerPort} } @{ $nginx->{ports} };
is(join(' ', map { $_->{targetPort} } @{ manifest('nginx.yaml', 'Service')->{spec}{ports} }), 'http', 'the Service publishes one port');
like($conf, qr/listen $ports{$_};/, "nginx listens on the port $_") for qw(http metrics);
is($nginx->{$_}{httpGet}{port}, 'metrics', "$_: its port") for qw(readinessProbe livenessProbe);
is(manifest('podmonitor.yaml', 'PodMonitor')->{spec}{podMetricsEndpoints}[0]{port}, 'metrics', 'Prometheus has the same port');
my ($server) = $conf =~ /server ([\w-]+):6379;/;
is($server, manifest('redis.yaml', 'Service')->{metadata}{name}, 'nginx asks the Service of Redis');

my ($generated) = @{ $kustomization->{configMapGenerator} };
my %volumes = map { $_->{name} => $_ } @{ $pod->{volumes} };
my %mounts  = map { $_->{name} => $_->{mountPath} } @{ $nginx->{volumeMounts} };
is_deeply([sort keys %mounts], [sort keys %volumes], 'each volume is mounted');
is($volumes{configuration}{configMap}{name}, $generated->{name}, 'the configuration is the generated ConfigMap');
is("@{ $generated->{files} }", 'nginx.conf', 'which has nginx.conf');
ok((grep { $_ eq "$mounts{configuration}/nginx.conf" } @{ $nginx->{command} }), 'nginx starts with it');
my ($password_file) = $conf =~ /password_file (\S+);/;
is($password_file, "$mounts{redis}/password", 'the password is that of the mounted Secret');
is($volumes{redis}{secret}{secretName}, $redis_pod->{spec}{template}{spec}{volumes}[0]{secret}{secretName}, 'Redis has the same Secret');
ok(!(grep { $_->{subPath} } @{ $nginx->{volumeMounts} }), 'no subPath, with which a rotated Secret is not seen');
is($volumes{$_}{secret}{defaultMode}, oct 440, 'the group of the pod may read the Secret, others not') for 'redis';
is((grep { $_->{name} eq $nginx->{image} } @{ $kustomization->{images} }), 1, 'the name of the image can be set');

my ($waits)  = $nginx->{lifecycle}{preStop}{exec}{command}[1];
my ($drains) = $conf =~ /worker_shutdown_timeout (\d+)s;/;
cmp_ok($waits + $drains, '<', $pod->{terminationGracePeriodSeconds}, 'requests may end before the pod is killed');
like(slurp('Dockerfile'), qr/^STOPSIGNAL SIGQUIT$/m, 'the image is stopped by QUIT');
my @temporary = $conf =~ m{^\s*\w+_temp_path (\S+);}mg;
is(scalar(grep { m{^\Q$mounts{tmp}\E/} } @temporary, $conf =~ /^pid (\S+);/m), 6, 'what nginx writes is in a writable folder');

# ---- alert rules and dashboard

my %printed = map { $_->{kind} => $_ } printed_monitoring();
my ($rules) = Testbed::Manifests::parsed(slurp('monitoring/alerts.yml'));
is_deeply($printed{PrometheusRule}{spec}, $rules, 'the PrometheusRule has the alert rules');
is_deeply(JSON::PP::decode_json($printed{ConfigMap}{data}{'sliding-log.json'}), JSON::PP::decode_json(slurp('monitoring/grafana-dashboard.json')), 'the ConfigMap has the dashboard');
is_deeply($printed{PodMonitor}, manifest('podmonitor.yaml', 'PodMonitor'), 'the PodMonitor is printed with them');

# ---- what the containers run

# A Secret as the kubelet mounts it: an update changes one link.
my $secret = $bed->dir . '/secret';
my $version = 0;
mkdir $secret or die "$secret: $!";
sub put_secret {
    my ($password) = @_;
    my $folder = '..2026_' . ++$version;
    mkdir "$secret/$folder" or die $!;
    $bed->write_file("secret/$folder/password", $password);
    symlink $folder, "$secret/..data_tmp" or die $!;
    rename "$secret/..data_tmp", "$secret/..data" or die $!;
    symlink '..data/password', "$secret/password" if $version == 1;
    return;
}
put_secret('first-secret');

my ($shell, $option, $script) = @{ $redis_pod->{spec}{template}{spec}{containers}[0]{command} };
my $redis  = $bed->redis(stopped => 1, auth => [qw(-a first-secret)]);
my $binary = Testbed::Redis::binary();
$script =~ s{/etc/sliding-log-redis}{$secret} or die 'no Secret';
$script =~ s{redis-server -}{$binary - --port ${\$redis->port} --unixsocket ${\$redis->path} --dir ${\$bed->dir}} or die 'no redis-server';
$redis->spawn($redis->{log}, $shell, $option, $script);
ok(wait_until('Redis', 10, sub { $redis->cli('PING') eq 'PONG' }), 'Redis starts as its container does');
is((split /\n/, $redis->cli('CONFIG', 'GET', 'maxmemory-policy'))[1], 'noeviction', 'with its settings');
unlike(Testbed::Process::slurp("/proc/$redis->{pid}/cmdline"), qr/first-secret/, 'and without the password in its arguments');

sub fill_in {
    my ($text) = @_;
    $text =~ s/^(?:pid|error_log) .*\n//mg;
    $text =~ s/^load_module .*/%%GLOBALS%%/m                            or die 'no module';
    $text =~ s{/tmp/}{%%DIR%%/}g;
    $text =~ s{access_log /dev/stdout;}{access_log %%DIR%%/access.log;} or die 'no access log';
    $text =~ s{server \S+:6379;}{server %%REDIS%%; timeout 5s; connect_timeout 5s; reconnect 20ms 100ms;} or die 'no Redis';
    $text =~ s{/etc/sliding-log-redis}{$secret}                         or die 'no Secret';
    $text =~ s/listen 8080;/listen 127.0.0.1:%%PORT%%;/                 or die 'no server';
    $text =~ s/listen 9145;/listen 127.0.0.1:%%PORT2%%;/                or die 'no server for metrics';
    $text =~ s/listen 127\.0\.0\.1:9146;/listen 127.0.0.1:%%PORT3%%;/   or die 'no server for the dashboard';
    $text =~ s{root /usr/share/nginx/html;}{empty_gif;}                 or die 'no page';
    return $text =~ s/limit=5 window=10s/limit=5 window=1h/r;    # for a slow machine
}
my $clock = Testbed::Clock->new($bed->dir, monotonic => 1);
sub new_pod { return $bed->nginx(fill_in($conf), REDIS => $redis->address, CLOCK => $clock) }
sub status { my ($of, $path) = @_; return get($of->port, $path // '/')->{status} }
sub probed { my ($of) = @_; return get($of->port('PORT2'), $nginx->{readinessProbe}{httpGet}{path})->{status} }

my @pods = map { new_pod() } 1 .. $scaled->{minReplicas};
is(scalar @{[$pods[0]->workers]}, 2, 'as many workers as nginx.conf says');
is(probed($_), 200, 'a pod is ready') for @pods;
is(join(' ', map { status($pods[$_ % 2]) } 1 .. 3), '200 200 200', 'two pods admit requests');
my $leaving = shift @pods;
$leaving->signal('QUIT');
ok($leaving->wait_end(15 * Testbed::slow()), 'one is taken away');
push @pods, new_pod();
is(join(' ', map { status($pods[$_ % 2]) } 1 .. 3), '200 200 429', 'another one comes, and the limit stays one');
is(scrape($pods[1]->port('PORT2'))->value('sliding_log_requests_total', limit => 'demo', source => 'redis') > 0, 1, 'the metrics are where the PodMonitor asks');
is(get($pods[0]->port('PORT3'), '/')->{status}, 200, 'the dashboard is at its own port');
is(status($pods[0], '/healthz'), 429, 'probes are not published');

# ---- a password that is rotated in its Secret

# redis-cli authenticates, too, once for each command.
my $asked = 0;
sub asked { $asked++; return $redis->cli(@_) }
sub authenticated { $asked++; return $redis->calls('auth') - $asked }
my $before = authenticated();
asked(qw(ACL SETUSER default >second-secret));
put_secret('second-secret');
is(authenticated(), $before, 'within the minute nobody looks at the Secret');
$clock->set(61);
ok(wait_until('workers to authenticate again', 10, sub { status($_) for @pods; authenticated() == $before + 4 }), 'then all workers use the rotated password');
asked(qw(ACL SETUSER default <first-secret));
$redis->{auth} = [qw(-a second-secret)];
asked(qw(CLIENT KILL TYPE normal SKIPME yes));
my $is_up = sub { (scrape($_[0]->port('PORT2'))->value('sliding_log_store_up') // 0) == 1 };
ok(wait_until('connections', 10, sub { authenticated() >= $before + 8 && !grep { !$is_up->($_) } @pods }), 'and new connections, when the first one is gone');
is(status($_), 429, 'Redis decides') for @pods;
is(asked(qw(ACL LOG)), '', 'no password was refused');

# ---- without Redis

$redis->kill;
is(probed($_), 200, 'a pod without Redis is ready') for @pods;
ok(wait_until('a decision without Redis', 10, sub { get($pods[0]->port, '/')->{status} == 200 }), 'and decides by its own log');
ok(wait_until('its own limit', 10, sub { status($pods[0]) == 429 }), 'up to its share');

$bed->done;
