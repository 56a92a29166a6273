# shellcheck shell=bash
# Builds the images, and before them what they are made from. Run by t/images/in_podman.
# Usage: build.sh DEBIAN   (the root of a Debian)
set -euo pipefail
. t/images/podman.sh

# built NAME COMMAND...: the image NAME is there then.
built() {
    step "building $1"
    "${@:2}" >"$work/log" 2>&1 || fail "$1 could not be built"
    podman image exists "$1" || fail "$1 was not built"
}
# build NAME OPTION...
build() { built "$1" podman build -t "$@"; }

base=docker.io/library/debian:trixie-slim
if [ "$(podman image inspect --format '{{.Comment}}' "$base" 2>/dev/null)" != "$1" ]; then
    step "a Debian for $base"
    tar -C "$1" --one-file-system -cf - . | podman import --quiet --message "$1" - "$base" >/dev/null
fi
mkdir "$work/empty"
build docker.io/library/redis:8 -f t/images/redis.Dockerfile "$work/empty"
build docker.io/prom/prometheus:v3.0.1 -f t/images/prometheus.Dockerfile "$work/empty"
build docker.io/library/nginx:stable -f t/images/nginx.Dockerfile "$work/empty"

built localhost/nginx-sliding-log podman-compose build node1 # of the own Dockerfile
build localhost/official-sliding-log --build-arg DOWNLOAD=file:///download -f packaging/docker-nginx/Dockerfile .
build localhost/controller-sliding-log --build-arg DOWNLOAD=file:///download --build-arg CONFIGURATION= --build-arg USER=101 \
    -f packaging/docker-nginx/Dockerfile .

# Layers that no image has, as those of stages, serve the next builds; those of older sources never again.
podman image prune --force --filter until=48h >"$work/log" 2>&1 || fail 'podman image prune'
