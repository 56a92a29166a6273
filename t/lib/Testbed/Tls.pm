package Testbed::Tls;

# Whether the module supports TLS to Redis: it does if its hiredis does: that of HIREDIS_DIR, else the system's.

use strict;
use warnings;
use Exporter 'import';

our @EXPORT_OK = qw(tls_is_built);

# Asks the compiler, not the module: if the module was built without TLS by mistake, the tests must not be skipped.
sub tls_is_built {
    my $include = $ENV{HIREDIS_DIR} ? "-I$ENV{HIREDIS_DIR}/include" : "";
    return system('printf "#include <hiredis/hiredis.h>\\n#include <hiredis/hiredis_ssl.h>\\n" | c++ ' . $include . ' -x c++ -E - >/dev/null 2>&1') == 0;
}

1;
