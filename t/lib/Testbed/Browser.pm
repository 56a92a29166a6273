package Testbed::Browser;

# A headless Chromium, controlled with the DevTools protocol over a pipe.

use strict;
use warnings;
use parent -norequire, 'Testbed::Process';
use Exporter 'import';
use IO::Select;
use JSON::PP ();
use MIME::Base64 ();
use POSIX ();
use Time::HiRes qw(time);
use Testbed::Process;

our @EXPORT_OK = qw(browser_is_there);

sub browser_is_there { return -x '/usr/bin/chromium' }

my $json = JSON::PP->new->utf8->allow_nonref;

# Options: width, height => of the window, in pixels; dark => 1
sub new {
    my ($class, $bed, %options) = @_;
    my $dir  = $bed->dir;
    my $self = bless { log => "$dir/chromium.log", next => 1, heard => '', events => [] }, $class;
    pipe(my $its_in, $self->{to})   or die "pipe: $!";
    pipe($self->{from}, my $its_out) or die "pipe: $!";
    $self->{to}->autoflush(1);
    $self->spawn_code(sub {
        my ($in, $out) = map { fcntl($_, 0, 10) } $its_in, $its_out;    # F_DUPFD: clear of 3 and 4, and kept by exec
        POSIX::dup2($in,  3);
        POSIX::dup2($out, 4);
        $ENV{HOME} = $ENV{XDG_CONFIG_HOME} = $ENV{XDG_CACHE_HOME} = $dir;
        open STDIN,  '<',  '/dev/null';
        open STDOUT, '>>', $self->{log};
        open STDERR, '>&', \*STDOUT;
        exec 'chromium', '--headless=new', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--no-first-run',
            '--disable-background-networking', '--disable-component-update', '--disable-extensions', "--user-data-dir=$dir/chromium",
            '--remote-debugging-pipe', '--hide-scrollbars', 'about:blank';
    });
    close $_ for $its_in, $its_out;
    push @{ $bed->{processes} }, $self;
    my $target = $self->call('Target.createTarget', { url => 'about:blank' })->{targetId};
    $self->{session} = $self->call('Target.attachToTarget', { targetId => $target, flatten => JSON::PP::true() })->{sessionId};
    $self->call($_) for qw(Page.enable Runtime.enable Log.enable Network.enable);
    return $self;
}

# The size of the window in pixels, and whether dark colours are preferred.
sub look {
    my ($self, $width, $height, $scheme) = @_;
    $self->call('Emulation.setDeviceMetricsOverride', { width => $width, height => $height, deviceScaleFactor => 1, mobile => JSON::PP::false() });
    $self->call('Emulation.setEmulatedMedia', { features => [{ name => 'prefers-color-scheme', value => $scheme }] });
    return $self;
}

sub open_page { my ($self, $url) = @_; $self->call('Page.navigate', { url => $url }); return $self }

# The value of a JavaScript expression, or of its promise.
sub value {
    my ($self, $expression) = @_;
    my $result = $self->call('Runtime.evaluate', { expression => $expression, returnByValue => JSON::PP::true(), awaitPromise => JSON::PP::true() });
    die "$expression: $result->{exceptionDetails}{exception}{description}\n" if $result->{exceptionDetails};
    return $result->{result}{value};
}

sub screenshot {
    my ($self, $path) = @_;
    my $image = $self->call('Page.captureScreenshot', { format => 'png' });
    open my $file, '>:raw', $path or die "$path: $!";
    print $file MIME::Base64::decode_base64($image->{data});
    close $file;
    return;
}

# Events of these kinds since the last call: 'Runtime.exceptionThrown', ...
sub events {
    my ($self, @kinds) = @_;
    $self->value('1');    # earlier events have arrived then
    my %wanted = map { $_ => 1 } @kinds;
    my @found = grep { $wanted{ $_->{method} } } @{ $self->{events} };
    $self->{events} = [grep { !$wanted{ $_->{method} } } @{ $self->{events} }];
    return @found;
}

sub call {
    my ($self, $method, $parameters) = @_;
    my $id = $self->{next}++;
    print { $self->{to} } $json->encode({ id => $id, method => $method, params => $parameters // {}, $self->{session} ? (sessionId => $self->{session}) : () }), "\0";
    while (my $message = $self->hear) {
        if (!defined $message->{id}) {
            push @{ $self->{events} }, $message;
        }
        elsif ($message->{id} == $id) {
            die "$method: $message->{error}{message}\n" if $message->{error};
            return $message->{result};
        }
    }
    die "$method: no answer\n" . $self->log_tail . "\n";
}

sub hear {
    my ($self) = @_;
    my $select = IO::Select->new($self->{from});
    my $end    = time + 30 * Testbed::slow();
    my $length;
    until (($length = index $self->{heard}, "\0") >= 0) {
        return undef unless time < $end && $select->can_read($end - time);
        return undef unless sysread $self->{from}, $self->{heard}, 1 << 20, length $self->{heard};
    }
    my $message = $json->decode(substr $self->{heard}, 0, $length);
    substr($self->{heard}, 0, $length + 1) = '';
    return $message;
}

1;
