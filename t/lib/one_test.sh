#!/usr/bin/env bash
# Runs a test for prove --merge. The stderr of the test goes to file descriptor 3, past prove: if prove saw any of it, it
# would wait for the next result of this test, and start no other until then. Without --merge, prove would also see the
# end of stderr.
#
# With TEST_OUT, the folder of what is built, a test of what is compiled runs under sanitizers. Others do not: those of
# the scripts, of the project and its documents, and those that need the speed of what is shipped.
set -euo pipefail
if [ -n "${TEST_OUT-}" ]; then
    case $1 in
        t/script_* | t/docs_* | t/project_* | t/*_under_load.t | t/failure_memory_after_a_spike.t) ;;
        *)
            out=$TEST_OUT
            . t/lib/sanitized.sh
            settings_of_sanitized
            ;;
    esac
fi
exec perl -It/lib "$1" 2>&3 3>&-
