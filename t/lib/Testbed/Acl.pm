package Testbed::Acl;

# The ACL rules that docs/operations.md tells operators to use.

use strict;
use warnings;
use Cwd ();
use Exporter 'import';
use File::Basename ();
use Testbed::Process;

our @EXPORT_OK = qw(documented_rule);

my $root = Cwd::abs_path(File::Basename::dirname(__FILE__) . '/../../..');

# What follows ACL SETUSER and the user there, with this password.
sub documented_rule {
    my ($user, $password) = @_;
    my ($rule) = Testbed::Process::slurp("$root/docs/operations.md") =~ /^```redis-acl\nACL SETUSER \Q$user\E (.*)\n```/m
        or die "docs/operations.md has no rule for $user\n";
    return $rule =~ s/PASSWORD/$password/r;
}

1;
