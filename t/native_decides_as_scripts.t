# The native module decides as the scripts do: the same random calls to both, on two keys of one Redis whose clock stands
# still meanwhile. Replies, what the keys hold, byte for byte, and when they end are the same. So they are with corrupt
# contents, but for the words of an error.
# prove: first

use strict;
use warnings;
use Test::More;
use Testbed qw(seed);
use Testbed::Algorithm qw(@ALGORITHMS %ALL_SCRIPTS takes);
use Testbed::Clock;
use Testbed::Corrupt qw(any);
use Testbed::Native qw(native_module);
use Testbed::RandomCalls qw($now corrupt for_side group members options override period_end plain_groups renewal renewing settle);
use Testbed::Script;

seed();
my $operations = Testbed::operations(25_000);    # calls to each; a million take ten minutes
my $only       = $ENV{TEST_WORLD} // '.';

my $bed   = Testbed->new;
my $clock = Testbed::Clock->new($bed->dir, standing => 1)->set($now);
my $redis = $bed->redis(clock => $clock, args => ['--loadmodule', native_module(), '--lua-time-limit', 0, '--hash-max-listpack-value', 1000, '--enable-debug-command', 'yes']);
$redis->cli(qw(DEBUG SET-ACTIVE-EXPIRE 0));    # which may find one of two keys before the clock steps back, and not the other

sub text { my ($reply) = @_; return ref $reply ? '[' . join(' ', map { text($_) } @$reply) . ']' : $reply // 'none' }

# For contents that no log has, the errors of scripts have more words.
sub told {
    my ($reply) = @_;
    my $text = text($reply) =~ s/ script: [0-9a-f]+, on \@user_script:\d+[.]?//gr;
    return $text =~ s/error (?:ERR a log cannot be read|WRONGTYPE not a log)[^\]]*?(?=[\]]| \[| error|$)/unreadable/gr;
}

# Compares two keys, and the keys beside them. Returns 1 and the memory of blocks; if they differ, 0 and all contents. The
# fields of a HASH come in any order. A script on the server compares them, since it reads keys faster.
my $compare = Testbed::Script->new($redis, $ALL_SCRIPTS{log})->call('SCRIPT', 'LOAD', <<'LUA');
local call = redis.call
local function read(key)
  local type = call('TYPE', key).ok
  local value = ''
  if type == 'hash' then
    local fields, pairs = call('HGETALL', key), {}
    for i = 1, #fields, 2 do
      pairs[#pairs + 1] = #fields[i] .. ' ' .. fields[i] .. ' ' .. fields[i + 1]
    end
    table.sort(pairs)
    value = table.concat(pairs, ', ')
  elseif type ~= 'none' then
    value = call(type == 'string' and 'GET' or 'DUMP', key)
  end
  local blocks = call('GET', key .. ':blocks')
  local ends = call('PEXPIRETIME', key) .. ', ' .. call('PEXPIRETIME', key .. ':blocks')
  return table.concat({ type, value, ends, tostring(blocks) }, ', '), blocks
end
local lua, blocks = read(KEYS[1])
local native = read(KEYS[2])
return lua == native and { 1, blocks } or { 0, blocks, lua, native }
LUA

# The outcomes that the calls of an algorithm must have, and those that they have had.
my (%expected, %found);

my %says = (-1 => 'without', -2 => 'allowed', -3 => 'denied by a record', -4 => 'broken', -5 => 'forbidden');

sub world {
    my ($algorithm, $title, %asked) = @_;
    return if "$algorithm, $title" !~ /$only/;
    my %world = (keys => 12, limits => 20, windows => 2000, burst => 12, step => 30, costs => 0, counts => 0, delays => 0, blocks => 0, ids => 0, back => 0, permits => 0, steps_back => 0,
        callers => 0, plain => 0.5, plain_costs => 0, corrupt => 0, overrides => 0, renewals => 0, periods => [], %asked);
    my %script = map { ($_ => Testbed::Script->new($redis, $ALL_SCRIPTS{$algorithm}, native => $_ eq 'nat')) } qw(lua nat);
    my $client = $script{lua};
    my @logs   = map { { name => "$algorithm $title $_", limit => 1 + int rand $world{limits}, burst => 1 + int rand $world{limits}, window => any(@{ $world{periods} }) // 1 + int rand $world{windows} } } 1 .. $world{keys};
    my $type   = $algorithm eq 'compact' ? 'string' : $algorithm =~ /log|sampled|inflight/ ? 'zset' : 'hash';
    my $left   = $operations * $world{share};
    my ($done, @undo, %seen) = (0);
    my @outcomes = ('admitted', 'denied', $world{delays} && $algorithm ne 'sampled' ? 'held' : (), $world{back} ? 'back' : (), $world{back} && takes($algorithm, 'settle') ? 'settled' : (), $world{corrupt} ? 'error' : (), $world{renewals} ? ('renewed', 'released') : (), $world{blocks} ? ('remembered', 'escalated') : (),
        $world{overrides} > 0.2 ? ('without', 'allowed', 'forbidden', 'broken', 'denied by a record', 'another limit') : ());
    $expected{$algorithm}{$_} = 1 for @outcomes;
    while ($left > 0 || $left > -10 * $operations * $world{share} && grep { !$seen{$_} && !$found{$algorithm}{$_} } @outcomes) {
        $now += rand() < 0.3 ? 0 : int -log(1 - rand) * $world{step};
        $now += int rand 2 * $world{windows} if rand() < 0.003;
        $now -= int rand($world{windows} / (1 + int rand 20)) if rand() < $world{steps_back};
        $now = period_end($logs[0]{window}) if @{ $world{periods} } && rand() < 0.1;
        $clock->set($now);
        my @calls;
        corrupt($client, $algorithm, $type, any(@logs)) if rand() < $world{corrupt};
        override($client, $_) for grep { rand() < $world{overrides} / 4 } @logs;
        $script{nat}{short} = rand() < 0.7 ? $algorithm : undef;
        for (1 .. 1 + int rand 6) {
            my $at = rand() < $world{callers} ? $now + any(0, 0, -20, 300, -$world{windows}) : '';
            my %call = (about => "at $now");
            if (@undo && rand() < $world{renewals}) {
                my @renewed = renewal(\@undo, \@logs) or next;
                my $ttl     = 1 + int rand 2 * $world{windows};
                $call{words}  = sub { my ($side) = @_; return renewing($script{$side}, $side, $at, $ttl, @renewed) };
                @call{qw(groups says)} = ([{ logs => \@renewed }], 'renewed');
            } elsif (@undo && rand() < $world{renewals}) {
                my $ended = splice(@undo, int rand @undo, 1)->{group};
                my ($log) = @{ $ended->{logs} };
                my @left  = members($ended->{names}[0], $log) or next;
                $call{words}  = sub { my ($side) = @_; return ('ZREM', "$side $log->{name}", @left) };
                @call{qw(groups says)} = ([{ logs => [$log] }], 'released');
            } elsif (@undo && rand() < $world{back}) {
                my $undone = splice @undo, int rand @undo, 1;
                $seen{settled}++ if takes($algorithm, 'settle') && settle($undone->{group}{logs}) || rand() < 0.05 && settle($undone->{group}{logs});
                $call{words} = sub { my ($side) = @_; return $script{$side}->words(Testbed::Script::taking_back({ now => $at, %$undone }), for_side($side, $undone->{group})) };
                @call{qw(groups about)} = ([$undone->{group}], "back, logged $undone->{logged} at $now");
                $seen{back}++;
            } else {
                my $is_plain = rand() < $world{plain};
                my @groups   = $is_plain ? plain_groups(\@logs) : map { group($algorithm, \%world, \@logs) } 1 .. 1 + int rand 3;
                $_->{options} = options($algorithm, { %world, costs => $world{plain_costs}, counts => 0, delays => 0, blocks => 0, permits => 0, overrides => 0 }, $logs[0]) for $is_plain ? map { @{ $_->{logs} } } @groups : ();
                $call{words}  = sub { my ($side) = @_; return $script{$side}->words($at, map { for_side($side, $_) } @groups) };
                $call{groups} = \@groups;
            }
            $left--;
            push @calls, \%call;
            $client->send($call{words}->($_)) for qw(lua nat);
            for my $log (map { @{ $_->{logs} } } @{ $call{groups} }) {
                $client->send('EVALSHA', $compare, 2, map { "$_ $log->{name}" } qw(lua nat));
            }
        }
        for my $call (@calls) {
            my ($lua, $nat) = map { $client->reply } 1 .. 2;
            my @different = told($lua) eq told($nat) ? () : ['the reply', told($nat), told($lua)];
            for my $log (map { @{ $_->{logs} } } @{ $call->{groups} }) {
                my ($is_same, $remembered, $was, $is) = @{ $client->reply };
                $seen{remembered}++ if defined $remembered;
                $seen{escalated}++  if split(' ', $remembered // '') > 3;
                next if $is_same;
                s/([^ -~])/sprintf '\\x%02x', ord $1/ge for $was, $is;
                push @different, ["what is in $log->{name}", $is, $was];
            }
            $done++;
            if (@different) {
                is($_->[1], $_->[2], "$algorithm, $title: call $done decides alike: $_->[0]") for @different;
                diag($call->{about}, '; ', join ' ', map { length ? $_ : "''" } $call->{words}->('nat'));
                $redis->cli('FLUSHALL');
                return;
            }
            $seen{ $call->{says} }++ if $call->{says};
            next if $call->{says} || !ref $lua;
            for my $i (0 .. $#$lua) {
                my ($group, $reply) = ($call->{groups}[$i], $lua->[$i]);
                $seen{error}++ if !ref $reply;
                next if !ref $reply;
                my ($admitted, $decided, @rest) = @$reply;
                my $logs = @{ $group->{logs} };
                my @said = (grep { $_->{options} =~ /override/ } @{ $group->{logs} }) ? splice @rest, 3 * $logs, 2 * $logs : ();
                $seen{ $says{ $said[2 * $_] } // 'another limit' }++ for 0 .. @said / 2 - 1;
                my @held = $world{permits} ? () : splice @rest, 3 * $logs;
                $seen{permits}++ if ref $group->{names} eq 'HASH' && grep { $_ } splice @{[@rest]}, 3 * $logs;
                next if ref $group->{names} eq 'HASH';
                $seen{admitted}++ if $admitted;
                $seen{denied}++   if $admitted < @{ $group->{names} };
                $seen{held}++     if @held;
                next if !$admitted || rand() >= $world{back};
                my $place = @held && rand() < 0.7 ? $admitted - 1 - int rand @held : 0;
                my $slot  = $place - $admitted + @held;
                my $logged = $decided + ($slot >= 0 ? $held[$slot] : 0);
                push @undo, { logged => $logged, taken => $decided,
                    group => { names => [$group->{names}[$place]], logs => [map { { %$_, ids => [$_->{ids}[$place] // ()], told => undef, options => join ' ', grep { !/^(?:override|told)$/ } split / /, $_->{options} } } @{ $group->{logs} }] } };
            }
        }
        @undo = splice @undo, -20 if @undo > 20;
    }
    $found{$algorithm}{$_} = 1 for keys %seen;
    pass("$algorithm, $title: $done calls; " . join ', ', map { "$seen{$_} $_" } sort keys %seen);
    $client->call('FLUSHALL');
    return;
}

for my $algorithm (@ALGORITHMS) {
    my %all = (costs => 0.4, counts => 0.2, delays => 3000, blocks => 1000, ids => 0.3);
    my %log = map { $_ => $algorithm eq 'counter' || $algorithm eq 'bucket' ? 0.01 : 0.02 } 'share';
    world($algorithm, 'short logs',        %log, plain => 0.9);
    world($algorithm, 'clock steps back',  %log, plain => 0.7, steps_back => 0.05);
    world($algorithm, 'long logs',         %log, keys => 4, limits => 900, windows => 20_000, step => 15, burst => 60);
    world($algorithm, 'longer logs',       %log, keys => 3, limits => 6000, windows => 9000, step => 2, burst => 400, back => 0.1, costs => 0.1);
    world($algorithm, 'longer logs, clock steps back', %log, keys => 3, limits => 6000, windows => 9000, step => 2, burst => 400, back => 0.1, steps_back => 0.002);
    world($algorithm, 'wide apart',        %log, limits => 60, windows => 3_000_000_000, step => 30_000_000);
    world($algorithm, 'callers\' clocks',  %log, callers => 0.9, plain => 0.2);
    world($algorithm, 'both clocks',       %log, %all, callers => 0.3, plain => 0.2, back => 0.2, steps_back => 0.01);
    world($algorithm, 'costs, taken back', %log, costs => 0.6, back => 0.3, ids => 0.3);
    world($algorithm, 'denied ones count', %log, counts => 0.6, costs => 0.2);
    world($algorithm, 'delays',            %log, delays => 3000, back => 0.2);
    world($algorithm, 'blocks',            %log, blocks => 1500, back => 0.2, steps_back => 0.01);
    world($algorithm, 'all of it',         %log, %all, back => 0.2);
    world($algorithm, 'all of it, long',   %log, %all, limits => 300, windows => 9000, back => 0.2, keys => 4, step => 15, burst => 30);
    world($algorithm, 'all of it, clock steps back', %log, %all, back => 0.2, steps_back => 0.03);
    my %permits = (%log, permits => 0.6, limits => 300, windows => 9000, costs => 0.2, blocks => 500, back => 0.1, steps_back => 0.01, step => 15);
    if ($algorithm =~ /^(?:compact|counter|bucket)$/) {
        my %costs = (%log, plain => 0.9, plain_costs => 0.8, costs => 0.8, small_costs => 20, limits => 5000);
        world($algorithm, 'plain costs',                    %costs);
        world($algorithm, 'plain costs, long logs',         %costs, windows => 20_000);
        world($algorithm, 'plain costs, large',             %costs, windows => 9000, limits => 1e12);
        world($algorithm, 'plain costs, clock steps back',  %costs, steps_back => 0.03);
        world($algorithm, 'plain costs, wide apart',        %costs, windows => 3_000_000_000, step => 30_000_000);
        world($algorithm, 'plain costs, all of it',         %costs, %all, costs => 0.8, plain => 0.6, limits => 2000, windows => 9000, back => 0.2, steps_back => 0.01);
        world($algorithm, 'plain costs, corrupt',           %costs, limits => 300, back => 0.1, corrupt => 0.3, steps_back => 0.01);
    }
    world($algorithm, 'permits',            %permits) if $algorithm =~ /^(?:log|compact)$/;
    world($algorithm, 'permits, overrides', %permits, overrides => 0.3) if $algorithm =~ /^(?:log|compact)$/;
    world($algorithm, 'overrides',         %log, overrides => 0.6, costs => 0.2, back => 0.1);
    world($algorithm, 'all of it, overrides', %log, %all, overrides => 0.7, back => 0.2, callers => 0.2, steps_back => 0.01);
    world($algorithm, 'corrupt',           %log, %all, overrides => 0.1, back => 0.1, corrupt => 0.3, callers => 0.1, steps_back => 0.01);
}
{
    my @periods = (3_600_000, 86_400_000, 7 * 86_400_000, 31 * 86_400_000, 5_000_000);
    my %quota   = (share => 0.02, periods => \@periods, windows => 10 * 86_400_000, step => 20_000_000);
    world('quota', 'all periods',       %quota, plain => 0.9);
    world('quota', "one: $_",           %quota, periods => [$_], windows => $_, step => $_ / 20, costs => 0.2, back => 0.1, steps_back => 0.02) for @periods;
    world('quota', 'clock steps back',  %quota, steps_back => 0.1);
    world('quota', 'one clock steps by periods', %quota, periods => [86_400_000], windows => 3 * 86_400_000, steps_back => 0.1, costs => 0.2);
    world('quota', 'large limits',      %quota, limits => 6000, burst => 400, costs => 0.3, back => 0.1);
    world('quota', 'callers\' clocks',  %quota, callers => 0.9, plain => 0.2);
    world('quota', 'both clocks',       %quota, callers => 0.3, plain => 0.2, costs => 0.4, back => 0.2, steps_back => 0.01);
    world('quota', 'costs, taken back', %quota, costs => 0.6, back => 0.3, step => 2_000_000);
    world('quota', 'all options',       %quota, costs => 0.4, counts => 0.2, delays => 86_400_000, back => 0.2, steps_back => 0.03);
    world('quota', 'overrides',         %quota, overrides => 0.6, costs => 0.4, counts => 0.2, back => 0.2, callers => 0.2, steps_back => 0.01);
    world('quota', 'corrupt',           %quota, costs => 0.4, back => 0.1, corrupt => 0.3, callers => 0.1, steps_back => 0.01);
}
{
    my %inflight = (share => 0.02, costs => 0.2, back => 0.3, renewals => 0.2, plain => 0.7);
    world('inflight', 'short logs',       %inflight, plain => 0.9, costs => 0);
    world('inflight', 'clock steps back', %inflight, steps_back => 0.05);
    world('inflight', 'long logs',        %inflight, keys => 4, limits => 900, windows => 20_000, step => 15, burst => 60);
    world('inflight', 'longer logs',      %inflight, keys => 3, limits => 6000, windows => 9000, step => 2, burst => 400, steps_back => 0.002);
    world('inflight', 'wide apart',       %inflight, limits => 60, windows => 3_000_000_000, step => 30_000_000);
    world('inflight', 'callers\' clocks', %inflight, callers => 0.9, plain => 0.2);
    world('inflight', 'both clocks',      %inflight, callers => 0.3, costs => 0.5, steps_back => 0.01);
    world('inflight', 'overrides',        %inflight, overrides => 0.6, plain => 0.3);
    world('inflight', 'corrupt',          %inflight, overrides => 0.1, corrupt => 0.3, callers => 0.1, steps_back => 0.01);
}
# A field that Lua reads as a number, but that is no time of a window.
for my $side ('counter, a field nan' =~ /$only/ ? qw(lua nat) : ()) {
    my $script = Testbed::Script->new($redis, $ALL_SCRIPTS{counter}, native => $side eq 'nat');
    $script->call('HSET', "$side nan", 'nan', '9223372036854775807');
    my %log = (key => "$side nan", limit => 9, window => 1000, cap => 0, ttl => 1100, options => 'cost=0 settle=2', ids => []);
    is($script->call($script->words(Testbed::Script::taking_back($now), [['u'], \%log])), 1, "a cost is settled beside a field nan: $side");
    is($script->call('HGET', "$side nan", $now), 2, 'it is counted');
}
for my $algorithm (sort keys %expected) {
    is(join(' ', grep { $found{$algorithm}{$_} } sort keys %{ $expected{$algorithm} }), join(' ', sort keys %{ $expected{$algorithm} }), "$algorithm: calls ended in all ways");
}
$bed->done;
