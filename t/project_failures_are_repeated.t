# t/prove repeats tests that fail beside others, and prints which and why. It excuses neither two files nor a crash.
# It starts long tests first, and others while a test is silent.

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

# A test that passes from its n-th run on.
sub passes_at { my ($name, $n) = @_; return write_test($name, "open my \$runs, '>>', '$dir/$name.runs'; print \$runs 'x'; close \$runs; cmp_ok(-s '$dir/$name.runs', '>=', $n, 'the $name run');") }

sub prove {
    my (@tests) = @_;
    local $ENV{HARNESS_OPTIONS} = '';
    return Testbed::Process::run('t/prove', @tests);
}

my $sound = passes_at('sound', 1);
my ($status, $text) = prove($sound);
is($status, 0, 'tests that pass pass');
unlike($text, qr/beside others/, 'tests that pass: no repetition is reported');

my $flaky = passes_at('flaky', 3);
($status, $text) = prove($sound, $flaky);
is($status, 0, 'a test that passes when it is repeated is excused');
like($text, qr{^== failed beside others, and passed alone:\n\Q$flaky\E\n    'the flaky run' \(line 1\)$}m,
    'a test that is excused is reported at the end, with its assertion');

my $broken = passes_at('broken', 100);
($status, $text) = prove($broken);
is($status, 1, 'a test that never passes fails');
like($text, qr{^== failed beside others, and not excused:\n\Q$broken\E\n}m, 'a test that never passes is reported at the end');

($status, $text) = prove(map { passes_at("many$_", 2) } 1 .. 2);
is($status, 1, 'two files that fail are not excused');
like($text, qr/^2 files failed; at most 1 is repeated$/m, 'two files that fail: the reason is reported');

my $crash = write_test('crash', "open my \$file, '>>', \$ENV{TEST_NEVER_EXCUSED}; print \$file 'crash'; close \$file; ok(-s '$dir/crash.runs', 'no crash'); open \$file, '>', '$dir/crash.runs'; print \$file 'x';");
($status, $text) = prove($crash);
is($status, 1, 'a crash is not excused');
like($text, qr/^a crash or a sanitizer's report in: crash$/m, 'a crash is reported');

my $at_once = 3 * qx(nproc);
sub waits_for { my ($name, $other) = @_; return write_test($name, "diag('$name'); for (1 .. 200) { last if -e '$dir/$other.runs'; select undef, undef, undef, 0.1 } ok(-e '$dir/$other.runs', '$other runs beside it');") }
($status, $text) = prove(waits_for('silent', 'last'), (map { passes_at("quick$_", 1) } 1 .. $at_once), passes_at('last', 1));
unlike($text, qr/beside others/, 'others are started while a test is silent');

($status, $text) = prove((map { waits_for("short$_", 'long') } 1 .. $at_once), write_test('long', "\n# prove: first\nopen my \$runs, '>', '$dir/long.runs'; ok(1);"));
unlike($text, qr/beside others/, 'a test that says so is started first');

done_testing();
