# shellcheck shell=bash
# podman for the tests of images: its store is kept in the folder STORE, all else that it has ends with the namespaces of
# who sources this. To be sourced by a script that t/images/in_podman runs.
. t/packages/steps.sh

step() { echo "images: $*"; }
fail() {
    local name
    for name in $(podman ps --all --format '{{.Names}}'); do
        echo "-- $name" >&2
        podman logs "$name" >&2 || true
    done
    [ ! -f "$work/log" ] || tail -n 40 "$work/log" >&2
    echo "images: FAILED: $*" >&2
    exit 1
}

# What podman notes there is of this machine, and another podman's is not to be touched.
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /dev/shm
mkdir /run/lock
work=/run/images
mkdir "$work"
cat >"$work/storage.conf" <<CONF
[storage]
driver = "overlay"
graphroot = "$STORE"
runroot = "/run/storage"
CONF
# Limits of podman's own that exceed those of this machine could not be set.
cat >"$work/containers.conf" <<CONF
[containers]
default_ulimits = ["nofile=$(ulimit -Hn):$(ulimit -Hn)", "nproc=1000:1000"]
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
CONF
export CONTAINERS_STORAGE_CONF=$work/storage.conf CONTAINERS_CONF=$work/containers.conf
# a container of a build needs no network of its own
export BUILDAH_ISOLATION=chroot
