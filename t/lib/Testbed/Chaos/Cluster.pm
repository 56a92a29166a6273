package Testbed::Chaos::Cluster;

# Three masters and a replica of each, for Testbed::Chaos::World.

use strict;
use warnings;
use parent -norequire, 'Testbed::Chaos::World';
use Testbed::Chaos::World;
use Time::HiRes qw(sleep time);

use constant TAGS => 24;

sub new {
    my ($class, $bed) = @_;
    my $self = bless { bed => $bed, places => [] }, $class;
    $self->{cluster} = $bed->cluster(
        masters => 3, replicas => 1, node_timeout => 1000,
        each => sub {
            my $place = $self->new_place;
            return (port => $place->{port}, args => ['--cluster-announce-ip', '127.0.0.1', '--cluster-announce-port', $place->{relay}->port, $self->server_arguments]);
        }
    );
    my @nodes = $self->{cluster}->nodes;
    $self->move_in($self->{places}[$_], $nodes[$_]) for 0 .. $#nodes;
    $self->{tags} = [map { "tag$_" } 1 .. TAGS];
    $self->{slots} = { map { $_ => $self->{cluster}->slot_of($_) } @{ $self->{tags} } };
    return $self;
}

sub configuration {
    my ($self) = @_;
    return 'mode cluster; server ' . join(' ', map { '127.0.0.1:' . $_->{relay}->port } $self->places) . ';';
}

# The paths that are asked: the log of each tag, and pairs of slots.
sub paths {
    my ($self) = @_;
    my @tags = @{ $self->{tags} };
    return ((map { "/one?k=$_" } @tags), map { "/two?k=$tags[$_]&l=$tags[$_ - 1]" } 0 .. $#tags);
}

sub is_master { my ($place) = @_; return ($place->{admin}->ask('ROLE') // '') =~ /^master/ }
sub masters  { my ($self) = @_; return grep { is_master($_) } $self->places }
sub replicas { my ($self) = @_; return grep { !is_master($_) } $self->places }
sub id       { my ($place) = @_; return $place->{admin}->ask(qw(CLUSTER MYID)) // '' }

# The owners of slots according to a node; undef while it sees a fault.
sub view {
    my ($place) = @_;
    my $info = $place->{admin}->ask(qw(CLUSTER INFO)) // return undef;
    return undef if $info !~ /^cluster_state:ok/m || $info !~ /^cluster_slots_ok:16384/m;
    my @lines = split /\n/, $place->{admin}->ask(qw(CLUSTER NODES)) // return undef;
    return undef if @lines != 6 || grep { / \S*(?:fail|handshake|noaddr)\S* / || /\[/ } @lines;
    return join '; ', sort map { my @w = split; @w > 8 ? "$w[0]: @w[8 .. $#w]" : () } @lines;
}

# The state of the cluster as text, for people.
sub described {
    my ($self) = @_;
    return join "\n", map { my $place = $_; map { s/^(\w{8})\w+/$1/r } split(/\n/, ($place->{admin}->ask(qw(CLUSTER INFO)) // 'no answer') =~ s/\n.*//sr), split /\n/, $place->{admin}->ask(qw(CLUSTER NODES)) // '' }
        $self->places;
}

sub is_well {
    my ($self) = @_;
    my %views;
    for ($self->places) { $views{ view($_) // return 0 } = 1 }
    return 0 if keys %views != 1;
    my %owner = $self->owners or return 0;
    return !grep { !$owner{$_} || !Testbed::Chaos::World::decides($owner{$_}, $_) } @{ $self->{tags} };
}

# tag => its place
sub owners {
    my ($self) = @_;
    my %place = map { id($_) => $_ } $self->places;
    my @lines = map { [split] } split /\n/, $self->{places}[0]{admin}->ask(qw(CLUSTER NODES)) // return;
    my %owner;
    for my $tag (@{ $self->{tags} }) {
        my $slot = $self->{slots}{$tag};
        for my $line (@lines) {
            for (grep { /^\d/ } @$line[8 .. $#$line]) {
                my ($first, $last) = split /-/;
                $owner{$tag} = $place{ $line->[0] } if $slot >= $first && $slot <= ($last // $first);
            }
        }
    }
    return %owner;
}

# Repairs what a cluster does not repair itself after a fault in the middle of a move: slots that stay in migration, and
# slots that each node assigns to another one.
sub mend {
    my ($self) = @_;
    my @masters = $self->masters or return;
    my %claimed;
    for my $place (@masters) {
        my ($line) = grep { /myself/ } split /\n/, $place->{admin}->ask(qw(CLUSTER NODES)) // return;
        for (grep { defined && /^[\d\[]/ } (split ' ', $line)[8 .. 999]) {
            if (/^\[(\d+)/) { $place->{admin}->ask('CLUSTER', 'SETSLOT', $1, 'STABLE'); next }
            my ($first, $last) = split /-/;
            $claimed{$_}++ for $first .. $last // $first;
        }
    }
    my ($to, $other) = @masters;
    for my $slot (grep { !$claimed{$_} } 0 .. 16383) {
        $to->{admin}->ask('CLUSTER', 'SETSLOT', $slot, 'IMPORTING', id($other));
        $to->{admin}->ask('CLUSTER', 'SETSLOT', $slot, 'NODE', id($to));
    }
    # the statement of a node about its own slots overrides those of others
    $_->{admin}->ask(qw(CLUSTER BUMPEPOCH)) for @masters;
    return;
}

# The steps that move the slot of a tag to another master.
sub moving {
    my ($self, $tag) = @_;
    my %owner = $self->owners;
    my $from  = $owner{$tag} or return;
    my ($to)  = grep { $_ != $from } $self->masters or return;
    my @move  = ($self->{slots}{$tag}, $from, $to);
    return (
        sub { $to->{admin}->ask('CLUSTER', 'SETSLOT', $move[0], 'IMPORTING', id($from)); $from->{admin}->ask('CLUSTER', 'SETSLOT', $move[0], 'MIGRATING', id($to)) },
        sub {
            for (1 .. 20) {
                my @keys = split /\n/, $from->{admin}->ask('CLUSTER', 'GETKEYSINSLOT', $move[0], 100) // '' or last;
                ($from->{admin}->ask('MIGRATE', '127.0.0.1', $to->{port}, '', 0, 800, 'REPLACE', 'KEYS', @keys) // '') =~ /^(?:OK|NOKEY)/ or last;
            }
        },
        sub {
            for ($to, $from, grep { $_ != $to && $_ != $from } $self->masters) {
                last if ($_->{admin}->ask('CLUSTER', 'SETSLOT', $move[0], 'NODE', id($to)) // '') ne 'OK' && $_ == $to;
            }
        },
    );
}

sub faults {
    my ($self) = @_;
    my $victims = sub {
        my @masters = $self->masters or return Testbed::Chaos::World::any($self->places);
        my $dice = rand;
        return $dice < 0.6 ? Testbed::Chaos::World::any(@masters) : $dice < 0.8 ? Testbed::Chaos::World::some($self->places) : $dice < 0.9 ? $self->places : Testbed::Chaos::World::any($self->places);
    };
    my $fail_over = sub {
        my (@how) = @_;
        return sub { my @replicas = $self->replicas or return sub { }; Testbed::Chaos::World::any(@replicas)->{admin}->ask('CLUSTER', 'FAILOVER', @how); return sub { } };
    };
    my $tool = sub {
        my ($command) = @_;
        return sub {
            my ($any) = $self->masters or return sub { };
            my @ids = map { id($_) } $self->masters;
            system "timeout 20 redis-cli --cluster $command >/dev/null 2>&1 </dev/null"
                =~ s/ANY/127.0.0.1:$any->{port}/r =~ s/FROM/$ids[0]/r =~ s/TO/$ids[-1]/r;
            return sub { };
        };
    };
    return (
        $self->common_faults($victims),
        'CLUSTER FAILOVER'          => $fail_over->(),
        'CLUSTER FAILOVER FORCE'    => $fail_over->('FORCE'),
        'CLUSTER FAILOVER TAKEOVER' => $fail_over->('TAKEOVER'),
        'slots move'                => sub {
            my $end = time + 5;    # a node that hangs makes each step long
            for my $tag (Testbed::Chaos::World::some(@{ $self->{tags} })) { $_->() for time < $end ? $self->moving($tag) : () }
            return sub { };
        },
        'slots are under way' => sub {
            my @moves = map { [$self->moving($_)] } map { Testbed::Chaos::World::any(@{ $self->{tags} }) } 1 .. 3;
            @moves = grep { @$_ } @moves;
            $_->[0]->() for @moves;
            $_->[1]->() for grep { rand() < 0.5 } @moves;
            return sub { for my $move (@moves) { $_->() for @$move[1, 2] } };
        },
        'reshard'   => $tool->('reshard ANY --cluster-from FROM --cluster-to TO --cluster-slots 200 --cluster-yes'),
        'rebalance' => $tool->('rebalance ANY --cluster-threshold 1'),
    );
}

1;
