# t/prove repeats no test that fails, and prints which did, and why. It starts long tests first, and others while a test is
# silent.

use strict;
use warnings;
use File::Temp ();
use Test::More;
use Testbed::Files qw(write_file);
use Testbed::Process;

my $dir = File::Temp->newdir('sliding-log-XXXXXX', TMPDIR => 1);

sub write_test {
    my ($name, $code) = @_;
    return write_file("$dir/$name.t", "use Test::More; $code done_testing();\n");
}

# A test that leaves a file.
sub passes { my ($name) = @_; return write_test($name, "open my \$run, '>', '$dir/$name.run'; ok(1);") }

sub prove {
    my (@tests) = @_;
    local $ENV{HARNESS_OPTIONS} = '';
    return Testbed::Process::run('t/prove', @tests);
}

my $sound = passes('sound');
my ($status, $text) = prove($sound);
is($status, 0, 'tests that pass pass');
unlike($text, qr/== failed/, 'tests that pass: none is reported');

my $flaky = write_test('flaky', "ok(-e '$dir/flaky.run', 'the flaky run'); open my \$run, '>', '$dir/flaky.run';");
($status, $text) = prove($sound, $flaky);
is($status, 1, 'a test that would pass when it is repeated fails');
like($text, qr{^== failed:\n\Q$flaky\E\n    'the flaky run' \(line 1\)$}m, 'a test that fails is reported at the end, with its assertion');

my $at_once = 2 * qx(nproc);
sub waits_for { my ($name, $other) = @_; return write_test($name, "diag('$name'); for (1 .. 200) { last if -e '$dir/$other.run'; select undef, undef, undef, 0.1 } ok(-e '$dir/$other.run', '$other runs beside it');") }
($status, $text) = prove(waits_for('silent', 'last'), (map { passes("quick$_") } 1 .. $at_once), passes('last'));
is($status, 0, 'others are started while a test is silent') or diag($text);

($status, $text) = prove((map { waits_for("short$_", 'long') } 1 .. $at_once), write_test('long', "\n# prove: first\nopen my \$run, '>', '$dir/long.run'; ok(1);"));
is($status, 0, 'a test that says so is started first') or diag($text);

done_testing();
