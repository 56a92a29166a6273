package Testbed::Chaos::Sentinel;

# A master, two replicas and three Sentinels, for Testbed::Chaos::World.

use strict;
use warnings;
use parent -norequire, 'Testbed::Chaos::World';
use Testbed::Chaos::World;
use Time::HiRes qw(sleep time);

my @watcher = (qw(reset on >w4tchpass resetchannels &+switch-master -@all +sentinel|get-master-addr-by-name +subscribe));

sub new {
    my ($class, $bed) = @_;
    my $self = bless { bed => $bed, places => [] }, $class;
    for (1 .. 3) {
        my $place = $self->new_place;
        $self->move_in($place, $bed->redis(port => $place->{port},
            args => [$self->server_arguments, '--replica-announce-ip', '127.0.0.1', '--replica-announce-port', $place->{relay}->port]));
    }
    my $first = $self->{places}[0]{relay};
    $_->{redis}->cli('REPLICAOF', '127.0.0.1', $first->port) for @{ $self->{places} }[1, 2];
    my @user = ('user watcher ' . join ' ', @watcher);
    $self->{sentinels} = [map { { redis => $bed->sentinel(master => $first, quorum => 2, conf => \@user) } } 1 .. 3];
    $_->{admin} = Testbed::Admin->new(port => $_->{redis}->port) for $self->sentinels;
    return $self;
}

sub sentinels { return @{ $_[0]{sentinels} } }

sub configuration {
    my ($self) = @_;
    return 'mode sentinel limits; sentinel_username watcher; sentinel_password w4tchpass; server ' . join(' ', map { $_->{redis}->address } $self->sentinels) . ';';
}

sub paths { return ((map { "/one?k=tag$_" } 1 .. 24), map { "/two?k=tag$_&l=other$_" } 1 .. 6) }

# The server whose role is master and that all Sentinels name; undef while they do not agree.
sub master {
    my ($self) = @_;
    my %named;
    for ($self->sentinels) {
        my ($host, $port) = split /\n/, $_->{admin}->ask(qw(SENTINEL GET-MASTER-ADDR-BY-NAME limits)) // return undef;
        $named{ $port // return undef } = 1;
        my %fields = split /\n/, ($_->{admin}->ask(qw(SENTINEL MASTER limits)) // '') . "\n";
        return undef if ($fields{flags} // '') ne 'master';
    }
    return undef if keys %named != 1;
    my ($master) = grep { $named{ $_->{relay}->port } } $self->places;
    return $master && ($master->{admin}->ask('ROLE') // '') =~ /^master/ ? $master : undef;
}

# The state of the servers as text, for people.
sub described {
    my ($self) = @_;
    return join "\n", map({ ($_->{admin}->ask(qw(SENTINEL MASTER limits)) // 'no answer') =~ s/\n/ /gr } $self->sentinels), map { ($_->{admin}->ask('ROLE') // 'no answer') =~ s/\n/ /gr } $self->places;
}

sub is_well { my ($self) = @_; my $master = $self->master; return $master && Testbed::Chaos::World::decides($master, 'well') }

sub restore {
    my ($self) = @_;
    $self->SUPER::restore;
    for my $guard ($self->sentinels) {
        Testbed::Chaos::World::wake($guard);
        $guard->{admin}->ask('ACL', 'SETUSER', 'watcher', @watcher);
    }
    return;
}

# A replica that follows a former master is corrected by the Sentinels in time.
sub mend { return }

sub faults {
    my ($self) = @_;
    my $victims = sub {
        my @masters = grep { ($_->{admin}->ask('ROLE') // '') =~ /^master/ } $self->places;
        my $dice = rand;
        return $dice < 0.7 && @masters ? Testbed::Chaos::World::any(@masters) : $dice < 0.85 ? Testbed::Chaos::World::some($self->places) : Testbed::Chaos::World::any($self->places);
    };
    my $guards = sub {
        my ($begin, $heal) = @_;
        return sub {
            my @them = rand() < 0.3 ? $self->sentinels : Testbed::Chaos::World::some($self->sentinels);
            $begin->($_) for @them;
            return sub { $heal->($_) for @them };
        };
    };
    return (
        $self->common_faults($victims),
        'SENTINEL FAILOVER'  => sub { Testbed::Chaos::World::any($self->sentinels)->{admin}->ask(qw(SENTINEL FAILOVER limits)); return sub { } },
        'Sentinels killed'   => $guards->(sub { $_[0]{redis}->kill }, \&Testbed::Chaos::World::wake),
        'Sentinels stopped'  => $guards->(sub { Testbed::Chaos::World::pause($_[0]{redis}) }, \&Testbed::Chaos::World::wake),
        'Sentinels hang up'  => $guards->(sub { $_[0]{admin}->ask(qw(CLIENT KILL USER watcher)) }, sub { }),
        "Sentinels' password" => $guards->(
            sub { $_[0]{admin}->ask(qw(ACL SETUSER watcher resetpass >another)); $_[0]{admin}->ask(qw(CLIENT KILL USER watcher)) },
            sub { $_[0]{admin}->ask(qw(ACL SETUSER watcher resetpass >w4tchpass)) }
        ),
        "Sentinels' rights" => $guards->(
            sub { $_[0]{admin}->ask(qw(ACL SETUSER watcher), Testbed::Chaos::World::any('-subscribe', 'resetchannels', '-@all')); $_[0]{admin}->ask(qw(CLIENT KILL USER watcher)) },
            sub { $_[0]{admin}->ask(qw(ACL SETUSER watcher &+switch-master +sentinel|get-master-addr-by-name +subscribe)) }
        ),
    );
}

1;
