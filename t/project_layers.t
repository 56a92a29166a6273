# The folders of src/ form layers: a file includes its own folder and the folders below it in README's map. No two
# units, a header with its source, depend on each other.

use strict;
use warnings;
use Cwd ();
use File::Basename ();
use File::Find ();
use Test::More;
use Testbed::Process;

my $root = Cwd::abs_path(File::Basename::dirname(__FILE__) . '/..');
chdir $root or die $!;

# Files of src/ itself, not in a folder: worker is in the map, headers that all may include come last.
my @map = Testbed::Process::slurp('README.md') =~ m{^\| `src/([\w./*]+)`}mg;
my %rank;
@rank{ map { s{/$|\.cpp$}{}r } @map } = 0 .. $#map;
cmp_ok(scalar keys %rank, '>', 10, "README's map has the folders of src/");

sub layer_of {
    my ($file) = @_;
    return $file =~ m{^([^/]+)/} ? $1 : $file =~ m{^(worker|ngx_http_sliding_log_module)\.} ? $1 : '*.hpp';
}

my (@unknown, @upwards, %needs, $includes);
sub unit_of { return $_[0] =~ s/\.[ch]pp$//r }
File::Find::find({
    no_chdir => 1,
    wanted   => sub {
        return if !/\.[ch]pp$/;
        my $file = s{^src/}{}r;
        push @unknown, $file if !exists $rank{ layer_of($file) };
        for my $included (Testbed::Process::slurp($_) =~ /^#include "([^"]+)"/mg) {
            $includes++;
            $needs{ unit_of($file) }{ unit_of($included) } = 1 if unit_of($file) ne unit_of($included);
            push @upwards, "$file includes $included" if ($rank{ layer_of($included) } // -1) < ($rank{ layer_of($file) } // 0);
        }
    },
}, 'src');
is("@unknown", '', 'each folder of src/ stands in the map');
is(join("\n", @upwards), '', 'no file includes one of a layer above its own');

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
