# sliding-log uses colours on a terminal only, unless NO_COLOR is set. Without them the text is the same.

use strict;
use warnings;
use Test::More;
use Testbed;
use Testbed::Tool qw(tool binary);

my $bed   = Testbed->new;
my $redis = $bed->redis;
my @at    = ('--server', $redis->address);
$redis->cli('ZADD', 'rl:sliding:api:{a}', time * 1000, 'one');

# Output to a terminal.
sub on_terminal {
    my ($variables, @words) = @_;
    local %ENV = (%ENV, SLIDING_LOG_CONF => '', TERM => 'xterm', NO_COLOR => '', %$variables);
    open my $script, '-|', 'script', '-qec', join(' ', binary(), @words), '/dev/null' or die "script: $!";
    local $/;
    my $text = <$script> // '';
    close $script;
    return $text =~ s/\r\n/\n/gr;
}

my $escape = qr/\e\[[\d;]*m/;
for my $words (['doctor', '--algorithms', 'log'], ['top'], ['size', '--entries', 10]) {
    my $name   = $words->[0];
    my $piped  = tool(@$words, @at);
    my $screen = on_terminal({}, @$words, @at);
    unlike($piped->{out}, qr/\e/, "$name: no colours in a pipe");
    like($screen, $escape, "$name: colours on a terminal");
    for my $variables ({ NO_COLOR => 1 }, { TERM => 'dumb' }) {
        unlike(on_terminal($variables, @$words, @at), $escape, "$name: no colours with @{[%$variables]}");
    }
    my $shape = sub { return $_[0] =~ s/$escape//gr =~ s/\e\[K|\r//gr =~ s/\d[\d.,]*(?: (?:ms|s|m|h|%|B|kB|MB|GB))*/N/gr =~ s/ +/ /gr };
    is($shape->($screen =~ s/.*\e\[K//sr), $shape->($piped->{out}), "$name: the text is the same") if $name ne 'doctor';
}
like(on_terminal({}, 'doctor', @at), qr/^\e\[33m  WARNING\e\[0m +memory .*^\e\[32m  ok\e\[0m       policy /ms, 'doctor: each status has its colour, and columns stay');
unlike(on_terminal({}, 'top', @at, '--json'), $escape, 'JSON has no colours');

$bed->done;
