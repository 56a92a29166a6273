package Testbed::Files;

# Files that a test writes.

use strict;
use warnings;
use Exporter 'import';
use File::Basename ();
use File::Path     ();

our @EXPORT_OK = qw(write_file write_program);

# A file with this text, in a folder that is made if it is missing. Returns its path.
sub write_file {
    my ($path, $text) = @_;
    File::Path::make_path(File::Basename::dirname($path));
    open my $file, '>:raw', $path or die "$path: $!";
    print {$file} $text;
    close $file or die "$path: $!";
    return $path;
}

# The same; the file may be executed.
sub write_program {
    my ($path, $text) = @_;
    write_file($path, $text);
    chmod 0755, $path or die "$path: $!";
    return $path;
}

1;
