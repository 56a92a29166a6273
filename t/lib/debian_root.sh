# shellcheck shell=bash
# Debian systems for tests, made by debootstrap. To be sourced by a script that runs as root.
# A system is made once, from the Debian mirror that apt uses here, and stored in $SLIDING_LOG_CACHE
# (/var/cache/ngx_http_sliding_log_module); remove this directory for newer packages. Without a mirror and without a
# stored system the test fails.

cache=${SLIDING_LOG_CACHE:-/var/cache/ngx_http_sliding_log_module}

fail() {
    echo "${0##*/}: $*" >&2
    exit 1
}

# isolated OPTION... COMMAND...: runs the command in new mount and process namespaces, which end with the command.
isolated() {
    setpriv --pdeathsig KILL unshare --mount --pid --fork --kill-child "$@" 9>&- &
    running=$!
    wait "$running"
}
trap 'kill -KILL "${running:-}" 2>/dev/null; exit 1' INT TERM HUP

# inside ROOT COMMAND...: the same in ROOT, with separate terminals; $isolation has further options of unshare
inside() {
    # shellcheck disable=SC2086
    isolated ${isolation-} --mount-proc="$1/proc" \
        sh -c 'mount -t devpts -o ptmxmode=666 devpts "$0/dev/pts" && exec chroot "$0" "$@"' "$1" \
        env PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive "${@:2}"
}

# lock_cache: locks the systems until this script ends, since another run may use one.
lock_cache() {
    [ "$(id -u)" -eq 0 ] || fail "needs root, to make a Debian and change into it"
    unshare --mount --pid --fork true 2>/dev/null || fail "needs the right to mount (CAP_SYS_ADMIN)"
    mkdir -p "$cache"
    exec 9>"$cache/lock"
    flock 9
}

# root_of NAME WORD...: prints the path of the system NAME for these words.
root_of() {
    echo "$cache/$1-$(printf '%s\n' "${@:2}" | LC_ALL=C sort -u | sha1sum | cut -c1-12)"
}

# make_root SUITE ROOT FURNISH PACKAGE...: makes a Debian with these packages, whose servers are not started, and calls
# the function FURNISH with its path. Systems with the name of ROOT for other words are removed.
make_root() {
    local suite=$1 root=$2 furnish=$3 new=$2.new log=$cache/log mirror
    mirror=$(. /etc/os-release && apt-get indextargets --format '$(REPO_URI) $(RELEASE)' 'Created-By: Packages' |
        awk -v release="$VERSION_CODENAME" '$2 == release { print $1; exit }')
    [ -n "$mirror" ] || fail "apt's sources name no mirror of this Debian to take $suite from"
    echo "${0##*/}: making a Debian $suite from $mirror" >&2
    rm -rf --one-file-system "${root%-*}"-*
    isolated debootstrap --variant=minbase "$suite" "$new" "$mirror" >"$log" 2>&1 ||
        { tail -n 20 "$log" >&2; fail "debootstrap from $mirror failed"; }
    printf '127.0.0.1 localhost\n::1 localhost\n' >"$new/etc/hosts"
    printf '#!/bin/sh\nexit 101\n' >"$new/usr/sbin/policy-rc.d" # packages do not start their servers
    chmod 755 "$new/usr/sbin/policy-rc.d"
    # the index of unstable expires after a week; a mirror may be older
    echo 'Acquire::Check-Valid-Until "false";' >"$new/etc/apt/apt.conf.d/any-age"
    inside "$new" sh -c 'apt-get update -q && apt-get install -qy --no-install-recommends "$@" && apt-get clean' sh \
        "${@:4}" >"$log" 2>&1 || { tail -n 20 "$log" >&2; fail "packages from $mirror could not be installed"; }
    "$furnish" "$new" >"$log" 2>&1 || { tail -n 20 "$log" >&2; fail "$furnish failed"; }
    mv "$new" "$root"
}
