# The completion of sliding-log in bash: commands, options of a command, and values.

use strict;
use warnings;
use Cwd ();
use File::Basename ();
use Test::More;
use Testbed;
use Testbed::Tool qw(tool binary);

my $root = Cwd::abs_path(File::Basename::dirname(__FILE__) . '/..');
my $bed  = Testbed->new;
$bed->write_file('limits.conf', '');
mkdir $bed->dir . '/limits.d';
chdir $bed->dir or die $!;
END { chdir '/' }    # the directory is removed

my $script = <<'END';
. "$1/packaging/bash/sliding-log"
[ "$(complete -p sliding-log)" = "complete -F _sliding_log sliding-log" ] || exit
shift
COMP_WORDS=("$@")
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_sliding_log "$1" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
printf '%s\n' "${COMPREPLY[@]}"
END

# The completions of bash for the last of these words, as bash splits them.
sub offered {
    my (@words) = @_;
    open my $bash, '-|', 'bash', '--norc', '-c', $script, 'bash', $root, binary(), @words or die "bash: $!";
    my @lines = sort map { s/\n//r } <$bash>;
    close $bash;
    is($?, 0, "bash completes: @words");
    return join ' ', grep { length } @lines;
}

my @commands = tool('--help')->{out} =~ /^  ([a-z]+)\b/mg;
is(offered(''), join(' ', sort @commands, qw(--help --version)), 'the commands of --help');
is(offered('in'), 'inspect', 'a partial command');
is(offered('--v'), '--version', 'an option without a command');
for my $command (@commands) {
    my %known = map { $_ => 1 } map { tool(@$_)->{out} =~ /^  (--[a-z-]+)/mg } ['--help'], [$command, '--help'];
    is(offered($command, '-'), join(' ', sort keys %known), "the options of $command");
}
is(offered('top', '--b'), '--by', 'a partial option');
is(offered('top', 'api', '--by', ''), 'bytes entries', 'values of --by');
is(offered('doctor', '--mode', 'c'), 'cluster', 'values of --mode');
is(offered('doctor', '--mode', '='), 'cluster sentinel standalone', 'values after =');
is(offered('doctor', '--mode', '=', 's'), 'sentinel standalone', 'a partial value after =');
is(offered('acl', '--for', ''), 'nginx tool', 'values of --for of acl');
is(offered('top', '--for', ''), '', 'a time has no values');
is(offered('top', '--nginx-conf', 'lim'), 'limits.conf limits.d', 'files');
is(offered('top', 'lim'), '', 'a NAME is no file');

$bed->done;
