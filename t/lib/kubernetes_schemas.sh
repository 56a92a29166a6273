#!/usr/bin/env bash
# Brings schemas of Kubernetes and of Prometheus's operator, once, to build/kubernetes, where npm is installed.
set -euo pipefail
cd "$(dirname "$0")/../.."

out=$PWD/build
folder=$out/kubernetes
[ -d "$folder" ] && exit
command -v npm >/dev/null || exit
rm -rf "$folder.new"
mkdir -p "$folder.new"
npm install --prefix "$folder.new" --no-save --no-audit --no-fund kubernetes-models@5.1.0 \
    @kubernetes-models/prometheus-operator@6.0.0 @kubernetes-models/gateway-api@2.0.0 typescript@5.9.3 \
    >"$out/npm.log" 2>&1 || exit
mv "$folder.new" "$folder"
