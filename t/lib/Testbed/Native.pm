package Testbed::Native;

# The native module for Redis.

use strict;
use warnings;
use Cwd ();
use Exporter 'import';
use File::Basename ();

our @EXPORT_OK = qw(native_module);

# Its file: of the build, or TEST_NATIVE_MODULE.
sub native_module { return $ENV{TEST_NATIVE_MODULE} // Cwd::abs_path(File::Basename::dirname(__FILE__) . '/../../..') . '/build/redis_sliding_log.so' }

1;
