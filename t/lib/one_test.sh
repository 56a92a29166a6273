#!/bin/sh
# Runs a test for prove --merge. The stderr of the test goes to file descriptor 3, past prove: if prove saw any of it, it
# would wait for the next result of this test, and start no other until then. Without --merge, prove would also see the
# end of stderr.
exec perl -It/lib "$1" 2>&3 3>&-
