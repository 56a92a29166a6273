# ./build.sh release makes the same files of a commit in two folders, at two times, for two users: a tarball that builds
# without git, packages, an SPDX document, notes and checksums. The commands of docs/operations.md verify a signed one.
# (Compilers get one line in place of each source, with the name and the flags of the source: what differs then, or
# names a folder, is due to the flags. The workflow of a release compares files of true compilers.)
# prove: first

use strict;
use warnings;
use Cwd            ();
use File::Basename ();
use File::Path     ();
use File::Temp     ();
use JSON::PP       ();
use Test::More;
use Testbed::Files qw(write_file write_program);
use Testbed::Process qw(run);

my $root    = Cwd::abs_path(File::Basename::dirname(__FILE__) . '/..');
my @lacking = grep { system("command -v $_ >/dev/null") != 0 } qw(git gpg dpkg-buildpackage dh_nginx readelf);
plan skip_all => "no @lacking" if @lacking;
plan skip_all => 'makes two releases, each night' if $ENV{TEST_BRIEF};
my $folder = File::Temp->newdir;
my $dir    = Cwd::abs_path("$folder");
my ($version) = Testbed::Process::slurp("$root/src/version.hpp") =~ /kVersion = "([\d.]+)"/;
my $name = "ngx_http_sliding_log_module-$version";

sub succeeds {
    my ($command, $what) = @_;
    my ($status, $printed) = run($command);
    is($status, 0, $what) or diag($printed);
    return $printed;
}

# ---- a static hiredis

# Debug information would have the folder of its headers.
my @objects = map {
    my $hiredis = "$dir/hiredis-$_";
    my $out = "$dir/objects-$_";
    succeeds("mkdir -p $hiredis/include && cp -r /usr/include/hiredis $hiredis/include/", 'the headers of a hiredis');
    succeeds("HIREDIS_DIR=$hiredis make -s -C $root/tool OUT=$out EXTRA=-g $out/script_call.o", 'an object is compiled with them');
    "$out/script_call.o";
} 'one', 'another';
succeeds("cmp @objects", 'it is the same with headers in another folder');

# ---- the repository, twice

my ($tree, $other) = ("$dir/tree", "$dir/another/folder/tree");
delete @ENV{ grep { /^GIT_/ } keys %ENV };
my $git = "git -C $tree -c user.name=none -c user.email=none\@example.org -c commit.gpgsign=false";
succeeds(
    "mkdir $tree && cd $root && tar --exclude=./build --exclude=./.git -cf - . | tar -xf - -C $tree && git init -q $tree && "
        . "$git add -A && GIT_COMMITTER_DATE=1700000000+0100 $git commit -q -m first && git clone -q $tree $other && git -C $other tag v$version",
    'a repository, and its clone'
);
write_file("$tree/src/not_committed.cpp", "#error not committed\n");

# ---- what stands for compilers, and for git

my $loadable = <<'END';
extern "C" {
#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
ngx_http_module_t context = {};
ngx_module_t ngx_http_sliding_log_module = {NGX_MODULE_V1, &context, nullptr, NGX_HTTP_MODULE, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, NGX_MODULE_V1_PADDING};
}
END
my $uses = 'extern "C" void redisFree(void *); void use(void *context) { redisFree(context); }';
for my $compiler (qw(cc gcc g++ c++ x86_64-linux-gnu-gcc x86_64-linux-gnu-g++)) {
    my ($real) = grep { -x } map { "$_/$compiler" } grep { !/ccache/ } split /:/, $ENV{PATH};
    next if !$real;
    write_program("$dir/bin/$compiler", <<"END");
#!/bin/bash
source='' others=()
for argument in "\$@"; do
    case \$argument in *.cpp) source=\$argument ;; *) others+=("\$argument") ;; esac
done
[[ " \$* " == *' -c '* && -n \$source ]] || exec $real "\$@"
{
    case \$source in
        */ngx_http_sliding_log_module.cpp) printf "%s\\n" '$loadable' '$uses' ;;
        main.cpp) echo '$uses' ;;
    esac
    echo "# 1 \\"\$source\\""
    echo '__attribute__((used)) static const char where[] = __FILE__;'
    echo '__attribute__((weak)) int main() { return where[0]; }'
} | $real "\${others[\@]}" -x c++ -
END
}
my ($real_git) = grep { -x } map { "$_/git" } split /:/, $ENV{PATH};
write_program("$dir/bin/git", "#!/bin/bash\necho \"\$*\" >>$dir/calls-of-git\nexec $real_git \"\$@\"\n");
local $ENV{PATH} = "$dir/bin:$ENV{PATH}";

# ---- a release, and again elsewhere

my $said = succeeds("cd $tree && umask 022 && TZ=UTC LC_ALL=C ./build.sh release", 'a release is made');
mkdir "$dir/home";
succeeds("cd / && umask 077 && HOME=$dir/home TZ=Asia/Tokyo LC_ALL=C.UTF-8 CFLAGS=-O3 DEB_BUILD_OPTIONS=noopt $other/build.sh release v$version",
    'it is made again, in another folder, of a tag');
my ($release, $again) = map { "$_/build/release" } $tree, $other;
my $sums = Testbed::Process::slurp("$release/SHA256SUMS");
is(Testbed::Process::slurp("$again/SHA256SUMS"), $sums, 'both have the same files')
    or diag(map { my $file = $_; -e $file && -e "$again/$file" ? () : "$file\n" } split /\n/, $sums);
my $calls = Testbed::Process::slurp("$dir/calls-of-git");
is(join("\n", grep { !/^-C (?:\Q$tree\E|\Q$other\E) / } split /\n/, $calls), '', 'git is asked of the repositories alone, not of what is built');

my ($os)   = map { /^VERSION_ID="?(\d+)/m ? "debian$1" : 'debian' } Testbed::Process::slurp('/etc/os-release');
my $debian = $os =~ s/debian/deb/r;
my $its    = qx{dpkg --print-architecture} =~ s/\n//r;
my @packages = qw(libnginx-mod-http-sliding-log redis-sliding-log sliding-log);
my @files = map { /^[0-9a-f]{64}  (\S+)$/ ? $1 : "not a checksum: $_" } split /\n/, $sums;
is_deeply(
    \@files,
    [sort "$name.tar.gz", "$name-$os.spdx.json", 'notes.md', map { my $package = $_; map { "${package}${_}_$version.${debian}_$its.deb" } '', '-dbgsym' } @packages],
    'the release has these files, and names that GitHub leaves as they are'
);
succeeds("cd $release && sha256sum --strict -c SHA256SUMS", 'the checksums are right');

my @committed = sort map { "$name/$_" } split /\n/, qx{git -C $tree ls-files};
is_deeply([sort grep { !m{/$} } split /\n/, qx{tar -tzf $release/$name.tar.gz}], \@committed, 'the tarball has what is committed, and nothing else');

for my $file (glob "$release/*.deb") {
    my $package = File::Basename::basename($file);
    succeeds("mkdir $dir/unpacked && dpkg-deb -x $file $dir/unpacked && ! grep -rlE '$dir|/tmp/' $dir/unpacked", "$package names no folder of the build");
    File::Path::remove_tree("$dir/unpacked");
}

# ---- what is linked, and what it was built with

my $spdx = JSON::PP->new->utf8->decode(Testbed::Process::slurp("$release/$name-$os.spdx.json"));
is($spdx->{spdxVersion}, 'SPDX-2.3', 'SPDX: its version');
is($spdx->{creationInfo}{created}, '2023-11-14T22:13:20Z', 'SPDX: its time is that of the commit');
my %element;
$element{ $_->{SPDXID} }++ for $spdx, @{ $spdx->{packages} }, @{ $spdx->{files} };
is(join(' ', grep { $element{$_} != 1 || !/^SPDXRef-[A-Za-z0-9.-]+$/ } sort keys %element), '', 'SPDX: each element has an identifier of its own');
my @relations = @{ $spdx->{relationships} };
is(join(' ', grep { !$element{$_} } map { @{$_}{qw(spdxElementId relatedSpdxElement)} } @relations), '', 'SPDX: relations are of elements that are there');
my %package = map { ($_->{SPDXID} => $_) } @{ $spdx->{packages} };
my %sum_of = map { my ($sum, $file) = split /  /; ($file => $sum) } split /\n/, $sums;
my %described = map { ($_->{packageFileName} => $_->{checksums}[0]{checksumValue}) } map { $package{ $_->{relatedSpdxElement} } } grep { $_->{relationshipType} eq 'DESCRIBES' } @relations;
is_deeply(\%described, { map { ($_ => $sum_of{$_}) } grep { /\.(?:deb|tar\.gz)$/ } @files }, 'SPDX: the tarball and the packages, with their checksums');

my %linked;
$linked{ $_->{spdxElementId} }{ $package{ $_->{relatedSpdxElement} }{name} } = 1 for grep { $_->{relationshipType} eq 'DYNAMIC_LINK' } @relations;
for my $row (['libnginx-mod-http-sliding-log', 'ngx_http_sliding_log_module.so', qr/^libhiredis/], ['sliding-log', 'sliding-log', qr/^libhiredis/], ['redis-sliding-log', 'redis_sliding_log.so']) {
    my ($of, $file, $expected) = @$row;
    my ($its_id) = map { $_->{SPDXID} } grep { $_->{fileName} =~ m{/\Q$file\E$} } @{ $spdx->{files} };
    ok($its_id, "SPDX: $file") or next;
    my ($deb) = glob "$release/${of}_*.deb";
    my %depends = map { /^([\w.+-]+)/ ? ($1 => 1) : () } grep { !/nginx/ } split /, /, qx{dpkg-deb -f $deb Depends} =~ s/\n//r;
    is_deeply([sort keys %{ $linked{$its_id} }], [sort keys %depends], "SPDX: $file is linked with the libraries that its package depends on");
    ok((grep { /$expected/ } keys %{ $linked{$its_id} }), "SPDX: $file is linked with hiredis") if $expected;
}
my %built_with = map { my $with = $package{ $_->{spdxElementId} }; ($with->{name} => $with) } grep { $_->{relationshipType} eq 'BUILD_DEPENDENCY_OF' } @relations;
for my $needed (qw(nginx-dev libhiredis-dev libssl-dev dpkg-dev g++ make libc6-dev)) {
    my $installed = qx{dpkg-query -W -f='\${Version}' $needed};
    is(($built_with{$needed} // {})->{versionInfo}, $installed, "SPDX: built with $needed $installed");
}
like($built_with{'nginx-dev'}{externalRefs}[0]{referenceLocator}, qr{^pkg:deb/debian/nginx-dev\@[^?]+\?arch=$its&distro=debian-\d+$}, 'SPDX: a package has its purl');

# A package that was built with HIREDIS=1.2 says so.
my ($tool) = glob "$release/sliding-log_*.deb";
mkdir "$dir/static";
succeeds(
    "dpkg-deb -R $tool $dir/repacked && sed -i 's/^Version: .*/&+hiredis1.2.0/' $dir/repacked/DEBIAN/control && touch $dir/repacked/usr/share/doc/sliding-log/COPYING.hiredis && "
        . "dpkg-deb -b $dir/repacked $dir/static && cp $release/$name.tar.gz $dir/static/",
    "a package with a static hiredis"
);
write_file("$dir/buildinfo", "Installed-Build-Depends:\n make (= 1)\n");
my $static = JSON::PP->new->utf8->decode(scalar qx{SOURCE_DATE_EPOCH=1 $tree/packaging/release/spdx $name $dir/static $dir/buildinfo});
my ($hiredis) = map { $_->{relatedSpdxElement} } grep { $_->{relationshipType} eq "STATIC_LINK" } @{ $static->{relationships} };
is_deeply([map { [@{$_}{qw(name versionInfo)}] } grep { $_->{SPDXID} eq $hiredis } @{ $static->{packages} }], [["hiredis", "1.2.0"]], "SPDX: a static hiredis");

# ---- the notes

my $notes = Testbed::Process::slurp("$release/notes.md");
my ($section) = Testbed::Process::slurp("$root/CHANGELOG.md") =~ /^## \Q$version\E\n(.*?)(?=^## |\z)/ms;
like($notes, qr/\A# ngx_http_sliding_log_module \Q$version\E\n\n/, 'the notes begin with the version');
unlike($notes, qr/\]\((?!https?:)/, 'the notes have no link into the repository');
is(scalar(() = $notes =~ /^- /mg), scalar(() = $section =~ /^- /mg), "the notes have what the changelog has");

# ---- what is refused

like($said, qr/^what is not committed is not in the release$/m, "what is not committed: it is told");
for my $row (["$other/build.sh release v0.0.1", qr/^build\.sh: "v0\.0\.1" is no commit$/], ["git -C $other tag v0.0.1 && $other/build.sh release v0.0.1", qr/^build\.sh: "v0\.0\.1" has version \Q$version\E, expected the tag v\Q$version\E$/],
    ["mkdir $dir/plain && tar -xzf $release/$name.tar.gz -C $dir/plain && $dir/plain/$name/build.sh release", qr/^build\.sh: a release is made of a git repository, and "\S+" is none$/]) {
    my ($command, $expected) = @$row;
    my ($status, $printed) = run($command);
    is($status, 1, 'refused');
    like($printed, qr/$expected/m, 'and why');
}

# ---- without packages: what build.sh leaves in build/

my @built = qw(ngx_http_sliding_log_module.so sliding-log redis_sliding_log.so);
unlink "$tree/src/not_committed.cpp" or die "not_committed.cpp: $!";
succeeds("$_/build.sh", 'the module, the tool and the module for Redis are built') for $tree, "$dir/plain/$name";
my @digests = map { my $built = $_; scalar qx{cd $built/build && sha256sum @built} } $tree, "$dir/plain/$name";
is($digests[0], $digests[1], 'they are the same in another folder, which has no git');
succeeds("! grep -lE '$dir' " . join(' ', map { "$tree/build/$_" } @built), 'and name no folder');

# ---- packages for one nginx, of both

for my $kind (qw(deb rpm)) {
    SKIP: {
        skip "no rpmbuild", 3 if $kind eq "rpm" && system("command -v rpmbuild >/dev/null") != 0;
        my @made = map {
            my $of = $_;
            mkdir "$of/build/$kind";
            succeeds("SOURCE_DATE_EPOCH=1700000000 NEEDS=nginx-r1 $of/packaging/pinned/package $kind nginx $of/build $of/build/$kind", "$kind: a package for one nginx");
            scalar qx{cat $of/build/$kind/*.$kind | sha256sum};
        } $tree, "$dir/plain/$name";
        is($made[1], $made[0], "$kind: it is the same of another folder, at another time");
    }
}

# ---- joined, signed, verified

succeeds("$tree/packaging/release/join $dir/joined $release $again", 'two releases are joined');
is(Testbed::Process::slurp("$dir/joined/SHA256SUMS"), $sums, 'joined: each file once');
succeeds("cp -r $again $dir/changed && echo >>$dir/changed/notes.md && $tree/packaging/release/checksums $dir/changed", 'one with other notes');
isnt((run("$tree/packaging/release/join $dir/never $release $dir/changed"))[0], 0, 'is not joined with the first');

local $ENV{GNUPGHOME} = "$dir/keys";
mkdir $ENV{GNUPGHOME}, oct 700;
succeeds("gpg --batch --quiet --passphrase secret --pinentry-mode loopback --quick-gen-key '$_ <$_\@example.org>' ed25519 sign never", "a key: $_") for qw(releases others);
my %secret = map { ($_ => scalar qx{gpg --batch --quiet --passphrase secret --pinentry-mode loopback --armor --export-secret-keys $_}) } qw(releases others);
local $ENV{SIGNING_PASSPHRASE} = 'secret';
local $ENV{SIGNING_KEY}        = $secret{releases};
my $sign = "$tree/packaging/release/sign $release";
my ($status, $printed) = run($sign);
is($status, 1, 'no public key in the repository: nothing is signed');
like($printed, qr/^sign: "\S+key\.asc", the public key, is missing/, 'which is told');
succeeds("gpg --armor --export releases >$tree/packaging/release/key.asc", 'the public key');
{
    local $ENV{SIGNING_KEY} = $secret{others};
    ($status, $printed) = run($sign);
    is($status, 1, 'signed with another key');
    like($printed, qr/^sign: "\S+key\.asc" is not the public key of SIGNING_KEY/m, 'which is told');
    ok(!-e "$release/SHA256SUMS.asc", 'no such signature is left');
}
succeeds($sign, 'the checksums are signed');
succeeds('gpgconf --kill all', 'the agent of these keys ends');

# As the documentation says, by somebody who has the repository and the files.
my ($chapter) = Testbed::Process::slurp("$root/docs/operations.md") =~ /^## Verify a release\n(.*?)^## /ms;
my @commands = ($chapter // '') =~ /^    (gpg .*|sha256sum .*)$/mg;
is(@commands, 3, 'the documentation has three commands that verify') or BAIL_OUT('no commands');
local $ENV{REPOSITORY} = $tree;
sub verify { my ($files) = @_; return run("cd $files && " . join ' && ', @commands) }
mkdir "$dir/verifier", oct 700;
local $ENV{GNUPGHOME} = "$dir/verifier";
($status, $printed) = verify($release);
is($status, 0, 'the release is verified') or diag($printed);
like($printed, qr/Good signature from "releases/, 'by the key of the repository');
succeeds("cp -r $release $dir/forged && echo >>$dir/forged/notes.md", 'a file is changed');
isnt((verify("$dir/forged"))[0], 0, 'which is found');
succeeds("$tree/packaging/release/checksums $dir/forged", 'the checksums, too');
isnt((verify("$dir/forged"))[0], 0, 'which is found');
succeeds('gpgconf --kill all', 'the agent of the verifier ends');

done_testing;
