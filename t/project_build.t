# ./build.sh with the programs that it starts replaced: what each task asks for, that the demo compiles the nginx module
# alone, and that help tells all tasks.

use strict;
use warnings;
use Cwd            ();
use File::Basename ();
use File::Path     ();
use File::Temp     ();
use Test::More;
use Testbed::Files qw(write_file write_program);
use Testbed::Process qw(run);

my $root = Cwd::abs_path(File::Basename::dirname(__FILE__) . '/..');
my $tree = File::Temp->newdir;
File::Path::make_path(map { "$tree/$_" } qw(bin src lua sources tool native));
is(system("cp -r $root/build.sh $root/tasks $tree"), 0, 'a copy of what builds');

# program PATH, LINES: a script of these lines in the tree.
sub program { my ($path, @lines) = @_; return write_program("$tree/$path", join '', map { "$_\n" } '#!/bin/bash', @lines) }

# Returns the exit status of a task of build.sh, and what it printed.
sub build {
    my ($task) = @_;
    local $ENV{PATH} = "$tree/bin:$ENV{PATH}";
    return run("bash $tree/build.sh $task");
}

# The head of a task begins with its name, and help prints it.
my %is_told = map { $_ => 1 } (build('help'))[1] =~ /^  ([\w-]+)[ :]/mg;
my @tasks   = map { File::Basename::basename($_) } glob "$tree/tasks/*";
is(join(' ', sort keys %is_told), "@tasks", 'help tells each task by its name');
is_deeply([build('polish')], [2, qq{build.sh: "polish" is no task; ./build.sh help lists them\n}], 'another word is refused');

write_file("$tree/tasks/echo", 'echo "$#:$*"');
is_deeply([build('echo')], [0, "0:\n"], 'a task without arguments has none');
is_deeply([build('echo one two')], [0, "2:one two\n"], 'a task has the arguments behind its name');

program('bin/dpkg-query', 'exit 1');
program('bin/id',         'echo 1000');
my %needed = (
    build   => [qw(g++ nginx-dev libhiredis-dev)],
    deb     => [qw(g++ nginx-dev dpkg-dev)],
    release => [qw(g++ nginx-dev build-essential git)],
    demo    => [qw(g++ nginx-dev redis-server redis-tools curl)],
    debtest => [qw(g++ nginx-dev dpkg-dev debootstrap lintian)],
    check   => [qw(g++ nginx-dev libgtest-dev redis-server)],
    test    => [qw(g++ nginx-dev libgtest-dev redis-server clang-format shellcheck)],
    bench   => [qw(g++ nginx-dev redis-server wrk)],
);
for my $task (sort keys %needed) {
    my ($status, $printed) = build($task);
    my ($missing) = $printed =~ /\Abuild\.sh: missing packages; as root: apt-get install (.*)\n\z/;
    my @missing = split / /, $missing // '';
    my %seen;
    is("$status " . grep({ $seen{$_}++ } @missing), '1 0', "$task, by a user who is not root: one line, and each package once") or diag($printed);
    is(join(' ', grep { !$seen{$_} } @{ $needed{$task} }), '', "$task: all that it needs is named");
}

program('bin/dpkg-query', 'echo "install ok installed"');
program('bin/dpkg',       "echo $tree/sources/configure");
program('bin/make',
    "[ \"\$1\" = -n ] || echo \"\$*\" >>$tree/made",
    "mkdir -p $tree/build/nginx/objs && touch $tree/build/nginx/objs/ngx_http_sliding_log_module.so",
    'for file in $(seq 23); do echo "cc -c $file"; done');
program('sources/configure', 'exit 0');
program($_, '') for qw(sources/conf_flags config config.make);
program('demo.sh', 'echo shown');
my ($status, $printed) = build('demo');
is($status, 0, 'the demo is built and shown') or diag($printed);
my @made = map { /(-C .*)/ } split /\n/, Testbed::Process::slurp("$tree/made");
is(join("\n", @made), "-C $tree/build/nginx -f objs/Makefile modules", 'the demo: the nginx module is compiled, and nothing else');
my @told = split /\n/, $printed;
is(pop @told, 'shown', 'the demo: it is shown in the end');
is_deeply([@told[0, 1, -1]], [map { "compiling the nginx module: $_" } '23 files', 'file 3 of 23', 'file 23 of 23'], 'the demo: progress is told');
is(@told, 11, 'the demo: progress is told at each tenth');

# ---- what only the bench compiles

is(system(qw(g++ -std=c++20 -Wall -Wextra -Werror -fsyntax-only -I), "$root/src", "$root/bench/estimate.cpp"), 0, 'the estimates of the bench compile');

done_testing();
