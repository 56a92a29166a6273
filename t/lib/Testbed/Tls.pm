package Testbed::Tls;

# Whether the module can speak TLS to Redis: as the hiredis that is installed here can.

use strict;
use warnings;
use Exporter 'import';

our @EXPORT_OK = qw(tls_is_built);

# Asks the compiler, not the module: one that was wrongly built without TLS must not have its tests skipped.
sub tls_is_built {
    return system('echo "#include <hiredis/hiredis.h>\n#include <hiredis/hiredis_ssl.h>" | c++ -x c++ -E - >/dev/null 2>&1') == 0;
}

1;
