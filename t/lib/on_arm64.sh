#!/usr/bin/env bash
# Run by t/arm64 in its Debian.
set -euo pipefail
cd /src
module=ngx_http_sliding_log_module
mkdir build

# nginx's configure runs some of the programs that it compiles.
cat >build/cc <<'END'
#!/bin/sh
aarch64-linux-gnu-gcc "$@" || exit
while [ $# -gt 1 ]; do
    [ "$1" != -o ] || target=$2
    shift
done
case $target in
    */autotest)
        mv "$target" "$target.arm64"
        printf '#!/bin/sh\nexec qemu-aarch64 "$0.arm64"\n' >"$target"
        chmod 755 "$target"
        ;;
esac
END
chmod 755 build/cc

echo "== the module"
cp -a /usr/share/nginx/src build/nginx
NGX_CONF_FLAGS=()
. build/nginx/conf_flags
(cd build/nginx && NGX_MACHINE=aarch64 ./configure --crossbuild=Linux:6.1:aarch64 --with-cc=/src/build/cc \
    "${NGX_CONF_FLAGS[@]}" --with-cc-opt='-g -O2' --add-dynamic-module=/src >configure.log) ||
    { tail -n 20 build/nginx/configure.log >&2; exit 1; }
make -s -C build/nginx -f objs/Makefile -j"$(nproc)" objs/$module.so

echo "== the tool"
make -s -C tool -j"$(nproc)" CXX=aarch64-linux-gnu-g++
qemu-aarch64 build/tool/sliding-log --version

echo "== the unit tests, without sanitizers, which do not run under qemu-user"
make -s -C t/unit -j"$(nproc)" CXX=aarch64-linux-gnu-g++ UNIT='$(CXXFLAGS) -O1' ../../build/unit/unit
qemu-aarch64 build/unit/unit --gtest_brief=1

echo "== Debian's nginx for arm64"
cat >build/nginx.conf <<END
load_module /src/build/nginx/objs/$module.so;
daemon off;
master_process off;
pid /src/build/nginx.pid;
error_log /src/build/error.log notice;
events { }
http {
    access_log off;
    client_body_temp_path /tmp; proxy_temp_path /tmp; fastcgi_temp_path /tmp; uwsgi_temp_path /tmp; scgi_temp_path /tmp;
    server {
        listen unix:/src/build/socket;
        location / { sliding_log_limit api key=k limit=2 window=1h store=local; empty_gif; }
    }
}
END
qemu-aarch64 /arm64/usr/sbin/nginx -e /src/build/error.log -c /src/build/nginx.conf &
trap 'kill $!' EXIT
for _ in {1..100}; do
    [ ! -S build/socket ] || break
    sleep 0.1
done
answers=$(for _ in 1 2 3; do curl -s -o /dev/null -w '%{http_code} ' --unix-socket build/socket http://localhost/; done)
grep -o 'sliding_log module.*' build/error.log
echo "answers: $answers"
[ "$answers" = '200 200 429 ' ] || { cat build/error.log >&2; exit 1; }
