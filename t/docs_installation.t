# README's table "your nginx is from" has the rows of the one in operations.md, which says of each how it was tested, and
# when, or that it was not. build.sh has the tasks, and the sections that rows name are there. (That files which
# they name exist is tested by t/docs_paths.t.)

use strict;
use warnings;
use Cwd            ();
use File::Basename ();
use Test::More;
use Testbed::Process;

my $root = Cwd::abs_path(File::Basename::dirname(__FILE__) . '/..');
my %text = map { ($_ => Testbed::Process::slurp("$root/$_")) } qw(README.md docs/operations.md docs/kubernetes.md);

# The rows of the table in a document: the cells of each.
sub rows_of {
    my ($document) = @_;
    my ($table) = $text{$document} =~ /^\| your nginx is from \|.*\n\|[-|]+\|\n((?:\|.*\n)+)/m or die "no table in $document\n";
    return map { [split / \| /, s/^\| | \|$//gr] } split /\n/, $table;
}

my @to_do  = rows_of('README.md');
my @tested = rows_of('docs/operations.md');
cmp_ok(@to_do, '>', 10, 'there are rows');
is(join("\n", map { $_->[0] } @tested), join("\n", map { $_->[0] } @to_do), 'both tables have the same rows');

for my $row (@tested) {
    my ($origin, $how) = @$row;
    like($how, qr/\bwith each change\b|\b20\d\d-\d\d-\d\d\b|\bnot tested\b|^as nginx\.org's$/, "$origin: when it was tested, or that it was not");
}
for my $row (@to_do) {
    my ($origin, $what) = @$row;
    for my $command ($what =~ /`([^`]+)`/g) {
        next if $command !~ m{^\./build\.sh (\S+)(.*)};
        my ($name, $options) = ($1, $2);
        ok(-f "$root/tasks/$name", "$origin: build.sh has $name") or next;
        like(Testbed::Process::slurp("$root/tasks/$name"), qr/^ +\Q$_\E\) /m, "$origin: $name knows $_") for $options =~ /(--\w+)/g;
    }
}

# Sections, as GitHub names them.
my %sections = map {
    my $document = $_;
    ($document => { map { (lc =~ s/[^\w -]//gr =~ tr/ /-/r => 1) } $text{$document} =~ /^#+ (.*)$/mg });
} grep { /\.md$/ } keys %text;
for my $row ((map { ['README.md', $_] } @to_do), map { ['docs/operations.md', $_] } @tested) {
    my ($document, $cells) = @$row;
    for my $link ("@$cells" =~ /\]\(([^)]+)\)/g) {
        my ($file, $section) = $link =~ /^([^#]*)#?(.*)$/;
        my $named = $file eq '' ? $document : $document eq 'README.md' ? $file : "docs/$file";
        ok($section eq '' || $sections{$named}{$section}, "$document: $cells->[0]: $link is there");
    }
}
done_testing;
