package Testbed::Checked;

# What `nginx -t` says of a configuration.

use strict;
use warnings;
use Exporter 'import';
use Testbed qw(conf);

our @EXPORT_OK = qw($GOOD $REDIS check);

# A block and a limit that are accepted.
our $REDIS = 'sliding_log_redis { server 127.0.0.1:6379; }';
our $GOOD  = 'sliding_log_limit api key=$remote_addr limit=10 window=1m';

my $frame = conf(
    http   => <<'HTTP',
    %%BLOCK%%
    map $http_x_tenant $tenant { default 10; }
HTTP
    server => '%%SERVER%%',
);

# Whether it is accepted with this in http and this in server, and what is printed.
sub check {
    my ($bed, $block, $server) = @_;
    return $bed->configuration($frame, BLOCK => $block, SERVER => $server)->check;
}

1;
