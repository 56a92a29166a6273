# packaging/nginx-extras/sliding-log.yml has what https://github.com/GetPageSpeed/nginx-extras asks authors of modules for.

use strict;
use warnings;
use Cwd            ();
use File::Basename ();
use Test::More;
use Testbed::Process;

plan skip_all => 'no YAML::XS' if !eval { require YAML::XS; 1 };
my $root  = Cwd::abs_path(File::Basename::dirname(__FILE__) . '/..');
my $about = YAML::XS::LoadFile("$root/packaging/nginx-extras/sliding-log.yml");

# Those that its README and its own files use, of which the module needs these.
is(join(' ', sort keys %$about), 'build_requires build_requires_deb description repo soname summary', 'only keys that are known there');
like($about->{repo}, qr{^[\w.-]+/ngx_http_sliding_log_module$}, 'repo: an owner and a name');
cmp_ok(length $about->{summary}, '<=', 70, 'summary: at most 70 characters');
cmp_ok(length $_, '<=', 79, 'description: no line is too long for a package') for split /\n/, $about->{description};
my ($name) = Testbed::Process::slurp("$root/config") =~ /^ngx_module_name=(\w+)$/m;
is($about->{soname}, $name, 'soname: the file that config builds');

# The same libraries as the package of Fedora and that of Debian.
my ($spec, $control) = map { Testbed::Process::slurp("$root/$_") } 'packaging/rpm/nginx-mod-sliding-log.spec', 'debian/control';
like($spec,    qr/^BuildRequires: +\Q$_\E$/m, "build_requires: the spec needs $_, too") for @{ $about->{build_requires} };
like($control, qr/^ \Q$_\E,$/m,               "build_requires_deb: debian/control needs $_, too") for grep { $_ ne 'g++' } @{ $about->{build_requires_deb} };

done_testing;
