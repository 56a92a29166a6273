# packaging/hiredis/static builds no hiredis where the system's has TLS, and only from the source that it knows.

use strict;
use warnings;
use Cwd ();
use File::Basename ();
use File::Temp ();
use Test::More;
use Testbed::Files qw(write_file write_program);
use Testbed::Process;

my $root = Cwd::abs_path(File::Basename::dirname(__FILE__) . '/..');
my $out  = File::Temp->newdir;

# A compiler that finds what of hiredis it is to find.
sub compiler { my ($name, $status) = @_; return write_program("$out/$name", "#!/bin/sh\nexit $status\n") }

# The exit status, and what was printed as the folder and as messages.
sub static {
    my ($version, $compiler) = @_;
    local $ENV{CC} = $compiler;
    my $folder = qx{$root/packaging/hiredis/static $version $out 2>$out/said};
    my $status = $? >> 8;
    return ($status, $folder, Testbed::Process::slurp("$out/said"));
}

my $with    = compiler('with', 0);
my $without = compiler('without', 1);
is_deeply([static('1.3', $without)], [1, '', "build.sh: HIREDIS=1.3 is not known, expected 1.2\n"], 'an unknown version');
is_deeply([static('1.2', $with)], [0, '', "HIREDIS=1.2: the system's hiredis has TLS and is used\n"], "the system's has TLS: no folder");
ok(!-e "$out/hiredis", 'and nothing was written');

my $source = write_file("$out/hiredis/hiredis_1.2.0.orig.tar.gz", "another text\n");
is_deeply([static('1.2', $without)], [1, '', qq{build.sh: "$source" has another checksum than the one that is known; remove it\n}], 'another source is refused');
ok(!-e "$out/hiredis/1.2.0", 'and not built');

done_testing;
