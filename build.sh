#!/usr/bin/env bash
# Builds, shows, tests, measures and packages the module and its command-line tool.
# Usage: ./build.sh [TASK [ARGUMENT...]]   (without one: build). ./build.sh help lists the tasks.
# A task is a file in tasks/, whose head says what it does. This file has what several of them use.
# HIREDIS=1.2 ./build.sh ...: where the system's hiredis has no TLS, links one that is built (packaging/hiredis/static);
#   HIREDIS_DIR=DIR: links the one of DIR
# shellcheck disable=SC2034 # some lists are for tasks
set -euo pipefail
from=$PWD
cd "$(dirname "$0")"
root=$PWD
out=$root/build
module=ngx_http_sliding_log_module
jobs=$(nproc) # of a make

build_packages=(g++ make nginx nginx-dev libhiredis-dev libssl-dev libpcre2-dev zlib1g-dev)
behaviour_packages=(perl libyaml-libyaml-perl redis-server redis-tools curl nghttp2-client openssl prometheus python3-grpcio
    libnginx-mod-http-lua libnginx-mod-http-js libnginx-mod-http-headers-more-filter)
check_packages=("${build_packages[@]}" dpkg-dev libgtest-dev busybox "${behaviour_packages[@]}")
browser_packages=("${TEST_BROWSER-chromium}") # empty: none is needed, and t/page_dashboard_in_a_browser.t is skipped
packaging_packages=(rpm rpmlint rpm2cpio cpio dnf createrepo-c build-essential git gpg gpg-agent)
simulate_packages=("${build_packages[@]}" dpkg-dev liblua5.1-0-dev libnghttp2-dev redis-server)
lint_packages=(patch clang-format shellcheck libperl-critic-perl lua-check ruby-mdl yamllint)
sanitize_packages=("${build_packages[@]}" dpkg-dev "${behaviour_packages[@]}")

# need PACKAGE...: installs what is missing where that is possible, else says what is. A task asks for all that it
# needs before it begins.
need() {
    command -v dpkg-query >/dev/null || return 0 # not a Debian: configure and compilers name what they miss
    local missing=() package
    for package in $(printf '%s\n' "$@" | awk '!seen[$0]++'); do
        dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
    done
    [ ${#missing[@]} -eq 0 ] && return
    if [ "$(id -u)" -ne 0 ]; then
        echo "build.sh: missing packages; as root: apt-get install ${missing[*]}" >&2
        exit 1
    fi
    (
        flock 8 # another build.sh may install others
        echo "build.sh: installing ${missing[*]}" >&2
        apt-get update -qq
        # A package must not start its server, the system's own ports are none of our business: the first of these keeps
        # sysvinit from it, the second systemd.
        RUNLEVEL=1 SYSTEMD_OFFLINE=1 DEBIAN_FRONTEND=noninteractive \
            apt-get install -y -qq --no-install-recommends "${missing[@]}" >"$out/apt.log" 2>&1 ||
            { tail -n 20 "$out/apt.log" >&2; exit 1; }
    ) 8>"$out/apt.lock"
}

# For configure and make, HIREDIS_DIR is the folder of a static hiredis: a given one, or with HIREDIS one that is built where
# the system's has no TLS.
choose_hiredis() {
    if [ -n "${HIREDIS_DIR-}" ]; then
        HIREDIS_DIR=$(cd "$from" && realpath "$HIREDIS_DIR")
    elif [ -n "${HIREDIS-}" ]; then
        need g++ make libhiredis-dev libssl-dev
        HIREDIS_DIR=$(packaging/hiredis/static "$HIREDIS" "$out")
    fi
    export HIREDIS_DIR
}

# configured TREE CONFIGURE_ARGUMENT...: configures nginx's sources in TREE, once per state of what it depends on.
configured() {
    local tree=$1 state
    shift
    state=$(printf '%s\n' "$@"; dpkg-query -W nginx-dev libhiredis-dev; echo "${HIREDIS_DIR-} ${SLIDING_LOG_SEPARATE-}"; cat config config.make; find src lua -type f | LC_ALL=C sort)
    [ "$state" = "$(cat "$tree/state" 2>/dev/null)" ] && return
    rm -rf "$tree/objs/addon" # objects of files that are no more
    (cd "$tree" && if ! ./configure "$@" >configure.log 2>&1; then tail -n 20 configure.log >&2; exit 1; fi)
    printf '%s' "$state" >"$tree/state"
}

# compiled WHAT MAKE_ARGUMENT...: makes it, and tells how far it is at each tenth of the files.
compiled() {
    local what=$1 all made=0 line
    shift
    all=$(make -n "$@" | grep -c ' -c ') || true
    [ "$all" -eq 0 ] || echo "compiling $what: $all files" >&2
    make -j"$jobs" "$@" | while IFS= read -r line; do
        [[ $line == *' -c '* ]] || continue
        made=$((made + 1))
        [ $((made * 10 / all)) -eq $(((made - 1) * 10 / all)) ] || echo "compiling $what: file $made of $all" >&2
    done
}

# The nginx module alone, for Debian's nginx. -g1: a backtrace has lines of code; variables, which packages have, take a
# fourth of the time to compile.
build_module() {
    local tree=$out/nginx sources NGX_CONF_FLAGS=()
    choose_hiredis
    sources=$(dirname "$(dpkg -L nginx-dev | grep -m1 '/configure$')")
    [ -d "$tree" ] || cp -a "$sources" "$tree"
    . "$sources/conf_flags" # of Debian's own nginx: a dynamic module must be built with the same
    configured "$tree" "${NGX_CONF_FLAGS[@]}" --with-cc-opt='-g1 -O2' --add-dynamic-module="$root"
    compiled 'the nginx module' -C "$tree" -f objs/Makefile modules
    install -m 644 "$tree/objs/$module.so" "$out/" # a new file: an nginx may have the old one loaded
}

build() {
    need "${build_packages[@]}"
    build_module
    compiled 'the tool' -C tool
    install -m 755 "$out/tool/sliding-log" "$out/"
    compiled 'the module for Redis' -C native
    install -m 755 "$out/native/redis_sliding_log.so" "$out/" # Redis loads what may be executed
    echo "built build/$module.so, build/sliding-log and build/redis_sliding_log.so" >&2
}

# nginx with the module linked in, as a shared object, and the world around it, in build/simulate. The objects of the module
# are those that ship. With "steps" there is another nginx, which tells of its accesses to memory, as for ThreadSanitizer
# (t/simulate/steps.cpp).
build_simulation() {
    t/lib/nginx_sources.sh
    mkdir -p "$out/simulate"
    build_module
    configured_for_simulation "$out/simulate/nginx" '-g1 -O1 -fPIC' # its own sources; what is ours is compiled already
    cp -r "$out/nginx/objs/addon" "$out/simulate/nginx/objs/" # newer than all that they depend on
    compiled_for_simulation "$out/simulate/nginx"
    if [ "${1-}" = steps ]; then
        configured_for_simulation "$out/simulate/nginx_steps" \
            '-g1 -O2 -fPIC -fsanitize=thread -Wno-tsan --param=tsan-instrument-func-entry-exit=0'
        compiled_for_simulation "$out/simulate/nginx_steps"
    fi
    compiled 'the simulation' -C t/simulate "NGINX_COPIES=nginx ${1:+nginx_steps}"
}

# It has those of nginx's parts that what a module sees of nginx depends on (src/core/ngx_module.h), as Debian's nginx, and
# few others.
configured_for_simulation() { # FOLDER OPTIONS-OF-CC [CONFIGURE_ARGUMENT...]
    [ -d "$1" ] || cp -a "$out/nginx-sources" "$1"
    configured "$1" --prefix=/nonexistent --with-compat --with-debug --with-http_realip_module --with-http_dav_module \
        --with-http_v2_module --with-cc-opt="$2" --add-module="$root" "${@:3}"
}

compiled_for_simulation() { # FOLDER
    # its objects alone: a program would need the sanitizer's library
    compiled "${1##*/} for the simulation" -C "$1" -f objs/Makefile LINK='>objs/nginx; :' binary
}

# at_once COMMAND...: does these beside each other, so that no CPU waits for the last file of one of them. Each make has
# half of the jobs, those of the first command, which takes longest, all. What two of them would make has to be there.
at_once() {
    local command child children=() failed=0 half=$(((jobs + 1) / 2)) jobs=$jobs
    for command in "$@"; do
        (eval "$command") &
        children+=($!)
        jobs=$half
    done
    for child in "${children[@]}"; do
        wait "$child" || failed=1
    done
    return $failed
}

# task NAME [ARGUMENT...]: does a task, in a shell of its own.
task() (
    local file=tasks/$1
    shift # a file that is read without arguments has those of this function
    # shellcheck disable=SC1090
    . "$file"
)

# Prints the heads of the tasks.
help() {
    echo "usage: ./build.sh [TASK [ARGUMENT...]]"
    local file
    for file in tasks/*; do
        sed -n '/^# shellcheck/q; 1s/^# /  /p; 2,$s/^# /      /p' "$file"
    done
}

name=${1:-build}
if [ "$name" = help ]; then
    help
elif [[ $name == */* || ! -f tasks/$name ]]; then
    echo "build.sh: \"$name\" is no task; ./build.sh help lists them" >&2
    exit 2
else
    mkdir -p "$out"
    task "$name" "${@:2}"
fi
