package Testbed::RandomCalls;

# Random calls for two keys of each log, "lua ..." and "nat ...": decisions, take-backs and renewals of all algorithms, and
# random contents of both keys. A log is { name, limit, window, burst }; a world has the probabilities.

use strict;
use warnings;
use Exporter 'import';
use Testbed::Corrupt qw(any mutate record %random);
use Time::Local qw(timegm);

our @EXPORT_OK = qw($now corrupt for_side group members options override period_end plain_groups renewal renewing settle);

our $now    = 1_800_000_000_000;    # ms
my $unique = 0;

sub options {
    my ($algorithm, $world, $log) = @_;
    my @words;
    push @words, 'ids' if $log->{ids};
    push @words, 'cost=' . any(0, 2, 3, 1 + int rand $log->{limit}, $log->{limit} + 1, map { 1 + int rand $log->{limit} / 50 } 1 .. $world->{small_costs} // 0) if rand() < $world->{costs};
    push @words, 'count=all' if rand() < $world->{counts};
    if ($world->{delays} && rand() < 0.8) {
        push @words, 'delay=' . (1 + int rand $world->{delays}) if rand() < 0.8;
        push @words, "ahead=$world->{delays}";
    }
    push @words, 'block=' . join ',', map { 1 + int rand $world->{blocks} } 1 .. any(1, 1, 2, 3, 8) if $world->{blocks} && rand() < 0.6;
    push @words, 'escalates' if $world->{blocks} && rand() < 0.3;
    push @words, 'permits=' . (2 + int rand 30) if rand() < $world->{permits};
    push @words, 'override' if rand() < $world->{overrides};
    push @words, 'told' if defined $log->{told};
    push @words, "burst=$log->{burst}" if $algorithm eq 'bucket';
    push @words, 'sample=3' if $algorithm eq 'sampled';
    return "@words";
}

# Makes a take-back one that settles costs, in some of its logs.
sub settle {
    my ($logs) = @_;
    my @settled = grep { rand() < 0.6 } @$logs;
    for my $log (@settled) {
        my $ago = any(0, 0, int rand 20, int rand $log->{window}, int rand 3 * $log->{window}, 999_999_999_999);
        $log->{options} = join ' ', grep { length } $log->{options}, 'settle=' . any(0, 1, 2, 1 + int rand 2 * $log->{limit} + 2, 1 + int rand 100), rand() < 0.7 ? sprintf('ended=%012d', $ago) : ();
    }
    return @settled > 0;
}

# The members of a request in a log of algorithm=inflight.
sub members {
    my ($name, $log) = @_;
    my $cost = $log->{options} =~ /cost=(\d+)/ ? $1 : 1;
    return map { $_ == 1 ? $name : "$name~$_" } 1 .. $cost;
}

# A renewal of some requests under way, and of members that the log may not have: { name, members } of each log.
sub renewal {
    my ($under_way, $logs) = @_;
    my %members;
    for my $group (map { any(@$under_way)->{group} } 1 .. any(1, 1, 2, 5)) {
        push @{ $members{ $_->{name} } }, members($group->{names}[0], $_) for @{ $group->{logs} };
    }
    push @{ $members{ any(@$logs)->{name} } }, 'u' . int rand $unique + 1 if rand() < 0.2;
    push @{ $members{ any(@$logs)->{name} } }, map { 'u' . ++$unique } 1 .. any(1, 10, 1000) if rand() < 0.05;
    return map { my $name = $_; { name => $name, members => [splice @{ $members{$name} }, 0, 1000] } } grep { @{ $members{$_} } } sort keys %members;
}

# The words of a renewal for one side.
sub renewing {
    my ($script, $side, $at, $ttl, @renewed) = @_;
    return ($script->command, scalar @renewed, (map { "$side $_->{name}" } @renewed), 'renew', $at, map { ($ttl, scalar @{ $_->{members} }, @{ $_->{members} }) } @renewed);
}

sub group {
    my ($algorithm, $world, $logs) = @_;
    my ($first, $second) = (any(@$logs), any(@$logs));
    my @asked    = $first == $second || rand() < 0.8 ? $first : ($first, $second);
    my $requests = rand() < 0.85 ? 1 : 1 + int rand $world->{burst};
    my @logs     = map {
        local $_->{ids} = $algorithm eq 'log' && rand() < $world->{ids};
        local $_->{told} = rand() < $world->{overrides} / 5 ? any('', 'WRONGTYPE Operation', 'NOPERM this user', record($now)) : undef;
        my $limit = rand() < 0.95 ? $_->{limit} : any(0, 1, 1 + int rand $_->{limit}, 2 * $_->{limit});
        {
            name => $_->{name}, limit => $limit, cap => any(0, $_->{limit} + int rand $_->{limit}), options => options($algorithm, $world, $_),
            window => rand() < 0.99 ? $_->{window} : any(2 * $_->{window}, @{ $world->{periods} }), ttl => $_->{window} + any(1, 100, 100, $_->{window}),
            ids => $_->{ids} ? [map { any('', 'i1', 'i2', 'i' . int rand 50) } 1 .. $requests] : [], told => $_->{told},
        }
    } @asked;
    return { names => [map { rand() < 0.98 ? 'u' . ++$unique : 'u' . int rand $unique + 1 } 1 .. $requests], logs => \@logs } if rand() >= $world->{permits} / 3;
    for my $log (@logs) {    # permits alone are asked for
        $log->{ids}     = [];
        $log->{options} = $log->{options} =~ s/^ids ?//r =~ s/(permits=\d+)/rand() < 0.7 ? "$1 held=" . int rand 40 : $1/er;
    }
    return { names => { asks => 'u' . ++$unique }, logs => \@logs };
}

# A group of logs with the keys of one side.
sub for_side { my ($side, $group) = @_; return [$group->{names}, map { { %$_, key => "$side $_->{name}", ids => [@{ $_->{ids} }, $_->{told} // ()] } } @{ $group->{logs} }] }

# Usually a plain call: all logs have the limit of the first one, or each request has a second log with another limit.
sub plain_groups {
    my ($logs) = @_;
    my @logs    = map { any(@$logs) } 1 .. any(1, 1, 1, 2, 4);
    my %numbers = numbers($logs[0]);
    return map { { names => ['u' . ++$unique], logs => [{ name => $_->{name}, %numbers }] } } @logs if @$logs < 2 || rand() < 0.6;
    my %of_second = numbers(any(@$logs));
    return map {
        my $first = $_;
        { names => ['u' . ++$unique], logs => [{ name => $first->{name}, %numbers }, { name => any(grep { $_ != $first } @$logs)->{name}, %of_second }] }
    } @logs;
}

sub numbers {
    my ($log) = @_;
    return (limit => $log->{limit}, window => $log->{window}, ttl => $log->{window} + any(100, 100, 5000), cap => 2 * $log->{limit}, options => '', ids => []);
}

# The last ms of a period of UTC, or the first ones of the next.
sub period_end {
    my ($window) = @_;
    my ($month, $year) = (gmtime int $now / 1000)[4, 5];
    my $into = ($now - (rand() < 0.5 ? 4 * 86_400_000 : 0)) % $window;    # weeks begin on Monday, 1970 on a Thursday
    my $end  = rand() < 0.5 ? $now - $into + $window : 1000 * timegm(0, 0, 0, 1, ($month + 1) % 12, $year + 1900 + ($month == 11));
    return $end + any(-1, 0, 1, 2);
}

# Breaks a log in a random way. Both keys have the same contents then.
sub corrupt {
    my ($client, $algorithm, $type, $log) = @_;
    my $key      = "lua $log->{name}";
    my $has      = $client->call('TYPE', $key);
    my $how      = $has eq 'none' || $has eq $type ? rand() : 0.3;
    my @commands = $how < 0.1 ? ['DEL', $key]
        : $how < 0.15 ? (['DEL', $key], any(['HSET', $key, 'a', 1], ['SET', $key, any('', 'x', 12)], ['RPUSH', $key, 1]))
        : $how < 0.5  ? (['DEL', $key], $random{$algorithm}->($key, $now, $log->{window}))
        :               mutate($client, $algorithm, $key, $now, $log->{window});
    $client->call(@$_) for @commands, ['DEL', "nat $log->{name}"], ['COPY', $key, "nat $log->{name}"];
    return if rand() < 0.7;
    my $remembered = any('', 'x', '1 2', "$now 300 1", any(0, $now, $now - 100, $now + 5000) . ' ' . any(0, 1, 300, 1e15) . ' ' . any(0, 1, 2, 9999) . any('', ' ', " $now 50 1", ' 1 2'));
    $client->call('SET', "$_ $log->{name}:blocks", $remembered) for qw(lua nat);
    return;
}

# A record beside the log, or none.
sub override {
    my ($client, $log) = @_;
    my $make = rand() < 0.2 ? undef : rand() < 0.1 ? any(['RPUSH', 'x'], ['HSET', 'a', 1], ['ZADD', 1, 'x']) : ['SET', record($now)];
    for my $key (map { "$_ $log->{name}:override" } qw(lua nat)) {
        $client->call('DEL', $key);
        $client->call($make->[0], $key, @$make[1 .. $#$make]) if $make;
    }
    return;
}

1;
