package Testbed::Tool;

# Runs build/sliding-log, or TEST_TOOL.

use strict;
use warnings;
use Cwd ();
use Exporter 'import';
use File::Basename ();
use File::Temp ();
use JSON::PP ();
use Testbed::Process;

our @EXPORT_OK = qw(tool tool_json binary);

my $root = Cwd::abs_path(File::Basename::dirname(__FILE__) . '/../../..');

sub binary { return $ENV{TEST_TOOL} // "$root/build/sliding-log" }

# { status, out, err } of one run; an option hash first may give env => { NAME => value }, in => what it reads.
sub tool {
    my ($options, @words) = ref $_[0] ? @_ : ({}, @_);
    my ($in, $out, $err) = map { File::Temp->new } 1 .. 3;
    print $in $options->{in} // '';
    $in->flush;
    my $pid = fork // die "fork: $!";
    if ($pid == 0) {
        open STDIN,  '<', "$in" or POSIX::_exit(127);
        open STDOUT, '>', "$out" or POSIX::_exit(127);
        open STDERR, '>', "$err" or POSIX::_exit(127);
        $ENV{SLIDING_LOG_CONF} = '';    # the machine's own /etc/sliding-log.conf is not used
        $ENV{$_} = $options->{env}{$_} for keys %{ $options->{env} // {} };
        exec binary(), @words or POSIX::_exit(127);
    }
    waitpid $pid, 0;
    return { status => $? & 127 ? "signal $?" : $? >> 8, out => Testbed::Process::slurp("$out"), err => Testbed::Process::slurp("$err") };
}

# Its decoded output with --json.
sub tool_json {
    my $ran = tool(@_, '--json');
    return eval { JSON::PP::decode_json($ran->{out}) } // die "no JSON: $ran->{out}$ran->{err}\n";
}

1;
