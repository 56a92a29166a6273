package Testbed::Clock;

# A clock that processes under it have instead of the true one, shifted from that by seconds.

use strict;
use warnings;
use File::Basename ();

# A clock that stands in the directory; monotonic => 1: of time since the start as well as of the day.
sub new {
    my ($class, $dir, %options) = @_;
    my $self   = bless { library => "$dir/shifted_clock.so", file => "$dir/clock", %options }, $class;
    my $source = File::Basename::dirname(__FILE__) . '/../shifted_clock.c';
    system('cc', '-O1', '-shared', '-fPIC', '-o', $self->{library}, $source) == 0 or die "no shifted clock\n";
    return $self->set(0);
}

sub set {
    my ($self, $seconds) = @_;
    open my $file, -e $self->{file} ? '+<:raw' : '>:raw', $self->{file} or die $!;    # in place: it is mapped
    syswrite $file, pack 'q', $seconds;
    close $file;
    return $self;
}

# What to put before a command; a sanitizer's runtime has to stand a library before its own.
sub under {
    my ($self) = @_;
    my @asan = $ENV{ASAN_OPTIONS} ? "ASAN_OPTIONS=$ENV{ASAN_OPTIONS}:verify_asan_link_order=0" : ();
    my @monotonic = $self->{monotonic} ? 'SHIFTED_MONOTONIC=1' : ();
    return ('env', "LD_PRELOAD=$self->{library}", "SHIFTED_CLOCK=$self->{file}", @monotonic, @asan);
}

1;
