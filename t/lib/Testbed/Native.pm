package Testbed::Native;

# The native module for Redis.

use strict;
use warnings;
use Cwd ();
use Exporter 'import';
use File::Basename ();
use Time::HiRes qw(sleep);

our @EXPORT_OK = qw(native_module unload);

# Its file: of the build, or TEST_NATIVE_MODULE.
sub native_module { return $ENV{TEST_NATIVE_MODULE} // Cwd::abs_path(File::Basename::dirname(__FILE__) . '/../../..') . '/build/redis_sliding_log.so' }

# Unloads the module from the server. Redis 8 refuses this while connections use it. False if it is refused for long.
sub unload {
    my ($redis) = @_;
    my $end = time + 5 * Testbed::slow();
    while ($redis->cli('MODULE', 'UNLOAD', 'sliding_log') !~ /^(?:OK|ERR .*no such module)/) {
        return 0 if time > $end;
        sleep 0.02;
    }
    return 1;
}

1;
