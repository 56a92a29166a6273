package Testbed::Manifests;

# The manifests of packaging/kubernetes/.

use strict;
use warnings;
use Cwd            ();
use Exporter 'import';
use File::Basename ();
use IPC::Open2;
use JSON::PP;
use Testbed::Process;

our @EXPORT_OK = qw(manifests manifest printed_monitoring faults);

my $root   = Cwd::abs_path(File::Basename::dirname(__FILE__) . '/../../..');
my $folder = "$root/packaging/kubernetes";

# Only the tests of manifests need YAML::XS: without it they are skipped.
sub is_available { return eval { require YAML::XS; 1 } }

sub parsed {
    my ($text) = @_;
    local $YAML::XS::Boolean = 'JSON::PP';    ## no critic (ProhibitPackageVars)
    return YAML::XS::Load($text);
}

# All manifests of a file.
sub manifests { my ($file) = @_; return parsed(Testbed::Process::slurp("$folder/$file")) }

# The manifest of this kind, and of this name if there are several.
sub manifest {
    my ($file, $kind, $name) = @_;
    my @found = grep { $_->{kind} eq $kind && (!defined $name || $_->{metadata}{name} eq $name) } manifests($file);
    @found == 1 or die @found . " of kind $kind in $file\n";
    return $found[0];
}

# What packaging/kubernetes/monitoring prints.
sub printed_monitoring { return parsed(scalar qx{$folder/monitoring}) }

# Checks manifests by the schemas. Returns a text for each: "KIND NAME: valid", "KIND NAME: no schema", or what is wrong;
# nothing if there are no schemas.
sub faults {
    my (@those) = @_;
    my $schemas = "$root/build/kubernetes";
    return if !-d "$schemas/node_modules" || system('sh', '-c', 'command -v node >/dev/null') != 0;
    my $pid = open2(my $out, my $in, 'node', "$root/t/lib/check_manifests.mjs", $schemas);
    print {$in} encode_json(\@those);
    close $in;
    my @lines = <$out>;
    waitpid $pid, 0;
    $? == 0 or die "check_manifests.mjs failed\n";
    chomp @lines;
    return @lines;
}

1;
