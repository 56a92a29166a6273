package Testbed::Corrupt;

# Contents of keys that no log holds: random ones, and logs in which something was changed.

use strict;
use warnings;
use Exporter 'import';

our @EXPORT_OK = qw(any block mutate record %random);

sub any { return $_[int rand @_] }

my @absurd = ('0', '-0', '1', '-1', '-5', '0.5', '1.5', '1e3', '1e15', '1e18', '1e300', '-1e300', '9007199254740993', '9223372036854775807',
    '-9223372036854775808', '99999999999999999999', '0x10', '00');
my @words = ('inf', '-inf', 'nan', '-nan', '', ' 5', '5 ', 'many', '1.', '1.000001', "\0", '1' x 400);

# A time around now, in ms.
sub moment {
    my ($now, $window) = @_;
    return any($now, $now - 1, $now + 1, $now - $window, $now - $window + 1, $now + $window, $now - $now % $window, $now - $now % $window - $window,
        $now - int rand 3 * $window, $now + int rand 3 * $window, $now . '.5', "$now.", "$now.00000$now", "$now.00000", "+$now", "0$now");
}

sub number { my ($now, $window) = @_; return rand() < 0.4 ? moment($now, $window) : rand() < 0.6 ? any(@absurd) : int rand 50 }

# The name of a field of a quota, or nearly so.
sub period {
    my ($now, $window) = @_;
    my $first = any(moment($now, $window), map { $now + int(rand(6) - 3) * $window } 1 .. 8);
    return any("$window $first", any(qw(hour day week month)) . " $first", "month $first", rand() < 0.2 ? any('month', "month  $first", " $first", "month $first ", "m-h $first", $first, 'month ' . any(@absurd, @words)) : ());
}

sub block {
    my ($now, $window) = @_;
    return map { ($_, any(number($now, $window), any(@words), 60000)) } any(['blocked until'], ['blocked for'], ['blocked until', 'blocked for'])->@*;
}

# Commands that write such a key.
our %random = (
    log => sub {
        my ($key, $now, $window) = @_;
        return map {
            my $is_block = rand() < 0.2;
            my $score    = any('inf', '-inf', number($now, $window)) =~ s/^(\d{13})\.0*\d*$/$1/r =~ s/^0x10$/16/r;
            ['ZADD', $key, $is_block ? '-' . abs($score) : $score, $is_block ? 'blocked for ' . any(@absurd, 5000, '9' x 400) . ' ms' : 'm' . int rand 1e6]
        } 1 .. 1 + int rand 12;
    },
    counter => sub {
        my ($key, $now, $window) = @_;
        return ['HSET', $key, map { @$_ } map {
            any([number($now, $window), any(number($now, $window), int rand 9)], [number($now, $window), int rand 9], [any(@words), any(@absurd)],
                ['reserved', any(number($now, $window), any(@words))], [block($now, $window)])
        } 1 .. 1 + int rand 6];
    },
    bucket => sub {
        my ($key, $now, $window) = @_;
        return ['HSET', $key, 'used', any(number($now, $window), any(@words), int rand 20 * $window), 'time', any(moment($now, $window), number($now, $window), any(@words)),
            rand() < 0.3 ? block($now, $window) : (), rand() < 0.05 ? (any(@words), 1) : ()];
    },
    quota => sub {
        my ($key, $now, $window) = @_;
        return ['HSET', $key, map { (period($now, $window), any(number($now, $window), any(@words), map { int rand 9 } 1 .. 6)) } 1 .. 1 + int rand 6];
    },
    compact => sub {
        my ($key, $now, $window) = @_;
        my $six  = sub { my $ms = any($now, $now - 5, $now - $window, $now + 5, 0, 2**48 - 1, $now + $window, int rand 2**48); return substr pack('Q>', $ms), 2 };
        my $four = sub { return pack 'N', any(0, 1, 2, 5, 40, 100, 2**32 - 1, int rand 2**32, int rand 200) };
        my $rest = join '', map { chr any(0, 1, 5, 127, 128, 255, int rand 256) } 1 .. any(0, 1, 5, 64, 200, 700);
        my $five = sub { return substr pack('Q>', any(0, 1, 5, 40, $window, 2**40 - 1, int rand 2**40, int rand 200)), 3 };
        my $ends = sub { my ($has_runs) = @_; return $six->() . ($has_runs ? $five->() . $five->() : $six->() . $four->()) };
        my $runs = rand() < 0.5;
        my $text = rand() < 0.6
            ? chr($runs ? 3 : 1) . $ends->($runs) . $six->() . $four->() . $four->() . $four->() . chr(any(0, 5, 32, 64, 255)) . chr(any(0, 5, 32, 64, 255)) . $rest
            : rand() < 0.7 ? chr($runs ? 4 : 2) . $six->() . $six->() . $ends->($runs) . $rest
            :                any("\1", "\2", "\3", "\4", '', 'x') . $rest;
        return ['SET', $key, $text];
    },
);
$random{$_} = $random{log} for qw(sampled inflight);

# The record of an override, mostly; one in five is none.
sub record {
    my ($now) = @_;
    my $what  = any('allow', 'allow', 'deny', 'deny', 'limit=allow', 'limit=deny', map { 'limit=' . $_ } 0, 1, 5, int rand 50, int rand 5000, any('1000000000000', '0000000000012'));
    my $until = any(0, 0, 0, 0, $now, $now - 1, $now + 1, $now + int rand 5000, $now + int rand 1e9);
    my $text  = "$what until=$until since=" . any(1, '9' x 30) . ' by=' . any('', 'a', "\0\xff") . ' why=' . any('', 'a test', "x\ny\0z");
    return $text if rand() < 0.8;
    my $at = int rand length $text;
    my $how = int rand 6;
    return $how == 0 ? substr $text, 0, $at
        : $how == 1 ? substr($text, 0, $at) . any(' ', '=', '9', 'x', "\0", "\n", "\x0b") . substr $text, $at
        : $how == 2 ? substr($text, 0, $at) . substr $text, $at + 1
        : $how == 3 ? any('', 'x', 'limit', 'limit=', 'allow', 'NOPERM x', 'ERR acl verification failed', 'ERR ACL failure in script: x', 'ERR The user executing the script x')
        : $how == 4 ? $text =~ s/until=\d+/'until=' . any(@absurd, @words, '9' x 15, '9' x 16)/er
        :             $text =~ s/limit=\d+/'limit=' . any(@absurd, @words, '9' x 13, '1000000000001', '0' x 14)/er;
}

# A log that requests have made, in which something is changed.
sub mutate {
    my ($client, $algorithm, $key, $now, $window) = @_;
    if ($algorithm eq 'compact') {
        my $text = $client->call('GET', $key) // return;
        my $at   = int rand any(length $text, 40);
        for (any(1, 1, 2, 5)) {
            my $how = int rand 4;
            substr($text, min_of($at, length $text), $how == 1 ? 0 : 1) = chr any(0, 1, 127, 128, 255, int rand 256) if $how < 2;
            substr($text, min_of($at, length $text)) = '' if $how == 2;
            $text .= chr int rand 256 if $how == 3;
        }
        return ['SET', $key, $text];
    }
    if ($algorithm =~ /log|sampled|inflight/) {
        my $members = $client->call('ZRANGE', $key, 0, -1);
        return map { ['ZADD', $key, any('inf', '-inf', any(@absurd[0 .. 14])), any(@$members, 'blocked for 5000 ms')] } 1 .. any(1, 2);
    }
    my $fields = $client->call('HGETALL', $key);
    return if !@$fields;
    return ['HDEL', $key, any('blocked until', 'blocked for')] if rand() < 0.2;
    my $i = 2 * int rand @$fields / 2;
    return ['HSET', $key, period($now, $window), $fields->[ $i + 1 ]] if $algorithm eq 'quota' && rand() < 0.5;
    return rand() < 0.5 ? ['HSET', $key, $fields->[$i], any(number($now, $window), any(@words))] : ['HSET', $key, number($now, $window), $fields->[ $i + 1 ]];
}

sub min_of { return $_[0] < $_[1] ? $_[0] : $_[1] }

1;
