# One version: the module has it in its metrics and logs it at start, the tool prints it with --version, and the
# packages and the changelog begin with it.

use strict;
use warnings;
use Cwd ();
use File::Basename ();
use Test::More;
use Testbed;
use Testbed::Http qw(get);
use Testbed::Process;
use Testbed::Tool qw(tool);

my $root = Cwd::abs_path(File::Basename::dirname(__FILE__) . '/..');
my ($version) = Testbed::Process::slurp("$root/src/version.hpp") =~ /kVersion = "([\d.]+)"/;
like($version, qr/^\d+\.\d+\.\d+$/, 'src/version.hpp has a version');
my ($latest) = Testbed::Process::slurp("$root/CHANGELOG.md") =~ /^## (\S+)/m;
is($latest, $version, 'the version is the latest of CHANGELOG.md');
like(Testbed::Process::slurp("$root/debian/changelog"), qr/^\S+ \(\Q$version\E\) /, 'the version is the latest of debian/changelog');
my ($of_rpm) = Testbed::Process::slurp("$root/packaging/rpm/nginx-mod-sliding-log.spec") =~ /^%changelog\n\* .* - (\S+)-1$/m;
is($of_rpm, $version, 'the version is the latest of the changelog of the RPM packages');

for (['alpine/APKBUILD', 'pkgver='], ['kubernetes/kustomization.yaml', 'newTag: '], ['rpm/nginx-mod-sliding-log.spec', 'Version: +'],
    ['pkg-oss/contrib/src/ngx_http_sliding_log_module/version', 'NGX_HTTP_SLIDING_LOG_MODULE_VERSION := ']) {
    my ($name, $before) = @$_;
    like(Testbed::Process::slurp("$root/packaging/$name"), qr/^\s*$before\Q$version\E$/m, "packaging/$name has the version");
}

my $bed   = Testbed->new;
my $nginx = $bed->serve(
    connections => 64,
    http        => 'sliding_log_limit all key=$remote_addr limit=9 window=1m;',
    server      => 'location /metrics { sliding_log_metrics; }',
);

like(get($nginx->port, '/metrics')->{body}, qr/^sliding_log_build_info\{version="\Q$version\E"\} 1$/m, 'the version is in the metrics');
is(() = $nginx->error_log =~ /\[notice\] .*: sliding_log module \Q$version\E$/mg, 1, 'the error log has the version once at the start');
my $run = tool('--version');
is("$run->{status} $run->{out}", "0 sliding-log $version\n", 'the tool prints the version');

$bed->done;
