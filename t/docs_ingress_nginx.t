# docs/kubernetes.md, for users of ingress-nginx: each row of the table decides as what ingress-nginx generated of the
# annotation. The snippets for F5's controllers work in the places of nginx.conf where these put them. (No controller is
# started.)

use strict;
use warnings;
use Cwd            ();
use File::Basename ();
use Test::More;
use Testbed;
use Testbed::Http qw(get statuses);
use Testbed::Manifests qw(manifest);
use Testbed::Metrics qw(scrape);
use Testbed::Process;
use Testbed::UnderWay;

plan skip_all => 'libyaml-libyaml-perl is not installed' if !Testbed::Manifests::is_available();

my $root     = Cwd::abs_path(File::Basename::dirname(__FILE__) . '/..');
my $document = Testbed::Process::slurp("$root/docs/kubernetes.md");
my ($part)   = $document =~ /^## From ingress-nginx\n(.*?)(?=^## |\z)/ms or BAIL_OUT('no part of ingress-nginx');
my %row      = map { /^\| `([\w-]+)[^|]*\| (.*) \|$/ ? ($1 => $2) : () } split /\n/, $part;

# The limit of the row of an annotation, with numbers for its letters.
sub ours {
    my ($annotation, %values) = @_;
    my ($code) = ($row{$annotation} // '') =~ /`(sliding_log_limit [^`]+)`/ or die "no row of $annotation\n";
    $code =~ s{\b([RMN])(?:×([RMN]))?(?:\+(\d+))?\b}{$values{$1} * ($2 ? $values{$2} : 1) + ($3 // 0)}ge;
    return $code;
}

my ($allowed) = $part =~ /^```nginx\n(geo .*?)^server /ms or BAIL_OUT('no example of addresses');

# ---- both modules: theirs is what the template of ingress-nginx writes

my %of = (
    'limit-rpm'         => ['limit_req zone=rpm burst=6 nodelay;', ours('limit-rpm', R => 2, M => 3) . ';'],
    'limit-rps'         => ['limit_req zone=rps burst=10 nodelay;', ours('limit-rps', R => 2, M => 5) . ';'],
    'limit-connections' => ['limit_conn conns 2;', ours('limit-connections', N => 2) . ';'],
);
my $silent    = Testbed::UnderWay->new;
my $upstream  = 'proxy_pass http://127.0.0.1:' . $silent->port . ';';
my $locations = join "\n", map {
    my ($name, $answer) = ($_, /conn/ ? $upstream : 'empty_gif;');
    map { "location /$name/" . qw(theirs ours)[$_] . " { $of{$name}[$_] $answer }" } 0, 1;
} sort keys %of;

my $bed   = Testbed->new;
my $nginx = $bed->serve(
    LOCATIONS => $locations,
    ALLOWED   => $allowed =~ s{10\.0\.0\.0/8}{127.0.0.1}r,
    GLOBAL    => ours('global-rate-limit', N => 3),
    http      => <<'HTTP',
    limit_req_status 503;
    limit_req_zone $uri$arg_k zone=rpm:1m rate=2r/m;
    limit_req_zone $uri$arg_k zone=rps:1m rate=2r/s;
    limit_conn_zone $uri$arg_k zone=conns:1m;
    sliding_log_zone 10m;
    %%ALLOWED%%
HTTP
    server => <<'SERVER',
    %%LOCATIONS%%
    location /allowed { sliding_log_limit allowed key=$limited_client limit=1 window=1m; empty_gif; }
    location /global  { %%GLOBAL%%; empty_gif; }
SERVER
);
my $port = $nginx->port;
sub several { my ($path, $times) = @_; return statuses(map { get($port, "$path?k=1") } 1 .. $times) }

is(several('/limit-rpm/theirs', 9), '200:7 503:2', 'limit-rpm, as ingress-nginx decides: one request and the burst');
is(several('/limit-rpm/ours', 9), '200:7 429:2', 'limit-rpm: as many');
my @rps = map { (several("/limit-rps/$_", 30) =~ /200:(\d+)/)[0] } qw(theirs ours);
cmp_ok(abs($rps[0] - $rps[1]), '<=', 1, "limit-rps: $rps[0] and $rps[1] requests, as time goes on between both");
cmp_ok($rps[1], '>=', 11, 'limit-rps: one request and the burst');

for (['theirs', 503], ['ours', 429]) {
    my ($module, $status) = @$_;
    my @begun = map { $silent->begin($port, "/limit-connections/$module?k=1") } 1 .. 3;
    is($begun[2]{denied} && $begun[2]{denied}{status}, $status, "limit-connections, $module: the third of two is denied");
    Testbed::UnderWay::end($_) for grep { $_->{backend} } @begun;
}

is(several('/allowed', 3), '200:3', 'limit-whitelist: no limit for these addresses');
is(several('/global', 4), '200:3 429:1', 'global-rate-limit: the limit of the window');
is(join(' ', sort keys %row), 'global-rate-limit global-rate-limit-key limit-connections limit-rate limit-rpm limit-rps limit-whitelist', 'no other row');

# ---- the snippets, where the controllers put them

my $redis = $bed->redis;
my $password = $bed->write_file('password', "secret\n");
$redis->cli(qw(ACL SETUSER limiter on nopass ~* &* +@all));

sub in_place {
    my ($main, $http, $location) = @_;
    like($main, qr/\Aload_module modules\/ngx_http_sliding_log_module\.so;\n\z/, 'the snippet of the main context loads the module');
    $http =~ s{server \S+:6379;}{server %%REDIS%%; timeout 5s; connect_timeout 5s;} or die 'no Redis';
    $http =~ s{password_file \S+;}{username limiter; password_file $password;}      or die 'no password';
    $http =~ s{listen 9145;}{listen 127.0.0.1:%%PORT2%%;}                           or die 'no metrics';
    $location =~ s/window=10s/window=1h/                                            or die 'no window';
    return $bed->nginx("%%GLOBALS%%\nevents { }\nhttp { %%HTTP%% access_log off;\n$http\nserver { listen 127.0.0.1:%%PORT%%; location / {\n$location\nempty_gif; } } }", REDIS => $redis->address);
}

my $controller = manifest('nginx-ingress-controller.yaml', 'ConfigMap')->{data};
my ($location) = values %{ manifest('nginx-ingress-controller.yaml', 'Ingress')->{metadata}{annotations} };
my %policy     = map { $_->{context} => $_->{value} } @{ manifest('nginx-gateway-fabric.yaml', 'SnippetsPolicy')->{spec}{snippets} };
my ($filter)   = @{ manifest('nginx-gateway-fabric.yaml', 'SnippetsFilter')->{spec}{snippets} };
is($filter->{context}, 'http.server.location', 'NGINX Gateway Fabric: the limit is in locations');
is(join(' ', sort keys %policy), 'http main', 'NGINX Gateway Fabric: the policy has the other contexts');

my @nodes = (in_place(@{$controller}{qw(main-snippets http-snippets)}, $location), in_place(@policy{qw(main http)}, $filter->{value}));
is(join(' ', map { get($nodes[$_ % 2]->port, '/')->{status} } 1 .. 6), '200 200 200 200 200 429', 'both share one limit of Redis');
ok(defined scrape($_->port('PORT2'))->value('sliding_log_requests_total', limit => 'shop', source => 'redis'), 'with metrics') for @nodes;

$bed->done;
