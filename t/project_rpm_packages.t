# packaging/rpm: rpmbuild makes the packages for the nginx of Fedora and RHEL. Their nginx-mod-devel is not at hand: stubs
# of its macros build for Debian's nginx. rpmlint is quiet. The packages are unpacked: nginx loads the module, which
# limits, Redis loads its module, which decides, and the tool tells so.
# prove: first

use strict;
use warnings;
use Cwd            ();
use File::Basename ();
use File::Find     ();
use Test::More;
use Testbed;
use Testbed::Http qw(get);
use Testbed::Process qw(run);
use Testbed::Tool qw(tool);

my $root = Cwd::abs_path(File::Basename::dirname(__FILE__) . '/..');
plan skip_all => 'builds the module again, each night' if $ENV{TEST_BRIEF};
plan skip_all => 'of the build, not of another nginx or Redis' if $ENV{TEST_NGINX_BINARY} || $ENV{TEST_REDIS_BINARY};
my @lacking = grep { system("command -v $_ >/dev/null") != 0 } qw(rpmbuild rpmlint rpm2cpio cpio);
plan skip_all => "no @lacking" if @lacking;
my ($sources) = map { File::Basename::dirname($_) } grep { m{/configure$} } split /\n/, qx{dpkg -L nginx-dev 2>/dev/null};
plan skip_all => 'no nginx-dev' if !$sources;

my $bed    = Testbed->new;
my $dir    = $bed->dir;
my $folder = "$root/packaging/rpm";
my $spec   = "$folder/nginx-mod-sliding-log.spec";
my ($version) = Testbed::Process::slurp("$root/src/version.hpp") =~ /kVersion = "([\d.]+)"/;
my ($nginx)   = qx{nginx -v 2>&1} =~ m{nginx/([\d.]+)} or die 'nginx -v';
my $module = 'ngx_http_sliding_log_module';

# ---- built

my $archive = "tar -C $root --exclude=./build --exclude=./.git --exclude=./t --exclude=./bench --transform 's,^\\.,$module-$version,' -czf $dir/$module-$version.tar.gz .";
system($archive) == 0 or die 'tar';

# What the macros of nginx-mod-devel do: they configure a copy of nginx's sources with --with-compat alone. Flags of the
# kind that Fedora has, but without optimization, which takes the compiler long. Some of Debian's scripts that compress
# and strip files fail with its shell.
my $macros = $bed->write_file('macros', <<"END");
%_vpath_builddir of-nginx
%_nginx_abiversion $nginx
%nginx_moddir %{_libdir}/nginx/modules
%nginx_modconfdir %{_datadir}/nginx/modules
%nginx_modrequires Requires: nginx(abi) = %{_nginx_abiversion}
%nginx_modconfigure() cp -a $sources nginx-src && mkdir -p %{_vpath_builddir} && (objects=\$(realpath %{_vpath_builddir}) && module=\$PWD && cd nginx-src && ./configure --with-compat --with-cc-opt="%{optflags}" --with-ld-opt="%{build_ldflags} -Wl,-E" --add-dynamic-module="\$module" --builddir="\$objects")
%nginx_modbuild make -C nginx-src %{?_smp_mflags} -f "\$(realpath %{_vpath_builddir})/Makefile" modules
%optflags -O0 -g0 -flto=auto -ffat-lto-objects -fstack-protector-strong
%build_cxxflags %{optflags}
%build_ldflags -Wl,-z,now -flto=auto
%debug_package %{nil}
%__os_install_post gzip -9n %{buildroot}%{_mandir}/man1/* && strip --strip-unneeded %{buildroot}%{_bindir}/* %{buildroot}%{nginx_moddir}/* %{buildroot}%{_libdir}/redis/modules/*
END

# --nodeps: the packages of its BuildRequires are Fedora's.
sub rpmbuild {
    my (@words) = @_;
    return run("nice -n 19 rpmbuild --nodeps --load $macros --define '_topdir $dir/top' --define '_sourcedir $dir' @words $spec");
}

my ($status, $said) = rpmbuild('-bc', q{--define '_nginx_abiversion 1.20.1'});
isnt($status, 0, 'an older nginx: nothing is built');
like($said, qr/^nginx-mod-devel is of nginx 1\.20\.1, expected 1\.22\.0 or newer$/m, 'which is told');

($status, $said) = rpmbuild('-ba');
is($status, 0, 'the packages are built') or die $said;
my %packages;
File::Find::find(sub { /^(.+)-\Q$version\E-1\.([a-z]\w+)\.rpm$/ && ($packages{ $2 eq 'src' ? "$1.src" : $1 } = $File::Find::name) }, "$dir/top");
is(join(' ', sort keys %packages), 'nginx-mod-sliding-log nginx-mod-sliding-log.src redis-sliding-log sliding-log', 'three, and their source');

($status, $said) = run("rpmlint -c $folder/rpmlint.toml $spec @packages{sort keys %packages}");
like($said, qr/ 4 packages and 1 specfiles checked; 0 errors, 0 warnings, /, 'rpmlint is quiet') or diag($said);

my @needed = split /\n/, qx{rpm -qpR $packages{'nginx-mod-sliding-log'}};
ok((grep { $_ eq "nginx(abi) = $nginx" } @needed), 'the module depends on exactly that nginx');
ok(!(grep { /^nginx/ } split /\n/, qx{rpm -qpR @packages{qw(sliding-log redis-sliding-log)}}), 'the others on none');

# ---- unpacked

my $installed = "$dir/installed";
mkdir $installed or die $!;
for my $name (grep { !/\.src$/ } sort keys %packages) {
    ($status, $said) = run("cd $installed && rpm2cpio $packages{$name} | cpio -idm --quiet");
    is($status, 0, "$name is unpacked") or diag($said);
}
my $file = "$installed/usr/lib64/nginx/modules/$module.so";
is(
    Testbed::Process::slurp("$installed/usr/share/nginx/modules/mod-sliding-log.conf"),
    "load_module \"/usr/lib64/nginx/modules/$module.so\";\n",
    'what Fedora\'s nginx.conf includes loads the module'
);
for my $path ('bin/sliding-log', 'share/man/man1/sliding-log.1*', 'share/bash-completion/completions/sliding-log') {
    my ($found) = glob "$installed/usr/$path";
    ok($found && -s $found, "the tool's package has $path");
}
like((run("cat $installed/usr/share/doc/*/redis-sliding-log.conf"))[1], qr{^loadmodule /usr/lib64/redis/modules/redis_sliding_log\.so$}m,
    'an example names the module for Redis where it is');

# ---- loaded

{
    local $ENV{TEST_NGINX_MODULE} = $file;
    local $ENV{TEST_TOOL}         = "$installed/usr/bin/sliding-log";
    my $redis = $bed->redis(args => ['--loadmodule', "$installed/usr/lib64/redis/modules/redis_sliding_log.so"]);
    my $node  = $bed->serve(redis => $redis, server => 'location / { sliding_log_limit api key=k limit=2 window=1h; empty_gif; }');
    is(join(' ', map { get($node->port, '/')->{status} } 1 .. 3), '200 200 429', 'nginx loads the module, which limits');
    is($redis->cli(qw(ZCARD rl:sliding:api:{k})), 2, 'by Redis');
    cmp_ok($redis->calls('sliding_log.2'), '>', 0, 'whose module decides');
    like(tool('doctor', '--server', $redis->address)->{out}, qr/the native module decides/, 'the tool tells so');
    is(tool('--version')->{out}, "sliding-log $version\n", 'and its version');
}

$bed->done;
