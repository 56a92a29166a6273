# If a library is missing, or too old, nginx's configure fails and names its packages. A folder of HIREDIS_DIR has to have a
# hiredis.

use strict;
use warnings;
use Cwd ();
use File::Basename ();
use File::Temp ();
use Test::More;
use Testbed::Files qw(write_program);
use Testbed::Process;

my $root = Cwd::abs_path(File::Basename::dirname(__FILE__) . '/..');
my ($sources) = grep { -x "$_/configure" } glob '/usr/share/nginx/src /usr/src/nginx*';
plan skip_all => 'nginx-dev is not installed' if !$sources;

# A compiler that refuses a source that has the text. What nginx's own configure asks is the same each time: it keeps the
# program that it made of a source, and how that ended.
my $kept = File::Temp->newdir;

sub compiler_without {
    my ($folder, $text) = @_;
    return write_program("$folder/cc", <<"END");
#!/bin/sh
source='' program='' last=''
for word; do
    case \$word in *.c) source=\$word ;; esac
    [ "\$last" != -o ] || program=\$word
    last=\$word
done
[ -n "\$source" ] && [ -n "\$program" ] || exec cc "\$@"
! grep -q '$text' "\$source" || exit 1
as=$kept/\$({ echo "\$*"; cat "\$source"; } | cksum | tr ' ' -)
if [ ! -e "\$as.status" ]; then
    cc "\$@" 2>"\$as.said"
    echo \$? >"\$as.status"
    ! [ -e "\$program" ] || cp "\$program" "\$as"
fi
cat "\$as.said" >&2
! [ -e "\$as" ] || cp "\$as" "\$program"
exit "\$(cat "\$as.status")"
END
}

# The exit status of nginx's configure in the folder, and what it printed.
sub configure {
    my ($folder, $cc, $hiredis) = @_;
    local $ENV{HIREDIS_DIR} = $hiredis // '';
    system('cp', '-a', "$sources/.", "$folder/nginx") == 0 or die 'cp';
    my $printed = qx{cd $folder/nginx && ./configure --with-cc=$cc --without-http_rewrite_module --without-http_gzip_module --add-dynamic-module=$root 2>&1};
    return ($? >> 8, $printed);
}

my $hiredis  = 'hiredis (0.14 or later)';
my $packages = 'libhiredis-dev (Debian), hiredis-devel (Fedora) or hiredis-dev (Alpine)';
for (
    [$hiredis,  '<hiredis/', $packages],
    [$hiredis,  'sdssetlen', $packages],
    ['OpenSSL', '<openssl/', 'libssl-dev (Debian), openssl-devel (Fedora) or openssl-dev (Alpine)'],
) {
    my ($name, $text, $names) = @$_;
    my $folder = File::Temp->newdir;
    my ($status, $printed) = configure($folder, compiler_without($folder, $text));
    isnt($status, 0, "without $text: configure fails");
    like($printed, qr/error: ngx_http_sliding_log_module requires the \Q$name\E library\.\nIts package is \Q$names\E\.$/m,
        "without $text: configure names the packages");
}

my $folder = File::Temp->newdir;
mkdir "$folder/lib";
my ($status, $printed) = configure($folder, compiler_without($folder, 'no source has this'), "$folder");
isnt($status, 0, 'HIREDIS_DIR has no hiredis: configure fails');
like($printed, qr/ requires the \Q$hiredis\E library\.\nHIREDIS_DIR=\Q$folder\E has no include\/hiredis and lib\/libhiredis\.a of one\.$/m,
    'HIREDIS_DIR has no hiredis: configure tells where it looked');

done_testing;
