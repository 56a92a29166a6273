# If a library is missing, nginx's configure fails and names its package.

use strict;
use warnings;
use Cwd ();
use File::Basename ();
use File::Temp ();
use Test::More;
use Testbed::Process;

my $root = Cwd::abs_path(File::Basename::dirname(__FILE__) . '/..');
my ($sources) = grep { -x "$_/configure" } glob '/usr/share/nginx/src /usr/src/nginx*';
plan skip_all => 'nginx-dev is not installed' if !$sources;

# A compiler that does not find the headers of the library.
sub compiler_without {
    my ($folder, $library) = @_;
    open my $script, '>', "$folder/cc";
    print $script <<"END";
#!/bin/sh
for word; do
    case \$word in *.c) grep -q '<$library/' "\$word" && exit 1 ;; esac
done
exec cc "\$@"
END
    chmod 0755, "$folder/cc";
    return "$folder/cc";
}

for (['hiredis', 'hiredis', 'libhiredis-dev'], ['OpenSSL', 'openssl', 'libssl-dev']) {
    my ($name, $headers, $package) = @$_;
    my $folder = File::Temp->newdir;
    my $cc     = compiler_without($folder, $headers);
    is(system('cp', '-a', "$sources/.", "$folder/nginx"), 0, "$name: nginx's sources are copied");
    my $log    = "$folder/log";
    my $status = system("cd $folder/nginx && ./configure --with-cc=$cc --without-http_rewrite_module --without-http_gzip_module --add-dynamic-module=$root >$log 2>&1");
    isnt($status, 0, "$name: configure fails without it");
    like(Testbed::Process::slurp($log), qr/error: ngx_http_sliding_log_module requires the $name library\.\nOn Debian it is in the package $package\./,
        "$name: configure names the package");
}

done_testing;
