package Bench::Algorithm;

# The scripts, called without nginx: those of this module as the module calls them, and the ZSET script as it is usually
# published. The caller's clock stamps the requests, so that all get the same arrivals.

use strict;
use warnings;
use FindBin;

use Testbed::Algorithm qw(@ALGORITHMS %SCRIPTS %PLAIN is_plain_of_hash takes);
use Testbed::Process;
use Testbed::Script qw(source);
use Bench::Client qw(command replies);

use constant SAMPLE => 10;

# The published one comes first: it is the unit.
#   groups  true when a call takes several logs, each a group of its own
#   exact   true where all decide alike
#   lists   true where the log grows with the requests in it
sub all {
    my ($client) = @_;
    my $root = "$FindBin::RealBin/..";
    my %kind = (log => { exact => 1, lists => 1 }, compact => { exact => 1, lists => 1 }, sampled => { lists => 1 });
    my @all  = (
        {
            name   => 'ZSET script',
            source => Testbed::Process::slurp("$root/bench/peer/original.lua"),
            exact  => 1,
            lists  => 1,
        },
        map { +{ name => $_, source => source($SCRIPTS{$_}), plain => $PLAIN{ $SCRIPTS{$_} }, short => !is_plain_of_hash($SCRIPTS{$_}), groups => 1, %{ $kind{$_} // {} } } } @ALGORITHMS,
    );
    return map { bless { %$_, sha => $client->ask('SCRIPT', 'LOAD', $_->{source}) }, __PACKAGE__ } @all;
}

# These, as the native module decides them.
sub native { return map { bless { %$_, name => "$_->{name}, native", native => $_->{name} }, __PACKAGE__ } grep { $_->{groups} } @_ }

# The words in front of the keys.
sub command_of { my ($self) = @_; return $self->{native} ? ('sliding_log.2', $self->{native}) : ('EVALSHA', $self->{sha}) }

sub name { return $_[0]{name} }

# The options of the script.
sub options {
    my ($self, $limit) = @_;
    my $name = $self->{native} // $self->{name};
    return join ' ', takes($name, 'burst') ? "burst=$limit" : (), takes($name, 'sample') ? 'sample=' . SAMPLE : ();
}

# The key of a log, with the name that the module uses.
sub key { my ($self, $number) = @_; return "rl:sliding:$self->{name}:{acct_$number}" =~ tr/ /_/r }

# The bytes of one request to each of the keys: one call for all if the script takes several. Requests that the module sends
# as a plain call, or a short one, are one here. limit: limit and window (ms); now: ms, or '' for the server's clock, which
# the published script does not support.
sub calls {
    my ($self, $limit, $now, @keys) = @_;
    my $cap = int(1.2 * $limit->{limit} + 0.9);
    if (!$self->{groups}) {
        my @settings = ($now, @$limit{qw(window limit)}, $cap);
        return join '', map { command($self->command_of, 1, $_, @settings) } @keys;
    }
    if ($self->{plain} && $now eq '') {
        my @names    = $self->{plain} eq 'plain_log' ? map { unique_id() } @keys : ();
        my $options  = $self->options($limit->{limit});
        my @settings = (@$limit{qw(limit window)}, int 1.1 * $limit->{window}, length $options ? $options : ());
        return $self->{native} && @keys == 1 && $self->{short}
            ? command('sliding_log.2', "$self->{native} @settings", @keys, @names)
            : command($self->command_of, scalar @keys, @keys, @names, @settings);
    }
    my @settings = (@$limit{qw(limit window)}, $cap, int 1.1 * $limit->{window}, $self->options($limit->{limit}));
    my @groups   = map { (1, 1, unique_id(), @settings) } @keys;
    return command($self->command_of, scalar @keys, @keys, $now, @groups);
}

# As in the module: eight random characters of a worker, and a count.
my $count = 'aaaa';

sub unique_id { return 'q7ZkT-0x' . ++$count }

# From the text of replies, for each request: [admitted, what is used of the limit after it].
sub verdicts {
    my ($self, $limit, $text) = @_;
    my @verdicts;
    for my $reply (replies($text)) {
        my @requests = !$self->{groups} ? () : ref $reply ? @$reply : [split / /, $reply];    # of a short call
        pop @requests if grep { !ref } @requests;    # the time, behind brief replies
        push @verdicts, !$self->{groups} ? $reply : map { ref ? [$_->[0], $limit->{limit} - $_->[2]] : [1, $limit->{limit} - int($_ / (2 * $limit->{window}))] } @requests;
    }
    return @verdicts;
}

1;
