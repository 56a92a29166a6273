#!/usr/bin/env bash
# Brings Debian's source package of nginx, once, to build/nginx-sources, since nginx-dev has no .c files: through lists of
# its own, so that the system's apt configuration stays as it is.
set -euo pipefail
cd "$(dirname "$0")/../.."

out=$PWD/build
tree=$out/nginx-sources
apt=$out/apt
[ -d "$tree" ] && exit
rm -rf "$apt"
mkdir -p "$apt/sources.list.d" "$apt/lists/partial" "$apt/unpacked"
for list in /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list; do
    [ -f "$list" ] && sed -E 's/^Types:.*/Types: deb-src/; s/^deb /deb-src /' "$list" \
        >"$apt/sources.list.d/source.${list##*.}"
done
options=(-o Dir::Etc::SourceList=/dev/null -o Dir::Etc::SourceParts="$apt/sources.list.d"
    -o Dir::State::Lists="$apt/lists" -o APT::Sandbox::User=)
apt-get update -qq "${options[@]}"
# an archive's list may name a version that its pool has no more, or not yet: any of the release's will do, at last
# without Debian's own changes (--tar-only)
for part in '' --tar-only; do
    for version in $(apt-cache "${options[@]}" showsrc nginx | sed -n 's/^Version: //p' | sort -rV); do
        (cd "$apt/unpacked" && apt-get source -qq "${options[@]}" $part nginx="$version" >/dev/null &&
            { [ -z "$part" ] || tar -xf nginx_*.orig.tar.*z; }) && break 2
        rm -rf "$apt/unpacked" && mkdir "$apt/unpacked"
    done
done
mv "$apt"/unpacked/nginx-*/ "$tree"
