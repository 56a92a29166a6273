# The Dockerfiles have all that they need: the files that .dockerignore lets through are enough to build the packages and
# the module, and each step installs the packages that it uses. The images install no module for Redis. The folder for
# docker-nginx names the module's sources as the build of that repository wants them. (No container is started. Compilers
# only look for the files that a source includes, and make empty objects.)

use strict;
use warnings;
use Cwd            ();
use File::Basename ();
use File::Copy     ();
use File::Find     ();
use File::Path     ();
use File::Temp     ();
use Test::More;
use Testbed::Files qw(write_file write_program);
use Testbed::Process;

my $root = Cwd::abs_path(File::Basename::dirname(__FILE__) . '/..');
sub slurp { my ($name) = @_; return Testbed::Process::slurp("$root/$name") }

# A pattern of .dockerignore, as a regular expression.
sub expression_of {
    my ($pattern) = @_;
    my %meaning = ('**/' => '(?:.*/)?', '**' => '.*', '*' => '[^/]*', '?' => '[^/]');
    my $expression = join '', map { $meaning{$_} // quotemeta } $pattern =~ m{\*\*/|\*\*|.}g;
    return qr/\A$expression\z/;
}

my @patterns;    # expression, and whether what it matches is let through
for my $line (grep { !/^#/ && /\S/ } split /\n/, slurp('.dockerignore')) {
    my ($negated, $pattern) = $line =~ m{^\s*(!?)\s*/?(.*?)/?\s*$};
    push @patterns, [expression_of($pattern), $negated];
    ok(-e "$root/$pattern", "the build context has $pattern, which is there") if $negated;
}

# Whether docker lets a path through: the last pattern decides that matches it, or a folder that it is in.
sub is_let_through {
    my ($path) = @_;
    my @parts  = split m{/}, $path;
    my @paths  = map { join '/', @parts[0 .. $_] } 0 .. $#parts;
    my $is_in  = 1;
    for my $pattern (@patterns) {
        my ($expression, $negated) = @$pattern;
        $is_in = $negated ? 1 : 0 if grep { $_ =~ $expression } @paths;
    }
    return $is_in;
}

# The build context, in a folder of its own.
my $folder  = File::Temp->newdir;
my $context = "$folder/context";
my $copy    = sub {
    my $path = substr $File::Find::name, length("$root/");
    if ($path eq '.git' || $path eq 'build' && !is_let_through($path)) {
        $File::Find::prune = 1;
    } elsif (-f $_ && is_let_through($path)) {
        File::Path::make_path(File::Basename::dirname("$context/$path"));
        File::Copy::cp($_, "$context/$path") or die "$path: $!";    # with its permissions
    }
};
File::Find::find({ wanted => sub { $copy->() if $File::Find::name ne $root }, no_chdir => 1 }, $root);

# Compilers that look once for all files that a source includes, or embeds, and then make an empty object. For all else,
# as a test of configure or a program, they call the real ones.
File::Path::make_path("$folder/bin", "$folder/seen");
write_file("$folder/empty.c", "__attribute__((weak)) int main(void) { return 0; }\n");
is(system("gcc -fPIC -c $folder/empty.c -o $folder/empty.o"), 0, 'an object of nothing');
for my $compiler (qw(cc gcc g++ c++ x86_64-linux-gnu-gcc x86_64-linux-gnu-g++)) {
    my ($real) = grep { -x } map { "$_/$compiler" } split /:/, $ENV{PATH};
    next if !$real;
    write_program("$folder/bin/$compiler", <<"END");
#!/bin/bash
PATH=\${PATH#$folder/bin:} # a real one may be ccache, which looks for the next of this name
object='' source='' last='' others=()
for argument in "\$@"; do
    if [ "\$last" = -o ]; then object=\$argument; elif [ "\$argument" != -o ]; then others+=("\$argument"); fi
    case \$argument in *.cpp | *.c) source=\$argument ;; esac
    last=\$argument
done
if [[ " \$* " != *' -c '* || -z \$object || -z \$source ]]; then exec $real "\$@"; fi
seen=$folder/seen/\$(cksum <"\$source" | tr ' ' -)
if [ ! -e "\$seen" ]; then
    if grep -q embed.hpp "\$source"; then
        $real "\$@" || exit
    else
        $real -E -w "\${others[@]}" -o /dev/null || exit
    fi
    touch "\$seen"
fi
cp $folder/empty.o "\$object"
END
}

# What a Dockerfile says: its stages, and the lines of each, joined.
sub stages_of {
    my ($name) = @_;
    my $text = slurp($name) =~ s/^#.*\n//mgr =~ s/\\\n//gr;
    return map { [split /\n/] } grep { /\S/ } split /^(?=FROM )/m, $text;
}

# Runs a command in the build context, with those compilers. If it fails, the test prints its output.
sub succeeds {
    my ($command, $what) = @_;
    local $ENV{PATH} = "$folder/bin:$ENV{PATH}";
    is(system('sh', '-c', "cd $context && ($command) >$folder/log 2>&1"), 0, $what) or diag(Testbed::Process::slurp("$folder/log"));
    return;
}

my $module = 'ngx_http_sliding_log_module.so';
SKIP: {
    skip 'nginx-dev or dpkg-dev is not installed', 6 if grep { !-x } '/usr/share/nginx/src/configure', '/usr/bin/dpkg-buildpackage';
    my ($packages, $image) = stages_of('Dockerfile');
    my ($command) = map { /^RUN (.*build\.sh.*)/ ? $1 : () } @$packages;
    $command =~ s/DEB_BUILD_OPTIONS=(\S+)/DEB_BUILD_OPTIONS='nocheck $1'/;    # nginx cannot load a module of empty objects
    succeeds($command, 'Dockerfile: the packages are built of what is let through alone');
    my @names = map { m{ /packages/(\S+)}g } @$image;
    my $files = join ' ', map { my @found = glob "$context/build/deb/$_"; is(@found, 1, "Dockerfile: $_ is one package"); @found } @names;
    my $contents = `for package in $files; do dpkg-deb -c \$package; done`;
    like($contents, qr{/\Q$_\E$}m, "Dockerfile: the image has $_") for $module, 'bin/sliding-log';
    unlike($contents, qr/redis_sliding_log\.so/, 'Dockerfile: the image has no module for Redis');
}

# The other image is built of fewer files: without debian/.
{
    my ($command) = map { /^RUN (.*build\.sh.*)/ ? $1 : () } map { @$_ } stages_of('packaging/docker-nginx/Dockerfile');
    ok(-x "$context/packaging/module", 'docker-nginx: what builds the module is let through');
    my ($make) = $command =~ /(make -s -C \S+)/ or die "docker-nginx: no make\n";
    succeeds("$make -n", 'docker-nginx: all that the tool is made of is let through');
    my ($built) = $command =~ m{&& cp (.*?) /built } or die "docker-nginx: no cp\n";
    is(join(' ', sort map { File::Basename::basename($_ =~ tr/"//dr) } split ' ', $built), "$module sliding-log", 'docker-nginx: the image has these, and no module for Redis');
}

# What a task of build.sh needs, with the lists of packages there.
my %lists = slurp('build.sh') =~ /^(\w+)=\(([^)]*)\)$/mg;
sub needed_by {
    my ($task) = @_;
    my ($words) = slurp("tasks/$task") =~ /^need (.*)$/m or die "$task needs nothing\n";
    $words =~ s{"\$\{(\w+)\[@\]\}"}{$lists{$1} // ''}ge;
    return split ' ', $words;
}

# ---- what Alpine has

# Those for Alpine do the same as those for Debian, with other packages.
for ('Dockerfile', 'packaging/docker-nginx/Dockerfile') {
    my $alpine = slurp("$_.alpine");
    unlike($alpine, qr/apt-get|dpkg|bash -c/, "$_.alpine: nothing of Debian");
    my ($built) = $alpine =~ m{&& cp (.*?) /built };
    is(join(' ', sort map { File::Basename::basename($_) } split ' ', $built), "$module sliding-log", "$_.alpine: the image has these");
    like($alpine, qr/^    apk add --no-cache .*\$\(cat \/built\/packages\)/m, "$_.alpine: and the libraries that these need");
}
like(slurp('Dockerfile.alpine'), qr/^STOPSIGNAL SIGQUIT$/m, 'Dockerfile.alpine: the image is stopped by QUIT');
is(join(' ', map { /(CONFIGURATION\S*|USER\S*)/ ? $1 : () } grep { /^ARG/ } split /\n/, slurp("packaging/docker-nginx/$_")),
    'CONFIGURATION=/etc/nginx/nginx.conf USER=root', "docker-nginx/$_: what other images set") for qw(Dockerfile Dockerfile.alpine);

# The shells of Alpine and Debian run what the images of nginx run, and what makes Alpine's package.
my @shells = grep { -x $_->[0] } ['/bin/busybox', 'sh'], ['/usr/bin/busybox', 'sh'], ['/bin/dash'];
@shells = @shells[0, -1] if @shells > 2;    # /bin is a link
for (@shells) {
    my $shell = "@$_";
    my %installed = (apk => 'add hiredis-dev', 'apt-get' => 'install -y --no-install-recommends libhiredis-dev');
    for my $manager (sort keys %installed) {
        File::Path::remove_tree("$folder/stands");
        write_program("$folder/stands/$manager", "#!/bin/sh\necho \"\$*\" >>$folder/asked\n");
        unlink "$folder/asked";
        my $said = qx{PATH=$folder/stands $shell $root/packaging/docker-nginx/sliding-log/prebuild 2>&1};
        is($? . $said, '0', "docker-nginx: prebuild runs in $shell with $manager");
        is(Testbed::Process::slurp("$folder/asked"), "$installed{$manager}\n", 'and installs hiredis by its name there');
    }
    my $package = "$folder/package";
    File::Path::remove_tree($package);
    my ($nginx) = slurp('packaging/alpine/APKBUILD') =~ /^_nginxver=(\S+)$/m;
    my $made = qx{mkdir -p $package/build/nginx-$nginx $package/build/tool $package/build/native $package/docs && cd $package
        touch LICENSE build/nginx-$nginx/$module build/tool/sliding-log build/native/redis_sliding_log.so docs/sliding-log.1
        srcdir=$package pkgdir=$package/pkg $shell -ec '. $root/packaging/alpine/APKBUILD; builddir=$package; package; subpkgdir=$package/tool _tool; subpkgdir=$package/redis _redis' 2>&1
        find pkg tool redis -type f | LC_ALL=C sort};
    is($made, <<"FILES", "APKBUILD: what the packages have, made by $shell");
pkg/etc/nginx/modules/50_http_sliding_log.conf
pkg/usr/lib/nginx/modules/$module
pkg/usr/share/licenses/nginx-mod-http-sliding-log/LICENSE
redis/usr/lib/redis/modules/redis_sliding_log.so
tool/usr/bin/sliding-log
tool/usr/share/man/man1/sliding-log.1
FILES
}
ok(-x "$root/packaging/docker-nginx/sliding-log/prebuild", 'docker-nginx: prebuild may be executed, else it would be left out');

for (['Dockerfile', 'deb'], ['packaging/docker-nginx/Dockerfile', 'module']) {
    my ($name, $task) = @$_;
    my ($first) = slurp($name) =~ /^(RUN apt-get .*?[^\\]\n)/ms;
    my %installed = map { $_ => 1 } split ' ', $first;
    is(join(' ', grep { !$installed{$_} } needed_by($task)), '', "$name: the first step installs what the build needs");
}

# docker-nginx copies the sources into nginx's, and configures with a relative path.
my ($sources) = grep { -x "$_/configure" } '/usr/share/nginx/src';
SKIP: {
    skip 'nginx-dev is not installed', 3 if !$sources;
    skip 'configures nginx once more, each night', 3 if $ENV{TEST_BRIEF};
    is(slurp('packaging/docker-nginx/sliding-log/source'), "/modules/sliding-log/sources\n", 'docker-nginx finds the sources in its context');
    my $tree = File::Temp->newdir;
    my $build_module = "cp -a $sources/. $tree && mkdir -p $tree/extra/slidinglog-1 && cp -a $root/config $root/config.make $root/src $root/lua $tree/extra/slidinglog-1"
        . " && cd $tree && ./configure --with-compat --with-cc-opt=-O0 --without-http_rewrite_module --without-http_gzip_module --add-dynamic-module=extra/slidinglog-1 >log 2>&1";
    is(system('sh', '-c', $build_module), 0, 'docker-nginx: nginx is configured with config, config.make, src and lua alone') or diag(Testbed::Process::slurp("$tree/log"));
    my ($compile) = `cd $tree && make -n -f objs/Makefile modules` =~ /^(\S+ -c .*?\s-o )\S*sliding_log\/\w+\.o/ms or BAIL_OUT('no compilation');
    my $scripts = 'extra/slidinglog-1/src/redis/scripts.cpp';    # alone: what it is compiled with takes long
    is(system('sh', '-c', "cd $tree && $compile/dev/null $scripts >>log 2>&1"), 0, 'docker-nginx: the scripts are found by their relative path')
        or diag(Testbed::Process::slurp("$tree/log"));
}

done_testing();
