# Runs in the stored form of algorithm=compact: a log with runs decides as the same log without. Each log is at two keys,
# and the same random calls are sent for both. One key is decided by the script of the version before, which writes no
# runs; the other one by that script, today's script and the native module in turn, as in a fleet while it is upgraded. In
# some worlds both are written by hand in between, one with runs and one without. `sliding-log inspect` shows the same of
# both. With a scale, all numbers of the log with runs are larger by that factor.
# prove: first

use strict;
use warnings;
use Test::More;
use Testbed qw(seed);
use Testbed::Clock;
use Testbed::CompactLog qw(written_by_hand);
use Testbed::Corrupt qw(any);
use Testbed::Native qw(native_module);
use Testbed::Script;
use Testbed::Tool qw(tool_json);

seed();
my $operations = Testbed::operations(12_000);    # calls for each form
my $only       = $ENV{TEST_WORLD} // '.';

my $now    = 1_800_000_000_000;
my $bed    = Testbed->new;
my $clock  = Testbed::Clock->new($bed->dir, standing => 1)->set($now);
my $redis  = $bed->redis(clock => $clock, args => ['--loadmodule', native_module()]);
my $unique = 0;

sub key { my ($kind, $log) = @_; return "rl:sliding:$kind:{" . ($log->{name} =~ tr{A-Za-z0-9}{_}cr) . '}' }

sub text { my ($reply) = @_; return ref $reply ? '[' . join(' ', map { text($_) } @$reply) . ']' : $reply // 'none' }

# ---- logs by hand

sub write_log {
    my ($client, $log, $world) = @_;
    my @times = sort { $a <=> $b } map { $now - int rand 1.2 * $log->{window} } 1 .. 1 + int rand $world->{entries};
    push @times, $now + 1 + int rand $world->{delays} if $world->{delays} && rand() < 0.2;
    my %seen;
    my @entries = map { [$_, any(1, 1, 1, 2, 3, 4, 40, 1 + int rand 300)] } grep { !$seen{$_}++ } @times;
    my %layout = (touched => $now, next => int rand 25, latest => int rand 25, begin => rand, spare => any(0, 1, 50, 600));
    if ($world->{blocks} && rand() < 0.3) {
        $layout{length}  = 1 + int rand $world->{blocks};
        $layout{blocked} = $now - 20 + int rand $layout{length} + 20;
    }
    $client->call('SET', key($_, $log), written_by_hand($_ eq 'runs', \@entries, %layout), 'PX', 10 * $world->{windows}) for qw(alone runs);
    return;
}

# ---- calls

sub options {
    my ($world, $log) = @_;
    my @words;
    push @words, 'cost=' . any(0, 2, 3, 4, 5, 1 + int rand $log->{limit}, $log->{limit} + 1) if rand() < $world->{costs};
    push @words, 'count=all' if rand() < $world->{counts};
    if ($world->{delays} && rand() < 0.8) {
        push @words, 'delay=' . (1 + int rand $world->{delays}) if rand() < 0.8;
        push @words, "ahead=$world->{delays}";
    }
    push @words, 'block=' . (1 + int rand $world->{blocks}) if $world->{blocks} && rand() < 0.6;
    push @words, 'permits=' . (2 + int rand 300) if rand() < $world->{permits};
    return "@words";
}

sub group {
    my ($world, $logs) = @_;
    my ($first, $second) = (any(@$logs), any(@$logs));
    my @asked = $first == $second || rand() < 0.8 ? $first : ($first, $second);
    my $requests = rand() < 0.7 ? 1 : 1 + int rand 30;
    return {
        names => [map { 'u' . ++$unique } 1 .. $requests],
        logs  => [map {
            { name => $_->{name}, limit => any(($_->{limit}) x 8, 0, 1, 1 + int rand $_->{limit}, 2 * $_->{limit}), cap => any(0, $_->{limit} + int rand $_->{limit}), window => any(($_->{window}) x 20, 2 * $_->{window}),
                ttl => 10 * $world->{windows}, options => options($world, $_) }
        } @asked],
    };
}

sub for_key {
    my ($kind, $group, $scale) = @_;
    return [$group->{names}, map { { %$_, key => key($kind, $_), $kind eq 'runs' && $scale > 1 ? scaled($_, $scale) : () } } @{ $group->{logs} }];
}

sub scaled {
    my ($log, $scale) = @_;
    my $options = $log->{options} =~ s/\b(cost|settle)=(\d+)/"$1=" . $2 * $scale/ger;
    $options = join ' ', "cost=$scale", length $options ? $options : () if $options !~ /cost=/;
    return (limit => $log->{limit} * $scale, cap => $log->{cap} * $scale, options => $options);
}

# What is left of a limit is the second number of a log, without the scale.
sub unscaled {
    my ($reply, $groups, $scale) = @_;
    return $reply if !ref $reply || $scale == 1;
    for my $i (grep { ref $reply->[$_] } 0 .. $#$reply) {
        $reply->[$i][ 2 + 3 * $_ ] /= $scale for 0 .. $#{ $groups->[$i]{logs} };
    }
    return $reply;
}

sub world {
    my ($title, %asked) = @_;
    return if $title !~ /$only/;
    my %world  = (keys => 6, limits => 400, windows => 3000, entries => 60, step => 30, costs => 0.3, counts => 0, delays => 0, blocks => 0, permits => 0, back => 0, steps_back => 0, rewritten => 0.05, plain => 0.3, by_hand => 1, scale => 1, undone => 20, %asked);
    my %script = map { ($_ => Testbed::Script->new($redis, 'compact_log', native => $_ eq 'native', before_runs => $_ eq 'before')) } qw(before lua native);
    my $client = $script{before};
    my $scale  = $world{scale};
    my @mixed  = ('lua', 'native', $scale == 1 ? 'before' : ());    # that one takes costs up to 100,000
    my @logs   = map { { name => "$title $_", limit => 1 + int rand $world{limits}, window => 1 + int rand $world{windows} } } 1 .. $world{keys};
    $world{rewritten} = 0 if !$world{by_hand};
    write_log($client, $_, \%world) for $world{by_hand} ? @logs : ();
    my ($calls, %seen, @undo) = (0);
    while ($calls++ < $operations * $world{share}) {
        $now += rand() < 0.3 ? 0 : int -log(1 - rand) * $world{step};
        $now -= int rand 300 if rand() < $world{steps_back};
        $clock->set($now);
        write_log($client, any(@logs), \%world) if rand() < $world{rewritten};
        my $at = rand() < 0.2 ? $now : '';
        my ($words, $about, @groups);
        if (@undo && rand() < $world{back}) {
            my $undone = splice @undo, int rand @undo, 1;
            @groups = $undone->{group};
            rand() < 0.5 and $_->{options} = join ' ', grep { length } $_->{options}, 'settle=' . any(0, 1, 2, 5, 1 + int rand 200) . any('', ' ended=0', ' ended=' . int rand 3000) for @{ $groups[0]{logs} };
            $words = Testbed::Script::taking_back({ now => $at, %$undone });
            $seen{'taken back'}++;
        } else {
            @groups = map { group(\%world, \@logs) } 1 .. any(1, 1, 2);
            if ($at eq '' && rand() < $world{plain}) {
                $_->{names} = [$_->{names}[0]], $_->{logs} = [{ %{ $_->{logs}[0] }, %{ $groups[0]{logs}[0] }{qw(limit window ttl)}, options => '' }] for @groups;
                $seen{plain}++;
            }
            $words = $at;
        }
        my $decides = any(@mixed);
        my ($alone, $runs) = map { my ($script, $kind) = @$_; $client->call($script{$script}->words($words, map { for_key($kind, $_, $scale) } @groups)) } ['before', 'alone'], [$decides, 'runs'];
        $runs = unscaled($runs, \@groups, $scale) if !ref $words;
        if (text($alone) ne text($runs)) {
            is(text($runs), text($alone), "$title: call $calls, by $decides, at $now: " . join ' ', $script{before}->words($words, map { for_key('alone', $_, 1) } @groups));
            return;
        }
        if ($scale == 1 && rand() < 0.01) {
            my $log = $groups[0]{logs}[0];
            my ($told, $of_runs) = map {
                my %told = tool_json('inspect', key($_, $log), '--server', $redis->address, '--limit', $log->{limit}, '--window', "$log->{window}ms")->%*;
                join ', ', map { "$_ $told{$_}" } grep { !/^(?:key|bytes|expires_ms)$/ } sort keys %told;
            } qw(alone runs);
            $of_runs eq $told or is($of_runs, $told, "$title: inspect shows the same"), return;
            $seen{inspected}++;
        }
        for my $log (map { @{ $_->{logs} } } @groups) {
            my $format = $client->call('GETRANGE', key('runs', $log), 0, 0);
            $seen{'with runs'}++ if $format =~ /^[\3\4]/;
            $seen{blocked}++     if $format eq "\4";
        }
        next if !ref $runs || ref $words;
        for my $i (0 .. $#$runs) {
            my ($group, $reply) = ($groups[$i], $runs->[$i]);
            ref $reply or fail("$title: @{[text($runs)]}"), return;
            my ($admitted, $decided, @rest) = @$reply;
            my @held = $world{permits} ? () : splice @rest, 3 * @{ $group->{logs} };
            $seen{admitted}++ if $admitted;
            $seen{denied}++   if $admitted < @{ $group->{names} };
            $seen{held}++     if @held;
            next if !$admitted || rand() >= 2 * $world{back};
            my $place = @held && rand() < 0.7 ? $admitted - 1 - int rand @held : 0;
            my $slot  = $place - $admitted + @held;
            push @undo, { logged => $decided + ($slot >= 0 ? $held[$slot] : 0), taken => $decided, group => { %$group, names => [$group->{names}[$place]] } };
        }
        @undo = splice @undo, -$world{undone} if @undo > $world{undone};
    }
    my @missing = grep { !$seen{$_} } qw(admitted denied), 'with runs', $world{plain} ? 'plain' : (), $world{back} ? 'taken back' : (), $world{delays} && !$world{permits} ? 'held' : (), $world{blocks} ? 'blocked' : ();
    is("@missing", '', "$title: all decide alike: " . join ', ', map { "$seen{$_} $_" } sort keys %seen);
    $client->call('FLUSHALL');
    return;
}

# more entries than a limit can be: the oldest leave, and the form holds their number
{
    my %number = (limit => 1e12, window => 60_000, ttl => 70_000, options => 'cost=1000000000000 count=all');
    my %script = map { ($_ => Testbed::Script->new($redis, 'compact_log', native => $_ eq 'native')) } '', 'native';
    for my $call (1 .. 4) {
        my ($lua, $native) = map { $script{$_}->ask($now + 10 * $call, { %number, key => "most $_" }) } '', 'native';
        is($lua, $call == 1 ? '1 0 60000 0' : '0 0 59990 60000', "a cost of a million million: call $call");
        is($native, $lua, "a cost of a million million: call $call decides alike");
        my ($stored, $by_native) = map { unpack 'H*', $script{''}->call('GET', "most $_") } '', 'native';
        is($by_native, $stored, "a cost of a million million: call $call stores the same");
        is(unpack('Q>', pack 'H*', '000000' . substr $stored, 24, 10), $call == 1 ? 1e12 : 2**40 - 1, "a cost of a million million: entries after call $call");
    }
}

world('of requests alone', share => 0.2, by_hand => 0, counts => 0.1, delays => 2000, back => 0.3, steps_back => 0.01);
world('of requests alone, long', share => 0.2, by_hand => 0, limits => 20_000, windows => 20_000, back => 0.3, costs => 0.5);
world('large costs',       share => 0.2, by_hand => 0, scale => 100_000, plain => 0, back => 0.3, steps_back => 0.01);
world('large costs of all kinds', share => 0.2, by_hand => 0, scale => 100_000, plain => 0, counts => 0.1, delays => 2000, blocks => 1500, permits => 0.1, back => 0.3, steps_back => 0.01);
world('short logs',        share => 0.1, entries => 8);
world('long logs',         share => 0.1, entries => 400, limits => 9000, windows => 20_000);
world('many leave',        share => 0.05, entries => 400, limits => 9000, windows => 20_000, step => 2000, rewritten => 0.3);
world('wide apart',        share => 0.05, windows => 3_000_000_000, step => 30_000_000);
world('clock steps back',  share => 0.1, steps_back => 0.1);
world('denied ones count', share => 0.1, counts => 0.7);
world('taken back',        share => 0.15, back => 0.4);
world('taken back, long',  share => 0.1, back => 0.4, entries => 300, limits => 9000, windows => 20_000, steps_back => 0.01);
world('taken back late',   share => 0.3, by_hand => 0, limits => 9000, windows => 20_000, step => 3, costs => 0.1, back => 0.45, undone => 2000);
world('taken back late, blocks', share => 0.1, by_hand => 0, limits => 900, windows => 20_000, step => 3, costs => 0.1, counts => 0.3, blocks => 1500, back => 0.3, undone => 2000);
world('delays',            share => 0.1, delays => 3000, back => 0.2);
world('blocks',            share => 0.1, blocks => 1500, back => 0.2);
world('permits',           share => 0.1, permits => 0.5, limits => 9000, back => 0.1);
world('all of it',         share => 0.2, counts => 0.2, delays => 3000, blocks => 1500, back => 0.3, steps_back => 0.03);

$bed->done;
