# Each path of the tree that the documentation names exists.

use strict;
use warnings;
use Cwd ();
use File::Basename ();
use Test::More;
use Testbed::Process;

my $root = Cwd::abs_path(File::Basename::dirname(__FILE__) . '/..');
chdir $root or die "$root: $!\n";
my $folders = join '|', map { s{/\z}{}r } grep { $_ ne 'build/' } glob '*/';

# `tool/form_*` is a pattern, `src/conf/` a folder, and `src/worker` a header with its source.
sub is_there { my ($path) = @_; return grep { -e } glob "$path $path.*" }

my $found = 0;
for my $document (glob '*.md docs/*.md docs/*.1') {
    my $text  = Testbed::Process::slurp($document) =~ s{<\w+>}{*}gr;    # form_<name>.cpp
    my %paths = map { ($_ => 1) } map { s/[.]+\z//r } $text =~ m{(?<![\w./<>~*:-])((?:$folders)/[\w./*-]*[\w/*])}g;
    $found += keys %paths;
    my @gone  = grep { !is_there($_) } sort keys %paths;
    is("@gone", '', "$document: each path in it exists");
}
cmp_ok($found, '>', 100, 'the documents name files');
done_testing;
