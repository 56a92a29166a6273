# packaging/pkg-oss adds the module to a clone of pkg-oss, which makes nginx.org's packages. The clone is a small one: its
# rules, written here, use the variables of the module as those of the repository do.

use strict;
use warnings;
use Cwd            ();
use File::Basename ();
use File::Temp     ();
use Test::More;
use Testbed::Files qw(write_file write_program);
use Testbed::Process qw(run);

my $root = Cwd::abs_path(File::Basename::dirname(__FILE__) . '/..');
my $add  = "$root/packaging/pkg-oss/add";
my ($version) = Testbed::Process::slurp("$root/src/version.hpp") =~ /kVersion = "([\d.]+)"/;
my $name   = "ngx_http_sliding_log_module-$version";
my $folder = File::Temp->newdir;
my $clone  = "$folder/pkg-oss";
my %rules  = ('debian' => 'extra/', 'rpm/SPECS' => '', 'alpine' => '../');    # where each unpacks sources, seen from nginx's

# ---- the clone

write_file("$clone/Makefile",                 "EXTERNAL_MODULES=\tacme rtmp set-misc subs-filter\n");
write_file("$clone/docs/changes.dtd",         <<'END');
<!ELEMENT change_log (changes)*>
<!ATTLIST change_log title CDATA #REQUIRED>
<!ELEMENT changes (change)*>
<!ATTLIST changes apply CDATA #REQUIRED ver CDATA #REQUIRED rev CDATA #REQUIRED basever CDATA "0"
    date CDATA #REQUIRED time CDATA #REQUIRED packager CDATA #REQUIRED>
<!ELEMENT change (para)*>
<!ELEMENT para (#PCDATA)>
END
write_file("$clone/contrib/src/nginx/version", "NGINX_VERSION := 1.30.7\n");
write_file("$clone/contrib/Makefile",          <<'END');
SRC := $(CURDIR)/src
TARBALLS := $(CURDIR)/tarballs
VPATH := $(TARBALLS)
download_pkg = echo "no $(1) in $(2)" >&2; false
UNPACK = tar -xf $<
MOVE = mv $(basename $(basename $(notdir $<))) $@
include $(wildcard $(SRC)/*/Makefile)
.sum-%: $(SRC)/%/SHA512SUMS
	cd $(TARBALLS) && sha512sum -c $<
	touch $@
END
for my $system (keys %rules) {
    my $contrib = ($system =~ s{[^/]+}{..}gr) . '/contrib';
    write_file("$clone/$system/Makefile", <<"END" . <<'END');
CONTRIB := \$(abspath $contrib)
MODSRC_PREFIX = $rules{$system}
END
include $(CONTRIB)/src/nginx/version
MODULE_TARGET_PREFIX = $(NGINX_VERSION)+
MODULE_SUMMARY_PREFIX = nginx
-include Makefile.module-*
name = $(subst -,_,$(1))
default:
	@echo $(MODULES)
text-%:
	@echo "$$MODULE_DEFINITIONS_$(call name,$*)"
	@echo "$$MODULE_POST_$(call name,$*)"
.deps-module-%:
	$(MAKE) -C $(CONTRIB) $(addprefix .sum-,$(MODULE_CONTRIB_DEPS_$*))
module-%: .deps-module-%
	mkdir -p nginx/$(MODSRC_PREFIX)
	cd nginx/$(MODSRC_PREFIX) && tar -xf $(CONTRIB)/tarballs/$(MODULE_SOURCES_$(call name,$*))
	cd nginx && ../configure $(MODULE_CONFARGS_$(call name,$*))
	@echo "nginx-module-$* $(MODULE_VERSION_PREFIX_$(call name,$*))$(MODULE_VERSION_$(call name,$*))-$(MODULE_RELEASE_$(call name,$*))"
	@echo "needs$(MODULE_BUILD_DEPENDS_$(call name,$*)); $(MODULE_SUMMARY_$(call name,$*))"
END
    # as configure does: it reads the module's `config`
    write_program("$clone/$system/configure", "#!/bin/sh\ntest -f \"\${1#--add-dynamic-module=}/config\" && echo \"configured \$1\"\n");
}

# ---- added

my $tarball = "$folder/$name.tar.gz";
system("tar -C $root --transform 's,^,$name/,' -czf $tarball config config.make LICENSE src lua") == 0 or die 'tar';
my ($status, $said) = run("$add $tarball $clone");
is($status, 0, 'the module is added to the clone') or diag($said);
like($said, qr/^added |^added sliding-log \Q$version\E for nginx 1\.30\.7: /m, 'which is told');
($status, $said) = run("$add $tarball $clone");
is($status, 0, 'and again');
is(Testbed::Process::slurp("$clone/Makefile"), "EXTERNAL_MODULES=\tacme rtmp set-misc sliding-log subs-filter\n", 'the list of modules has it once');
is(Testbed::Process::slurp("$clone/docs/nginx-module-sliding-log.copyright"), Testbed::Process::slurp("$root/LICENSE"), 'its license is there');
SKIP: {
    skip 'no xmllint', 1 if system('command -v xmllint >/dev/null') != 0;
    is((run("cd $clone/docs && xmllint --noout --valid nginx-module-sliding-log.xml"))[1], '', 'its changelog is valid');
}

for my $system (sort keys %rules) {
    my $configured = "--add-dynamic-module=$rules{$system}$name";
    is((run("make -s -C $clone/$system"))[1], "sliding-log\n", "$system: the module is known");
    ($status, $said) = run("make -n -C $clone/$system module-sliding-log");
    is($status, 0, "$system: make -n") or diag($said);
    like($said, qr/\b\Q$name\E\.tar\.gz$/m,      "$system: its sources would be unpacked");
    like($said, qr/configure \Q$configured\E$/m, "$system: configure would get it");
    ($status, $said) = run("make -s -C $clone/$system module-sliding-log");
    is($status, 0, "$system: its sources are verified and unpacked") or diag($said);
    like($said, qr/^configured \Q$configured\E$/m,                           "$system: configure finds it");
    like($said, qr/^nginx-module-sliding-log 1\.30\.7\+\Q$version\E-1$/m,    "$system: the package has the versions of nginx and of the module");
    like($said, qr/^needs.*\b(?:lib)?hiredis-dev; exact rate limiting /m,    "$system: hiredis is asked for") if $system ne 'rpm/SPECS';
    my ($ended, $text) = run("make -s -C $clone/$system text-sliding-log");
    like($text, qr/^BuildRequires: .*\bhiredis-devel$/m, "$system: hiredis is asked for") if $system eq 'rpm/SPECS';
    like($text, qr{load_module modules/ngx_http_sliding_log_module\.so;}, "$system: the installed package tells how to load it");
    unlike($text, qr/[#&]/, "$system: no character that the rules' sed would take for one of its own");
}

# ---- refused

unlink "$clone/contrib/.sum-ngx_http_sliding_log_module";
open my $changed, '>>', "$clone/contrib/tarballs/$name.tar.gz" or die $!;
print {$changed} 'more';
close $changed;
($status, $said) = run("make -C $clone/debian module-sliding-log");
isnt($status, 0, 'another tarball than the one that was added is refused');
like($said, qr/\Q$name\E\.tar\.gz: FAILED$/m, 'which is told');

mkdir "$folder/empty";
is((run("$add $tarball $folder/empty"))[1], "add: \"$folder/empty\" is no clone of pkg-oss: contrib/src/nginx/version is missing\n", 'no clone: nothing is added');
rename $tarball, "$folder/other.tar.gz";
is((run("$add $folder/other.tar.gz $clone"))[1], "add: \"$folder/other.tar.gz\" is not $name.tar.gz\n", 'another version: nothing is added');

done_testing;
