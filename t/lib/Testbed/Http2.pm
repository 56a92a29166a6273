package Testbed::Http2;

# HTTP/2 frames: streams that are reset, or wait while others continue, which no command-line client supports.

use strict;
use warnings;
use Exporter 'import';
use IO::Select;
use Testbed::Http ();
use Time::HiRes qw(time);

our @EXPORT_OK = qw(open_http2 ask_stream send_data reset_stream answers);

my %TYPE = (DATA => 0, HEADERS => 1, RST_STREAM => 3, SETTINGS => 4, WINDOW_UPDATE => 8);

sub frame {
    my ($type, $flags, $stream, $payload) = @_;
    return substr(pack('N', length $payload), 1) . pack('CCN', $TYPE{$type}, $flags, $stream) . $payload;
}

# A connection to the port, with the preface sent and room for large answers.
sub open_http2 {
    my ($port) = @_;
    my $socket = Testbed::Http::connect_to($port);
    $socket->syswrite("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" . frame('SETTINGS', 0, 0, '') . frame('WINDOW_UPDATE', 0, 0, pack 'N', 1 << 24));
    return $socket;
}

# HPACK: 0x82/0x83 GET/POST, 0x86 http, then literals of :path and :authority
sub ask_stream {
    my ($socket, $stream, $path, %options) = @_;
    my $fields = ($options{body} ? "\x83" : "\x82") . "\x86\x04" . chr(length $path) . $path . "\x01\x01x";
    return $socket->syswrite(frame('HEADERS', $options{body} ? 4 : 5, $stream, $fields));
}

sub send_data { my ($socket, $stream, $bytes, $last) = @_; return $socket->syswrite(frame('DATA', $last ? 1 : 0, $stream, $bytes)) }
sub reset_stream { my ($socket, $stream) = @_; return $socket->syswrite(frame('RST_STREAM', 0, $stream, pack 'N', 8)) }

# Reads until these streams have ended, or the deadline: { stream => { status, body, ended } }.
sub answers {
    my ($socket, $streams, $deadline) = @_;
    my ($buffer, $end, %answer) = ('', time + $deadline * Testbed::slow());
    my $select = IO::Select->new($socket);
    while (grep { !$answer{$_}{ended} } @$streams) {
        my $left = $end - time;
        last if $left <= 0 || !$select->can_read($left) || !sysread $socket, $buffer, 65536, length $buffer;
        while (length $buffer >= 9) {
            my ($type, $flags, $stream) = unpack 'x3 C C N', $buffer;
            my $length = unpack 'N', "\0" . substr $buffer, 0, 3;
            last if length $buffer < 9 + $length;
            my $payload = substr $buffer, 9, $length;
            substr($buffer, 0, 9 + $length) = '';
            my $one = $answer{$stream} //= { status => 0, body => '' };
            $one->{status} = status($payload) if $type == $TYPE{HEADERS};
            $one->{body} .= $payload if $type == $TYPE{DATA};
            $one->{ended} = 1 if $type == $TYPE{RST_STREAM} || $flags & 1 && $type <= $TYPE{HEADERS};
        }
    }
    return \%answer;
}

# nginx sends :status first: an index of the static table, or a literal.
sub status {
    my ($fields) = @_;
    return 200 if $fields =~ /^\x20?\x88/;
    return $fields =~ /^\x20?[\x08\x48]\x03(\d{3})/ ? $1 : -1;
}

1;
