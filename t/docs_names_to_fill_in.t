# docs/operations.md has a table of the names that stand for the reader's own, which has each such name in the packages and in
# the documentation, and each file that it is in.

use strict;
use warnings;
use Cwd            ();
use File::Basename ();
use File::Find     ();
use Test::More;
use Testbed::Process;

my $root = Cwd::abs_path(File::Basename::dirname(__FILE__) . '/..');
chdir $root or die "$root: $!\n";

my @files = grep { -f } glob '*.md *.yaml *file* docs/*';
File::Find::find({ no_chdir => 1, wanted => sub { push @files, $_ if -f } }, qw(debian packaging monitoring));

my %used;
for my $file (@files) {
    my $text = Testbed::Process::slurp($file) =~ s/^## Names to fill in\n.*?^## //msr;
    $used{$_}{$file} = 1 for $text =~ /\b([\w-]+\.example|OWNER)\b/g;
}

my ($section) = Testbed::Process::slurp('docs/operations.md') =~ /^## Names to fill in\n(.*?)^## /ms or BAIL_OUT('no section');
my %told;
for my $row ($section =~ /^\| (`.*) \|$/mg) {
    my ($name, undef, $in) = split / \| /, $row;
    $told{ $name =~ tr/`//dr } = { map { ($_ => 1) } $in =~ /`([^`]+)`/g };
}
cmp_ok(keys %told, '>', 3, 'the table has names');
is_deeply(\%told, \%used, 'the table has each name, and the files that it is in') or diag(explain(\%used));
done_testing;
