# A request is counted once, however nginx redirects it internally. Limits and authentication never disable each other,
# whatever `satisfy` is.

use strict;
use warnings;
use Test::More;
use Testbed qw(wait_until);
use Testbed::Http qw(get field);

my $bed   = Testbed->new;
my $redis = $bed->redis;
my $nginx = $bed->serve(
    redis  => $redis,
    http   => <<'HTTP',
    sliding_log_limit everywhere key=$arg_k limit=5 window=1h;
    server {
        listen 127.0.0.1:%%PORT2%%;
        sliding_log_limit off;
        location / { add_header X-Accel-Redirect /index.html; return 200 ""; }
        location = /check { return 204; }
        location = /refuse { return 403; }
    }
HTTP
    server => <<'END',
    root %%DIR%%/html;
    add_header X-Where $uri always;
    location = /try     { try_files /none /none/ /index.html; }
    location = /tryname { try_files /none @named; }
    location @named     { sliding_log_limit extra key=$arg_k limit=5 window=1h; empty_gif; }
    location = /later   { sliding_log_limit early key=$arg_k limit=5 window=1h; try_files /none @later; }
    location @later     { sliding_log_limit late key=$arg_k limit=1 window=1h; empty_gif; }
    location = /fallback { sliding_log_limit early key=$arg_k limit=5 window=1h; error_page 502 = @later; proxy_pass http://127.0.0.1:1; }
    location = /accel   { proxy_pass http://127.0.0.1:%%PORT2%%; }
    location = /missing { error_page 404 /index.html; }
    location = /rewritten { rewrite ^ /index.html last; }
    location = /return  { return 200 "no access phase"; }
    location = /ssi     { ssi on; ssi_types *; try_files /page.shtml =404; }
    location = /mirrored { mirror /mirror; empty_gif; }
    location = /mirror  { internal; proxy_pass http://127.0.0.1:%%PORT2%%; }
    location /denied    { sliding_log_limit denied key=$arg_k limit=1 window=1h; error_page 429 /page429; empty_gif; }
    location = /page429 { sliding_log_limit page key=$arg_k limit=5 window=1h; try_files /index.html =404; }
    location /any_open  { satisfy any; allow all; auth_basic x; auth_basic_user_file %%DIR%%/users; sliding_log_limit open key=$arg_k limit=1 window=1h; sliding_log_status 403; empty_gif; }
    location /any_shut  { satisfy any; deny all; auth_basic x; auth_basic_user_file %%DIR%%/users; sliding_log_limit shut key=$arg_k limit=100 window=1h; empty_gif; }
    location /any_401   { satisfy any; allow all; sliding_log_limit code401 key=$arg_k limit=0 window=1h; sliding_log_status 401; empty_gif; }
    location /any_user  { satisfy any; deny all; auth_basic x; auth_basic_user_file %%DIR%%/users; sliding_log_limit user key=$arg_k limit=2 window=1h; empty_gif; }
    location /any_check { satisfy any; deny all; auth_request /check; sliding_log_limit check key=$arg_k limit=2 window=1h; empty_gif; }
    location /any_403   { satisfy any; deny all; auth_request /refuse; sliding_log_limit refuse key=$arg_k limit=100 window=1h; empty_gif; }
    location = /refuse  { internal; proxy_pass http://127.0.0.1:%%PORT2%%/refuse; }
    location /all_shut  { deny all; sliding_log_limit all_shut key=$arg_k limit=1 window=1h; empty_gif; }
    location /auth      { auth_request /check; sliding_log_limit auth key=$arg_k limit=2 window=1h; empty_gif; }
    location = /check   { internal; proxy_pass http://127.0.0.1:%%PORT2%%/check; }
    location /posted    { post_action /after; sliding_log_limit posted key=$arg_k limit=5 window=1h; empty_gif; }
    location = /after   { internal; sliding_log_limit after key=$arg_k limit=5 window=1h; empty_gif; }
END
);
my $html = $nginx->dir . '/html';
mkdir $html;
$bed->write_file('nginx1/html/index.html', "index\n");
$bed->write_file('nginx1/html/page.shtml', '<!--# include virtual="/index.html" --><!--# include virtual="/index.html" -->');
$bed->write_file('nginx1/users', "u:{PLAIN}p\n");
my $port = $nginx->port;

sub count { my ($name, $key) = @_; return $redis->cli('ZCARD', "rl:sliding:$name:{$key}") }

for my $path (qw(/ /try /tryname /accel /missing /rewritten /ssi /mirrored)) {
    my $key = 'k' . $path =~ s{/}{}gr;
    my $answer = get($port, "$path?k=$key");
    cmp_ok($answer->{status}, '<', 500, "$path is answered");
    is(count('everywhere', $key), 1, "$path is counted once");
    like(field($answer, 'RateLimit') // '', qr/^"everywhere";r=4;t=3600/, "$path is told once in RateLimit");
}
is(count('extra', 'ktryname'), 1, 'a location reached internally asks the limits that were not asked yet');
is(field(get($port, '/tryname?k=both'), 'RateLimit-Policy'), '"everywhere";q=5;w=3600, "extra";q=5;w=3600',
    'a location reached internally shows its limits and those asked before');

# all or nothing: entries of a location before the redirect are taken back if a later one denies
for my $path (qw(/later /fallback)) {
    my $key = 'k' . substr $path, 1;
    is(join(' ', map { get($port, "$path?k=$key")->{status} } 1 .. 3), '200 429 429', "$path: the limit behind the redirect denies");
    my $counts;
    wait_until('the take-backs', 5, sub { ($counts = count('early', $key) . ' ' . count('late', $key)) eq '1 1' });
    is($counts, '1 1', "$path: what the limit behind the redirect denied is in no log");
}

get($port, '/return?k=ret');
is(count('everywhere', 'ret'), 0, 'return answers before the access phase');

get($port, '/denied?k=d') for 1 .. 2;
is(count('denied', 'd'), 1, 'a denied request is not logged');
is(count('page', 'd'), 0, 'the error page of a denied request asks no limit');

is(get($port, '/any_open?k=a')->{status}, 200, 'satisfy any: a request is admitted');
is(get($port, '/any_open?k=a')->{status}, 403, 'satisfy any: allow does not overrule a denial of status 403');
is(get($port, '/any_401?k=a')->{status},  401, 'satisfy any: allow does not overrule a denial of status 401');
is(get($port, '/any_shut?k=a')->{status}, 401, 'satisfy any: an admitted request without a password is refused');
is(get($port, '/any_shut?k=a', headers => { Authorization => 'Basic dTpw' })->{status}, 200, 'satisfy any: an admitted request with the right password passes');
my @login = (headers => { Authorization => 'Basic dTpw' });
is(join(' ', map { get($port, '/any_user?k=a', @login)->{status} } 1 .. 3), '200 200 429', 'satisfy any: the right password is limited');
is(join(' ', map { get($port, '/any_user?k=b')->{status} } 1 .. 3), '401 401 429', 'satisfy any: requests without a password are limited');
is(join(' ', map { get($port, '/any_check?k=a')->{status} } 1 .. 3), '200 200 429', 'satisfy any: requests that auth_request admits are limited');
is(get($port, '/any_403?k=a')->{status}, 403, 'satisfy any: an admitted request does not pass auth_request');
is(get($port, '/all_shut?k=a')->{status}, 403, 'access denies a request that the limit admits');
is(get($port, '/all_shut?k=a')->{status}, 429, 'the limit comes before access');
is(join(' ', map { get($port, '/auth?k=a')->{status} } 1 .. 3), '200 200 429', 'auth_request comes after the limit');
is(count('auth', 'a'), 2, 'the subrequest of auth_request is not counted');
get($port, '/posted?k=a');
is(count('posted', 'a') . count('after', 'a'), '10', 'post_action is not counted');

$bed->done;
