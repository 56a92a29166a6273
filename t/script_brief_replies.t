# A plain call tells an admission by one number for each log, with the time behind all, where that number is exact: below
# 2^53. Else, and where it denies, it tells at length, as the frame does. Both say the same.

use strict;
use warnings;
use Test::More;
use Testbed;
use Testbed::Script;

my $bed   = Testbed->new;
my $redis = $bed->redis;

use constant { WINDOW => 3_600_000, DAY => 86_400_000 };

# Of a log that keeps a limit of this size: the largest one that is told briefly.
sub largest { my ($window) = @_; return int((2**53 - 1) / (2 * $window)) }

# The reply as it is sent: of each request "brief" or its numbers, and whether the time is behind them.
sub raw {
    my ($script, @groups) = @_;
    $script->send($script->words('', @groups));
    my ($reply) = $script->as_sent;
    ref $reply or return $reply;
    my @all = map { ref ? @$_ < 3 ? 'brief, of two' : 'at length' : 'brief' } @$reply;
    $all[-1] = 'time' if @all > @groups;
    return join ' ', @all;
}

sub log_of { my ($name, $key, $limit, %more) = @_; return { key => $key, limit => $limit, window => WINDOW, ttl => 2 * WINDOW, options => $name eq 'token_bucket' ? "burst=$limit" : '', %more } }

for my $name (qw(sliding_log compact_log sliding_counter token_bucket)) {
    my $script = Testbed::Script->new($redis, $name, native => 0);
    my $more   = $name =~ /counter|bucket/ ? 1 : 0;                  # what may be left is as much as the limit
    my $most   = largest(WINDOW) - $more;
    my $refill = $name eq 'token_bucket' ? 1 : 0;                    # of a large bucket, within a ms
    my $log    = sub { my ($key, $limit, @more) = @_; return log_of($name, "$name $key", $limit, @more) };

    is(raw($script, [1, $log->('one', 3)]), 'brief time', "$name: an admission is told by one number");
    is(raw($script, [1, $log->('one', 3)], [1, $log->('other', 3)]), 'brief brief time', "$name: those of several requests, too");
    is($script->ask('', $log->('one', 3)) =~ s/ \d+ (?=0$)/ RESET /r, '1 0 RESET 0', "$name: which says what is left");
    is(raw($script, [1, $log->('one', 3)], [1, $log->('other', 3)]), 'at length brief time', "$name: a denial is told at length");

    is(raw($script, [1, $log->('large', $most)]), 'brief time', "$name: the number of the largest such limit is exact");
    like($script->ask('', $log->('large', $most)), qr/^1 (?:${\($most - 2)}|${\($most - 2 + $refill)}) \d+ 0$/, "$name: what is left of it is told exactly");
    is(raw($script, [1, $log->('larger', $most + 1)]), 'at length', "$name: with a larger one an admission is told at length");
    like($script->ask('', $log->('larger', $most + 1)), qr/^1 (?:${\($most - 1)}|${\($most - 1 + $refill)}) \d+ 0$/, "$name: what is left of that is told, too");

    my @day = (window => DAY, ttl => 2 * DAY);
    is(raw($script, [1, $log->('first', 3), $log->('second', 5, @day)]), 'brief, of two time', "$name: two limits are told by two numbers");
    like($script->ask('', $log->('first', 3), $log->('second', 5, @day)), qr/^1 1 \d+ 0 3 \d+ 0$/, "$name: each of its own window");
    is(raw($script, [1, $log->('first', 3), $log->('day', largest(DAY) + 1, @day)]), 'at length', "$name: two limits, of which the second is too large, are told at length");
    is(raw($script, [1, $log->('hour', largest(WINDOW) + 1), $log->('second', 5, @day)]), 'at length', "$name: two limits, of which the first is too large, are told at length");

    my $options = join ' ', 'override', $name eq 'token_bucket' ? 'burst=9' : ();
    is(raw($script, [1, $log->('recorded', 9, options => $options)]), 'brief time', "$name: so is a log without a record");
    is($script->ask('', $log->('recorded', 9, options => $options)) =~ s/ \d+ (?=0 -1)/ RESET /r, '1 7 RESET 0 -1 0', "$name: which says that there is none");
    $redis->cli('SET', "$name recorded:override", '5');
    is(raw($script, [1, $log->('recorded', 9, options => $options)]), 'at length time', "$name: a log with a record is told at length");
}

# inflight, whose plain calls are those of log
my $script = Testbed::Script->new($redis, 'inflight', native => 0);
is(raw($script, [1, log_of('inflight', 'under way', 3)]), 'brief time', 'inflight: an admission is told by one number');

$bed->done;
