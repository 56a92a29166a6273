#!/usr/bin/env bash
# Builds, shows, tests and measures the module. Usage: ./build.sh [build|demo|test|bench]
set -euo pipefail
cd "$(dirname "$0")"
root=$PWD
out=$root/build

# Installs what is missing where that is possible, else says what is.
need() {
    local missing=()
    for package in "$@"; do
        dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
    done
    [ ${#missing[@]} -eq 0 ] && return
    if [ "$(id -u)" -ne 0 ]; then
        echo "build.sh: missing packages; as root: apt-get install ${missing[*]}" >&2
        exit 1
    fi
    echo "build.sh: installing ${missing[*]}" >&2
    # a package must not start its server: the system's own ports are none of our business
    apt-get update -qq
    RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}

build() {
    need g++ make nginx nginx-dev libhiredis-dev libssl-dev libpcre2-dev zlib1g-dev
    local tree=$out/nginx source
    source=$(dirname "$(dpkg -L nginx-dev | grep -m1 '/configure$')")
    mkdir -p "$tree"
    # configured anew only when nginx-dev or the list of sources is another
    local state
    state=$(dpkg-query -W nginx-dev && cat config config.make && find src lua -type f | LC_ALL=C sort)
    if [ "$state" != "$(cat "$tree/state" 2>/dev/null)" ]; then
        rm -rf "$tree"
        cp -a "$source" "$tree"
        (
            cd "$tree"
            NGX_CONF_FLAGS=()
            # shellcheck disable=SC1091
            . ./conf_flags
            ./configure "${NGX_CONF_FLAGS[@]}" --with-cc-opt="-g -O2" --add-dynamic-module="$root" >configure.log 2>&1 ||
                { tail -n 20 configure.log >&2; exit 1; }
        )
        printf '%s' "$state" >"$tree/state"
    fi
    make -s -C "$tree" -f objs/Makefile -j"$(nproc)" modules
    cp "$tree/objs/ngx_http_sliding_log_module.so" "$out/"
    echo "built build/ngx_http_sliding_log_module.so" >&2
}

case ${1:-build} in
    build) build ;;
    *) echo "usage: ./build.sh [build|demo|test|bench]" >&2; exit 2 ;;
esac
