#!/usr/bin/env perl
# Measures the entries that fail-overs behind Sentinels lose: t/soak/failovers.pl COUNT [KIND...]. Each kind is repeated
# COUNT times, with and without min-replicas-to-write, at 400 requests a second over four workers, each for another log.
# An entry is lost if Redis admitted its request and the new master does not have it. A table is printed.

use strict;
use warnings;
use Test::More;
use Testbed qw(conf slow wait_until);
use Testbed::Http qw(get field);
use Testbed::Load;
use Testbed::Partition;
use Time::HiRes qw(sleep time);

use constant { RATE => 400, WORKERS => 4 };

Testbed::Partition::enter();
my $count = shift // 10;
my @kinds = @ARGV ? @ARGV : qw(command paused killed stopped cut);
my $bed   = Testbed->new;

my $conf = conf(
    workers     => '%%WORKERS%%',
    connections => 2048,
    store       => 'server %%SENTINELS%%; mode sentinel limits; timeout 100ms; connect_timeout 300ms; reconnect 50ms 1s;',
    http        => 'sliding_log_on_error deny;',
    how         => '$sliding_log_source $pid $sliding_log_latency',
    server      => 'location / { sliding_log_limit load key=$arg_k limit=100000 window=1h; empty_gif; }',
);

# The servers have addresses from 127.0.0.2 on, the Sentinels from 127.0.0.10 on, nginx and this script 127.0.0.1.
sub world {
    my ($replicas, @settings) = @_;
    my @redis = map {
        my $host = '127.0.0.' . (2 + $_);
        $bed->redis(host => $host, args => ['--bind-source-addr', $host, '--protected-mode', 'no', '--repl-diskless-sync-delay', 0, @settings]);
    } 0 .. $replicas;
    $_->cli('REPLICAOF', $redis[0]->host, $redis[0]->port) for @redis[1 .. $#redis];
    my @sentinels = map {
        my $host = "127.0.0.1$_";
        $bed->sentinel(master => $redis[0], host => $redis[0]->host, quorum => 2, conf => ["bind 127.0.0.1 $host", "bind-source-addr $host", 'protected-mode no']);
    } 0 .. 2;
    my $self = { redis => \@redis, sentinels => \@sentinels };
    settled($self, $redis[0]) or die "the servers did not start\n";
    $self->{nginx} = $bed->nginx($conf, WORKERS => WORKERS, SENTINELS => join ' ', map { $_->address } @sentinels);
    return $self;
}

sub named { my ($self) = @_; return (map { (split /\n/, $_->cli(qw(SENTINEL GET-MASTER-ADDR-BY-NAME limits)))[0] // '' } @{ $self->{sentinels} }) }

sub settled {
    my ($self, $master) = @_;
    return wait_until('all to agree', 40, sub {
        !grep({ $_ ne $master->host } named($self))
            && !grep({ $_->cli('ROLE') !~ /^slave/ || ($_->info('master_link_status') // '') ne 'up' || ($_->info('master_host') // '') ne $master->host }
                grep { $_ != $master } @{ $self->{redis} })
            && !grep { ($_->field('flags') // '') ne 'master' || ($_->field('num-slaves') // 0) != $#{ $self->{redis} } || ($_->field('num-other-sentinels') // 0) != 2 } @{ $self->{sentinels} };
    });
}

my %faults = (
    command => [sub { my ($self) = @_; wait_until('a Sentinel', 20, sub { $self->{sentinels}[0]->cli(qw(SENTINEL FAILOVER limits)) eq 'OK' }) }, sub { }],
    # as the first; writes on the master are paused before, until another server is master
    paused => [sub {
        my ($self, $master) = @_;
        wait_until('a Sentinel', 20, sub {
            $master->cli(qw(CLIENT PAUSE 5000 WRITE));
            $self->{sentinels}[0]->cli(qw(SENTINEL FAILOVER limits)) eq 'OK';
        });
    }, sub { $_[1]->cli(qw(CLIENT UNPAUSE)) }],
    killed  => [sub { $_[1]->kill },  sub { $_[1]->start }],
    stopped => [sub { $_[1]->pause }, sub { $_[1]->resume }],
    # the master is reached by nginx only
    cut => [sub {
        my ($self, $master) = @_;
        Testbed::Partition::cut($master->host, $_) for map({ "127.0.0.1$_" } 0 .. 2), map { $_->host } grep { $_ != $master } @{ $self->{redis} };
    }, sub { Testbed::Partition::heal() }],
);

my $number = 0;
sub fail_over {
    my ($self, $kind) = @_;
    my ($fault, $mend) = @{ $faults{$kind} };
    my ($master) = grep { $_->cli('ROLE') =~ /^master/ } @{ $self->{redis} };
    my @others = grep { $_ != $master } @{ $self->{redis} };
    my $name   = 'f' . ++$number . 'x';
    my $load   = Testbed::Load->start($bed, $self->{nginx}->port, paths => ["/?k=$name%d"], rate => RATE);
    sleep 1.2;
    my $begin = time;
    $fault->($self, $master);
    my $new = wait_until('a replica to be promoted', 40, sub { (grep { $_->cli('ROLE') =~ /^master/ } @others)[0] }) or return;
    my $promoted = time;
    wait_until('a Sentinel to name it', 30, sub { grep { $_ eq $new->host } named($self) }) or return;
    my $told = time;
    my %served;
    wait_until('all workers', 20, sub {
        my $answer = get($self->{nginx}->port, '/?k=all');
        $served{ (split / /, field($answer, 'X-How') // ' ?')[1] } = 1 if $answer->{status} == 200;
        return keys %served == WORKERS && $new->calls('evalsha') > 50;
    });
    sleep 0.7;
    my $record = $load->stop;
    $mend->($self, $master);
    settled($self, $new) or return;
    my %kept = map { /\{(.*)\}/ ? ($1 => 1) : () } split /\n/, $new->cli('KEYS', "rl:sliding:load:{$name*}");
    my @admitted = $record->that(status => 200)->requests;
    my @lost     = grep { $_->{path} =~ /k=(\S+)/ && !$kept{$1} } @admitted;
    my @denied   = $record->that(status => 503)->requests;
    return {
        lost => scalar @lost, denied => scalar @denied, spurious => scalar(grep { $_->{at} < $begin } @denied),
        promotion => $promoted - $begin, told => $told - $promoted,
        lost_from => @lost ? $lost[0]{at} - $begin : 0, lost_to => @lost ? $lost[-1]{at} - $promoted : 0,
        wait => $record->longest_wait,
    };
}

my @table;
for my $setting (split /,/, $ENV{SETTINGS} // '1:0:0,1:1:1,2:0:0,2:1:1') {
    my ($replicas, $write, $lag) = split /:/, $setting;
    my @settings = ('--min-replicas-to-write', $write, '--min-replicas-max-lag', $lag || 10);
    my $self = world($replicas, @settings);
    for my $kind (@kinds) {
        my @all;
        for (1 .. $count) {
            my $one = fail_over($self, $kind) or diag("$setting $kind: not measured"), next;
            push @all, $one;
            diag(join ' ', "$setting $kind", map { sprintf '%s=%.3g', $_, $one->{$_} } sort keys %$one);
        }
        my $range = sub { my ($what, $form) = @_; my @v = sort { $a <=> $b } map { $_->{$what} } @all; return @v ? sprintf "$form/$form/$form", @v[0, $#v / 2, -1] : '-' };
        push @table, sprintf '| %d | %d:%d | %-8s | %d | lost %s | 503 %s | promoted %s | told %s |', $replicas, $write, $lag, $kind, scalar @all, $range->('lost', '%d'), $range->('denied', '%d'),
            $range->('promotion', '%.2f'), $range->('told', '%.2f');
    }
    $_->kill for $self->{nginx}, @{ $self->{sentinels} }, @{ $self->{redis} };
}
diag($_) for @table;
pass('measured');
done_testing();
