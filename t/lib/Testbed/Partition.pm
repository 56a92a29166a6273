package Testbed::Partition;

# A network for the test, on 127/8, in which packets from one address to another can be dropped: the test runs again in
# a network namespace, if the machine permits it. A server has an address of its own by host => '127.0.0.2', and uses it
# as its source with --bind-source-addr.

use strict;
use warnings;
use Test::More;

sub enter {
    if (!$ENV{TESTBED_PARTITION}) {
        system('unshare -n ip link set lo up >/dev/null 2>&1') == 0
            or plan skip_all => 'no network namespaces here (unshare -n, ip)';
        local $ENV{TESTBED_PARTITION} = 1;
        exec 'unshare', '-n', $^X, map({ "-I$_" } @INC), $0, @ARGV or die "unshare: $!";
    }
    # rules are checked before the table of local addresses, which is first otherwise
    run('ip link set lo up');
    run('ip rule add pref 100 lookup local');
    run('ip rule del pref 0');
    return;
}

# Drops packets from one address to the other; those of the other direction still arrive.
sub drop { my ($from, $to) = @_; return run("ip rule add pref 10 from $from to $to blackhole") }

# Both directions.
sub cut { my ($one, $other) = @_; drop($one, $other); return drop($other, $one) }

sub heal {
    1 while system('ip rule del pref 10 >/dev/null 2>&1') == 0;
    return;
}

sub run { my ($command) = @_; system($command) == 0 or die "$command: exit status $?\n"; return }

1;
