package Testbed::Chaos;

# Random faults, one after another, in Redis, in the network to it, or in nginx; each ends before the next one. The
# choices follow from perl's srand.

use strict;
use warnings;
use Testbed ();
use Testbed::Admin;
use Testbed::Relay;
use Time::HiRes qw(sleep);

# The password of the user `limiter`, which nginx uses.
use constant PASSWORD => 'us3rpass';

# redis: behind the relay, on its port, with that user; nginx: is reloaded; conf: code that returns its next configuration
sub new {
    my ($class, $bed, %options) = @_;
    my $self = bless { bed => $bed, happened => {}, %options }, $class;
    $self->{relay} = $self->relay;
    return $self;
}

my %faults = (
    'redis killed'      => sub { $_[0]{redis}->kill; pause(1.5); $_[0]{redis}->start },
    'redis stopped'     => sub { $_[0]{redis}->pause; pause(1.5); $_[0]{redis}->resume },
    'redis stutters'    => sub { for (1 .. 5) { $_[0]{redis}->pause; pause(0.2); $_[0]{redis}->resume; pause(0.2) } },
    'scripts flushed'   => sub { for (1 .. 3 + rand 5) { $_[0]->cli(qw(SCRIPT FLUSH)); pause(0.1) } },
    'all flushed'       => sub { $_[0]->cli(qw(FLUSHALL)) },
    'out of memory'     => sub { $_[0]->cli(qw(CONFIG SET maxmemory 1)); pause(1); $_[0]->cli(qw(CONFIG SET maxmemory 0)) },
    'evictable'         => sub {
        $_[0]->cli(qw(CONFIG SET maxmemory-policy allkeys-lru));
        $_[0]->cli(qw(CLIENT KILL TYPE normal));
        pause(0.5);
        $_[0]->cli(qw(CONFIG SET maxmemory-policy noeviction));
    },
    'a replica'         => sub { $_[0]->cli(qw(REPLICAOF 127.0.0.1 1)); pause(1); $_[0]->cli(qw(REPLICAOF NO ONE)) },
    'forbidden'         => sub { $_[0]->cli(qw(ACL SETUSER limiter), (qw(-evalsha -time resetkeys -@all))[rand 4]); pause(1); $_[0]->cli(qw(ACL SETUSER limiter +@all ~*)) },
    'another password'  => sub {
        $_[0]->cli(qw(ACL SETUSER limiter resetpass >another));
        $_[0]->cli(qw(CLIENT KILL USER limiter)) if rand() < 0.7;
        pause(1);
        $_[0]->cli('ACL', 'SETUSER', 'limiter', 'resetpass', '>' . PASSWORD);
    },
    'too few replicas'  => sub { $_[0]->cli(qw(CONFIG SET min-replicas-to-write 1)); pause(1); $_[0]->cli(qw(CONFIG SET min-replicas-to-write 0)) },
    'writes paused'     => sub { $_[0]->cli(qw(CLIENT PAUSE 5000 WRITE)); pause(1); $_[0]->cli(qw(CLIENT UNPAUSE)) },
    'no more clients'   => sub {
        my $admin = Testbed::Admin->new(path => $_[0]{redis}->path);    # an existing client
        $admin->ask(qw(CONFIG SET maxclients 1));
        $admin->ask(qw(CLIENT KILL TYPE normal SKIPME yes)) if rand() < 0.7;
        pause(1);
        $admin->ask(qw(CONFIG SET maxclients 10000));
    },
    'keys of a wrong type' => sub {
        my ($self) = @_;
        $self->cli('SET', $_, 'text') for my @keys = grep { rand() < 0.3 } split /\n/, $self->cli(qw(KEYS rl:sliding:*0}));
        pause(0.5);
        $self->cli('DEL', @keys) if @keys;
    },
    'a busy script'     => sub {
        $_[0]{redis}->in_background('EVAL', "while redis.call('EXISTS', KEYS[1]) == 0 do end", 1, 'never');
        pause(1);
        my ($self) = @_;
        Testbed::wait_until('the script to end', 20, sub { $self->cli(qw(SCRIPT KILL)) =~ /OK/ });    # it may begin late
    },
    'connections killed' => sub { for (1 .. 1 + rand 4) { $_[0]->cli(qw(CLIENT KILL TYPE normal)); pause(0.3) } },
    'clock jumps'       => sub { $_[0]{redis}->set_clock(int rand(7200) - 3600); pause(1); $_[0]{redis}->set_clock(0) },
    'network down'      => sub { my ($self) = @_; $self->{relay}->kill; pause(1.5); $self->{relay} = $self->relay },
    'network stands still' => sub { my ($self) = @_; $self->{relay}->signal('STOP'); pause(1.5); $self->{relay}->signal('CONT') },
    'network swallows'  => sub {
        my ($self) = @_;
        $self->{relay}->kill;
        $self->{relay} = $self->relay(mute => 1);
        pause(1.5);
        $self->{relay}->kill;
        $self->{relay} = $self->relay;
    },
    'network fails'     => sub {
        my ($self) = @_;
        my $what = (qw(close reset hold flip delay))[rand 5];
        $self->{relay}->kill;
        $self->{relay} = $self->relay(each_byte => [$what, int rand 60, 1 + int rand 30]);
        pause(2);
        $self->{relay}->kill;
        $self->{relay} = $self->relay;
    },
    'numbers changed'   => sub {
        my ($self) = @_;
        $self->{relay}->kill;
        $self->{relay} = $self->relay(changes => [0.01 + rand 0.05, int rand 1e9]);
        pause(2);
        $self->{relay}->be_honest;
    },
    'slow network'      => sub {
        my ($self) = @_;
        $self->{relay}->kill;
        $self->{relay} = $self->relay(slow => 1);
        pause(1);
        $self->{relay}->kill;
        $self->{relay} = $self->relay;
    },
    'reload'            => sub { $_[0]{nginx}->configure($_[0]{conf}->())->reload; pause(0.5) },
    'two reloads'       => sub { $_[0]{nginx}->configure($_[0]{conf}->())->reload->reload },
    'logs reopened'     => sub { $_[0]{nginx}->signal('USR1') },
);

# Causes one fault, and returns its name. Some also cause a reload in the middle of the next pause.
sub step {
    my ($self) = @_;
    my $name = (sort keys %faults)[rand keys %faults];
    $self->{happened}{$name}++;
    $faults{$name}->($self);
    return $name;
}

sub happened { return $_[0]{happened} }

sub relay {
    my ($self, @faults) = @_;
    my $relay = Testbed::Relay->new($self->{bed}, to => $self->{redis}->port, port => $self->{relay} ? $self->{relay}->port : 0, @faults);
    return $relay;
}

sub relay_port { return $_[0]{relay}->port }

# Redis may be down or busy; this is not tested here.
sub cli { my ($self, @words) = @_; return $self->{redis}->cli(@words) }

sub pause { sleep rand $_[0] }

1;
