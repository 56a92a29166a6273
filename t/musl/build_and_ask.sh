#!/usr/bin/env bash
# Run by t/musl/in_debian in its Debian, where no dpkg and no apt is found.
set -euo pipefail
cd /src
module=ngx_http_sliding_log_module
nginx=/musl/nginx/sbin/nginx

# for_musl FILE...
for_musl() {
    local file
    for file; do
        ! readelf -d "$file" | grep -E 'NEEDED.*(libc\.so\.6|ld-linux|libstdc\+\+)' || exit 1
    done
}

echo "== $(readlink /bin/sh), $(busybox | head -n 1)"
./build.sh module --nginx $nginx --sources /musl/sources/nginx
built=$(echo build/nginx-*/$module.so)
make -s -C tool -j"$(nproc)"
make -s -C native -j"$(nproc)"
tool=build/tool/sliding-log native=build/native/redis_sliding_log.so
for_musl "$built" $tool $native
$tool --version

conf=/src/build/nginx.conf
cat >$conf <<END
load_module /src/$built;
user root;
daemon off;
pid /src/build/nginx.pid;
error_log /src/build/error.log notice;
events { }
http {
    access_log off;
    sliding_log_redis { server 127.0.0.1:6379; }
    server {
        listen 127.0.0.1:8080;
        location /local { sliding_log_limit local key=k limit=2 window=1h store=local; empty_gif; }
        location /log { sliding_log_limit log key=k limit=2 window=1h; empty_gif; }
        location /compact { sliding_log_limit compact key=k limit=2 window=1h algorithm=compact; empty_gif; }
    }
}
END
ip link set lo up
trap 'kill $(jobs -p) 2>/dev/null || true; wait' EXIT

# becomes COMMAND...: true within ten seconds
becomes() {
    local tries=0
    until "$@" >/dev/null 2>&1; do
        [ $((tries += 1)) -lt 100 ] || { echo "musl: not within ten seconds: $*" >&2; cat build/error.log >&2; exit 1; }
        sleep 0.1
    done
}
answers() { for _ in 1 2 3; do curl -s -o /dev/null -w '%{http_code}\n' "http://127.0.0.1:8080/$1"; done | tr '\n' ' '; }

# denies WHAT COMMAND...: nginx with a Redis that is started so
denies() {
    echo "== nginx and Redis, $1"
    rm -f build/error.log
    "${@:2}" --save '' --dir /src/build >build/redis.log 2>&1 &
    local redis=$! master location
    becomes redis-cli ping
    $nginx -e /src/build/error.log -c $conf &
    master=$!
    becomes curl -s http://127.0.0.1:8080/none
    for location in local log compact; do
        [ "$(answers $location)" = '200 200 429 ' ] || { cat build/error.log >&2; exit 1; }
    done
    $tool inspect log k --nginx-conf $conf
    kill -QUIT $master
    wait $master
    kill $redis
    wait $redis || true
}
denies 'by scripts' redis-server
denies 'by the native module' redis-server --loadmodule /src/$native
