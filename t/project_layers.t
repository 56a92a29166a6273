# docs/architecture.md has a map of the source: a tree with a line for each file. The folders of src/ form layers in its
# order: a file includes its own folder and the folders below it. No two units, a header with its source, depend on each
# other. One file names the globals of nginx's process. No file and no folder is too long to be read as a whole.

use strict;
use warnings;
use Cwd ();
use File::Basename ();
use File::Find ();
use Test::More;
use Testbed::Process;

my $root = Cwd::abs_path(File::Basename::dirname(__FILE__) . '/..');
chdir $root or die $!;

# The tree: a folder ends with a slash, and a name without an ending is a header and its source.
my ($tree) = Testbed::Process::slurp('docs/architecture.md') =~ m{^## Map of the source\n.*?^```text\n(.*?)^```}ms;
my (%line, @map, @above);
for (split /\n/, $tree // '') {
    my ($indent, $name) = m{^( *)([^\s,]+)} or next;
    my $depth = length($indent) / 2;
    my $place = join '', @above[0 .. $depth - 1], $name;
    $above[$depth] = $name;
    $line{$place}++;
    push @map, $name if $depth == 1 && $above[0] eq 'src/';
}
my @twice = grep { $line{$_} > 1 } sort keys %line;
is("@twice", '', 'the map has each file once');

sub files_at { my ($place) = @_; return grep { -e } $place, -d $place ? () : ("$place.hpp", "$place.cpp") }
my @gone = grep { !files_at($_) } sort keys %line;
is("@gone", '', 'each file in the map exists');

my %in_map = map { $_ => 1 } map { files_at($_) } keys %line;
my @missing;
File::Find::find({ no_chdir => 1, wanted => sub { push @missing, $_ if -f && !$in_map{$_} } }, qw(src lua native tool));
is(join(' ', sort @missing), '', 'each file of src/, lua/, native/ and tool/ is in the map');

# The layers. Files of src/ itself are layers, too; headers that all may include come last.
my %rank;
@rank{ map { s{/$|\.[ch]pp$}{}r } @map } = 0 .. $#map;
cmp_ok(scalar keys %rank, '>', 10, 'the map has the folders of src/');

sub layer_of {
    my ($file) = @_;
    return $file =~ m{^([^/.]+)[/.]} ? $1 : $file;
}

# What nginx tells of the process and of its time.
my $global = qr{\b(?:ngx_(?:current_msec|cached_\w+|cycle|exiting|pagesize|pid|posted_\w+|process|quit|random|terminate|time|timeofday
    |worker)|gWorker)\b}x;

my (@unknown, @upwards, %needs, $includes, %names_globals);
sub unit_of { return $_[0] =~ s/\.[ch]pp$//r }
File::Find::find({
    no_chdir => 1,
    wanted   => sub {
        return if !/\.[ch]pp$/;
        my $file = s{^src/}{}r;
        push @unknown, $file if !exists $rank{ layer_of($file) };
        my $text = Testbed::Process::slurp($_);
        $names_globals{$file} = 1 if $text =~ $global;
        for my $included ($text =~ /^#include "([^"]+)"/mg) {
            $includes++;
            $needs{ unit_of($file) }{ unit_of($included) } = 1 if unit_of($file) ne unit_of($included);
            push @upwards, "$file includes $included" if ($rank{ layer_of($included) } // -1) < ($rank{ layer_of($file) } // 0);
        }
    },
}, 'src');
is("@unknown", '', 'each file of src/ is of a layer');
is(join(' ', sort keys %names_globals), 'this_process.hpp', 'one file names the globals of the process');
is(join("\n", @upwards), '', 'no file includes one of a layer above its own');

# Lines of the C++ files, and of the folders of src/.
my (@long, %lines, $all);
File::Find::find({
    no_chdir => 1,
    wanted   => sub {
        return if !/\.[ch]pp$/;
        my $count = () = Testbed::Process::slurp($_) =~ /\n/g;
        push @long, "$_ has $count" if $count > 450;
        $lines{$1} += $count if m{^src/([^/]+)/};
        $all += $count if m{^src/};
    },
}, qw(src native));
is("@long", '', 'no file of src/ and native/ has more than 450 lines');
is(join(' ', grep { $lines{$_} > $all / 5 } sort keys %lines), '', 'no folder has more than a fifth of src/');

# The units that a unit needs, directly or not.
sub reachable {
    my ($unit) = @_;
    my (%seen, @open);
    for (@open = keys %{ $needs{$unit} }; @open;) {
        my $next = shift @open;
        push @open, keys %{ $needs{$next} } if !$seen{$next}++;
    }
    return \%seen;
}
is(join(' ', grep { reachable($_)->{$_} } sort keys %needs), '', 'no unit depends on itself through others');
cmp_ok($includes, '>', 300, "$includes includes were looked at");

done_testing;
