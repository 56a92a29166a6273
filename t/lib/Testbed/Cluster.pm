package Testbed::Cluster;

# A Redis Cluster for the test: masters that share the slots evenly, each with this number of replicas.

use strict;
use warnings;
use Testbed::Redis;

# Options: masters => 3, replicas => of each, node_timeout => ms, args => [more of redis-server's], host => address,
# tls => [certificate, key, CA], as Testbed::Redis has it, each => code that returns further options of Testbed::Redis for
# one node; its args come last
sub new {
    my ($class, $bed, %options) = @_;
    my $self = bless { bed => $bed, options => \%options, nodes => [] }, $class;
    my $masters = $options{masters} // 3;
    my @masters = map { $self->start_node } 1 .. $masters;
    my $share   = 16384 / $masters;
    $masters[$_]->cli('CLUSTER', 'ADDSLOTSRANGE', int($_ * $share), int(($_ + 1) * $share) - 1) for 0 .. $#masters;
    $masters[$_]->cli('CLUSTER', 'SET-CONFIG-EPOCH', $_ + 1) for 0 .. $#masters;
    my @replicas = map { [$_, $self->start_node] } map { ($_) x ($options{replicas} // 0) } @masters;
    $self->meet($_) for $self->nodes;
    $self->wait_agreed;
    for (@replicas) {
        my ($master, $replica) = @$_;
        $replica->cli('CLUSTER', 'REPLICATE', $self->id($master));
        Testbed::wait_until('a replica to be in step', 15, sub { ($replica->info('master_link_status') // '') eq 'up' }) or die "no replica\n";
    }
    $self->wait_known(map { $_->[1] } @replicas);
    return $self;
}

# Waits until all nodes know that these are replicas. A master that takes one for a master does not vote for it, and it
# asks for votes again a minute later.
sub wait_known {
    my ($self, @replicas) = @_;
    my @ids = map { $self->id($_) } @replicas;
    return Testbed::wait_until('all nodes to know the replicas', 30, sub {
        !grep {
            my $nodes = $_->cli('CLUSTER', 'NODES');
            grep { $nodes !~ /^\Q$_\E \S+ \S*slave/m } @ids
        } $self->nodes;
    }) || die "no replica\n";
}

# A node that is not part of a cluster yet.
sub start_node {
    my ($self) = @_;
    my %options = %{ $self->{options} };
    my %own     = $options{each} ? $options{each}->() : ();
    my $more    = delete $own{args};
    my $node    = $self->{bed}->redis(
        host => $options{host},
        %own,
        tls  => $options{tls},
        args => ['--cluster-enabled', 'yes', '--cluster-port', Testbed::free_port(), '--cluster-node-timeout', $options{node_timeout} // 15000,
            '--repl-diskless-sync-delay', 0, $options{tls} ? ('--tls-cluster', 'yes') : (), @{ $options{args} // [] }, @{ $more // [] }]
    );
    push @{ $self->{nodes} }, $node;
    return $node;
}

sub meet {
    my ($self, $node) = @_;
    my $known = $self->{nodes}[0];
    $known->cli('CLUSTER', 'MEET', $node->host, $node->port, $node->cli('CONFIG', 'GET', 'cluster-port') =~ /(\d+)\z/) if $node != $known;
    return;
}

sub nodes   { return @{ $_[0]{nodes} } }
sub running { return grep { $_->is_running } $_[0]->nodes }
sub id      { my ($self, $node) = @_; return $node->cli('CLUSTER', 'MYID') }

# Waits until all running nodes know each other and serve all slots.
sub wait_agreed {
    my ($self) = @_;
    my @running = $self->running;
    return Testbed::wait_until('the cluster to agree', 30, sub {
        !grep {
            my $info = $_->cli('CLUSTER', 'INFO');
            $info !~ /^cluster_state:ok/m || $info !~ /^cluster_slots_ok:16384/m || $info !~ /^cluster_known_nodes:(\d+)/m || $1 < @running
        } @running;
    }) || die "no cluster\n";
}

# The slot of a client's keys: their hash tag.
sub slot_of { my ($self, $tag) = @_; return ($self->running)[0]->cli('CLUSTER', 'KEYSLOT', "{$tag}") }

# The master of a slot according to that node; undef if there is none.
sub owner_of {
    my ($self, $slot, $seen_by) = @_;
    my $id = owner_id_in(($seen_by // ($self->running)[0])->cli('CLUSTER', 'NODES'), $slot) // return undef;
    return (grep { $self->id($_) eq $id } $self->running)[0];
}

# The id of its master in that answer to CLUSTER NODES; undef if there is none.
sub owner_id_in {
    my ($nodes, $slot) = @_;
    for my $line (split /\n/, $nodes) {
        my ($id, undef, $flags, undef, undef, undef, undef, undef, @ranges) = split / /, $line;
        next if $flags !~ /master/ || $flags =~ /fail(?!\?)/;
        for my $range (grep { /^\d/ } @ranges) {
            my ($first, $last) = split /-/, $range;
            next if $slot < $first || $slot > ($last // $first);
            return $id;
        }
    }
    return undef;
}

# A tag with a slot of that node.
sub tag_on {
    my ($self, $node) = @_;
    my ($lines) = grep { /myself/ } split /\n/, $node->cli('CLUSTER', 'NODES');
    my ($first, $last) = $lines =~ / (\d+)-(\d+)/ or die "it serves no range\n";
    $self->{tags} //= 0;
    while (1) {
        my $tag  = 'tag' . ++$self->{tags};
        my $slot = $self->slot_of($tag);
        return $tag if $slot >= $first && $slot <= $last;
    }
}

# The whole move of a slot, including keys that are created meanwhile.
sub move {
    my ($self, $slot, $from, $to) = @_;
    $self->begin_move($slot, $from, $to);
    return $self->finish_move($slot);
}

# The same step by step. The move begins, and these keys of the slot move at once.
sub begin_move {
    my ($self, $slot, $from, $to, @keys) = @_;
    $to->cli('CLUSTER', 'SETSLOT', $slot, 'IMPORTING', $self->id($from));
    $from->cli('CLUSTER', 'SETSLOT', $slot, 'MIGRATING', $self->id($to));
    $self->{moves}{$slot} = [$from, $to];
    $self->move_keys($slot, @keys) if @keys;
    return;
}

# The slots whose move has begun, and whether one is among them.
sub moving    { my @slots = sort { $a <=> $b } keys %{ $_[0]{moves} }; return @slots }
sub is_moving { my ($self, $slot) = @_; return exists $self->{moves}{$slot} }

# Moves these keys of the slot. Returns what Redis says.
sub move_keys {
    my ($self, $slot, @keys) = @_;
    my ($from, $to) = @{ $self->{moves}{$slot} };
    return $from->cli('MIGRATE', $to->host, $to->port, '', 0, 5000, 'REPLACE', 'KEYS', @keys);
}

# The keys of the slot that have not moved yet.
sub keys_left { my ($self, $slot) = @_; return split /\n/, $self->{moves}{$slot}[0]->cli('CLUSTER', 'GETKEYSINSLOT', $slot, 1000) }

sub move_all_keys {
    my ($self, $slot) = @_;
    while (my @keys = $self->keys_left($slot)) { $self->move_keys($slot, @keys) }
    return;
}

# The end, without the keys that are left. Returns the node that has the slot now.
sub end_move {
    my ($self, $slot) = @_;
    my ($from, $to) = @{ delete $self->{moves}{$slot} };
    my $tell = sub { $_->cli('CLUSTER', 'SETSLOT', $slot, 'NODE', $self->id($to)) for $to, $from, grep { $_ != $to && $_ != $from && $_->cli('ROLE') =~ /^master/ } $self->running };
    $tell->();
    Testbed::wait_and_tell('all nodes to know', 10, 2, sub { $self->have_heard_of($to, $slot) }, sub {
        $to->cli('CLUSTER', 'BUMPEPOCH');    # two nodes claim it: the larger epoch has it
        $tell->();
    });
    return $to;
}

# Do all nodes know the latest epoch of this one, and that it has the slot? Otherwise the next move may get the same epoch,
# or a replica claims a slot that its master has no more (a node that has the largest epoch keeps it when it gets a slot):
# then it has no votes.
sub have_heard_of {
    my ($self, $node, $slot) = @_;
    my $id = $self->id($node);
    my ($epoch) = $node->cli('CLUSTER', 'INFO') =~ /^cluster_my_epoch:(\d+)/m;
    return !grep { !/^\Q$id\E \S+ \S+ \S+ \d+ \d+ $epoch /m || (owner_id_in($_, $slot) // '') ne $id } map { scalar $_->cli('CLUSTER', 'NODES') } $self->running;
}

# The same, with them.
sub finish_move { my ($self, $slot) = @_; $self->move_all_keys($slot); return $self->end_move($slot) }

# A random step: the move begins, or some of its keys move. True unless it has just begun.
sub move_on {
    my ($self, $slot, $from, $to) = @_;
    return $self->begin_move($slot, $from, $to) if !$self->{moves}{$slot};
    my @some = grep { rand() < 0.5 } $self->keys_left($slot);
    $self->move_keys($slot, @some) if @some;
    return 1;
}

# After CLUSTER FAILOVER: true when this replica is a master. On a busy machine Redis gives up after 5 s, and is told again.
sub has_failed_over_to {
    my ($self, $replica) = @_;
    return Testbed::wait_and_tell('the fail-over', 20, 6, sub { $replica->cli('ROLE') =~ /^master/ },
        sub { $replica->cli('CLUSTER', 'FAILOVER') });
}

# ZCARD of a log, asked of the node that has it.
sub zcard {
    my ($self, $name, $tag) = @_;
    my $owner = $self->owner_of($self->slot_of($tag));
    return $owner ? $owner->cli('ZCARD', "rl:sliding:$name:{$tag}") : undef;
}

# The members of a log and their scores, of the node that has it, also while its slot moves.
sub entries {
    my ($self, $name, $tag) = @_;
    my ($node) = $self->running;
    return split /\n/, Testbed::Redis::run_cli(['-c', '-p', $node->port], 'ZRANGE', "rl:sliding:$name:{$tag}", 0, -1, 'WITHSCORES');
}

# How often nodes replied with this error, given by its first word.
sub errors {
    my ($self, $word) = @_;
    my $sum = 0;
    for my $node ($self->running) {
        $sum += $1 if $node->cli('INFO', 'errorstats') =~ /^errorstat_\Q$word\E:count=(\d+)/m;
    }
    return $sum;
}

1;
