package Testbed::Sentinel;

# A Redis Sentinel for the test.

use strict;
use warnings;
use parent -norequire, 'Testbed::Process';
use Testbed::Process;

my $count = 0;

# Options: master => Testbed::Redis, name => of the master, quorum => number, conf => [more lines], auth => [redis-cli's],
# tls => [certificate, key, CA], as Testbed::Redis has it
sub new {
    my ($class, $bed, %options) = @_;
    my $dir = $bed->dir . '/sentinel' . ++$count;
    mkdir $dir or die "$dir: $!";
    my $self = bless {
        bed  => $bed,
        dir  => $dir,
        log  => "$dir/sentinel.log",
        port => Testbed::free_port(),
        name => $options{name} // 'limits',
        auth => $options{auth} // [],
        tls  => $options{tls},
    }, $class;
    my $host    = $options{host} // '127.0.0.1';
    my $monitor = $options{master}
        ? "sentinel monitor $self->{name} $host " . $options{master}->port . ' ' . ($options{quorum} // 1) . "\n"
        . "sentinel down-after-milliseconds $self->{name} " . 250 * Testbed::slow() . "\n"
        . "sentinel failover-timeout $self->{name} 2000\n"
        : '';
    open my $file, '>', "$dir/sentinel.conf" or die $!;
    print $file "bind 127.0.0.1\ndir $dir\n", map({"$_\n"} @{ $options{conf} // [] }), $monitor;
    close $file;
    return $self->start;
}

sub start {
    my ($self) = @_;
    $self->spawn($self->{log}, Testbed::Redis::binary(), "$self->{dir}/sentinel.conf", '--sentinel',
        Testbed::Redis::listening($self->{port}, $self->{tls}));
    Testbed::wait_until('a Sentinel to answer', 10, sub { $self->cli('PING') =~ /PONG/ }) or die "no Sentinel\n";
    return $self;
}

sub port    { return $_[0]{port} }
sub address { return "127.0.0.1:$_[0]{port}" }

# The port of the server that it names as master; 0: none.
sub master_port {
    my ($self) = @_;
    return (split /\n/, $self->cli('SENTINEL', 'GET-MASTER-ADDR-BY-NAME', $self->{name}))[1] // 0;
}

# Begins a fail-over, once the Sentinel takes a replica for good. False: it does not.
sub begin_failover {
    my ($self) = @_;
    return Testbed::wait_until('a fail-over to begin', 20, sub { $self->cli('SENTINEL', 'FAILOVER', $self->{name}) eq 'OK' });
}

# A field of the reply to SENTINEL MASTER.
sub field {
    my ($self, $name) = @_;
    my %fields = split /\n/, $self->cli('SENTINEL', 'MASTER', $self->{name}) . "\n";
    return $fields{$name};
}

sub cli {
    my ($self, @words) = @_;
    my @tls = $self->{tls} ? ('--tls', '--cert', $self->{tls}[0], '--key', $self->{tls}[1], '--cacert', $self->{tls}[2]) : ();
    return Testbed::Redis::run_cli(['-p', $self->{port}, @tls, @{ $self->{auth} }], @words);
}

# Waits until the master has this replica in step, and the Sentinel knows.
sub in_step {
    my ($self, $master, $replica) = @_;
    return Testbed::wait_until('master and replica to agree', 20, sub {
        $master->cli('ROLE') =~ /^master/ && $replica->cli('ROLE') =~ /^slave/ && ($replica->info('master_link_status') // '') eq 'up'
            && $self->master_port == $master->port && ($self->field('num-slaves') // 0) == 1 && $self->field('flags') eq 'master';
    });
}

sub pause  { $_[0]->signal('STOP') }
sub resume { $_[0]->signal('CONT') }
sub finish { $_[0]->kill }

1;
