# ./build.sh module builds the module for an nginx that was built from source with nginx.org's arguments. Another nginx
# refuses that module in nginx's own words, and ./build.sh module refuses what it cannot build for.
# prove: first

use strict;
use warnings;
use Cwd ();
use File::Basename ();
use Test::More;
use Testbed;
use Testbed::Files qw(write_program);
use Testbed::Http qw(get);

my $root    = Cwd::abs_path(File::Basename::dirname(__FILE__) . '/..');
my $sources = "$root/build/nginx-sources";
plan skip_all => 'no sources of nginx; ./build.sh check fetches them' if !-d $sources;
plan skip_all => 'builds the module again, each night' if $ENV{TEST_BRIEF};
plan skip_all => 'builds an nginx of its own, once for each Debian' if $ENV{TEST_NGINX_BINARY} || $ENV{TEST_REDIS_BINARY};

my $bed = Testbed->new;
my $dir = $bed->dir;

# It yields to other tests.
sub run { my (@command) = @_; return Testbed::Process::run('nice', '-n', 19, @command) }

# An nginx that is built in the folder, of the sources there.
sub make_nginx {
    my ($folder, @arguments) = @_;
    my $configure = join ' ', './configure', map { "'$_'" } @arguments;
    my ($status, $said) = run('sh', '-c', "cd $folder && $configure >configure.log && make -s -f objs/Makefile -j2 binary");
    is($status, 0, 'an nginx is built from source: ' . File::Basename::basename($folder)) or diag($said);
    return "$folder/objs/nginx";
}

sub copy_sources { my ($folder) = @_; run('cp', '-a', $sources, $folder); return $folder }

sub build_module { my ($binary, $from, @more) = @_; return run("$root/build.sh", 'module', '--nginx', $binary, '--sources', $from, @more) }

# What `nginx -t` of the binary prints about the module.
sub load {
    my ($binary, $module) = @_;
    my $conf = $bed->write_file('load.conf', "load_module $module;\npid $dir/load.pid;\nevents { }\n");
    my ($status, $said) = run($binary, '-t', '-e', "$dir/load.log", '-c', $conf);
    isnt($status, 0, 'it is refused');
    return $said;
}

# The arguments of nginx.org's packages, without those that take long to compile.
my $official = copy_sources("$dir/official");
my $nginx    = make_nginx($official, qw(
    --prefix=/etc/nginx --sbin-path=/usr/sbin/nginx --modules-path=/usr/lib/nginx/modules
    --conf-path=/etc/nginx/nginx.conf --error-log-path=/var/log/nginx/error.log
    --http-log-path=/var/log/nginx/access.log --pid-path=/run/nginx.pid --lock-path=/run/nginx.lock
    --http-client-body-temp-path=/var/cache/nginx/client_temp --http-proxy-temp-path=/var/cache/nginx/proxy_temp
    --http-fastcgi-temp-path=/var/cache/nginx/fastcgi_temp --http-uwsgi-temp-path=/var/cache/nginx/uwsgi_temp
    --http-scgi-temp-path=/var/cache/nginx/scgi_temp --user=nginx --group=nginx --with-compat --with-file-aio
    --with-threads --with-http_addition_module --with-http_auth_request_module --with-http_dav_module
    --with-http_flv_module --with-http_gunzip_module --with-http_gzip_static_module --with-http_mp4_module
    --with-http_random_index_module --with-http_realip_module --with-http_secure_link_module --with-http_slice_module
    --with-http_ssl_module --with-http_stub_status_module --with-http_sub_module --with-http_v2_module --with-mail
    --with-mail_ssl_module --with-stream --with-stream_realip_module --with-stream_ssl_module
    --with-stream_ssl_preread_module),
    '--with-cc-opt=-g0 -O0 -fstack-protector-strong -Wformat -Werror=format-security -fPIC',
    '--with-ld-opt=-Wl,-z,relro -Wl,-z,now -Wl,--as-needed -pie'
);
my $has_rpm = system('command -v rpmbuild >/dev/null') == 0;
local $ENV{NEEDS} = 'nginx-r1';
my ($status, $said) = build_module($nginx, $official, '--deb', $has_rpm ? '--rpm' : ());
is($status, 0, 'the module is built for it') or diag($said);
my %packages = map { /\.(\w+), which depends on nginx-r1$/ ? ($1 => 1) : () } split /\n/, $said;
is(join(' ', sort keys %packages), $has_rpm ? 'deb rpm' : 'deb', 'packages are made of it');
my ($module) = map { "$root/$_" } $said =~ m{^built (build/nginx-[\d.]+/ngx_http_sliding_log_module\.so), which \Q$nginx\E loads$}m
    or BAIL_OUT("no module: $said");
ok(!-e "$official/objs/ngx_http_sliding_log_module.so", 'the sources are left as they were');

{
    local $ENV{TEST_NGINX_BINARY} = $nginx;
    local $ENV{TEST_NGINX_MODULE} = $module;
    my $redis = $bed->redis;
    my $node  = $bed->serve(redis => $redis, server => 'location / { sliding_log_limit api key=k limit=2 window=1h; empty_gif; }');
    is(join(' ', map { get($node->port, '/')->{status} } 1 .. 3), '200 200 429', 'it loads the module, which limits');
    is($redis->cli(qw(ZCARD rl:sliding:api:{k})), 2, 'by Redis');
}

# Without --with-compat, and with little of what the other has.
my @small = qw(--without-pcre --without-http_rewrite_module --without-http_gzip_module --without-http-cache);
push @small, '--with-cc-opt=-g0 -O0';
my $small = copy_sources("$dir/small");
my $other = make_nginx($small, @small, "--with-ld-opt=-L$dir/absent");
like(load($other, $module), qr/module "\Q$module\E" is not binary compatible in/, 'other arguments: nginx tells that it is not compatible');

($status, $said) = build_module($other, $small);
is($status, 1, 'a directory of --with-ld-opt is missing: nothing is built');
like($said, qr{^build\.sh: "$dir/absent" in "--with-ld-opt" of "\Q$other\E": no such directory$}m, 'which is told');

# The same sources, with the number of the next version.
my $next   = copy_sources("$dir/next");
my $header = Testbed::Process::slurp("$next/src/core/nginx.h");
my ($number) = $header =~ /^#define nginx_version +(\d+)/m;
my ($version) = $header =~ /^#define NGINX_VERSION +"([\d.]+)"/m;
my $newer = $number + 1;
my $later = $version =~ s/(\d+)$/$1 + 1/er;
run('sed', '-i', "s/$number/$newer/; s/\"\Q$version\E\"/\"$later\"/", "$next/src/core/nginx.h");
my $changed = make_nginx($next, @small, "--with-openssl=$dir/absent");
like(load($changed, $module), qr/module "\Q$module\E" version $number instead of $newer in/, 'another version: nginx tells both');

($status, $said) = build_module($changed, $official);
is($status, 1, 'sources of another version: nothing is built');
like($said, qr/^build\.sh: "\Q$changed\E" is nginx \Q$later\E, but "\Q$official\E" has the sources of \Q$version\E$/m, 'which is told');
($status, $said) = build_module($changed, $next);
is($status, 1, 'the directory of --with-openssl is missing: nothing is built');
like($said, qr{^build\.sh: "--with-openssl=$dir/absent" in the arguments of "\Q$changed\E": no such directory$}m, 'which is told');

# What Angie tells. Its modules are for its own version.
mkdir "$dir/angie";
run('cp', '-a', "$next/src", "$dir/angie/src");
my $angie = write_program("$dir/angie.sh", "#!/bin/sh\necho 'Angie version: Angie/1.12.1'\necho 'nginx version: nginx/$later'\n");
for (['another one', qq{#define NGINX_NAME "nginx"\n}], ['1.12.0', qq{#define ANGIE_VERSION      "1.12.0"\n}]) {
    my ($name, $defines) = @$_;
    $bed->write_file('angie/src/core/angie.h', $defines);
    ($status, $said) = build_module($angie, "$dir/angie");
    is($status, 1, "an Angie, and the sources of $name: nothing is built");
    like($said, qr/^build\.sh: "\Q$angie\E" is Angie 1\.12\.1, but "\Q$dir\E\/angie" has the sources of $name$/m, 'which is told');
}
($status, $said) = build_module($root, $next);
is($status, 1, 'a binary that is none: nothing is built');

$bed->done;
