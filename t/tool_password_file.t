# --password-file is read again at each connection that the tool makes.

use strict;
use warnings;
use Test::More;
use Testbed qw(wait_until);
use Testbed::Tool qw(tool);

my $bed     = Testbed->new;
my $cluster = $bed->cluster(masters => 2);
my ($first, $second) = $cluster->nodes;
$_->cli(qw(ACL SETUSER operator on >first ~* +@all)) for $first, $second;
my $file = $bed->write_file('password', "first\n");

# Runs `top` while the first node stands still, which it asks for the map of the cluster, and changes something meanwhile.
sub top_while {
    my ($change) = @_;
    $first->pause;
    pipe my $result, my $report;
    my $pid = fork // die "fork: $!";
    if ($pid == 0) {
        my $ran = tool(qw(top --mode cluster --timeout 20s --user operator --password-file), $file, '--server', $first->address);
        print {$report} "$ran->{status} $ran->{err}";
        close $report;
        POSIX::_exit(0);
    }
    close $report;
    wait_until('the tool to connect', 10, sub { Testbed::Process::slurp('/proc/net/tcp') =~ /:@{[ sprintf '%04X', $first->port ]} [0-9A-F]{8}:[0-9A-F]{4} 01 / });
    $change->();
    $first->resume;
    local $/;
    my $told = <$result>;
    waitpid $pid, 0;
    return $told;
}
is(top_while(sub { }), '0 ', 'a password that stays');
is(top_while(sub { $second->cli(qw(ACL SETUSER operator resetpass >second)); $bed->write_file('password', "second\n") }), '0 ',
    'a password that changes between two connections');
$second->cli(qw(ACL SETUSER operator resetpass >first));
$bed->write_file('password', "first\n");
is(top_while(sub { unlink $file }), "0 sliding-log: $file has no password any more: the last one stays\n",
    'a file that is gone: the last password stays, told once');

# ---- a pipe, such as <(command) of bash: its writer is waited for, and it is read once

$_->cli(qw(ACL SETUSER operator resetpass >first)) for $first, $second;
my $tool = Testbed::Tool::binary();
my $at   = $first->address;
for my $writer ('sleep 1; echo first', 'echo first; echo more', 'printf first') {
    my $told = `bash -c 'SLIDING_LOG_CONF= exec "$tool" top --mode cluster --server $at --user operator --password-file <($writer)' 2>&1`;
    like("$? $told", qr/^0 key .*\nof 0 logs, which take 0 B of .* that Redis uses, .*\n\z/, "a pipe: $writer; each node is logged in to");
}
my $empty = `bash -c 'SLIDING_LOG_CONF= exec "$tool" top --server $at --user operator --password-file <(true)' 2>&1`;
like($empty, qr/^sliding-log: "--password-file" has invalid value "\/dev\/fd\/\d+", expected a readable file/, 'a pipe without a password');

$bed->done;
