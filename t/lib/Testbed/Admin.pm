package Testbed::Admin;

# A client of a Redis or a Sentinel that stays connected while new clients are refused (maxclients, a
# changed password). It never waits longer than a second for an answer, or `within` seconds, and connects again when its
# server was restarted.

use strict;
use warnings;
use IO::Select;
use IO::Socket::INET;
use IO::Socket::UNIX;
use Time::HiRes qw(time);

# path: of a socket, or port: on the loopback; auth => [words of AUTH]; database => number
sub new { my ($class, %options) = @_; return bless {%options}, $class }

# The answer as text, an array's elements a line each; an error's text begins with '-'; undef: none.
sub ask {
    my ($self, @words) = @_;
    my $answer = $self->exchange(@words);
    return defined $answer ? $answer : $self->exchange(@words);    # the former connection may have been the former server's
}

sub exchange {
    my ($self, @words) = @_;
    my $socket = $self->{socket} // $self->connection or return undef;
    my $text   = join '', '*' . @words . "\r\n", map { '$' . length($_) . "\r\n$_\r\n" } @words;
    my $sent   = syswrite $socket, $text;
    my $answer = ($sent // 0) == length $text ? $self->answer(time + ($self->{within} // 1)) : undef;
    delete $self->{socket} if !defined $answer;
    return $answer;
}

sub connection {
    my ($self) = @_;
    $self->{buffer} = '';
    my $socket = $self->{path} ? IO::Socket::UNIX->new(Peer => $self->{path}) : IO::Socket::INET->new(PeerAddr => "127.0.0.1:$self->{port}", Timeout => 1);
    return undef if !$socket;
    $self->{socket} = $socket;
    for my $greeting ($self->{auth} ? ['AUTH', @{ $self->{auth} }] : (), $self->{database} ? ['SELECT', $self->{database}] : ()) {
        return undef if !defined $self->exchange(@$greeting);
    }
    return $self->{socket};
}

sub answer {
    my ($self, $until) = @_;
    my $line = $self->line($until) // return undef;
    my ($kind, $rest) = $line =~ /^(.)(.*)$/ or return undef;
    return $kind eq '-' ? $line : $rest if $kind !~ /[*\$]/;
    if ($kind eq '$') {
        return '' if $rest < 0;
        my $bytes = $self->bytes($rest + 2, $until) // return undef;
        return substr $bytes, 0, $rest;
    }
    my @elements = map { $self->answer($until) // return undef } 1 .. $rest;
    return join "\n", @elements;
}

sub line {
    my ($self, $until) = @_;
    while ($self->{buffer} !~ /\r\n/) { $self->more($until) or return undef }
    $self->{buffer} =~ s/^(.*?)\r\n//s;
    return $1;
}

sub bytes {
    my ($self, $count, $until) = @_;
    while (length $self->{buffer} < $count) { $self->more($until) or return undef }
    return substr $self->{buffer}, 0, $count, '';
}

sub more {
    my ($self, $until) = @_;
    my $left = $until - time;
    return 0 if $left <= 0 || !IO::Select->new($self->{socket})->can_read($left);
    return sysread $self->{socket}, $self->{buffer}, 65536, length $self->{buffer};
}

1;
