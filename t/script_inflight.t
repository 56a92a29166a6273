# The script of algorithm=inflight against a reference of a page, in virtual time: random requests take entries, last, are
# renewed, end, crash, and are forgotten by the server. Then: a clock that steps back, a server without memory, and
# contents that no log has.

use strict;
use warnings;
use List::Util qw(max sum0);
use Test::More;
use Testbed qw(seed);
use Testbed::Script;

seed();
my $operations = Testbed::operations(20_000);

use constant LEASE => 3000;

my $bed    = Testbed->new;
my $redis  = $bed->redis;
my $script = Testbed::Script->new($redis, 'inflight');
my $now    = 1_800_000_000_000;

sub log_of { my ($key, $limit, %more) = @_; return { key => $key, limit => $limit, window => LEASE, ttl => LEASE + 300, options => '', %more } }

# The members of a request of that cost.
sub members { my ($name, $cost) = @_; return map { $_ == 1 ? $name : "$name~$_" } 1 .. $cost }

# Renews the members of each log: [key, members].
sub renew {
    my ($script, $now, @logs) = @_;
    my $count = @logs;
    return $script->call(($script->command)[0, 1], $count, (map { $_->[0] } @logs), 'renew', $now, map { my ($key, @members) = @$_; (LEASE + 300, scalar @members, @members) } @logs);
}

# ---- the reference: of each key, [name, cost, time of the latest renewal] of each request

my %log;
my @KEYS = qw(a b c);

sub live { my ($key) = @_; return grep { $_->[2] > $now - LEASE } @{ $log{$key} // [] } }
sub used { my ($key) = @_; return sum0 map { $_->[1] } live($key) }

# All or nothing.
sub admits {
    my ($name, @asked) = @_;
    return 0 if grep { used($_->{key}) + $_->{cost} > $_->{limit} } @asked;
    push @{ $log{ $_->{key} } }, [$name, $_->{cost}, $now] for grep { $_->{cost} } @asked;
    return 1;
}

my @under_way;    # [key, name, cost] of requests that have not ended
my ($admitted, $denied, $renewed, $ended, $crashed, $forgotten, $wrong) = (0) x 6;
$wrong = '';
my $names = 0;
for my $operation (1 .. $operations) {
    $now += int rand 40;
    my $kind = rand;
    if ($kind < 0.5) {
        my $name  = 'r' . ++$names;
        my @asked = map { { key => $_, limit => 3 + int rand 8, cost => rand() < 0.8 ? 1 : int rand 4 } } rand() < 0.2 ? @KEYS[0, 1] : $KEYS[ rand @KEYS ];
        my @logs  = map { log_of($_->{key}, $_->{limit}, options => $_->{cost} == 1 ? '' : "cost=$_->{cost}") } @asked;
        my %before = map { ($_->{key} => used($_->{key})) } @asked;
        my $reply = $script->call($script->words($now, [[$name], @logs]))->[0];
        my $fits  = admits($name, @asked);
        if ($reply->[0] != $fits) {
            $wrong = "operation $operation at $now: admitted $reply->[0], not $fits";
            last;
        }
        for my $i (0 .. $#asked) {
            my $room = max(0, $asked[$i]{limit} - used($asked[$i]{key}));
            $wrong ||= "operation $operation: $reply->[2 + 3 * $i] remain, not $room" if $reply->[ 2 + 3 * $i ] != $room;
            my $retry = $reply->[ 4 + 3 * $i ];
            my $needs = $before{ $asked[$i]{key} } + $asked[$i]{cost} > $asked[$i]{limit};
            $wrong ||= "operation $operation: retry $retry" if $asked[$i]{cost} > $asked[$i]{limit} ? $retry != -1 : $fits || !$needs ? $retry != 0 : $retry < 1 || $retry > LEASE;
        }
        $fits ? $admitted++ : $denied++;
        push @under_way, map { [$_->{key}, $name, $_->{cost}] } grep { $_->{cost} } @asked if $fits;
    }
    elsif ($kind < 0.85) {
        next if !@under_way;
        my ($key, $name, $cost) = @{ splice @under_way, int rand @under_way, 1 };
        if (rand() < 0.1) {
            $crashed++;    # its worker does not come back: it stays for a lease
            next;
        }
        my $there = grep { $_->[0] eq $name } @{ $log{$key} };
        my $gone  = rand() < 0.5 ? $script->call('ZREM', $key, members($name, $cost)) && 1
            : $script->take_back({ now => $now, logged => $now - int rand 9000, taken => 0 }, $name, log_of($key, 5, $cost == 1 ? () : (options => "cost=$cost")));
        $wrong ||= "operation $operation: $name was not there" if !$gone && grep { $_->[0] eq $name } live($key);
        @{ $log{$key} } = grep { $_->[0] ne $name } @{ $log{$key} };
        $ended++;
    }
    elsif ($kind < 0.95) {
        my %of;
        push @{ $of{ $_->[0] } }, $_ for @under_way;
        my @keys  = sort keys %of or next;
        my $reply = renew($script, $now, map { my $key = $_; [$key, map { members(@$_[1, 2]) } @{ $of{$key} }] } @keys);
        for my $key (@keys) {
            my $missing = shift @$reply;
            my %again   = map { ($_->[1] => 1) } @{ $of{$key} };
            my %there   = map { ($_->[0] => 1) } live($key);
            my $lost    = sum0 map { $there{ $_->[1] } ? 0 : $_->[2] } @{ $of{$key} };
            $wrong ||= "operation $operation: $missing members were missing, at most $lost" if $missing > $lost;
            @{ $log{$key} } = ((grep { !$again{ $_->[0] } } @{ $log{$key} }), map { [$_->[1], $_->[2], $now] } @{ $of{$key} });
        }
        $renewed++;
    }
    elsif ($kind < 0.955) {
        my $key = $KEYS[ rand @KEYS ];
        $redis->cli('DEL', $key);
        delete $log{$key};
        $forgotten++;
    }
    else {
        $now += int rand LEASE / 2;
    }
    last if $wrong;
}
is($wrong, '', "the reference and the script agree in $operations operations");
note "$admitted admitted, $denied denied, $renewed renewals, $ended ended, $crashed crashed, $forgotten forgotten";
cmp_ok($_, '>', $operations / 500, 'enough of each') for $admitted, $denied, $renewed, $ended, $crashed;

# ---- what a renewal does

my $time = $now + 1_000_000;
$script->ask($time, log_of('renewed', 2)) for 1, 2;
my ($first, $second) = split ' ', $redis->cli('ZRANGE', 'renewed', 0, -1) =~ tr/\n/ /r;
is_deeply(renew($script, $time + 2000, ['renewed', $first]), [0], 'one of two is renewed');
is($script->ask($time + 2999, log_of('renewed', 2)) =~ s/ .*//r, 0, 'both count until the lease ends');
is($script->ask($time + 3000, log_of('renewed', 2)) =~ s/ .*//r, 1, 'the other one leaves with its lease');
is($redis->cli('ZSCORE', 'renewed', $first), $time + 2000, 'the score is the time of the renewal');
cmp_ok($redis->cli('PTTL', 'renewed'), '>', LEASE, 'the log lives for a lease and the slack');
is_deeply(renew($script, $time + 3100, ['renewed', $second, map { "more$_" } 1 .. 3], ['renewed2', 'x']), [4, 1], 'missing members are entered, beyond the limit, too');
is($script->ask($time + 3101, log_of('renewed', 4)), "0 0 1899 2999", 'and count');
$redis->cli('PERSIST', 'renewed');
renew($script, $time + 3200, ['renewed', $first]);
cmp_ok($redis->cli('PTTL', 'renewed'), '>', 0, 'a renewal sets the time to live');

# a thousand members at once; a key of a wrong type is an error of its own only
my @many = map { "member$_" } 1 .. 1000;
$redis->cli('SET', 'text', 1);
my $reply = renew($script, $time, ['many', @many], ['text', 'x'], ['many2', 'y']);
is($reply->[0], 1000, 'a thousand members are entered');
like($reply->[1], qr/^error WRONGTYPE/, 'a key of another type is told');
is($reply->[2], 1, 'and concerns no other log');
is($script->ask($time, log_of('many', 1001)), '1 0 3000 0', 'all of them count');

# by the clock of the server
is_deeply(renew($script, '', ['now', 'x']), [1], 'without a time');
my ($seconds, $us) = split ' ', $redis->cli('TIME') =~ tr/\n/ /r;
cmp_ok(abs($redis->cli('ZSCORE', 'now', 'x') - $seconds * 1000 - $us / 1000), '<', 5000, 'it is that of the server');
is_deeply($script->call($script->words('', [1, log_of('now', 1)]))->[0][0], 0, 'which decides plain calls');

# ---- the clock steps back

my $stepped = Testbed::Script->new($redis, 'inflight', own_clock => 1);
$stepped->ask($time, log_of('back', 2)) for 1, 2;
my ($stays) = split ' ', $redis->cli('ZRANGE', 'back', 0, 0);
is($stepped->ask($time - 50_000, log_of('back', 2)) =~ s/ .*//r, 0, 'a step back lets nobody through');
renew($stepped, $time - 49_000, ['back', $stays]);
is($stepped->ask($time - 47_001, log_of('back', 2)) =~ s/ .*//r, 0, 'what was ahead counts as of now');
is($stepped->ask($time - 47_000, log_of('back', 2)) =~ s/ .*//r, 1, 'and leaves a lease later');
is($stepped->ask($time - 46_001, log_of('back', 2)) =~ s/ .*//r, 0, 'what was renewed stays');

# ---- no memory

$redis->cli(qw(CONFIG SET maxmemory-policy noeviction));
$redis->cli(qw(CONFIG SET maxmemory 1));
like($script->call($script->words($time, [1, log_of('renewed', 99)]))->[0] // '', qr/OOM/, 'no memory is told');
is_deeply(renew($script, $time + 4000, ['renewed', $first]), [0], 'an entry is renewed without memory');
is($script->call('ZREM', 'renewed', $first), 1, 'and given back');
$redis->cli(qw(CONFIG SET maxmemory 0));

$bed->done;
