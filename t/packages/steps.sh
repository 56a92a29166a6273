# shellcheck shell=bash
# Functions for the scripts here. To be sourced by one that runs as root in a system that is thrown away. The output of
# its commands is in the file `log`.

step() { echo "packages: $*"; }
fail() {
    cat log /var/log/nginx/error.log >&2 || true
    echo "packages: FAILED: $*" >&2
    exit 1
}
# quiet COMMAND...: its output is shown if something fails.
quiet() { echo "+ $*" >>log; "$@" >>log 2>&1; }
# holds WHAT COMMAND...
holds() { "${@:2}" || fail "$1"; }
# fails WHAT COMMAND...
fails() { ! quiet "${@:2}" || fail "$1"; }
# equal WHAT GOT EXPECTED
equal() { [ "$2" = "$3" ] || fail "$1: \"$2\", expected \"$3\""; }
# becomes WHAT COMMAND...: true within two minutes
becomes() {
    local tries=0
    until "${@:2}"; do
        [ $((tries += 1)) -lt 1200 ] || fail "$1"
        sleep 0.1
    done
}
