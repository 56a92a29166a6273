# The package of the module for one nginx depends on exactly that nginx: apt and rpm refuse it beside another one, and
# an upgrade of nginx waits for it. upgrade-waits, doctor and a metric tell that it waits.
# prove: first

use strict;
use warnings;
use Cwd            ();
use File::Basename ();
use File::Copy     ();
use File::Path     ();
use Test::More;
use Testbed;
use Testbed::Files qw(write_file write_program);
use Testbed::Process qw(run);
use Testbed::Tool qw(tool);

my $root   = Cwd::abs_path(File::Basename::dirname(__FILE__) . '/..');
my $module = "$root/build/ngx_http_sliding_log_module.so";
plan skip_all => 'no module of its own is built' if !-e $module || $ENV{TEST_NGINX_BINARY};
my @lacking = grep { system("command -v $_ >/dev/null") != 0 } qw(dpkg-deb apt-get dpkg-scanpackages dpkg-shlibdeps rpm rpmbuild);
plan skip_all => "no @lacking" if @lacking;

my $bed = Testbed->new;
my $dir = $bed->dir;

my ($codename) = Testbed::Process::slurp('/etc/os-release') =~ /^VERSION_CODENAME=(\w+)/m;
my ($own)      = Testbed::Process::slurp("$root/src/version.hpp") =~ /kVersion = "([\d.]+)"/;
my ($version)  = qx{nginx -v 2>&1} =~ m{nginx/([\d.]+)} or die 'nginx -v';
my $later = $version =~ s/(\d+)$/$1 + 1/er;

# ---- the package, and what it depends on

# The nginx of another package: the module of this one is built for the same version.
my $binary = "$dir/usr/sbin/nginx";
File::Path::make_path("$dir/usr/sbin", "$dir/tree", "$dir/repository", "$dir/other", "$dir/none", map { "$dir/apt/$_" } qw(lists/partial cache/archives/partial));
File::Copy::copy($_->[0], $_->[1]) or die "$_->[0]: $!" for ['/usr/sbin/nginx', $binary], [$module, "$dir/tree/ngx_http_sliding_log_module.so"];
chmod 0755, $binary;

sub package_of {
    my ($kind, $folder) = @_;
    return run("$root/packaging/pinned/package $kind $binary $dir/tree $dir/$folder");
}

my ($status, $said) = package_of('deb', 'repository');
is($status, 1, 'an nginx of no package: nothing is made');
like($said, qr/^build\.sh: "\Q$binary\E" is of no deb package; NEEDS=nginx-r\Q$version\E names what/, 'which is told');

# This machine's packages, but for nginx: as nginx.org has them, with the virtual name of its changelog.
system('cp', '-as', '/var/lib/dpkg/info', "$dir/apt/") == 0 or die 'cp';
write_file("$dir/apt/info/nginx.list", "/.\n$binary\n");
my @libraries;
my $others = join "\n\n", grep { !/^Package: (?:nginx|libnginx|sliding-log)/ } split /\n\n+/, Testbed::Process::slurp('/var/lib/dpkg/status');

sub paragraph {
    my ($name, $its_version, @fields) = @_;
    return join "\n", "Package: $name", 'Maintainer: none <none@example.org>', 'Architecture: all', "Version: $its_version", @fields, 'Description: none', '';
}

# Has dpkg take these packages for installed, beside its others. apt knows them, and the libraries that the module needs.
sub installed {
    my (@paragraphs) = @_;
    @paragraphs = map { s/^(?=Version)/Status: install ok installed\n/mr } @paragraphs;
    write_file("$dir/apt/status", join "\n", "$others\n", @paragraphs);
    write_file("$dir/apt/known", join "\n", @paragraphs, map { paragraph($_, '99', 'Status: install ok installed') } @libraries);
    return;
}
my $nginx = paragraph('nginx', "$version-1~$codename", "Provides: httpd, nginx-r$version");
installed($nginx);
local $ENV{DPKG_ADMINDIR} = "$dir/apt";

($status, $said) = package_of('deb', 'repository');
is($status, 0, "nginx.org's nginx: a package") or diag($said);
my ($deb) = glob "$dir/repository/*.deb" or BAIL_OUT('no package');
my $name = 'nginx-module-sliding-log';
like($deb, qr/\/${name}_\Q$version+$own\E-1~$codename\_\w+\.deb$/, 'its name has both versions');
like($said, qr/^built .* depends on nginx-r\Q$version\E$/m, 'what it depends on is told');
my $depends = qx{dpkg-deb -f $deb Depends};
like($depends, qr/^nginx-r\Q$version\E, .*\blibhiredis/, 'it depends on the name that nginx provides, and on the libraries');
@libraries = map { /^(lib\S+)/ } split /, /, $depends;
my $digest = qx{sha256sum $deb};
package_of('deb', 'repository');
is(qx{sha256sum $deb}, $digest, 'made again, it is the same');

installed($nginx =~ s/^Provides: .*/Provides: httpd, nginx-abi-$version-7/mr);
package_of('deb', 'other');
like(qx{dpkg-deb -f $dir/other/*.deb Depends}, qr/^nginx-abi-\Q$version\E-7, /, "Debian's nginx: its interface");
installed($nginx =~ s/^Provides: .*\n//mr);
package_of('deb', 'other');
like(qx{dpkg-deb -f $dir/other/*.deb Depends}, qr/^nginx \(= \Q$version\E-1~$codename\), /, 'another nginx: its exact version');

# ---- apt

write_file("$dir/apt.conf", join "\n", map { "$_;" } qq{Dir::State "$dir/apt"}, qq{Dir::State::status "$dir/apt/known"}, qq{Dir::State::lists "$dir/apt/lists"},
    qq{Dir::Cache "$dir/apt/cache"}, qq{Dir::Etc::SourceList "$dir/sources.list"}, qq{Dir::Etc::SourceParts "$dir/none"},
    qq{Dir::Etc::PreferencesParts "$dir/none"}, qq{Dir::Log "$dir/apt/log"}, 'APT::Sandbox::User ""', 'Debug::NoLocking "true"');
write_file("$dir/sources.list", "deb [trusted=yes] file:$dir/repository ./\n");
local $ENV{APT_CONFIG} = "$dir/apt.conf";

# Has the archive offer these packages.
sub archive {
    my (@paragraphs) = @_;
    my $listed = join "\n", map { s/^Package: (\S+)\n/Package: $1\nFilename: .\/$1.deb\nSize: 1\nSHA256: @{[ '0' x 64 ]}\n/r } @paragraphs;
    write_file("$dir/repository/Packages", $listed);
    my ($failed, $told) = run('apt-get update -qq');
    die $told if $failed;
    return;
}
my $own_deb   = qx{dpkg-deb -f $deb};
my $later_deb = $own_deb =~ s/\Q$version\E/$later/gr;
my $newer     = paragraph('nginx', "$later-1~$codename", "Provides: httpd, nginx-r$later");

archive();
installed($nginx);
($status, $said) = run("apt-get -s install $deb");
is($status, 0, 'apt installs it beside its nginx') or diag($said);
installed($newer);
($status, $said) = run("apt-get -s install $deb");
isnt($status, 0, 'apt refuses it beside another nginx');
like($said, qr/$name : Depends: nginx-r\Q$version\E but it is not installable/, 'and names what it depends on');

my $waits = "$dir/files/usr/lib/sliding-log/upgrade-waits";
system("dpkg-deb -x $deb $dir/files") == 0 or die 'dpkg-deb';
sub waiting {
    my ($expected, $text, $what) = @_;
    my ($ended, $told) = run($waits);
    is($ended, $expected, $what);
    like($told, qr/^$text$/, "$what: it is told");
    return;
}

installed($nginx, $own_deb);
waiting(0, qr/nginx \Q$version\E-1~$codename is the newest that the package manager knows\n/, 'nothing is newer: nothing waits');
archive($newer);
($status, $said) = run('apt-get -s upgrade');
like($said, qr/kept back:\n  nginx\n/, 'a newer nginx: upgrade keeps the old one back');
waiting(1, qr/nginx \Q$later\E-1~$codename is available, and waits for a module that is built for it; installed: nginx \Q$version\E-1~$codename\n/,
    'a newer nginx: it waits');
my (undef, $metric) = run("$waits --metric");
like($metric, qr/^sliding_log_nginx_upgrade_waits\{installed="\Q$version\E-1~$codename",available="\Q$later\E-1~$codename"\} 1$/m, 'the metric is 1');
SKIP: {
    skip 'no promtool', 1 if system('command -v promtool >/dev/null') != 0;
    is((run("$waits --metric | promtool check metrics"))[1], '', 'promtool accepts the metric');
}

archive($newer, $later_deb);
($status, $said) = run('apt-get -s upgrade');
unlike($said, qr/kept back/, 'with the module for it, nothing is kept back');
my ($unpacked, $configured) = map { index $said, $_ } "Inst $name ", 'Conf nginx ';
ok($unpacked >= 0 && $configured > $unpacked, 'the module is replaced before the new nginx is started') or diag($said);
waiting(0, qr/nginx \Q$later\E\S* is available, and $name \Q$later+$own\E-1~$codename with it\n/, 'a newer nginx and its module: nothing waits');
archive($nginx =~ s/^Version: .*/Version: $version-2~$codename/mr);
waiting(0, qr/nginx \Q$version\E-2\S* is available, and this module is for it, too\n/, 'a newer package of the same nginx: nothing waits');
installed($own_deb);
is((run($waits))[0], 3, 'no nginx: the status says that nothing is known');

# ---- doctor

{
    my $redis = $bed->redis;
    for my $row ([0, 'ok', 'all is well'], [1, 'warning', 'nginx 2 is available, and waits'], [3, 'warning', 'could not be checked: the package manager does not know this nginx']) {
        my ($ends, $expected, $text) = @$row;
        my $program = write_program("$dir/waits", "#!/bin/sh\n[ $ends = 3 ] || echo '$text'\nexit $ends\n");
        my $told = tool({ env => { SLIDING_LOG_UPGRADE_WAITS => $program } }, 'doctor', '--server', $redis->address)->{out};
        like($told, qr/^packages of this machine\n  \Q$expected\E +upgrade +\Q$text\E$/mi, "doctor: $expected") or diag($told);
    }
    my $told = tool({ env => { SLIDING_LOG_UPGRADE_WAITS => "$dir/absent" } }, 'doctor', '--server', $redis->address)->{out};
    unlike($told, qr/upgrade/, 'doctor without such a package: nothing of upgrades');
}

# ---- rpm

# A package without files, or with the one of FILE.
sub rpm_of {
    my ($its_name, $its_version, @lines) = @_;
    my $spec = write_file("$dir/specs/$its_name.spec", join "\n", "Name: $its_name", "Version: $its_version", 'Release: 1', 'Summary: none', 'License: none',
        'AutoReqProv: no', @lines, '%description', 'none', '%files', '');
    my ($failed, $told) = run("rpmbuild --quiet -bb --define '_topdir $dir/top' --define '_rpmdir $dir/rpms' --define '_rpmfilename $its_name-$its_version.rpm' $spec");
    die $told if $failed;
    return "$dir/rpms/$its_name-$its_version.rpm";
}
local $ENV{NEEDS} = "nginx-r$version";
($status, $said) = package_of('rpm', 'other');
is($status, 0, 'rpm: a package') or diag($said);
my ($rpm) = glob "$dir/other/*.rpm" or BAIL_OUT('no package');
$digest = qx{sha256sum $rpm};
package_of('rpm', 'other');
is(qx{sha256sum $rpm}, $digest, 'rpm: made again, it is the same');
my @needed = split /\n/, qx{rpm -qpR $rpm};
ok((grep { $_ eq "nginx-r$version" } @needed), 'rpm: it depends on the name that nginx provides');

my $system  = rpm_of('system', 1, map { "Provides: $_" } grep { !/^(?:nginx-r|rpmlib|\/)/ } @needed);
my $shell   = rpm_of('shell', 1, 'Provides: /bin/sh');
my $its     = rpm_of('nginx', $version, "Provides: nginx-r$version");
my $its_new = rpm_of('nginx', $later,   "Provides: nginx-r$later");
my $rpm_new = rpm_of($name, 99, "Requires: nginx-r$later");
sub rpm { my (@words) = @_; return run("rpm --root $dir/rpmroot @words") }

# upgrade-waits by dnf, of the packages in rpmroot.
sub waits_of_dnf {
    return note('no dnf or createrepo_c: not tested with these') if grep { system("command -v $_ >/dev/null") != 0 } qw(dnf createrepo_c);
    my $program = "$dir/rpmroot/usr/lib/sliding-log/upgrade-waits";
    write_file("$dir/dnf.conf", "[main]\ngpgcheck=0\n[repository]\nname=repository\nbaseurl=file://$dir/yum\n");
    my %programs = (dnf => "exec /usr/bin/dnf -c $dir/dnf.conf --installroot=$dir/rpmroot --releasever=1 \"\$@\"", rpm => "exec /usr/bin/rpm --root $dir/rpmroot \"\$@\"");
    write_program("$dir/bin/$_", "#!/bin/sh\n$programs{$_}\n") for keys %programs;
    local $ENV{PATH} = "$dir/bin:$ENV{PATH}";
    for my $row (
        [[],                 0, qr/nginx \Q$version\E-1 is the newest that the package manager knows/, 'nothing is newer'],
        [[$its_new],         1, qr/nginx \Q$later\E-1 is available, and waits for a module that is built for it; installed: nginx \Q$version\E-1/, 'a newer nginx'],
        [[$its_new, $rpm_new], 0, qr/nginx \Q$later\E-1 is available, and $name 99-1 with it/, 'a newer nginx and its module'],
    ) {
        my ($packages, $expected, $text, $what) = @$row;
        File::Path::remove_tree("$dir/yum", "$dir/rpmroot/var/cache/dnf");
        File::Path::make_path("$dir/yum");
        File::Copy::copy($_, "$dir/yum/") for @$packages;
        system("createrepo_c -q $dir/yum >/dev/null") == 0 or die 'createrepo_c';
        my ($ended, $told) = run($program);
        is($ended, $expected, "dnf: $what");
        like($told, qr/^$text\n\z/, "dnf: $what: it is told");
    }
    return;
}
for my $row ([$its, 0, ''], [$its_new, 1, "nginx-r$version is needed by $name-"]) {
    my ($of, $expected, $text) = @$row;
    File::Path::remove_tree("$dir/rpmroot");
    File::Path::make_path("$dir/rpmroot");
    my ($failed, $told) = rpm("-i $system $shell $of");
    is($failed, 0, 'rpm: an nginx is installed') or diag($told);
    ($failed, $told) = rpm("-i $rpm");
    is($failed == 0 ? 0 : 1, $expected, $expected ? 'rpm refuses the module beside another nginx' : 'rpm installs the module beside its nginx') or diag($told);
    like($told, qr/\Q$text\E/, 'and names what it depends on') if $expected;
    next                                                       if $expected;
    ($failed, $told) = rpm("-U $its_new");
    isnt($failed, 0, 'rpm does not upgrade nginx without a module for it');
    like($told, qr/nginx-r\Q$version\E is needed by \(installed\) $name-/, 'and tells what waits');
    waits_of_dnf();
}

$bed->done;
