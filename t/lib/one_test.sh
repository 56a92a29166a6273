#!/bin/sh
# Runs a test for t/prove. What it writes to stderr goes to file descriptor 3, past prove, which else would wait for this
# test's next result and start no other until then.
exec perl -It/lib "$1" 2>&3 3>&-
