# sliding-log reads quotas, whose period is in the log. doctor warns of a Redis that may forget them.

use strict;
use warnings;
use POSIX qw(strftime);
use Test::More;
use Testbed;
use Testbed::Script;
use Testbed::Tool qw(tool tool_json);
use Time::HiRes qw(time);

my %longest = (hour => 3_600_000, day => 86_400_000, week => 7 * 86_400_000, month => 31 * 86_400_000);
my $bed     = Testbed->new;
my $redis   = $bed->redis(args => [qw(--maxmemory 100mb --maxmemory-policy noeviction)]);
my @at      = ('--server', $redis->address);
my $script  = Testbed::Script->new($redis, 'calendar_quota');

sub ask { my ($now, $kind, $key, $limit, $cost) = @_; return $script->call($script->words($now, [1, { key => $key, limit => $limit, window => $longest{$kind}, ttl => 1.1 * $longest{$kind}, options => "cost=$cost" }]))->[0] }

for my $kind (sort keys %longest) {
    my $key   = "rl:sliding:$kind:{acct}";
    my $now   = int 1000 * time;
    my $reply = ask($now, $kind, $key, 10, 3);
    my $told  = tool_json('inspect', $kind, 'acct', @at, '--limit', 10);
    is("$told->{algorithm} $told->{period} $told->{entries} $told->{used} $told->{remaining} $told->{retry_ms}", "quota $kind 3 3 7 0", "$kind: inspect tells what is used and left");
    is($told->{period_ends_ms} - $now, $reply->[3], "$kind: inspect tells the end of the period as the script does");
    is($told->{oldest_ms}, $now, "$kind: inspect tells when the first request came");
    ask($now, $kind, $key, 10, 7);
    $told = tool_json('inspect', $kind, 'acct', @at, '--limit', 10);
    is($told->{retry_ms}, $told->{period_ends_ms} - $told->{now_ms}, "$kind: a quota that is used up has room when the period ends");
    my $human = tool('inspect', $kind, 'acct', @at)->{out};
    my $end   = strftime('%FT%T', gmtime $told->{period_ends_ms} / 1000);
    like($human, qr/^period +$kind, until \Q$end\E/m, "$kind: people learn of the period");
    like($human, qr/^retry +unknown without --limit; in \d.* at the latest/m, "$kind: and when there is room at the latest");
    unlike($human, qr/guess|estimate|^window|^newest/m, "$kind: nothing is guessed");
}
# a period that is over
ask(int(1000 * time) - 40 * 86_400_000, 'month', 'rl:sliding:past:{acct}', 10, 10);
my $past = tool_json('inspect', 'past', 'acct', @at, '--limit', 10);
is("$past->{used} $past->{remaining} $past->{retry_ms}", '0 10 0', 'a period that is over uses nothing');

is(tool_json('inspect', 'rl:sliding:none:{acct}', @at)->{entries}, 0, 'a quota of which nothing is used has no log');
like(tool('top', 'month', @at)->{out}, qr/^rl:sliding:month:\{acct\} +quota +10 +\d+ B/m, 'top lists quotas');
like(tool('export', 'month', @at)->{err}, qr/1 key of month was left out: not of algorithm=log/, 'export leaves them out');
is(tool('reset', 'month', 'acct', @at)->{status}, 0, 'reset begins a quota anew');
is($redis->cli('EXISTS', 'rl:sliding:month:{acct}'), 0, 'nothing is left');
my $size = tool_json('size', @at, '--keys', 10, '--entries', 100, '--window', '30d');
my ($measured) = grep { $_->{algorithm} eq 'quota' } @{ $size->{algorithms} };
cmp_ok($measured->{key_bytes}, '<', 200, 'size measures one count');
cmp_ok($measured->{key_bytes}, '>', 50, 'size measures a key that is there');
like(tool('acl', '--algorithms', 'quota', '--user', 'limiter')->{out}, qr/\+hgetall\b.*\+hincrby\b/s, 'acl knows what quotas need');

# ---- doctor

sub check {
    my ($name, $conf) = @_;
    my $file = $bed->write_file('nginx.conf', 'http { sliding_log_redis { server ' . $redis->address . "; } $conf }");
    my ($check) = grep { $_->{check} eq $name } @{ tool_json('doctor', '--nginx-conf', $file)->{checks} };
    return "$check->{status}: $check->{text}";
}
my $quota = 'sliding_log_limit plan key=a limit=1 algorithm=quota period=month;';
my $other = 'sliding_log_limit api key=a limit=1 window=1s;';
like(check('persistence', $quota), qr/^warning: no AOF: a restart forgets the requests of quotas/, 'doctor warns of quotas without an AOF');
is(check('persistence', $other), 'ok: no AOF', 'other limits need none');
my ($unknown) = grep { $_->{check} eq 'persistence' } @{ tool_json('doctor', @at)->{checks} };
is($unknown->{status}, 'ok', 'nothing is said where nobody tells of quotas');
my ($named) = grep { $_->{check} eq 'persistence' } @{ tool_json('doctor', @at, '--algorithms', 'log,quota')->{checks} };
is($named->{status}, 'warning', '--algorithms tells of quotas');
my $blocks = 'sliding_log_limit api key=a limit=1 window=1s block=1m,1h;';
like(check('persistence', $blocks), qr/^warning: no AOF: a restart forgets blocks/, 'doctor warns where blocks escalate, too');
$redis->cli(qw(CONFIG SET appendonly yes));
is(check('persistence', $quota), 'ok: AOF', 'an AOF is well');
is(check('policy', $quota), 'ok: noeviction', 'noeviction is well');
$redis->cli(qw(CONFIG SET maxmemory-policy volatile-ttl));
like(check('policy', $quota), qr/^warning: volatile-ttl can evict the requests of quotas/, 'doctor warns of a policy that may evict quotas');
is(check('policy', $other), 'ok: volatile-ttl', 'which is well for other limits');
like(check('policy', $blocks), qr/^warning: volatile-ttl can evict blocks \(block= with several times\); use noeviction$/, 'doctor warns of it where blocks escalate');
is(check('policy', $other =~ s/;/ block=1h;/r), 'ok: volatile-ttl', 'not where they have one time');


# ---- a restart of a Redis with an AOF

ask(int(1000 * time), 'month', 'rl:sliding:kept:{acct}', 10, 4);
$redis->cli(qw(CONFIG SET appendfsync always));
ask(int(1000 * time), 'month', 'rl:sliding:kept:{acct}', 10, 2);
$redis->kill;
$redis->{args} = [qw(--appendonly yes)];
$redis->start;
is(tool_json('inspect', 'kept', 'acct', @at, '--limit', 10)->{used}, 6, 'a restart with an AOF forgets nothing');

$bed->done;
