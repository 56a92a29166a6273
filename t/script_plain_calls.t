# A plain call decides, replies and writes as the frame does: the same random operations on two logs. For one of them
# plain calls are sent where the module would send them, also with costs, options or two limits; for the other log none
# are. In between there are calls with other options and clocks, stale contents, blocks, records, foreign and broken contents.
# prove: first

use strict;
use warnings;
use Test::More;
use Testbed qw(seed);
use Testbed::Script;
use Time::HiRes qw(time);

seed();
my $operations = Testbed::operations(4000);    # of each world, or more, until all outcomes were seen
my $least      = Testbed::operations(20);      # times, each of them
my $only       = $ENV{TEST_WORLD} // '.';

my $bed    = Testbed->new;
my $redis  = $bed->redis;
my $unique = 0;

use constant {
    BEGIN_MS => 1_800_000_000_000,
    LATE     => 1500,                 # ms between the same command to both logs, at most
};
# options of a plain call
my @sparing = ('delay=50 ahead=50', 'ahead=50', 'block=40', 'block=40,90', 'block=30 escalates', 'delay=20 ahead=50 block=30', 'override',
    'block=40 override', 'delay=50 ahead=50 override');

sub any { return $_[int rand @_] }

sub text { my ($reply) = @_; return ref $reply ? '[' . join(' ', map { text($_) } @$reply) . ']' : $reply // 'none' }

# The text of an error without its line in the script.
sub told { my ($reply) = @_; return text($reply) =~ s/ script: [0-9a-f]+, on \@user_script:\d+[.]?//gr }

# The contents of a key, and its end.
sub contents {
    my ($client, $key) = @_;
    my $type = $client->call('TYPE', $key);
    my %read = (zset => ['ZRANGE', $key, 0, -1, 'WITHSCORES'], string => ['GET', $key], hash => ['HGETALL', $key]);
    my @read = @{ $read{$type} // ['EXISTS', $key] };
    return ("$type " . text($client->call(@read)), $client->call('PEXPIRETIME', $key));
}

# A block of a HASH, which may be over.
sub blocked { my ($now) = @_; return ['HSET', 'KEY', 'blocked until', $now + any(-30, 1, 20, 40), 'blocked for', any(1, 40, 40, 'x')] }

# Commands of other clients for a log in that form.
my %foreign = (
    sliding_log => sub {
        my ($now, $window) = @_;
        return any(
            ['ZADD', 'KEY', any($now - $window, $now - int rand 2 * $window, $now + int rand 50, $now . '.5', 0, -5, 'inf', '-inf', 1e300), 'foreign' . int rand 9],
            ['ZADD', 'KEY', -($now + int rand $window), 'blocked for ' . any(1, 500, 10**15, 'some') . ' ms'],
            ['ZADD', 'KEY', map { ($now - $window - int rand 5000, 'stale' . ++$unique) } 1 .. any(1, 3, 300)],
            ['ZADD', 'KEY', $now, 'u' . ($unique + 1)],
            ['ZPOPMIN', 'KEY', 1 + int rand 3],
        );
    },
    compact_log => sub {
        return any(
            ['SETRANGE', 'KEY', int rand 110, join '', map { chr int rand 256 } 1 .. 1 + int rand 4],
            ['SETRANGE', 'KEY', int rand 40, chr any(0, 1, 2, 127, 128, 255)],
            ['SETRANGE', 'KEY', 37 + int rand 6, chr 128 + int rand 128],
            ['APPEND', 'KEY', chr int rand 256],
            ['SET', 'KEY', any('', 'foreign', "\1" x 37, "\1" . "\0" x 36, "\2" x 40)],
        );
    },
    sliding_counter => sub {
        my ($now, $window) = @_;
        return any(
            ['HSET', 'KEY', $now - int rand 3 * $window, any(0, 1, 2, 5)],
            ['HSET', 'KEY', any($now + int rand 2 * $window, $now, 0, -1, "$now.5", 'some', 'nan', 'inf', '1e12'), any(0, 1, 2, -1, 1.5, 'x', 'inf', 'nan', 2**53, '0x2')],
            ['HSET', 'KEY', map { ($now - 2 * $window - int rand 5 * $window, 1) } 1 .. any(1, 3, 120)],
            ['HSET', 'KEY', 'reserved', any($now + int rand 50, "$now.00000$now", -1)],
            blocked($now),
        );
    },
    token_bucket => sub {
        my ($now, $window) = @_;
        return any(
            ['HSET', 'KEY', 'used', any(0, 1, 1 + int rand 20 * $window, -1, 0.5, 'x', 'inf', 'nan', '1e31', 2**53, '0x20')],
            ['HSET', 'KEY', 'time', any($now, "$now.", '0' . ($now - 5) . '.', $now + int(rand 50) . '.', $now - int(rand $window) . ".00000$now", '', '.', '0x10.', 'nan', '-inf', -5)],
            ['HDEL', 'KEY', any('used', 'time')],
            blocked($now),
        );
    },
);

sub with_burst { my ($options, $burst) = @_; return join ' ', grep { length } $options, $burst ? "burst=$burst" : () }

# Costs that leave little room for the next requests, that fit exactly or never, and that take few or many bytes.
sub cost {
    my ($world, $log) = @_;
    my $most = $log->{limit};
    return 'cost=' . any(1, 2, 3, 4, 5, (map { 1 + int $_ * rand $most } @{ $world->{costs} }), $most, $most, $most + 1, 10 * $most);
}

sub world {
    my ($name, $title, %world) = @_;
    return if "$name, $title" !~ /$only/;
    my %options = (front => $world{front}, at_once => $world{at_once});
    my %own     = (%options, own_clock => 1);
    my ($plain, $frame, $caller) = map { Testbed::Script->new($redis, $name, %$_) } \%own, { %own, frame => 1 }, \%options;
    my @logs = map { { plain => "$name, $title: plain $_", frame => "$name, $title: frame $_", limit => 1 + int rand $world{limits}, burst => 1 + int rand $world{limits}, window => $world{window} } } 1 .. 6;
    # the second ones of requests with two limits
    my @longer = map { my $log = $_; +{ plain => "$log->{plain} and longer", frame => "$log->{frame} and longer", limit => 2 * $log->{limit}, burst => $log->{burst}, window => 3 * $log->{window} } } @logs[0 .. 2];
    my $now  = BEGIN_MS;
    my %seen;
    my @outcomes  = ('plain 1', 'plain 0', 'options 1', 'options 0', 'two 1', 'two 0', 'record', $world{costs} ? ('cost 1', 'cost 0') : (), $world{foreign} ? ('plain else', 'foreign') : ());
    my $operation = 0;
    while (++$operation <= $operations || $operation < 10 * $operations && grep { ($seen{$_} // 0) <= $least } @outcomes) {
        my $log = rand() < 0.1 ? any(@longer) : any(@logs);
        $now += rand() < 0.3 ? 0 : int -log(1 - rand) * $world{step};
        $now += int rand 2 * $world{window} if rand() < 0.005;
        $now -= int rand $world{window}     if rand() < 0.01;
        my %asked = (
            limit  => rand() < 0.97 ? $log->{limit} : any(0, 1, 1 + int rand $log->{limit}, 2 * $log->{limit}),
            window => rand() < 0.98 ? $log->{window} : 2 * $log->{window},
            ttl    => any(map { $log->{window} + $_ * 100_000 } 4, 4, 4, 5),
            cap    => 2 * $log->{limit},
            options => '',
        );
        my $kind = any(('plain') x ($world{costs} ? 6 : 24), $world{costs} ? ('cost') x 24 : (), ('two') x ($world{costs} ? 3 : 12), ('many') x 6, ('options') x 12, ('record') x 2, 'burst', 'caller', 'back', $world{foreign} ? ((qw(foreign gone)) x 2, 'type') : ());
        $asked{options} = any('cost=' . int rand 5, 'count=all', 'cost=' . int(1 + $log->{limit} / 2), 'cost=2 block=40 override', (@sparing) x 2) if $kind eq 'options';
        $asked{options} = any(@sparing) if $kind eq 'many' && rand() < 0.3;
        $asked{options} = cost(\%world, $log) if $kind eq 'cost';
        my $called  = $now + any(0, 0, -20, 300);
        my @names   = map { 'u' . ++$unique } 1 .. $kind eq 'burst' ? 1 + int rand 8 : 1;
        my @together = $kind eq 'two' ? ($log, rand() < 0.3 ? any(@logs) : ()) : $kind eq 'many' ? ($log, grep { $_ != $log && rand() < 0.5 } @logs) : $log;    # one call, of the same limit
        @names = ($log->{name}) if $kind eq 'plain' && $log->{name} && rand() < 0.02;    # it usually exists
        my @foreign = $kind eq 'record' ? any(['DEL', 'KEY:override'], ['SET', 'KEY:override', any('limit=3', 'allow', 'deny', 'broken') . ' until=0 since=1 by=a why='])->@* : $kind eq 'type' ? ('HSET', 'KEY', 'a', 1) : $kind eq 'gone' ? ('DEL', 'KEY') : $kind eq 'foreign' ? @{ $foreign{$name}->($now, $log->{window}) } : ();
        my %options = map { $_->{plain} => $_ == $log || !$world{costs} ? $asked{options} : cost(\%world, $_) } @together;
        my @seconds   = map { any(@longer) } $kind eq 'two' ? @together : ();
        $_ = with_burst($_, $log->{burst}) for $name eq 'token_bucket' ? values %options : ();
        my %of_second = map { (limit => rand() < 0.9 ? $_->{limit} : any(0, 1), window => $_->{window}, ttl => $_->{window} + 400_000, cap => 0, options => with_burst(rand() < 0.9 ? '' : any(@sparing), $name eq 'token_bucket' && $_->{burst})) } @seconds ? $seconds[0] : ();
        my ($replies, $at) = ([], $kind eq 'back' ? $log->{at} // $now : $now);
        for my $side ([$plain, $log->{plain}], [$frame, $log->{frame}]) {
            my ($script, $key) = @$side;
            my @group = (\@names, { %asked, options => $options{ $log->{plain} }, key => $key });
            my $which = $script == $plain ? 'plain' : 'frame';
            my @groups = map { [$_ == $log ? \@names : ["$names[0].$_->{plain}"], { %asked, options => $options{ $_->{plain} }, key => $_->{$which} }] } @together;
            push @{ $groups[$_] }, { %of_second, key => $seconds[$_]{$which} } for $kind eq 'two' ? 0 .. $#groups : ();
            my @words =
                  @foreign           ? map { s/^KEY(?=:|$)/$key/r } @foreign
                : $kind eq 'caller'  ? $caller->words($called, \@group)
                : $kind eq 'back'    ? $script->words(Testbed::Script::taking_back({ now => $now, logged => $at, taken => $at }), [[$log->{name} // 'u0'], $group[1]])
                :                      $script->words($now, @groups);
            my $keys = $words[2] // 0;
            $seen{of_two}++ if $which eq 'plain' && grep { $_ eq 'two' } @words;
            $seen{plain}++ if $which eq 'plain' && !@foreign && grep { @words == $_ * $keys + 7 || @words == $_ * $keys + 8 } $name eq 'sliding_log' ? 2 : (1, 2);
            push @$replies, told($script->call(@words));
        }
        @$log{qw(at name)} = ($now, $names[0]) if $kind eq 'plain';
        my @left = map { [contents($plain, $_->{plain})] } @together, @seconds;
        my @as   = map { [contents($frame, $_->{frame})] } @together, @seconds;
        my ($left, $as)    = map { join "\n", map { $_->[0] =~ s/([^ -~])/sprintf '\\x%02x', ord $1/ger } @$_ } \@left, \@as;
        my ($end, $end_as) = map { $_->[0][1] } \@left, \@as;
        my $ends_differ    = grep { abs($left[$_][1] - $as[$_][1]) > LATE } 0 .. $#left;
        my $admitted = $replies->[1] =~ /^\[\[([01]) / ? $1 : 'else';
        $seen{ $kind =~ /^(?:plain|cost|options|two)$/ ? "$kind $admitted" : $kind }++;
        next if $replies->[0] eq $replies->[1] && $left eq $as && !$ends_differ;
        is("$replies->[0]\n$left", "$replies->[1]\n$as", "$name, $title: operation $operation, $kind $asked{options} at $now, limit $asked{limit}");
        is($end, $end_as, "$name, $title: the time to live after operation $operation, $kind");
        return;
    }
    cmp_ok($seen{$_} // 0, '>', $least, "$name, $title: more than $least calls are $_, of $operation") for @outcomes;
    cmp_ok($seen{plain} + $seen{of_two}, '>', $operation / 2, "$name, $title: half of the calls are plain");
    return;
}

for my $name (qw(sliding_log compact_log sliding_counter token_bucket)) {
    my %usual = (limits => 12, window => 1000, step => 20, foreign => 0);
    my %small = $name eq 'sliding_log' ? (at_once => 3) : $name eq 'compact_log' ? (front => 14) : ();
    world($name, 'short logs', %usual);
    world($name, 'long logs', %usual, limits => 300, window => 20_000);
    world($name, 'few at once', %usual, %small, limits => 60) if %small;
    world($name, 'wide apart', %usual, limits => 60, window => 300_000_000, step => 6_000_000);
    world($name, 'half of the slack', %usual, limits => 200, window => 2_000_000, step => 20_000);
    world($name, 'foreign contents', %usual, foreign => 1);
    world($name, 'foreign contents, few at once', %usual, %small, limits => 60, foreign => 1) if %small;
    next if $name eq 'sliding_log';
    world($name, 'costs', %usual, limits => 300, costs => [0.3]);
    world($name, 'costs, long logs', %usual, limits => 5000, window => 20_000, costs => [(0.005) x 20, 0.3]);
    world($name, 'costs, short fronts', %usual, %small, limits => 600, costs => [(0.1) x 10, 0.8]) if %small;
    world($name, 'large costs', %usual, limits => 1_000_000_000_000, costs => [(0.03) x 20, 0.5]);
    world($name, 'large costs, long logs', %usual, limits => 1_000_000_000, window => 20_000, costs => [(0.003) x 30, 0.1]);
    world($name, 'costs, half of the slack', %usual, limits => 2000, window => 2_000_000, step => 20_000, costs => [(0.02) x 10]);
    world($name, 'costs, wide apart', %usual, limits => 6000, window => 300_000_000, step => 6_000_000, costs => [(0.02) x 10, 0.5]);
    world($name, 'costs, foreign contents', %usual, limits => 2000, costs => [(0.01) x 10, 0.5], foreign => 1);
    world($name, 'costs, foreign contents, short fronts', %usual, %small, limits => 300, costs => [(0.05) x 10], foreign => 1) if %small;
}

# By Redis's true clock, which does not step back here; instead entries are ahead of it, and keys end later.
for my $frame (0, 1) {
    my $script = Testbed::Script->new($redis, 'sliding_log', frame => $frame);
    my $how    = $frame ? 'the frame' : 'a plain call';
    my $ahead  = 4_000_000_000_000;
    my $key    = "true clock $frame";
    my %log    = (key => $key, limit => 3, window => 60_000, ttl => 66_000);
    $script->call('ZADD', $key, $ahead, 'ahead');
    $script->call('PEXPIRE', $key, 30_000);
    like($script->ask('', \%log), qr/^1 1 \d+ 0$/, "$how meets an entry ahead of now: it counts");
    my @scores = @{ $script->call('ZRANGE', $key, 0, -1, 'WITHSCORES') }[1, 3];
    is(scalar(grep { $_ < $ahead } @scores), 2, "$how meets an entry ahead of now: it becomes one of now");
    cmp_ok($script->call('PTTL', $key), '>', 60_000, "$how moves the end of a key on");
    $script->call('PEXPIRE', $key, 600_000);
    $script->call('ZADD', $key, 'XX', $ahead, 'ahead');
    like($script->ask('', \%log), qr/^1 0 \d+ 0$/, "$how meets a newest entry ahead of now: it counts");
    is($script->call('ZCOUNT', $key, $ahead, '+inf'), 0, "$how meets a newest entry ahead of now: it becomes one of now");
    like($script->ask('', \%log), qr/^0 0 (\d+) \1$/, "$how denies");
}

# A full log keeps the compact encoding when entries leave.
my ($most) = $redis->cli(qw(CONFIG GET zset-max-listpack-entries)) =~ /(\d+)/;
for my $frame (0, 1) {
    my $script = Testbed::Script->new($redis, 'sliding_log', frame => $frame);
    my $key    = "full $frame";
    my $now    = int 1000 * time;
    $script->call('ZADD', $key, map { ($now - 70_000 + 200 * $_, "e$_") } 1 .. $most);
    like($script->ask('', { key => $key, limit => $most, window => 60_000, ttl => 66_000 }), qr/^1 /, ($frame ? 'the frame' : 'a plain call') . ' admits to a full log of which entries leave');
    is($redis->cli('OBJECT', 'ENCODING', $key), 'listpack', ($frame ? 'the frame' : 'a plain call') . ' leaves a full log in the encoding for short ones');
}

# The clock steps back, and the time to live does not show it, since another command has changed that.
{
    my $script = Testbed::Script->new($redis, 'sliding_log');
    my $now    = int 1000 * time;
    my %log    = (key => 'stepped back', limit => 10, window => 10_000, ttl => 11_000);
    $script->call('ZADD', $log{key}, $now - 20_000, 'old', $now + 50_000, 'a1', $now + 50_001, 'a2');
    $script->call('PEXPIRE', $log{key}, 5000);
    like($script->ask('', \%log), qr/^1 /, 'stale entries and some ahead of now: a plain call admits') for 1 .. 2;
    is($script->call('ZCOUNT', $log{key}, int(1000 * time) + 1, '+inf'), 0, 'stale entries and some ahead of now: two calls later they are of now');
}

# A user without the right to one of the commands gets the error of the frame, not a denial.
$redis->cli('ACL', 'SETUSER', 'weak', 'on', '>pass', '~*', '-@all', qw(+evalsha +time +zrange +zcard +zadd +pexpire +zremrangebyscore +getrange +setrange +set));
for my $name (qw(sliding_log compact_log)) {
    my $script = Testbed::Script->new($redis, $name);
    $script->call('AUTH', 'weak', 'pass');
    for my $right ('time', $name eq 'sliding_log' ? ('zadd', 'pexpire') : 'set') {
        $redis->cli('ACL', 'SETUSER', 'weak', "-$right");
        like(text($script->call($script->words('', [1, { key => "weak $name $right", limit => 1, window => 60_000, ttl => 66_000 }]))), qr/permission|can't run this command/, "$name without $right: the error says so");
        $redis->cli('ACL', 'SETUSER', 'weak', "+$right");
    }
}

$bed->done;
