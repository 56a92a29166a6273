package Testbed::Redis;

# A redis-server for the test, or TEST_REDIS_BINARY instead (valkey-server), without persistence; with TEST_NATIVE it has
# the native module, whose calls count as those of scripts.

use strict;
use warnings;
use parent -norequire, 'Testbed::Process';
use File::Basename ();
use Testbed::Admin;
use Testbed::Clock;
use Testbed::Native qw(native_module);
use Testbed::Process;

my $count = 0;

sub binary { return $ENV{TEST_REDIS_BINARY} // 'redis-server' }

# Options: unix => 1 (a socket only), port, args => [more of redis-server's], auth => [redis-cli's], host => address,
# tls => [certificate, key, CA that clients must have a certificate of (none: they need not)],
# clock => 1 (one of its own, which set_clock() shifts by seconds from the true one), or a Testbed::Clock
sub new {
    my ($class, $bed, %options) = @_;
    my $dir  = $bed->dir . '/redis' . ++$count;
    mkdir $dir or die "$dir: $!";
    my $self = bless {
        bed  => $bed,
        dir  => $dir,
        log  => "$dir/redis.log",
        host => $options{host} // '127.0.0.1',
        port => $options{unix} ? 0 : $options{port} // Testbed::free_port(),
        path => "$dir/redis.sock",
        args => $options{args} // [],
        auth => $options{auth} // [],
        tls  => $options{tls},
    }, $class;
    $self->{clock} = ref $options{clock} ? $options{clock} : Testbed::Clock->new($dir) if $options{clock};
    return $options{stopped} ? $self : $self->start;
}

sub start {
    my ($self) = @_;
    $self->spawn($self->{log}, $self->under, binary(), listening($self->{port}, $self->{tls}), '--bind', $self->{host}, '--unixsocket', $self->{path},
        '--unixsocketperm', 777, '--save', '', '--dir', $self->{dir}, ($ENV{TEST_NATIVE} ? ('--loadmodule', native_module()) : ()), @{ $self->{args} });
    Testbed::wait_until('Redis to answer', 10, sub { $self->cli('PING') =~ /PONG|LOADING/ }) or die "no Redis\n";
    return $self;
}

# The words in front of the command: its clock, and the runtime of a sanitizer that its module needs.
sub under {
    my ($self) = @_;
    return $self->{clock}->under if $self->{clock};
    my $needs = $ENV{TEST_PRELOAD} && ($ENV{TEST_NATIVE} || grep { $_ eq native_module() } @{ $self->{args} });
    return $needs ? ('env', "LD_PRELOAD=$ENV{TEST_PRELOAD}") : ();
}

# Its address options, also of a Sentinel or another node. They use the same protocol among themselves.
sub listening {
    my ($port, $tls) = @_;
    return ('--port', $port) if !$tls;
    my ($certificate, $key, $clients) = @$tls;
    return ('--port', 0, '--tls-port', $port, '--tls-replication', 'yes', '--tls-cert-file', $certificate, '--tls-key-file', $key,
        '--tls-auth-clients', $clients ? 'yes' : 'no', '--tls-ca-cert-file', $clients // $certificate);
}

# True when Redis shows it.
sub set_clock {
    my ($self, $seconds) = @_;
    $self->{clock}->set($seconds);
    return Testbed::wait_until('Redis to show its clock', 10, sub {
        my ($shown) = split /\n/, $self->cli('TIME');
        return abs($shown - $self->{clock}->time) <= 1;
    });
}

sub host    { return $_[0]{host} }
sub port    { return $_[0]{port} }
sub path    { return $_[0]{path} }
sub address { my ($self) = @_; return $self->{port} ? ($self->{host} =~ /:/ ? "[$self->{host}]" : $self->{host}) . ":$self->{port}" : "unix:$self->{path}" }

sub cli { my ($self, @words) = @_; return run_cli($self->where, @words) }

# The options of redis-cli for its address and password.
sub where { my ($self) = @_; return ['-s', $self->{path}, @{ $self->{auth} }] }

sub cli_command { my ($where, @words) = @_; return ('redis-cli', '--no-auth-warning', @$where, '--raw', @words) }

# What redis-cli prints of the raw reply, without the last newline. redis-cli itself runs only for what needs it (TLS, -c, a
# command without one reply): to start it takes as long as a hundred commands.
sub run_cli {
    my ($where, @words) = @_;
    my ($server, @command) = server_of(@$where, @words);
    if ($server && $command[0] !~ /^(?:monitor|p?subscribe|shutdown)$/i) {
        my $reply = Testbed::Admin->new(%$server, within => 60)->ask(@command) // return "no answer of @$where";
        return $reply =~ s/^-(?=[A-Z]{2,} )//gmr;
    }
    my $pid = open my $out, '-|';
    defined $pid or die "fork: $!";
    if ($pid == 0) {
        open STDERR, '>&', \*STDOUT;
        exec cli_command($where, @words) or POSIX::_exit(127);
    }
    local $/;
    my $text = <$out> // '';
    close $out;
    return $text =~ s/\n\z//r;
}

# The options of redis-cli in front of a command as those of Testbed::Admin, and the command; empty for others.
sub server_of {
    my (@words) = @_;
    my %server;
    my %meaning = (
        '-s' => 'path', '-p' => 'port', '-n' => 'database', '-a' => 'password', '--pass' => 'password', '--user' => 'user');
    while (@words && $words[0] =~ /^-/) {
        my $option = shift @words;
        next if $option eq '--no-auth-warning';
        return if !$meaning{$option};
        $server{ $meaning{$option} } = shift @words;
    }
    my @auth = grep { defined } delete @server{qw(user password)};
    $server{auth} = \@auth if @auth;
    return (\%server, @words);
}

# Sends a command without waiting; its client ends with the reply.
sub in_background {
    my ($self, @words) = @_;
    my $client = bless { log => '/dev/null' }, 'Testbed::Process';
    $client->spawn('/dev/null', cli_command($self->where, @words));
    push @{ $self->{bed}{processes} }, $client;
    return;
}

# Waits until this replica has all that the master has written. It begins to follow a second after it is in step.
sub follows {
    my ($self, $master) = @_;
    my $written = $master->info('master_repl_offset');
    return Testbed::wait_until('the replica to follow', 10, sub { ($self->info('slave_repl_offset') // 0) >= $written });
}

# The value of a field of INFO.
sub info {
    my ($self, $field) = @_;
    return $self->cli('INFO', 'everything') =~ /^\Q$field\E:([^\r\n]*)/m ? $1 : undef;
}

# The number of calls of a command, from INFO commandstats; "rejected" or "failed": of these.
sub calls {
    my ($self, $command, $which) = @_;
    my $stats = $self->cli('INFO', 'commandstats');
    my $of    = defined $which ? ".*,${which}_calls" : 'calls';
    my $calls = sub { my ($name) = @_; return $stats =~ /^cmdstat_\Q$name\E:$of=(\d+)/m ? $1 : 0 };
    return $calls->($command) + ($command eq 'evalsha' && $ENV{TEST_NATIVE} ? $calls->('sliding_log.2') : 0);
}

# The number of connected clients without redis-cli; cmd => only those with this last command.
sub connections {
    my ($self, %which) = @_;
    my @clients = grep { !/ cmd=client/ } split /\n/, $self->cli(qw(CLIENT LIST TYPE normal));
    my @commands = ($which{cmd} // (), ($which{cmd} // '') eq 'evalsha' && $ENV{TEST_NATIVE} ? 'sliding_log.2' : ());
    my $any      = join '|', map { quotemeta } @commands;
    return scalar grep { !@commands || / cmd=(?:$any) / } @clients;
}

sub pause  { $_[0]->signal('STOP') }
sub resume { $_[0]->signal('CONT') }
sub finish { $_[0]->kill }

1;
