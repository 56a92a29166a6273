# Logs of the native module survive what happens to a server: its AOF is rewritten, it restarts from AOF or RDB, with the
# module or without, a replica goes on after a lost connection, keys migrate, everything is flushed. Meanwhile and
# afterwards each decision, each log and its time to live are those of an undisturbed server without the module.

use strict;
use warnings;
use Test::More;
use Testbed qw(seed wait_until);
use Testbed::Algorithm qw(%ALL_SCRIPTS takes);
use Testbed::Clock;
use Testbed::Corrupt qw(any);
use Testbed::Native qw(native_module);
use Testbed::Script;

delete $ENV{TEST_NATIVE};
seed();

my @module = ('--loadmodule', native_module());
my $bed    = Testbed->new;
my $now    = 1_800_000_000_000;
my @ALGORITHMS = sort keys %ALL_SCRIPTS;
my $clock  = Testbed::Clock->new($bed->dir, standing => 1)->set($now);
my $other  = $bed->redis(clock => $clock);    # nothing happens to it

sub server { my (@args) = @_; return $bed->redis(clock => $clock, args => \@args) }

# Its scripts, or their native commands, by algorithm.
sub scripts {
    my ($redis, $is_native) = @_;
    return map { ($_ => Testbed::Script->new($redis, $ALL_SCRIPTS{$_}, native => $is_native)) } @ALGORITHMS;
}
my %undisturbed = scripts($other, 0);

my $requests = 0;

# A call for one log or two of that algorithm: usually a plain one, otherwise with options that nginx may send.
sub groups {
    my ($algorithm) = @_;
    my ($window, $ttl) = $algorithm eq 'quota' ? (31 * 86_400_000, 34 * 86_400_000) : (60_000, 66_000);
    my @options = (takes($algorithm, 'burst') ? 'burst=20' : (), takes($algorithm, 'sample') ? 'sample=3' : ());
    unshift @options, 'cost=' . (1 + int rand 9) if rand() < 0.3;
    my %log = (limit => 20, window => $window, ttl => $ttl, options => "@options");
    return map { [['r' . ++$requests], { key => "$algorithm {tag} $_", %log }] } rand() < 0.8 ? int rand 3 : (0, 1);
}

# Sends so many calls to the server, and to the undisturbed one. Returns the replies that differ.
sub ask {
    my ($calls, %scripts) = @_;
    my @different;
    for (1 .. $calls) {
        $clock->set($now += rand() < 0.04 ? 10_000 : int rand 100);
        my $algorithm = any(@ALGORITHMS);
        my $renews    = takes($algorithm, 'lease') && $requests > 0 && rand() < 0.3;
        my @words     = $renews ? (1, "$algorithm {tag} 0", 'renew', '', 66_000, 2, "r$requests", 'r' . int rand $requests) : ();
        my @groups    = groups($algorithm);
        my ($is, $was) = map { $_->told('', $_->call($renews ? ($_->command, @words) : $_->words('', @groups))) } $scripts{$algorithm}, $undisturbed{$algorithm};
        push @different, "$algorithm: $is, not $was" if $is ne $was;
    }
    return @different;
}

my %read = (zset => sub { ('ZRANGE', $_[0], 0, -1, 'WITHSCORES') }, string => sub { ('GET', $_[0]) }, hash => sub { ('HGETALL', $_[0]) });

sub contents {
    my ($redis) = @_;
    my $client = Testbed::Script->new($redis, $ALL_SCRIPTS{log}, native => 0);
    return map {
        my $type = $client->call('TYPE', $_);
        my $read = $client->call($read{$type}->($_));
        ($_ => join ' ', $client->call('PEXPIRETIME', $_), $type, ref $read ? $type eq 'hash' ? sort @$read : @$read : unpack 'H*', $read);
    } @{ $client->call('KEYS', '*') };
}

sub same_logs {
    my ($redis, $what) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    my %is  = contents($redis);
    my %was = contents($other);
    my %there = map { (split)[0] => 1 } keys %was;
    is("@{[sort keys %there]}", "@{[sort @ALGORITHMS]}", "$what: there are logs of all algorithms");
    return is_deeply(\%is, \%was, "$what: the logs are the same, and end at the same time");
}

sub decides {
    my ($redis, $is_native, $what, $calls) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    return is(join("\n", ask($calls // 150, scripts($redis, $is_native))), '', "$what: every decision is the same");
}

# Kills the server, as in a crash, and starts it with these arguments.
sub restart {
    my ($redis, @args) = @_;
    $redis->kill;
    $redis->{args} = \@args;
    $redis->start;
    return wait_until('the logs to be loaded', 10, sub { $redis->cli('PING') eq 'PONG' });
}

sub forget { $_->cli('FLUSHALL') for $other, @_; return }

# ---- an AOF that is rewritten while calls are decided

{
    my @aof   = qw(--appendonly yes --appendfsync no --aof-use-rdb-preamble no);    # it is the process that crashes
    my $redis = server(@aof, @module);
    decides($redis, 1, 'AOF');
    for my $preamble (qw(no yes)) {
        $redis->cli(qw(CONFIG SET aof-use-rdb-preamble), $preamble);
        my %native = scripts($redis, 1);
        my @different;
        like($redis->cli('BGREWRITEAOF'), qr/started/, "AOF, preamble $preamble: is rewritten");
        do { push @different, ask(20, %native) } while $redis->info('aof_rewrite_in_progress') || $redis->info('aof_rewrite_scheduled');
        is("@different", '', "AOF, preamble $preamble: meanwhile every decision is the same");
        is($redis->info('aof_last_bgrewrite_status'), 'ok', "AOF, preamble $preamble: was rewritten");
        decides($redis, 1, "AOF, preamble $preamble, rewritten", 40);
        restart($redis, @aof);
        same_logs($redis, "AOF, preamble $preamble, restarted without the module");
        decides($redis, 0, "AOF, preamble $preamble, restarted without the module");
        restart($redis, @aof, @module);
        same_logs($redis, "AOF, preamble $preamble, restarted with the module");
        decides($redis, 1, "AOF, preamble $preamble, restarted with the module");
    }
    forget($redis);
    $redis->kill;
}

# ---- RDB

{
    my $redis = server(@module);
    decides($redis, 1, 'RDB');
    is($redis->cli('SAVE'), 'OK', 'RDB: is saved');
    restart($redis);
    same_logs($redis, 'RDB, restarted without the module');
    decides($redis, 0, 'RDB, restarted without the module');
    $redis->cli('SAVE');
    restart($redis, @module);
    same_logs($redis, 'RDB, restarted with the module');
    decides($redis, 1, 'RDB, restarted with the module');
    forget($redis);
    $redis->kill;
}

# ---- a replica without the module that has lost its connection

{
    my $master  = server(@module, '--repl-diskless-sync', 'no');
    my $replica = server('--replicaof', '127.0.0.1', $master->port);
    wait_until('the replica to follow', 10, sub { $replica->info('master_link_status') eq 'up' });
    decides($master, 1, 'PSYNC');
    $replica->pause;
    is($master->cli(qw(CLIENT KILL TYPE replica)), 1, 'PSYNC: the connection is lost');
    decides($master, 1, 'PSYNC, without the replica');
    $replica->resume;
    ok(wait_until('the replica to go on', 10, sub { $master->info('sync_partial_ok') >= 1 }), 'PSYNC: the replica goes on where it was');
    is($master->info('sync_full'), 1, 'PSYNC: it has not begun anew');
    decides($master, 1, 'PSYNC, with the replica again');
    wait_until('the replica to have it all', 10, sub { $replica->info('slave_repl_offset') == $master->info('master_repl_offset') });
    same_logs($replica, 'PSYNC, the replica');
    $replica->cli(qw(REPLICAOF NO ONE));
    $master->kill;
    decides($replica, 0, 'PSYNC, failed over to the replica');
    same_logs($replica, 'PSYNC, failed over to the replica');
    forget($replica);
    $replica->kill;
}

# ---- keys that migrate to a server without the module, and back

{
    my $here  = server(@module);
    my $there = server();
    my $move  = sub {
        my ($from, $to) = @_;
        my @keys = split /\n/, $from->cli('KEYS', '*');
        is($from->cli('MIGRATE', '127.0.0.1', $to->port, '', 0, 5000, 'KEYS', @keys), 'OK', 'MIGRATE: ' . @keys . ' keys move');
        is($from->cli('KEYS', '*'), '', 'MIGRATE: they are gone');
        return same_logs($to, 'MIGRATE');
    };
    decides($here, 1, 'MIGRATE');
    $move->($here, $there);
    decides($there, 0, 'MIGRATE, to a server without the module');
    $move->($there, $here);
    decides($here, 1, 'MIGRATE, back to a server with the module');
    forget($here);
    $there->kill;
    $here->kill;
}

# ---- large logs that are freed in the background, while calls begin new ones

{
    my $redis  = server(@module);
    my %native = scripts($redis, 1);
    my %client = (is => $native{log}, was => $undisturbed{log});
    my @different;
    for my $round (1 .. 15) {
        $_->cli('EVAL', 'for i = 1, 9000 do redis.call("ZADD", KEYS[1], ARGV[1] + 0, "old" .. i) end', 1, 'log {tag} 0', $now) for $redis, $other;
        push @different, ask(10, %native);
        $client{is}->send(qw(FLUSHALL ASYNC));
        $client{was}->send(qw(FLUSHALL SYNC));
        $_->reply for values %client;
        push @different, ask(20, %native);
    }
    is(join("\n", @different), '', 'FLUSHALL ASYNC: every decision is the same');
    cmp_ok($redis->info('lazyfreed_objects'), '>', 15, 'FLUSHALL ASYNC: logs were freed in the background');
    decides($redis, 1, 'FLUSHALL ASYNC');
    same_logs($redis, 'FLUSHALL ASYNC');
}

$bed->done;
