package Testbed::Chaos::World;

# Servers with faults: nginx reaches each redis-server through a relay of its own, whose port the others use, too. This
# is the common part of both topologies; Testbed::Chaos::Cluster and ::Sentinel have the rest.

use strict;
use warnings;
use Testbed::Admin;
use Testbed::Relay;
use Time::HiRes qw(sleep time);

use constant PASSWORD => 'us3rpass';

# The arguments of a redis-server: its user for nginx, also after a restart.
sub server_arguments {
    return ('--user', 'limiter', 'on', '>' . PASSWORD, '~*', '&*', '+@all', '--repl-diskless-sync-delay', 0, '--repl-ping-replica-period', 1, '--repl-timeout', 5);
}

# { port, relay, redis, admin }, all but the last two, which are added once Redis is there
sub new_place {
    my ($self) = @_;
    my $place = { port => Testbed::free_port() };
    $place->{relay} = Testbed::Relay->new($self->{bed}, to => $place->{port});
    push @{ $self->{places} }, $place;
    return $place;
}

sub move_in {
    my ($self, $place, $redis) = @_;
    $place->{redis} = $redis;
    $place->{admin} = Testbed::Admin->new(path => $redis->path);
    return;
}

sub places { return @{ $_[0]{places} } }
sub any    { return $_[rand @_] }
sub some   { my @chosen = grep { rand() < 0.5 } @_; return @chosen ? @chosen : any(@_) }

# Another relay in its place; faults as Testbed::Relay has them.
sub put_relay {
    my ($self, $place, %faults) = @_;
    my $port = $place->{relay}->port;
    $place->{relay}->kill;
    @{ $self->{bed}{processes} } = grep { $_ != $place->{relay} } @{ $self->{bed}{processes} };
    $place->{relay} = Testbed::Relay->new($self->{bed}, to => $place->{port}, port => $port, %faults);
    return;
}

# Several faults may affect one server: a dead server cannot be stopped, and a running one is not started.
sub pause { my ($process) = @_; return $process->pid && $process->signal('STOP') }

sub wake {
    my ($place) = @_;
    return $place->{redis}->is_running ? $place->{redis}->resume : $place->{redis}->start;
}

# To be called after all faults have ended: removes what is left of faults that affected the same server.
sub restore {
    my ($self) = @_;
    for my $place ($self->places) {
        wake($place);
        if (($place->{admin}->ask('PING') // '') !~ /PONG|LOADING/) {    # one that was stopped takes no more clients, not even us
            $place->{redis}->kill;
            wake($place);
        }
        $place->{admin}->ask(qw(ACL SETUSER limiter on +@all resetpass), '>' . PASSWORD);
        $place->{admin}->ask(qw(CONFIG SET maxclients 10000));
    }
    return;
}

# A script call by the user of nginx, through the relay.
sub decides {
    my ($place, $tag) = @_;
    my $client = Testbed::Admin->new(port => $place->{relay}->port, auth => ['limiter', PASSWORD]);
    return ($client->exchange('EVAL', 'return redis.call("SET", KEYS[1], "1", "PX", 1000)', 1, "harness:{$tag}") // '') eq 'OK';
}

# Name of a fault => code that begins it, and returns the code that heals it. The code gets the duration of the fault, and
# may wait that long itself.
sub common_faults {
    my ($self, $victims) = @_;    # code: those that are asked just now, or some of all
    my $each = sub { my ($code) = @_; return sub { $code->($_) for $victims->(); return sub { } } };
    my $undone = sub {
        my ($begin, $heal) = @_;
        return sub { my @them = $victims->(); $begin->($_) for @them; return sub { $heal->($_) for @them } };
    };
    return (
        'killed'          => $undone->(sub { $_[0]{redis}->kill }, \&wake),
        'stopped'         => $undone->(sub { pause($_[0]{redis}) }, \&wake),
        'stutters'        => sub {
            my ($them) = $victims->();
            for (1 .. 4) { pause($them->{redis}); sleep rand 0.3; wake($them); sleep rand 0.2 }
            return sub { };
        },
        'relay holds'     => $undone->(sub { pause($_[0]{relay}) }, sub { $self->put_relay($_[0]) }),
        'relay cuts'      => sub { my @them = $victims->(); $self->put_relay($_) for @them; return sub { } },
        'relay is away'   => $undone->(sub { $_[0]{relay}->kill }, sub { $self->put_relay($_[0]) }),
        'relay swallows'  => $undone->(sub { $self->put_relay($_[0], mute => 1) }, sub { $self->put_relay($_[0]) }),
        'relay crawls'    => $undone->(sub { $self->put_relay($_[0], slow => 1) }, sub { $self->put_relay($_[0]) }),
        'clients killed'  => $each->(sub { $_[0]{admin}->ask(qw(CLIENT KILL TYPE normal SKIPME yes)) }),
        'scripts flushed' => $each->(sub { $_[0]{admin}->ask(qw(SCRIPT FLUSH)) }),
        'busy'            => $each->(sub { $_[0]{redis}->in_background(qw(DEBUG SLEEP), sprintf '%.2f', rand 1) }),
        'another password' => $undone->(
            sub { $_[0]{admin}->ask(qw(ACL SETUSER limiter resetpass >another)); $_[0]{admin}->ask(qw(CLIENT KILL USER limiter)) if rand() < 0.5 },
            sub { $_[0]{admin}->ask(qw(ACL SETUSER limiter resetpass), '>' . PASSWORD) }
        ),
        'rights taken' => $undone->(
            sub { $_[0]{admin}->ask(qw(ACL SETUSER limiter), any('-evalsha', '-@all', '-zadd', '-time')) },
            sub { $_[0]{admin}->ask(qw(ACL SETUSER limiter +@all)) }
        ),
        'maxclients' => $undone->(
            sub { $_[0]{admin}->ask(qw(CONFIG SET maxclients 1)); $_[0]{admin}->ask(qw(CLIENT KILL TYPE normal SKIPME yes)) if rand() < 0.5 },
            sub { $_[0]{admin}->ask(qw(CONFIG SET maxclients 10000)) }
        ),
    );
}

1;
