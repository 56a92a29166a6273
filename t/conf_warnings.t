# What `nginx -t` accepts with a warning, because it is hardly intended. Nothing else causes a warning.

use strict;
use warnings;
use Test::More;
use Testbed qw(conf);

my $bed   = Testbed->new;
my $frame = conf(
    http   => <<'HTTP',
    %%BLOCK%%
    map $http_x_tenant $tenant { default 10; }
HTTP
    server => <<'END',
    set $chosen 1;
    %%SERVER%%
END
);

sub warnings_of {
    my ($block, $server) = @_;
    my ($accepted, $printed) = $bed->configuration($frame, BLOCK => $block, SERVER => $server)->check;
    ok($accepted, 'accepted: ' . ($block eq '' ? $server : $block)) or diag($printed);
    return grep { /\[warn\]/ } split /\n/, $printed =~ s/^nginx: .*\n//mgr;
}

my $with = sub { my ($what) = @_; return "sliding_log_limit api key=a limit=10 window=1m $what;" };
my $key  = sub { my ($key) = @_; return "sliding_log_limit api key=$key limit=10 window=1m;" };

# [server, text of the only warning]
my @warned = (
    (map { [$key->($_), qr/"sliding_log_limit" api: key=$_ has no variable; did you mean \$$_\? in \S+nginx\.conf:\d+$/] }
        qw(remote_addr http_x_api_key cookie_session arg_user binary_remote_addr sliding_log_client tenant chosen uri)),
    (map { [$key->($_), qr/"sliding_log_limit" api: \$binary_remote_addr in its key is no text.*use \$sliding_log_client in \S+nginx\.conf:\d+$/] }
        '$binary_remote_addr', '${binary_remote_addr}', '$uri:$binary_remote_addr'),
    (map { [$with->("algorithm=counter cost=$_"), qr/"sliding_log_limit" api: cost=\Q$_\E is what the client chooses, let a map give it in \S+nginx\.conf:\d+$/] }
        '$arg_pages', '${arg_pages}', '$http_x_cost', '$HTTP_X_COST', '$cookie_cost', '1$arg_zeros'),
    [$with->('algorithm=counter settle=$http_x_cost'), qr/"sliding_log_limit" api: settle=\$http_x_cost is what the client chooses, let a map give it/],
    ['sliding_log_limit api key=a limit=$http_x_limit window=1m;', qr/"sliding_log_limit" api: limit=\$http_x_limit is what the client chooses/],
    (map { [$with->("block=$_"), qr/"sliding_log_limit" api: a time of its block= is shorter than the one before, .* as block=1m,10m,1h in \S+nginx\.conf:\d+$/] } '10m,1m', '1m,10m,5m'),
    [$with->('override=on'), qr/"sliding_log_limit" api: override=on has no effect without Redis in \S+nginx\.conf:\d+$/],
    [$with->('prefetch=2'), qr/"sliding_log_limit" api: prefetch=2 has no effect without Redis in \S+nginx\.conf:\d+$/],
    ['location / { sliding_log_limit api key=a limit=1 window=1m; return 204; }', qr/"sliding_log_limit" api: the "return" beside it answers before any limit is asked in \S+nginx\.conf:\d+$/],
    ['location / { return 301 https://$host$uri; sliding_log_limit api key=a limit=1 window=1m; }', qr/"sliding_log_limit" api: the "return" beside it answers/],
    ['sliding_log_limit api key=a limit=1 window=1m; location /a { return 200; sliding_log_limit b key=a limit=1 window=1m; } location /b { return 204; }',
        qr/"sliding_log_limit" b: the "return" beside it answers/],
);
my $empty = qr/has a variable that is empty when the limit is asked, requests with an empty key are not limited in \S+nginx\.conf:\d+$/;
push @warned, map { [$key->($_), qr/"sliding_log_limit" api: key=\Q$_\E $empty/] }
    qw($request_body ${request_body} $request_body_file $upstream_http_x_user $upstream_status $upstream_cookie_a $Sent_Http_X_User $sent_trailer_a), '$uri:$upstream_addr';
push @warned, ['location / { sliding_log_limit api key=$request_body limit=1 window=1m; }', qr/"sliding_log_limit" api: key=\$request_body $empty/];
my $authorized = 'sliding_log_limit api key=$user limit=1 window=1m; auth_request /auth; auth_request_set $user';
push @warned, map { [$_, qr/"sliding_log_limit" api: key=\$user $empty/] } "location / { $authorized \$upstream_http_x_user; }", "$authorized a; location / { }";
for (@warned) {
    my ($server, $warning) = @$_;
    my @told = warnings_of('', $server);
    is(scalar @told, 1, "one warning of $server") or diag(@told);
    like($told[0], $warning, "the warning has the reason for $server");
}

my @quiet = (
    'location / { auth_request_set $user $upstream_http_x_user; location /in { } } ' . $key->('$tenant'),
    "set \$user a; location / { $authorized b; }",
    "location /in { internal; $authorized \$upstream_http_x_user; }",
    'set $upstream_pool a; ' . $key->('$upstream_pool'),
    (map { "location $_ sliding_log_limit api key=\$upstream_http_x_user limit=1 window=1m; }" } '/ { internal;', '@behind {'),
    (map { $key->($_) } qw(hot all api a remote arg_ sliding_log_), '$remote_addr', '$sliding_log_client', 'http:$uri', '$binary_remote_addrs' =~ s/s$//r =~ s/binary_//r),
    $with->('block=1m,10m,10m'), $with->('block=1m'),
    $with->('cost=$tenant algorithm=counter'), 'sliding_log_limit api key=$arg_k limit=$tenant window=1m id=$request_id;',
    'location / { sliding_log_limit api key=a limit=1 window=1m; if ($arg_x) { return 403; } }',
    'location / { sliding_log_limit api key=a limit=1 window=1m; rewrite ^/x /y break; }',
    'location / { sliding_log_limit api key=a limit=1 window=1m; error_page 429 @late; location /in { return 204; } } location @late { return 503; }',
    'sliding_log_limit api key=a limit=1 window=1m; location / { return 204; }',
    'location / { sliding_log_limit off; return 204; }',
);
for my $server (@quiet) {
    is(join("\n", warnings_of('', $server)), '', "no warning of $server");
}

is(scalar(grep { /key=\$request_body $empty/ } warnings_of('sliding_log_limit all key=$request_body limit=1 window=1m;', 'location /a { } location /b { }')), 1,
    'of an empty key of the http level, too, once');

# a possible password, not a variable
for my $directive ('password', 'prefix', 'sentinel_password') {
    my $mode = $directive =~ /sentinel/ ? 'mode sentinel m;' : '';
    my @told = warnings_of("sliding_log_redis { server 127.0.0.1; $mode $directive \$s3cret; }", $key->('a'));
    is(scalar @told, 1, "$directive: one warning of what begins with \$") or diag(@told);
    like($told[0], qr/"$directive" begins with "\$", and is taken as it is: no variable works here in \S+nginx\.conf:\d+$/,
        "$directive: the warning says that the value is taken as it is");
    unlike("@told", qr/s3cret/, "$directive: the warning does not tell the value");
    is(join("\n", warnings_of("sliding_log_redis { server 127.0.0.1; $mode $directive $_; }", $key->('a'))), '',
        "$directive: no warning of $_") for 's3cr$et', '$', '"$ x"', '$!x';
}

# a Sentinel instead of a Redis
my @told = warnings_of('sliding_log_redis { server 127.0.0.1:26379; }', $key->('a'));
is(scalar @told, 1, "one warning of a Sentinel's port in mode standalone") or diag(@told);
like($told[0], qr/"127\.0\.0\.1:26379" in "server" directive has the port of a Sentinel.*"mode sentinel MASTER"\? in \S+nginx\.conf:\d+$/,
    'the warning names the mode');
is(join("\n", warnings_of("sliding_log_redis { server 127.0.0.1:$_ }", $key->('a'))), '', "no warning of $_")
    for '26380;', '26379; mode sentinel limits;', '6379;';

$bed->done;
