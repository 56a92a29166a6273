# shellcheck shell=bash
# Makes a system for musl in /musl of Debian's sources: gcc's C++ library, OpenSSL, PCRE, hiredis, an nginx and a Redis;
# in bin the compilers for it, in busybox and tools all commands that Alpine's image of the build has, beside those. Run by
# t/musl/in_debian in its Debian.
# Usage: make_system.sh VERSION   (of gcc)
set -euo pipefail
compiler=$1
machine=x86_64-linux-musl
jobs=-j$(nproc)

mkdir -p /musl/{bin,busybox,tools,include,lib,sources}
sed 's/^deb /deb-src /' /etc/apt/sources.list >/etc/apt/sources.list.d/sources.list
apt-get update -q
cd /musl/sources
for package in openssl pcre2 hiredis nginx redis; do
    # a mirror's list may name a version that its pool has no more, or not yet
    for version in $(apt-cache showsrc "$package" | sed -n 's/^Version: //p' | sort -rV); do
        ! apt-get source -qq --download-only --tar-only "$package=$version" || break
    done
done
for archive in *.orig.tar.*z*; do tar -xf "$archive"; done
mkdir gcc
tar -xf "/usr/src/gcc-$compiler"/gcc-*-dfsg.tar.xz --wildcards --exclude='*/testsuite/*/*' --exclude='*/gcc/*/*' --strip-components=1 -C gcc \
    '*/libstdc++-v3' '*/libgcc' '*/libiberty' '*/include' '*/config' '*/gcc' 'gcc-*/[a-z]*.*' 'gcc-*/compile' 'gcc-*/missing' \
    'gcc-*/install-sh' 'gcc-*/mkinstalldirs' 'gcc-*/depcomp'

# musl's own specs, with what an unwinder needs, and with the headers of the C++ library in front of those of C
sed -e '/^\*libgcc:/{n;s/$/ -lfind_object/}' -e '/^\*link:/{n;s/$/ --eh-frame-hdr/}' \
    -e '/^\*link_libgcc:/{n;s,^,-L/musl/lib ,}' -e 's/-isystem/-idirafter/g' "/usr/lib/$machine/musl-gcc.specs" >/musl/specs
cat >>/musl/specs <<SPECS

%rename cc1plus old_cc1plus

*cc1plus:
-nostdinc++ -isystem /musl/include/c++ -isystem /musl/include/c++/$machine %(old_cc1plus)
SPECS
for command in cc gcc g++ c++; do
    program=${command/#cc/gcc}
    printf '#!/bin/sh\nexec /usr/bin/%s "$@" -specs /musl/specs -idirafter /musl/include\n' \
        "${program/#c++/g++}-$compiler" >"/musl/bin/$command"
    chmod 755 "/musl/bin/$command"
done
ln -s /usr/include/linux /usr/include/asm-generic /musl/include
ln -s "/usr/include/$(uname -m)-linux-gnu/asm" /musl/include
echo /musl/lib >>/etc/ld-musl-x86_64.path
PATH=/musl/bin:$PATH

cc -O2 -fPIC -Wall -Wextra -Werror -c /making/find_object.c -o find_object.o
ar rcs /musl/lib/libfind_object.a find_object.o

# as libgcc's own build names it: without it, the library would be one without threads
mkdir libgcc libstdc++
ln -s ../gcc/libgcc/gthr-posix.h libgcc/gthr-default.h
(
    cd libstdc++
    ../gcc/libstdc++-v3/configure CC=cc CXX=g++ CFLAGS="-O2 -fPIC" CXXFLAGS="-O2 -fPIC" --host="$machine" --build="$(uname -m)-linux-gnu" --prefix=/musl \
        --libdir=/musl/lib --disable-multilib --disable-nls --disable-libstdcxx-pch --disable-shared --with-pic \
        --with-gxx-include-dir=/musl/include/c++
    for part in include libsupc++ src; do make -s "$jobs" -C $part all install; done
)
(
    cd openssl-*/
    CC=cc ./Configure linux-x86_64 --prefix=/musl --libdir=lib no-tests no-apps no-afalgeng no-devcryptoeng no-legacy no-engine \
        no-comp no-dtls no-ct no-ts no-cms no-srp
    make -s "$jobs" build_libs
    make -s install_dev
)
(
    cd pcre2-*/
    ./configure CC=cc --host="$machine" --prefix=/musl --disable-static
    make -s "$jobs" libpcre2-8.la
    make -s install-libLTLIBRARIES install-nodist_includeHEADERS install-includeHEADERS
)
make -s "$jobs" -C hiredis-*/ CC=cc USE_SSL=1 PREFIX=/musl OPENSSL_PREFIX=/musl install
make -s "$jobs" -C redis-*/src CC=cc MALLOC=libc redis-server redis-cli
install redis-*/src/redis-{server,cli} /musl/tools
mv nginx-*/ nginx
(
    cd nginx
    ./configure --prefix=/musl/nginx --with-cc=cc --with-compat --with-file-aio --with-threads --with-pcre-jit \
        --with-http_ssl_module --with-http_v2_module --with-http_realip_module --with-http_auth_request_module \
        --with-http_stub_status_module --without-http_gzip_module
    make -s "$jobs"
    make -s install
    make -s clean
)

for command in $(busybox --list); do ln -s /bin/busybox "/musl/busybox/$command"; done
# Alpine's busybox has comm and install, Debian's has not
for command in bash make as ld ar nm readelf strip comm install curl env ip; do ln -sf "/usr/bin/$command" /musl/tools; done
ln -s "/lib/ld-musl-$(uname -m).so.1" /musl/bin/ldd
ln -sf busybox /bin/sh
find /musl/sources -mindepth 1 -maxdepth 1 ! -name nginx -exec rm -r {} +
