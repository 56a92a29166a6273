# ./build.sh module asks nothing of the system but bash, make, compilers and the commands that busybox has, as in an image
# of Alpine: no apt, no dpkg, no Perl, and no option of GNU's commands. (The nginx here is a script, and its module empty.)

use strict;
use warnings;
use Cwd            ();
use File::Basename ();
use File::Path     ();
use File::Temp     ();
use Test::More;
use Testbed::Files qw(write_file write_program);
use Testbed::Process;

my ($busybox) = grep { -x } '/usr/bin/busybox', '/bin/busybox';
plan skip_all => 'no busybox' if !$busybox;

my $root    = Cwd::abs_path(File::Basename::dirname(__FILE__) . '/..');
my $folder  = File::Temp->newdir;
my $module  = 'ngx_http_sliding_log_module.so';
my $version = '1.30.99';                                                 # of no other test

File::Path::make_path(map { "$folder/$_" } qw(bin tree nginx/src/core nginx/objs nginx/.git));

# script PATH, LINES: run by busybox's shell
sub script { my ($path, @lines) = @_; return write_program("$folder/$path", join '', map { "$_\n" } "#!$busybox sh", @lines) }

# Alpine's busybox has comm and install, Debian's has not; the others are packages there, too.
symlink $busybox, "$folder/bin/$_" for split /\n/, qx{$busybox --list};
for my $command (qw(bash make gcc g++ as ld nm ldd comm install)) {
    my ($program) = grep { -x } map { "$_/$command" } '/usr/bin', '/bin';
    unlink "$folder/bin/$command";
    symlink $program, "$folder/bin/$command" or die "$command: $!";
}
unlink map { "$folder/bin/$_" } qw(dpkg dpkg-deb rpm rpm2cpio);

# A copy, since what is built stays in build/.
is(system("cp -r $root/build.sh $root/tasks $root/packaging $folder/tree"), 0, 'a copy of what builds');

script('bin/nginx', 'case $1 in',
    '-V) echo "nginx version: nginx/' . $version . '"; echo "configure arguments: --with-compat --with-cc-opt=\'-O2 -I/\' --with-ld-opt=\'-Wl,-z,now -pie\'" ;;',
    '-t) exit 0 ;;', 'esac');
script('nginx/configure', 'printf "%s\n" "$@" >told',
    'mkdir objs', "printf 'objs/$module:\\n\\tgcc -shared -o \$\@ -x c /dev/null\\n' >objs/Makefile");
script('nginx/objs/old', '');
write_file("$folder/nginx/src/core/nginx.h", "#define NGINX_VERSION      \"$version\"\n");

my $said = qx{PATH=$folder/bin bash $folder/tree/build.sh module --nginx nginx --sources $folder/nginx 2>&1};
is($? >> 8, 0, 'the module is built') or diag($said);
my $built = "$folder/tree/build/nginx-$version";
ok(-s "$built/$module", 'and is where it is said to be');
is(Testbed::Process::slurp("$built/told"),
    "--with-compat\n--with-cc-opt=-O2 -I/\n--with-ld-opt=-Wl,-z,now\n--add-dynamic-module=$folder/tree\n", 'with the arguments of its nginx');
ok(!-e "$built/objs/old" && !-e "$built/.git", 'what was built of these sources before is left out');

done_testing();
