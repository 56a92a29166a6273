package Testbed::Tls;

# Whether the module supports TLS to Redis: it does if the installed hiredis does.

use strict;
use warnings;
use Exporter 'import';

our @EXPORT_OK = qw(tls_is_built);

# Asks the compiler, not the module: if the module was built without TLS by mistake, the tests must not be skipped.
sub tls_is_built {
    return system('echo "#include <hiredis/hiredis.h>\n#include <hiredis/hiredis_ssl.h>" | c++ -x c++ -E - >/dev/null 2>&1') == 0;
}

1;
