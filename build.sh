#!/usr/bin/env bash
# Builds, shows, tests, measures and packages the module and its command-line tool.
# Usage: ./build.sh [build|module|deb|debtest|release|demo|lint|check|native|sanitize|test|older|debian13|newest|arm64|images|fuzz|soak|chaos|bench]
#   build is the default; module --nginx BINARY --sources DIR [--deb] [--rpm]: for another nginx, in build/nginx-VERSION;
#   deb: Debian packages, in build/deb; debtest: these, looked at by lintian, then installed, upgraded and removed in a
#   clean Debian, as root; release [TAG]: what is published of a version, in build/release (packaging/release);
#   lint: layout and habits of all that is written here;
#   check [TEST...]: unit and behaviour tests; sanitize [TEST...]: behaviour tests under sanitizers;
#   native [TEST...]: tests that ask Redis, decided by its native module;
#   test: lint, check, native and sanitize; older [TEST...]: compiled by g++ 11, and tests of TLS with a hiredis 1.2;
#   debian13 [packages|system]: what depends on packages, or deb and debtest, in a Debian 13, or makes only this, as root;
#   newest: check in a Debian unstable of today, as root; arm64: cross-built, and unit tests under qemu-user, as root;
#   images: built with podman, and what runs in them, as root;
#   fuzz [SECONDS]: 600 for each target; soak [MINUTES [SEED]]: ten minutes of mixed load with random faults;
#   chaos [MINUTES [cluster|sentinel [SEED]]]: ten minutes of random faults in a Cluster and behind Sentinels each;
#   bench [fleet|worst|attack] [OPTION...]: see bench/run
# HIREDIS=1.2 ./build.sh ...: where the system's hiredis has no TLS, links one that is built (packaging/hiredis/static);
#   HIREDIS_DIR=DIR: links the one of DIR
set -euo pipefail
from=$PWD
cd "$(dirname "$0")"
root=$PWD
out=$root/build
module=ngx_http_sliding_log_module

build_packages=(g++ make nginx nginx-dev libhiredis-dev libssl-dev libpcre2-dev zlib1g-dev)
demo_packages=("${build_packages[@]}" redis-server redis-tools curl)
bench_packages=("${build_packages[@]}" redis-server redis-tools wrk perl libnginx-mod-http-lua lua-nginx-redis)
behaviour_packages=(perl libyaml-libyaml-perl redis-server redis-tools curl nghttp2-client openssl prometheus python3-grpcio
    libnginx-mod-http-lua libnginx-mod-http-headers-more-filter)
check_packages=("${build_packages[@]}" dpkg-dev libgtest-dev busybox "${behaviour_packages[@]}")
browser_packages=("${TEST_BROWSER-chromium}") # empty: none is needed, and t/page_dashboard_in_a_browser.t is skipped
packaging_packages=(rpm rpmlint rpm2cpio cpio dnf createrepo-c build-essential git gpg gpg-agent)
images_packages=(podman runc netavark aardvark-dns iptables podman-compose iproute2 curl perl libyaml-libyaml-perl debootstrap)
lint_packages=(clang-format shellcheck libperl-critic-perl lua-check ruby-mdl yamllint)
sanitize_packages=("${build_packages[@]}" dpkg-dev "${behaviour_packages[@]}")

# need PACKAGE...: installs what is missing where that is possible, else says what is. A command asks for all that it
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
    state=$(printf '%s\n' "$@"; dpkg-query -W nginx-dev libhiredis-dev; echo "${HIREDIS_DIR-}"; cat config config.make; find src lua -type f | LC_ALL=C sort)
    [ "$state" = "$(cat "$tree/state" 2>/dev/null)" ] && return
    (cd "$tree" && if ! ./configure "$@" >configure.log 2>&1; then tail -n 20 configure.log >&2; exit 1; fi)
    printf '%s' "$state" >"$tree/state"
}

# compiled WHAT MAKE_ARGUMENT...: makes it, and tells how far it is at each tenth of the files.
compiled() {
    local what=$1 all made=0 line
    shift
    all=$(make -n "$@" | grep -c ' -c ') || true
    [ "$all" -eq 0 ] || echo "compiling $what: $all files" >&2
    make -j"$(nproc)" "$@" | while IFS= read -r line; do
        [[ $line == *' -c '* ]] || continue
        made=$((made + 1))
        [ $((made * 10 / all)) -eq $(((made - 1) * 10 / all)) ] || echo "compiling $what: file $made of $all" >&2
    done
}

# The nginx module alone, for Debian's nginx.
build_module() {
    local tree=$out/nginx sources NGX_CONF_FLAGS=()
    choose_hiredis
    sources=$(dirname "$(dpkg -L nginx-dev | grep -m1 '/configure$')")
    [ -d "$tree" ] || cp -a "$sources" "$tree"
    . "$sources/conf_flags" # of Debian's own nginx: a dynamic module must be built with the same
    configured "$tree" "${NGX_CONF_FLAGS[@]}" --with-cc-opt='-g -O2' --add-dynamic-module="$root"
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

# build_for_another --nginx BINARY --sources DIR [--deb] [--rpm]
build_for_another() {
    local usage="usage: ./build.sh module --nginx BINARY --sources DIR [--deb] [--rpm]" binary='' sources='' kinds=() tools=()
    while [ $# -gt 0 ]; do
        case $1 in
            --nginx) binary=${2-}; shift ;;
            --sources) sources=${2-}; shift ;;
            --deb) kinds+=(deb); tools+=(dpkg-dev) ;;
            --rpm) kinds+=(rpm); tools+=(rpm) ;;
            *) binary=''; break ;;
        esac
        shift || break
    done
    if [ -z "$binary" ] || [ -z "$sources" ]; then
        echo "$usage" >&2
        exit 2
    fi
    need g++ make libhiredis-dev libssl-dev libpcre2-dev zlib1g-dev "${tools[@]}"
    choose_hiredis
    (cd "$from" && "$root/packaging/module" "$binary" "$sources" "$out" "${kinds[@]}")
}

# Debian packages for the nginx of this Debian. They are made of a copy, since dpkg-buildpackage writes into the sources
# and beside them. It would ask for all of build-essential.
deb() {
    need "${build_packages[@]}" dpkg-dev
    choose_hiredis
    local packages=$out/deb
    rm -rf "$packages"
    mkdir -p "$packages/sources"
    echo "making packages, which takes some minutes; build/deb/log has the output" >&2
    tar --exclude=./build --exclude=./.git -cf - . | tar -xf - -C "$packages/sources"
    (cd "$packages/sources" && DEB_BUILD_OPTIONS="parallel=$(nproc) ${DEB_BUILD_OPTIONS-}" \
        dpkg-buildpackage --build=binary --no-sign --no-check-builddeps) >"$packages/log" 2>&1 ||
        { tail -n 20 "$packages/log" >&2; exit 1; }
    (cd "$root" && printf 'built %s\n' build/deb/*.deb) >&2
}

examine_packages() {
    lintian --allow-root --fail-on error,warning "$out"/deb/*.changes
}

# The inputs that fuzzing has found worth keeping, without a fuzzer.
replay_corpus() {
    make -s -C t/fuzz -j"$(nproc)"
    local inputs
    for inputs in t/fuzz/corpus/*; do
        "$out/fuzz/${inputs##*/}" "$inputs"/*
    done
}

# fuzz SECONDS: a finding ends it, with the input in build/fuzzers. An input that reaches code which the corpus does not
# is added to the corpus.
fuzz() {
    need clang libclang-rt-dev libhiredis-dev libssl-dev
    make -s -C t/fuzz -j"$(nproc)" CXX=clang++ FUZZER=1 OUT="$out/fuzzers"
    local corpus target found
    for corpus in t/fuzz/corpus/*; do
        target=${corpus##*/}
        found=$out/fuzzers/found/$target
        mkdir -p "$found"
        echo "fuzzing $target" >&2
        "$out/fuzzers/$target" -max_total_time="$1" -max_len=4096 -timeout=10 -dict=t/fuzz/resp.dict -print_final_stats=1 \
            -artifact_prefix="$out/fuzzers/$target-" "$found" "$corpus" >"$found.log" 2>&1 ||
            { tail -n 40 "$found.log" >&2; exit 1; }
        grep -E 'DONE|new_units_added' "$found.log" >&2
        "$out/fuzzers/$target" -merge=1 -use_counters=0 "$corpus" "$found" >"$found.merge.log" 2>&1
    done
}

# What other versions of these tools complain of differs: Debian 12's are the ones that have to be quiet.
lint() {
    need "${lint_packages[@]}"
    find src tool native t \( -name '*.cpp' -o -name '*.hpp' \) -print0 | xargs -0 clang-format --dry-run -Werror
    shellcheck build.sh demo.sh .ci/run packaging/bash/* packaging/hiredis/* packaging/module packaging/kubernetes/monitoring packaging/pinned/{package,upgrade-waits} \
        packaging/pkg-oss/add packaging/release/{make,checksums,join,lint,sign} t/arm64 t/images/in_podman t/images/*.sh t/older t/other_debian t/prove t/packages/* t/lib/*.sh
    perlcritic --quiet bench t packaging/release
    packaging/release/lint
    luacheck --quiet --no-color lua bench
    mdl --style .mdl_style.rb ./*.md docs
}

# check [TEST...]: all behaviour tests, or these
check() {
    need "${check_packages[@]}" "${browser_packages[@]}" "${packaging_packages[@]}"
    build
    # TEST_SOURCES=optional: t/project_any_nginx.t is skipped where they are missing
    fetch_nginx_sources || [ "${TEST_SOURCES-}" = optional ]
    fetch_kubernetes_schemas || echo "build.sh: no schemas of Kubernetes by npm, so no test checks manifests by them" >&2
    make -s -C t/unit -j"$(nproc)"
    "$out/unit/unit" --gtest_brief=1
    "$out/unit/shared" --gtest_brief=1
    replay_corpus
    t/prove "$@"
}

# native [TEST...]: these tests, or those of deciding, decided by the native module.
native() {
    local of_scripts=(contract counter bucket sampled clocks_of_callers beyond_a_limit override inflight)
    local of_limits=(model several_limits refund delay blocks_end_with_refunds is_exact_over_nodes clock_nginx prefetch override \
        override_model inflight)
    local of_stores=(cluster cluster_override cluster_slot_under_way cluster_migration)
    local tests=()
    [ $# -gt 0 ] || tests=("${of_scripts[@]/#/script_}" "${of_limits[@]/#/limit_}" "${of_stores[@]/#/store_}" \
        failure_corrupt_logs failure_inflight failure_redis_refuses_under_load failure_redis_evicts_under_load request_redirects_model)
    tests=("${tests[@]/#/t/}")
    build
    TEST_NATIVE=1 t/prove "${@:-"${tests[@]/%/.t}"}"
}

# An nginx with the module linked in, and the tool and the module for Redis, under AddressSanitizer and UBSan, and with one malloc per pool allocation
# (NGX_DEBUG_PALLOC), so that a use after free of pool memory shows. This also proves the static build.
build_sanitized() {
    need "${sanitize_packages[@]}"
    choose_hiredis
    # -g1: a report needs lines of code, and variables take a tenth of the time to compile
    local tree=$out/nginx-sanitized flags='-g1 -fsanitize=address,undefined -fno-sanitize-recover=undefined'
    # nginx itself leans on these three everywhere; UBSan still checks the rest
    flags+=' -fno-sanitize=alignment,pointer-overflow,nonnull-attribute -fno-omit-frame-pointer'
    fetch_nginx_sources
    [ -d "$tree" ] || cp -a "$out/nginx-sources" "$tree"
    configured "$tree" --prefix="$out" --with-debug --with-compat --with-pcre-jit --with-http_ssl_module \
        --with-http_stub_status_module --with-http_realip_module --with-http_auth_request_module \
        --with-http_v2_module --with-cc-opt="-O1 -DNGX_DEBUG_PALLOC=1 $flags" --with-ld-opt="$flags" \
        --add-module="$root"
    make -s -C "$tree" -f objs/Makefile -j"$(nproc)" binary
    make -s -C tool -j"$(nproc)" OUT="$out/tool-sanitized" EXTRA="-O0 $flags"
    make -s -C native -j"$(nproc)" OUT="$out/native-sanitized" EXTRA="-O1 $flags"
}

# sanitized COMMAND...: runs tests over that nginx.
sanitized() {
    # a small quarantine, so that memory that grows shows
    ASAN_OPTIONS=detect_leaks=0:abort_on_error=0:quarantine_size_mb=16 UBSAN_OPTIONS=print_stacktrace=1 \
        TEST_SLOW=${TEST_SLOW:-6} TEST_NGINX_BINARY=$out/nginx-sanitized/objs/nginx TEST_NGINX_MODULE='' \
        TEST_TOOL=$out/tool-sanitized/sliding-log TEST_NATIVE_MODULE=$out/native-sanitized/redis_sliding_log.so \
        TEST_PRELOAD=$(g++ -print-file-name=libasan.so) "$@"
}

# sanitize [TEST...]: the same suite, or these of it, over that nginx. Of the scripts alone nothing is compiled, and what
# is said of the project and its documents is as true as without.
sanitize() {
    build_sanitized
    local tests=()
    [ $# -gt 0 ] || mapfile -t tests < <(printf '%s\n' t/*.t | grep -vE '^t/(script|docs|project)_')
    sanitized t/prove "${@:-"${tests[@]}"}"
}

# soak MINUTES [SEED]
soak() {
    build_sanitized
    sanitized perl -It/lib t/soak/soak.pl "$@"
}

# chaos MINUTES [cluster|sentinel [SEED]]: without a topology in both, one after the other
chaos() {
    build_sanitized
    local topology
    for topology in ${2:-cluster sentinel}; do
        sanitized perl -It/lib t/soak/chaos.pl "$1" "$topology" "${@:3}"
    done
}

# Brings Debian's source package of nginx, once, to build/nginx-sources, since nginx-dev has no .c files: through lists of
# its own, so that the system's apt configuration stays as it is.
fetch_nginx_sources() {
    local tree=$out/nginx-sources apt=$out/apt
    [ -d "$tree" ] && return
    rm -rf "$apt"
    mkdir -p "$apt/sources.list.d" "$apt/lists/partial" "$apt/unpacked"
    local list
    for list in /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list; do
        [ -f "$list" ] && sed -E 's/^Types:.*/Types: deb-src/; s/^deb /deb-src /' "$list" \
            >"$apt/sources.list.d/source.${list##*.}"
    done
    local options=(-o Dir::Etc::SourceList=/dev/null -o Dir::Etc::SourceParts="$apt/sources.list.d"
        -o Dir::State::Lists="$apt/lists" -o APT::Sandbox::User=)
    apt-get update -qq "${options[@]}"
    # an archive's list may name a version that its pool has no more, or not yet: any of the release's will do, at last
    # without Debian's own changes (--tar-only)
    local version part
    for part in '' --tar-only; do
        for version in $(apt-cache "${options[@]}" showsrc nginx | sed -n 's/^Version: //p' | sort -rV); do
            (cd "$apt/unpacked" && apt-get source -qq "${options[@]}" $part nginx="$version" >/dev/null &&
                { [ -z "$part" ] || tar -xf nginx_*.orig.tar.*z; }) && break 2
            rm -rf "$apt/unpacked" && mkdir "$apt/unpacked"
        done
    done
    mv "$apt"/unpacked/nginx-*/ "$tree"
}

# Brings schemas of Kubernetes and of Prometheus's operator, once, to build/kubernetes, where npm is installed.
fetch_kubernetes_schemas() {
    local folder=$out/kubernetes
    [ -d "$folder" ] && return
    command -v npm >/dev/null || return
    rm -rf "$folder.new"
    mkdir -p "$folder.new"
    npm install --prefix "$folder.new" --no-save --no-audit --no-fund kubernetes-models@5.1.0 \
        @kubernetes-models/prometheus-operator@6.0.0 @kubernetes-models/gateway-api@2.0.0 typescript@5.9.3 \
        >"$out/npm.log" 2>&1 || return
    mv "$folder.new" "$folder"
}

case ${1:-build} in
    build | module | deb | debtest | release | demo | lint | check | native | sanitize | test | older | debian13 | newest | arm64 | images | fuzz | soak | chaos | bench) mkdir -p "$out" ;;
    *) echo "usage: ./build.sh [build|module|deb|debtest|release|demo|lint|check|native|sanitize|test|older|debian13|newest|arm64|images|fuzz|soak|chaos|bench]" >&2; exit 2 ;;
esac
case ${1:-build} in
    build) build ;;
    module) build_for_another "${@:2}" ;;
    deb) deb ;;
    debtest)
        need "${build_packages[@]}" dpkg-dev debootstrap lintian
        deb
        examine_packages
        t/packages/in_clean_debian "$(. /etc/os-release && echo "$VERSION_CODENAME")" "$out"/deb/*.deb
        ;;
    release)
        need "${build_packages[@]}" build-essential git # without the former, dpkg's record of a build lacks the compiler
        packaging/release/make "${@:2}"
        ;;
    demo)
        need "${demo_packages[@]}"
        build_module
        ./demo.sh
        ;;
    lint) lint ;;
    check) check "${@:2}" ;;
    native) native "${@:2}" ;;
    sanitize) sanitize "${@:2}" ;;
    test)
        need "${lint_packages[@]}" "${check_packages[@]}" "${browser_packages[@]}" "${packaging_packages[@]}" "${sanitize_packages[@]}"
        lint
        check
        native
        sanitize
        ;;
    older)
        need "${build_packages[@]}" g++-11 "${behaviour_packages[@]}"
        HIREDIS=1.2 choose_hiredis
        t/older "${@:2}"
        ;;
    debian13)
        need debootstrap
        [ "${2-}" != packages ] || exec t/other_debian trixie packages "${build_packages[@]}" dpkg-dev
        exec t/other_debian trixie "${2:-check}" "${check_packages[@]}" "${sanitize_packages[@]}" valkey-server
        ;;
    newest)
        need debootstrap
        t/other_debian sid check "${check_packages[@]}" "${sanitize_packages[@]}" valkey-server
        ;;
    arm64)
        need debootstrap
        t/arm64
        ;;
    images)
        need "${images_packages[@]}"
        t/images/in_podman
        ;;
    fuzz) fuzz "${2:-600}" ;;
    soak) shift; soak "${@:-10}" ;;
    chaos) shift; chaos "${@:-10}" ;;
    bench)
        need "${bench_packages[@]}"
        build
        bench/run "${@:2}"
        ;;
esac
