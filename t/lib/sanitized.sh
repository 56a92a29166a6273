# shellcheck shell=bash disable=SC2154
# Tests under sanitizers. To be sourced by a task of build.sh.

# build_sanitized: an nginx with the module linked in, and the tool and the module for Redis, under AddressSanitizer and
# UBSan, and with one malloc per pool allocation (NGX_DEBUG_PALLOC), so that a use after free of pool memory shows. This
# also proves the static build.
build_sanitized() {
    need "${sanitize_packages[@]}"
    choose_hiredis
    # -g1: a report needs lines of code, and variables take a tenth of the time to compile
    local tree=$out/nginx-sanitized flags='-g1 -fsanitize=address,undefined -fno-sanitize-recover=undefined'
    # nginx itself leans on three of these everywhere, and AddressSanitizer tells of null as well; UBSan checks the rest
    flags+=' -fno-sanitize=alignment,pointer-overflow,nonnull-attribute,null -fno-omit-frame-pointer'
    t/lib/nginx_sources.sh
    [ -d "$tree" ] || cp -a "$out/nginx-sources" "$tree"
    configured "$tree" --prefix="$out" --with-debug --with-compat --with-pcre-jit --with-http_ssl_module \
        --with-http_stub_status_module --with-http_realip_module --with-http_auth_request_module \
        --with-http_v2_module --with-cc-opt="-O0 -DNGX_DEBUG_PALLOC=1 $flags" --with-ld-opt="$flags" \
        --add-module="$root"
    make -s -C "$tree" -f objs/Makefile -j"$jobs" binary
    make -s -C tool -j"$jobs" PRECOMPILED=1 OUT="$out/tool-sanitized" EXTRA="-O0 $flags"
    make -s -C native -j"$jobs" PRECOMPILED=1 OUT="$out/native-sanitized" EXTRA="-O0 $flags"
}

# sanitized COMMAND...: runs tests over that nginx.
sanitized() {
    (
        settings_of_sanitized
        "$@"
    )
}

# The environment of tests over that nginx.
settings_of_sanitized() {
    # a small quarantine, so that memory that grows shows
    export ASAN_OPTIONS=detect_leaks=0:abort_on_error=0:quarantine_size_mb=16 UBSAN_OPTIONS=print_stacktrace=1
    export TEST_SLOW=${TEST_SLOW:-6} TEST_NGINX_BINARY=$out/nginx-sanitized/objs/nginx TEST_NGINX_MODULE=''
    export TEST_TOOL=$out/tool-sanitized/sliding-log TEST_NATIVE_MODULE=$out/native-sanitized/redis_sliding_log.so
    TEST_PRELOAD=$(g++ -print-file-name=libasan.so)
    export TEST_PRELOAD
}
