# What the Dockerfiles build of is there: the files in the build context, and the packages of each step. The folder for
# docker-nginx names the module's sources in the way its build wants. (No container is started.)

use strict;
use warnings;
use Cwd ();
use File::Basename ();
use File::Temp ();
use Test::More;
use Testbed::Process;

my $root = Cwd::abs_path(File::Basename::dirname(__FILE__) . '/..');
sub slurp { my ($name) = @_; return Testbed::Process::slurp("$root/$name") }

# All but what .dockerignore lets through is left out.
my %context = map { $_ => 1 } slurp('.dockerignore') =~ /^!(\S+)$/mg;
ok(-e "$root/$_", "the build context has $_, which is there") for sort keys %context;

my %used = map { s{/.*}{}r => 1 } grep { !m{^(usr|build)/} } map { split ' ' } map { slurp("debian/$_") }
    qw(sliding-log.install sliding-log.docs sliding-log.manpages libnginx-mod-http-sliding-log.docs libnginx-mod-http-sliding-log.examples);
$used{$_} = 1 for qw(build.sh config config.make debian lua src tool packaging);
is(join(' ', grep { !$context{$_} } sort keys %used), '', 'the build context has what the packages are made of');

# What a function of build.sh needs, with its lists of packages.
my $build = slurp('build.sh');
my %lists = $build =~ /^(\w+)=\(([^)]*)\)$/mg;
sub needed_by {
    my ($function) = @_;
    my ($body) = $build =~ /^\Q$function\E\(\) \{\n(.*?)^\}/ms or die "no $function in build.sh\n";
    my ($words) = $body =~ /^ +need (.*)$/m or die "$function needs nothing\n";
    $words =~ s/"\$\{(\w+)\[@\]\}"/$lists{$1}/g;
    return split ' ', $words;
}

for (['Dockerfile', 'deb'], ['packaging/docker-nginx/Dockerfile', 'build_for_another']) {
    my ($name, $function) = @$_;
    my ($first) = slurp($name) =~ /^(RUN apt-get .*?[^\\]\n)/ms;
    my %installed = map { $_ => 1 } split ' ', $first;
    is(join(' ', grep { !$installed{$_} } needed_by($function)), '', "$name: the first step installs what the build needs");
}

# docker-nginx copies the sources into nginx's, and configures with a relative path.
my ($sources) = grep { -x "$_/configure" } '/usr/share/nginx/src';
SKIP: {
    skip 'nginx-dev is not installed', 3 if !$sources;
    is(slurp('packaging/docker-nginx/sliding-log/source'), "/modules/sliding-log/sources\n", 'docker-nginx finds the sources in its context');
    my $folder = File::Temp->newdir;
    my $build_module = "cp -a $sources/. $folder && mkdir -p $folder/extra/slidinglog-1 && cp -a $root/config $root/config.make $root/src $root/lua $folder/extra/slidinglog-1"
        . " && cd $folder && ./configure --with-compat --without-http_rewrite_module --without-http_gzip_module --add-dynamic-module=extra/slidinglog-1 >log 2>&1";
    is(system('sh', '-c', $build_module), 0, 'docker-nginx: nginx is configured with config, config.make, src and lua alone') or diag(Testbed::Process::slurp("$folder/log"));
    is(system('sh', '-c', "cd $folder && make -s -f objs/Makefile objs/addon/redis/scripts.o >>log 2>&1"), 0,
        'docker-nginx: the scripts are found by their relative path')
        or diag(Testbed::Process::slurp("$folder/log"));
}

done_testing();
