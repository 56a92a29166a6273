#!/bin/sh
# Runs a test for prove --merge. What the test writes to stderr goes to file descriptor 3, past prove: having seen any of
# it, prove would wait for this test's next result and start no other until then. --merge, since the end of stderr is
# seen, too.
exec perl -It/lib "$1" 2>&3 3>&-
