package Testbed::Nginx;

# An nginx for the test, with the module loaded, and its error log.

use strict;
use warnings;
use parent -norequire, 'Testbed::Process';
use Cwd ();
use File::Basename ();
use IO::Socket::INET;
use Test::More;
use Testbed::Http ();
use Testbed::Process;

my $count = 0;
my $root = Cwd::abs_path(File::Basename::dirname(__FILE__) . '/../../..');

sub binary { return $ENV{TEST_NGINX_BINARY} // 'nginx' }

sub load_module {
    my $module = $ENV{TEST_NGINX_MODULE} // "$root/build/ngx_http_sliding_log_module.so";
    return $module eq '' ? '' : "load_module $module;";    # '': linked in
}

sub new {
    my ($class, $bed, $conf, %options) = @_;
    my $dir = $bed->dir . '/nginx' . ++$count;
    mkdir $_ or die "$_: $!" for $dir, "$dir/logs";    # the latter for an access_log left at its default
    my $self = bless { bed => $bed, dir => $dir, log => "$dir/error.log", values => \%options, expected => [] }, $class;
    $self->configure($conf);
    return $self;
}

# Writes the configuration, also a new one before reload().
sub configure {
    my ($self, $conf) = @_;
    my $dir  = $self->{dir};
    my $user = $> == 0 ? 'user root;' : '';
    my %fill = (
        GLOBALS => load_module() . "\n$user\ndaemon off;\npid $dir/nginx.pid;\nerror_log $dir/error.log info;\n",
        HTTP    => join("\n", map { "${_}_temp_path $dir;" } qw(client_body proxy fastcgi uwsgi scgi))
            . "\nlarge_client_header_buffers 4 64k;",
        DIR => $dir,
        %{ $self->{values} },
    );
    $conf =~ s/%%(\w+)%%/$self->fill($1, \%fill)/ge;
    open my $file, '>:raw', "$dir/nginx.conf" or die $!;
    print $file $conf;
    close $file;
    return $self;
}

sub fill {
    my ($self, $name, $fill) = @_;
    return $self->port($name) if $name =~ /^PORT\d*$/;
    return $fill->{$name} // die "no value for %%$name%%\n";
}

sub port {
    my ($self, $name) = @_;
    return $self->{ports}{ $name // 'PORT' } //= Testbed::free_port();
}

sub dir { return $_[0]{dir} }

# A master that gets this signal ends its workers.
sub death_signal { return 'TERM' }

sub command { my ($self, @more) = @_; return (binary(), '-p', $self->{dir}, '-e', $self->{log}, '-c', "$self->{dir}/nginx.conf", @more) }

# `nginx -t`: (accepted, what it printed)
sub check {
    my ($self) = @_;
    my @command = $self->command('-t');
    my $pid = open my $out, '-|';
    defined $pid or die "fork: $!";
    if ($pid == 0) {
        open STDERR, '>&', \*STDOUT;
        exec @command or POSIX::_exit(127);
    }
    local $/;
    my $text = <$out> // '';
    close $out;
    return ($? == 0, $text . Testbed::Process::slurp($self->{log}));
}

sub start {
    my ($self) = @_;
    $self->spawn("$self->{dir}/output", $self->{values}{CLOCK} ? $self->{values}{CLOCK}->under : (), $self->command);
    my @ports = values %{ $self->{ports} };
    Testbed::wait_until('nginx to listen', 15, sub {
        return 'died' unless $self->is_running;
        # the master listens before it has workers
        return $self->workers && !grep { !IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $_) } @ports;
    });
    $self->is_running or die "nginx did not start\n" . Testbed::Process::slurp("$self->{dir}/output") . $self->log_tail;
    return $self;
}

# The ids of worker processes, including old generations.
sub workers {
    my ($self) = @_;
    my @pids;
    for my $stat (glob '/proc/[0-9]*/stat') {
        push @pids, $1 if Testbed::Process::slurp($stat) =~ /^(\d+) \(.*\) (?!Z)\S+ $self->{pid} /;
    }
    return @pids;
}

# Waits until this number of workers have answered 200 to their latest request for the path. The field X-How has the
# worker after the source: conf(how => '$sliding_log_source $pid').
sub all_serve {
    my ($self, $path, $number, $deadline) = @_;
    my %served;
    return Testbed::wait_until('all workers to serve', $deadline // 10, sub {
        my $answer = Testbed::Http::get($self->port, $path);
        my (undef, $worker) = split / /, Testbed::Http::field($answer, 'X-How') // '';
        $served{ $worker // '' } = $answer->{status} == 200;
        return $number == grep { $served{$_} } $self->workers;
    });
}

# The number of open sockets of all workers together.
sub sockets { my ($self) = @_; return scalar grep { (readlink // '') =~ /^socket/ } map { glob "/proc/$_/fd/*" } $self->workers }

# Reloads and waits for new workers; with told => 1 until an old one knows that it is to quit, and accepts no connection,
# and with gone => 1 until all of them have ended, too.
sub reload {
    my ($self, %options) = @_;
    my %old  = map { $_ => 1 } $self->workers;
    my $told = $self->logged(qr/gracefully shutting down/);
    $self->signal('HUP');
    Testbed::wait_until('new workers', 15, sub { grep { !$old{$_} } $self->workers }) or die "no reload\n";
    if ($options{told}) {
        Testbed::wait_until('an old worker to be told', 15, sub { $self->logged(qr/gracefully shutting down/) > $told }) or die "no reload\n";
    }
    if ($options{gone}) {
        Testbed::wait_until('old workers to end', 20, sub { !grep { $old{$_} } $self->workers }) or fail('old workers end');
    }
    return $self;
}

sub error_log { return Testbed::Process::slurp($_[0]{log}) }

# The number of matching lines of the error log.
sub logged { my ($self, $regex) = @_; return scalar grep { /$regex/ } split /\n/, $self->error_log }

# Messages of stores that were logged more than twice within one clock second: each cause of a server is logged at most
# once a second, which may be twice in one. Uses the error log, or this text of it.
sub repeated_troubles {
    my ($self, $text) = @_;
    my %count;
    for my $line (split /\n/, $text // $self->error_log) {
        my ($second, $worker, $said) = $line =~ /^(\S+ \S+) \[(?:warn|error)\] (\d+)#.*?: (sliding_log_redis .*)/ or next;
        my ($who, $what, $cause) = $said =~ /^(\S+ "[^"]*" \([^)]*\)): ([^:]*)(?:: (.*))?/;
        my ($word) = ($cause // '') =~ /^(?:.*answered: )?(\S*)/;
        $count{"$second $worker $who: $what: $word"}++;
    }
    return map { "$count{$_} times $_" } grep { $count{$_} > 2 } sort keys %count;
}

# Permits an [alert] or [crit] caused by this test.
sub expect_in_log { my ($self, $regex) = @_; push @{ $self->{expected} }, $regex; return $self }

# Workers are killed, one of them perhaps while it holds the lock of the zone, which nginx then takes from it.
sub expect_kills { return $_[0]->expect_in_log(qr/exited on signal 9|shared memory zone "sliding_log" was locked by/) }

sub finish {
    my ($self) = @_;
    if ($self->is_running) {
        $self->signal('QUIT');
        ok($self->wait_end(15 * Testbed::slow()), 'nginx quits gracefully in time');
    }
    is($self->{status}, 0, 'nginx ended well');
    my @bad = grep { /\[(alert|crit|emerg)\]|open socket|exited on signal|exited with code [1-9]/ } split /\n/, $self->error_log;
    for my $expected (@{ $self->{expected} }) {
        @bad = grep { !/$expected/ } @bad;
    }
    push @bad, grep { /Sanitizer|runtime error:/ } split /\n/,
        $self->error_log . Testbed::Process::slurp("$self->{dir}/output");
    is(join("\n", @bad), '', 'no alert, crash or sanitizer report in the error log');
    $self->kill;
    return;
}

1;
