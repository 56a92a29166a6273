# shellcheck shell=bash disable=SC2154
# To be sourced by a task of build.sh.

# all_built: builds all that the behaviour tests need.
all_built() {
    build
    # TEST_SOURCES=optional: t/project_any_nginx.t and t/project_simulation.t are skipped where they are missing
    if t/lib/nginx_sources.sh; then
        build_simulation
    else
        [ "${TEST_SOURCES-}" = optional ]
    fi
    t/lib/kubernetes_schemas.sh || echo "build.sh: no schemas of Kubernetes by npm, so no test checks manifests by them" >&2
}

# unit_tests: runs the unit tests, and replays what fuzzing found.
unit_tests() {
    make -s -C t/unit -j"$jobs"
    "$out/unit/unit" --gtest_brief=1
    "$out/unit/shared" --gtest_brief=1

    # The inputs that fuzzing has found worth keeping, without a fuzzer.
    make -s -C t/fuzz -j"$jobs"
    for inputs in t/fuzz/corpus/*; do
        "$out/fuzz/${inputs##*/}" "$inputs"/*
    done
}
