package Testbed::Acl;

# The ACL rules of docs/operations.md.

use strict;
use warnings;
use Cwd ();
use Exporter 'import';
use File::Basename ();
use Testbed::Process;

our @EXPORT_OK = qw(documented_rule store_with_users);

my $root = Cwd::abs_path(File::Basename::dirname(__FILE__) . '/../../..');

# The words of a rule after ACL SETUSER and the user, with this password.
sub documented_rule {
    my ($user, $password) = @_;
    my ($rule) = Testbed::Process::slurp("$root/docs/operations.md") =~ /^```redis-acl\nACL SETUSER \Q$user\E (.*)\n```/m
        or die "docs/operations.md has no rule for $user\n";
    return $rule =~ s/PASSWORD/$password/r;
}

# The contents of a sliding_log_redis block with the users of these rules. mode: standalone, cluster or sentinel; server:
# that of the `server` directive; more: further lines.
sub store_with_users {
    my ($mode, $server, $more) = @_;
    return join ' ', 'server ' . $server->address . ';', $mode eq 'cluster' ? 'mode cluster;' : (),
        $mode eq 'sentinel' ? 'mode sentinel limits; sentinel_username watcher; sentinel_password w4tchpass;' : (),
        'username limiter; password us3rpass; timeout 3s; connect_timeout 3s; reconnect 20ms 200ms;', $more // ();
}

1;
