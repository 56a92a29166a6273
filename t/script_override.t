# A record beside a log (option override) changes what the scripts decide, under every algorithm: another limit, allowed,
# denied, until it ends. A broken or foreign record counts as none, and the reply tells it. No log is written because of
# a record.

use strict;
use warnings;
use Test::More;
use Testbed;
use Testbed::Algorithm qw(@ALL_ALGORITHMS %SCRIPTS);
use Testbed::Script;

use constant { WINDOW => 86_400_000, NONE => -1, ALLOW => -2, DENY => -3, BROKEN => -4 };

my $bed   = Testbed->new;
my $redis = $bed->redis;
my $now   = 1_800_000_000_000;
my $run   = 0;
my %file  = (%SCRIPTS, quota => 'calendar_quota');

sub record { my ($what, %more) = @_; return "$what until=" . ($more{until} // 0) . ' since=1 by=tester why=' . ($more{why} // 'a test') }

for my $algorithm (@ALL_ALGORITHMS) {
    my $script = Testbed::Script->new($redis, $file{$algorithm});
    my $needs  = { bucket => ' burst=3', sampled => ' sample=1' }->{$algorithm} // '';
    my $key;

    # One request: what is admitted, the remaining limit, retry, what the record says, its end.
    my $ask = sub {
        my (%log) = @_;
        my $more  = delete $log{more} // '';
        my $reply = $script->call($script->words($now, [1, { key => $key, limit => 3, window => WINDOW, ttl => 2 * WINDOW,
            options => join(' ', grep { $_ ne '' } $log{cost} ? "cost=$log{cost}" : (), $more, 'override') . $needs, %log }]));
        return $reply if !ref $reply;
        my ($admitted, $at, $remaining, $reset, $retry, @said) = ref $reply->[0] ? @{ $reply->[0] } : return $reply->[0];
        return join ' ', $admitted, $remaining, $retry, @said;
    };
    my $fresh = sub { $key = "$algorithm:{" . ++$run . '}'; return $script->call('DEL', $key, "$key:override") };
    my $set   = sub { return $script->call('SET', "$key:override", @_) };
    my $size  = sub { return $script->call('TYPE', $key) eq 'none' ? 0 : $script->call('MEMORY', 'USAGE', $key) };

    $fresh->();
    is($ask->(), '1 2 0 -1 0', "$algorithm: without a record the limit is as asked");
    $ask->() for 1, 2;
    like($ask->(), qr/^0 0 [1-9]\d* -1 0$/, "$algorithm: the limit is used up");
    my $full = $size->();

    $set->(record('limit=5'));
    is($ask->(), '1 1 0 5 0', "$algorithm: a record raises it") if $algorithm ne 'bucket';
    like($ask->(), qr/^1 \d 0 5 0$/, "$algorithm: a record raises it, at once");
    $set->(record('limit=1'));
    like($ask->(), qr/^0 0 [1-9]\d* 1 0$/, "$algorithm: another one lowers it");
    $set->(record('limit=0'));
    is($ask->(), '0 0 -1 0 0', "$algorithm: a limit of 0 denies for ever");
    $script->call('DEL', "$key:override");
    like($ask->(), qr/^0 0 [1-9]\d* -1 0$/, "$algorithm: without it the configured limit stands again");

    my $before = $size->();
    $set->(record('allow'));
    is($ask->(), '1 3 0 -2 0', "$algorithm: allow admits beyond the limit") for 1 .. 3;
    is($size->(), $before, "$algorithm: allow logs nothing");
    $set->(record('deny'));
    is($ask->(), '0 0 -1 -3 0', "$algorithm: deny denies, without an end");
    $set->(record('deny', until => $now + 90_000));
    is($ask->(), '0 0 90000 -3 ' . ($now + 90_000), "$algorithm: deny tells when it ends");
    is($ask->(cost => 0, options => "cost=0 override$needs"), '0 0 90000 -3 ' . ($now + 90_000), "$algorithm: deny denies one that only looks");
    $set->(record('deny', until => $now));
    like($ask->(), qr/^0 0 [1-9]\d* -1 0$/, "$algorithm: a record that has ended counts as none");
    is($size->(), $before, "$algorithm: none of them has logged anything");

    $fresh->();
    $set->(record('deny'));
    is($ask->(more => 'block=60000'), '0 0 -1 -3 0', "$algorithm: deny with block=");
    is($script->call('EXISTS', $key), 0, "$algorithm: deny begins no block and makes no log");
    $set->(record('allow'));
    is($ask->(limit => 0), '1 0 0 -2 0', "$algorithm: allow goes before a limit of 0") if $algorithm ne 'bucket';
    is($script->call('EXISTS', $key), 0, "$algorithm: allow makes no log");

    # contents that are no record
    my @broken = ('', 'x', 'limit', 'limit=', 'limit=-1 until=0 since=1 by=a why=', 'limit=1e3 until=0 since=1 by=a why=',
        'limit=1000000000001 until=0 since=1 by=a why=', 'limit=' . '9' x 400 . ' until=0 since=1 by=a why=', 'allow', 'allow until=0',
        'deny until=0 since=1', 'allow=1 until=0 since=1 by=a why=', 'allowed until=0 since=1 by=a why=', "\0" x 100, 'a' x 100_000,
        'deny until=-5 since=1 by=a why=', 'deny until=1234567890123456 since=1 by=a why=', ' deny until=0 since=1 by=a why=',
        "deny\nuntil=0 since=1 by=a why=");
    $fresh->();
    for my $text (@broken) {
        $set->($text);
        $script->call('DEL', $key);
        is($ask->(), $text eq '' ? '1 2 0 -1 0' : '1 2 0 -4 0', "$algorithm: a broken record counts as none: " . substr($text =~ s/[^ -~]/./gr, 0, 40));
    }
    for my $make (['RPUSH', 'x'], ['HSET', 'a', 'b'], ['ZADD', 1, 'x'], ['SADD', 'x']) {
        my ($command, @rest) = @$make;
        $script->call('DEL', $key, "$key:override");
        $script->call($command, "$key:override", @rest);
        is($ask->(), '1 2 0 -4 0', "$algorithm: a key of another type counts as none: $command");
    }

    # told by the caller, as while a slot is migrated
    $fresh->();
    $set->(record('deny'));
    my $told = sub { my ($text) = @_; return $ask->(options => "override told$needs", ids => [$text]) };
    is($told->(''), '1 2 0 -1 0', "$algorithm: the caller tells that there is none, and it is not read");
    is($told->(record('allow')), '1 3 0 -2 0', "$algorithm: the caller tells a record");
    is($told->(record('limit=9')), '1 7 0 9 0', "$algorithm: the caller tells a limit") if $algorithm ne 'bucket';
    is($told->('WRONGTYPE Operation') =~ s/^1 \d //r, '0 -4 0', "$algorithm: the caller tells an error");
    like($told->('NOPERM this user'), qr/ -5 0$/, "$algorithm: the caller tells that it may not read");
    $redis->cli('ACL', 'SETUSER', 'default', '-get');
    like($ask->(), qr/ -5 0$/, "$algorithm: a record that may not be read counts as none") if $algorithm ne 'compact';
    $redis->cli('ACL', 'SETUSER', 'default', '+get', 'resetkeys', '%RW~*}');
    $fresh->();
    is($ask->(), '1 2 0 -5 0', "$algorithm: and so does one whose key may not be read");
    $redis->cli('ACL', 'SETUSER', 'default', '~*');
}

# ---- several logs: all or nothing

for my $algorithm (qw(log compact counter quota)) {
    my $script = Testbed::Script->new($redis, $file{$algorithm});
    my @keys   = map { "several:$algorithm:$_:{k}" } 1, 2;
    my $both   = sub {
        my @logs = map { { key => $_, limit => 3, window => WINDOW, ttl => 2 * WINDOW, options => 'override', @_ } } @keys;
        return join ' ', map { ref ? @$_[0, 2, 4 .. 5, 7 .. 11] : $_ } @{ $script->call($script->words($now, [1, @logs])) };
    };
    my $entries = sub { return join ' ', map { $script->call('EXISTS', $_) } @keys };
    is($both->(), '1 2 0 2 0 -1 0 -1 0', "$algorithm: two logs without records");
    $script->call('SET', "$keys[1]:override", record('deny'));
    is($both->(), '0 2 0 0 -1 -1 0 -3 0', "$algorithm: one is denied: nothing is admitted");
    $script->call('SET', "$keys[1]:override", record('allow'));
    is($both->(), '1 1 0 3 0 -1 0 -2 0', "$algorithm: one is allowed: the other one logs");
    $both->() for 1;
    like($both->(), qr/^0 0 [1-9]\d* 3 0 -1 0 -2 0$/, "$algorithm: the other one is full, whatever is allowed");
    $script->call('SET', "$keys[0]:override", record('limit=4'));
    is($both->(), '1 0 0 3 0 4 0 -2 0', "$algorithm: records of both");
    $script->call('DEL', @keys, map { "$_:override" } @keys);
}

# ---- what else a call may ask

my $log  = Testbed::Script->new($redis, $file{log});
my $ask  = sub { my ($requests, %log) = @_; return $log->ask_groups($now, [$requests, { key => 'more:{k}', limit => 2, window => WINDOW, ttl => 2 * WINDOW, %log }]) };
$log->call('SET', 'more:{k}:override', record('limit=20'));
is($ask->(3, options => 'count=all override', cap => 2), '3 17 86400000 0 20 0', 'the requests of a batch obey one record');
is($ask->(20, options => 'count=all override', cap => 2) =~ s/ \d+ \d+ 20 0$//r, '17 0', 'a batch is admitted as far as the record allows');
is($log->call('ZCARD', 'more:{k}'), 20, 'the limit of a record stands for the cap where it is larger: the log keeps what decides');
$log->call('DEL', 'more:{k}');
$log->call('SET', 'more:{k}:override', record('allow'));
is($ask->(2, options => 'permits=1 override'), '2 2 86400000 0 -2 0 0', 'no permits are given while a record allows');
$log->call('SET', 'more:{k}:override', record('limit=100'));
is($ask->(2, options => 'permits=1 override'), '2 98 86400000 0 100 0 0', 'nor under a limit of its own, so that each request obeys');
$log->call('SET', 'more:{k}:override', record('allow'));
is($ask->(3, options => 'delay=5000 ahead=5000 override'), '3 2 86400000 0 -2 0', 'nobody is held who is allowed');
$log->call('SET', 'more:{k}:override', record('deny'));
is($ask->(3, options => 'delay=5000 ahead=5000 override'), '0 0 86400000 -1 -3 0', 'nor who is denied');
is($ask->(3, options => 'count=all override', cap => 9), '0 0 86400000 -1 -3 0', 'a denied attempt is not logged, even if attempts count');
is($log->call('ZCARD', 'more:{k}'), 2, 'the log has what it had');

my $bucket = Testbed::Script->new($redis, $file{bucket});
$bucket->call('SET', 'bucket:{k}:override', record('limit=10'));
is($bucket->ask($now, { key => 'bucket:{k}', limit => 5, window => WINDOW, ttl => 2 * WINDOW, options => 'override burst=8' }) =~ s/ \d+ 0 10 0$//r,
    '1 15', 'a bucket keeps its proportion to the limit');
is($bucket->ask($now, { key => 'other:{k}', limit => 5, window => WINDOW, ttl => 2 * WINDOW, options => 'override burst=8' }) =~ s/ \d+ 0 -1 0$//r,
    '1 7', 'without a record it is as configured');

# the batches of a call have records of their own, and a call without the option reads none
is($log->ask_groups($now, map { [1, { key => "batch$_:{k}", limit => 2, window => WINDOW, ttl => 2 * WINDOW, options => $_ == 2 ? '' : 'override' }] } 1 .. 3),
    '1 1 86400000 0 -1 0 | 1 1 86400000 0 | 1 1 86400000 0 -1 0', 'only the batches with the option have more numbers');
my $reads = sub { return ($redis->cli('INFO', 'commandstats') =~ /^cmdstat_get:calls=(\d+)/m)[0] // 0 };
my $count = $reads->();
$log->ask('', { key => 'plain:{k}', limit => 2, window => WINDOW });
$log->ask($now, { key => 'plain:{k}', limit => 2, window => WINDOW, options => 'cost=1' });
is($reads->(), $count, 'a call without the option reads no record');
$log->ask($now, { key => 'plain:{k}', limit => 2, window => WINDOW, options => 'override' });
is($reads->(), $count + 1, 'a call with it reads one');

$bed->done;
