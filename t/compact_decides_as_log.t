# algorithm=compact and algorithm=log decide alike: the same random arrivals to both scripts, with a clock given.

use strict;
use warnings;
use IO::Socket::UNIX;
use Test::More;
use Testbed;
use Testbed::Script qw(source);

my $seed = $ENV{TEST_SEED} // time;
srand $seed;
note "TEST_SEED=$seed";

my $operations = $ENV{TEST_OPERATIONS} // 200_000;    # requests; a million take a minute
my $bed        = Testbed->new;
my $redis      = $bed->redis;
my $socket     = IO::Socket::UNIX->new(Peer => $redis->path) or die "Redis: $!";
my $unique     = 0;

# A script; with a front of another size where given, so that short logs meet what long ones do.
sub load {
    my ($name, $front) = @_;
    my $source = source($name);
    if ($front) {
        $source =~ s/FRONT = \d+/FRONT = $front/ or die "$name: no FRONT\n";
    }
    return $redis->cli('SCRIPT', 'LOAD', $source);
}

sub resp { return join '', '*', scalar @_, "\r\n", map { ('$', length, "\r\n", $_, "\r\n") } @_ }

# One reply, as text; arrays in brackets.
sub reply {
    my $line = <$socket> // die "Redis is gone\n";
    my ($kind, $rest) = $line =~ /^(.)(.*?)\r\n/ or die "Redis said $line\n";
    return $kind eq '*' ? '[' . join(' ', map { reply() } 1 .. $rest) . ']' : $kind eq '-' ? "error $rest" : $rest;
}

# No window ever held more than the limit: between an admission and the limit-th after it a window has passed.
sub is_exact {
    my ($log) = @_;
    my $times = $log->{admitted} // [];
    for my $i ($log->{limit} .. $#$times) {
        next if $times->[$i] - $times->[ $i - $log->{limit} ] >= $log->{window};
        fail("$log->{name}: more than $log->{limit} in $log->{window} ms before $times->[$i]");
        return 0;
    }
    return 1;
}

# A world of keys with limits of their own; what differs from world to world is what is likely in it.
sub world {
    my ($title, %world) = @_;
    my %sha = (
        log     => load('sliding_log'),
        compact => load('compact_log', $world{front}),
    );
    my @logs = map {
        my $limit = 1 + int rand $world{limits};
        { name => "$title $_", limit => $limit, cap => $limit + int rand $limit, window => 1 + int rand $world{windows} }
    } 1 .. $world{keys};
    my $now  = 1_800_000_000_000;
    my $left = $operations * $world{share};
    my ($calls, $denied, $back) = (0, 0, 0);
    while ($left > 0) {
        my (@calls, $wire);
        for (1 .. $world{batch} // 50) {
            $now += rand() < 0.3 ? 0 : int -log(1 - rand) * $world{step};
            $now += int rand 2 * $world{windows} if rand() < 0.001;
            $now -= int rand($world{windows} / (1 + int rand 20)) if rand() < $world{steps_back};
            my (@keys, @arguments, @requests);
            for (1 .. 1 + int rand 3) {
                my ($first, $second) = @logs[rand @logs, rand @logs];
                my @asked = $first == $second || rand() < 0.7 ? $first : ($first, $second);
                my $requests = rand() < 0.9 ? 1 : 1 + int rand $world{burst};
                push @requests, { unique => "u$unique", logs => \@asked, requests => $requests };
                push @keys, map { $_->{name} } @asked;
                push @arguments, scalar @asked, $requests, map { 'u' . $unique++ } 1 .. $requests;
                for my $log (@asked) {
                    my $limit = $world{fixed} || rand() < 0.95 ? $log->{limit} : int rand $log->{cap};
                    push @arguments, $limit, $log->{window}, $log->{cap}, 3_600_000, '';
                }
                $left -= $requests;
            }
            push @calls, { now => $now, requests => \@requests };
            for my $kind (qw(log compact)) {
                $wire .= resp('EVALSHA', $sha{$kind}, scalar @keys, map({ "$kind $_" } @keys), $now, @arguments);
            }
        }
        print $socket $wire;
        $wire = '';
        my @undone;
        for my $call (@calls) {
            my ($log, $compact) = (reply(), reply());
            $calls++;
            if ($log ne $compact) {
                is($compact, $log, "$title: call $calls");
                exit 1;
            }
            $denied += () = $log =~ /\[0 /g;
            my @groups = $log =~ /\[(\d+) [^][]*\]/g;
            for my $i (0 .. $#groups) {
                if ($world{fixed}) {
                    push @{ $_->{admitted} }, ($call->{now}) x $groups[$i] for @{ $call->{requests}[$i]{logs} };
                }
                next if !$groups[$i] || rand() >= $world{taken_back};
                my $group = $call->{requests}[$i];
                push @undone, $group;
                my @names = map { $_->{name} } @{ $group->{logs} };
                my @logs = map { (1, 1, 0, 3_600_000, '') } @names;
                for my $kind (qw(log compact)) {
                    $wire .= resp('EVALSHA', $sha{$kind}, scalar @names, map({ "$kind $_" } @names), 'take back', $call->{now},
                        scalar @names, 1, $group->{unique}, @logs);
                }
            }
        }
        print $socket $wire;
        for (@undone) {
            my ($log, $compact) = (reply(), reply());
            $back++;
            if ($log ne $compact) {
                is($compact, $log, "$title: taken back after call $calls");
                exit 1;
            }
        }
    }
    is_exact($_) or return for $world{fixed} ? @logs : ();
    ok($denied, "$title: $calls calls, $denied groups denied, $back requests taken back");
    return;
}

my %usual = (keys => 30, limits => 20, windows => 2000, burst => 12, step => 30, taken_back => 0, steps_back => 0);
world('short logs',     %usual, share => 0.1, fixed => 1);
world('small fronts',   %usual, share => 0.1, front => 14, limits => 60);
world('fixed limits',   %usual, share => 0.1, front => 14, limits => 60, fixed => 1);
world('clock goes back', %usual, share => 0.2, front => 14, limits => 60, steps_back => 0.01);
world('skewed clocks',  %usual, share => 0.1, front => 20, limits => 200, steps_back => 0.3);
world('long windows',   %usual, share => 0.1, front => 14, limits => 60, windows => 30_000_000_000, step => 300_000_000);
world('taken back',     %usual, share => 0.2, front => 14, limits => 60, taken_back => 0.3);
world('taken back, clock goes back', %usual, share => 0.02, batch => 1, front => 14, limits => 60, taken_back => 0.3, steps_back => 0.01);
world('long logs',      %usual, share => 0.3, keys => 3, limits => 9000, windows => 9000, step => 1, burst => 500, steps_back => 0.001);
$bed->done;
