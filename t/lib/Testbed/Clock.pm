package Testbed::Clock;

# A clock for processes started with it, shifted by seconds from the true one, or standing still.

use strict;
use warnings;
use File::Basename ();
use Testbed::Redis ();
use Time::HiRes ();

# A clock whose file is in the directory; monotonic => 1: shifts the monotonic clock, too; standing => 1: the wall clock shows the milliseconds that were set.
sub new {
    my ($class, $dir, %options) = @_;
    my $self   = bless { library => "$dir/shifted_clock.so", file => "$dir/clock", %options }, $class;
    my $source = File::Basename::dirname(__FILE__) . '/../shifted_clock.c';
    system('cc', '-O1', '-shared', '-fPIC', '-o', $self->{library}, $source) == 0 or die "no shifted clock\n";
    return $self->set(0);
}

# Sets the clock. Valkey 9.1 reads the time at most once a millisecond and counts on from there, so this waits until a
# server must read it again.
sub set {
    my ($self, $seconds) = @_;
    open my $file, -e $self->{file} ? '+<:raw' : '>:raw', $self->{file} or die $!;    # in place: it is mapped
    syswrite $file, pack 'q', $seconds;
    close $file;
    Time::HiRes::sleep(0.0015) if Testbed::Redis::binary() =~ /valkey/ && $seconds != ($self->{shift} // 0);
    $self->{shift} = $seconds;
    return $self;
}

sub time { my ($self) = @_; return CORE::time + $self->{shift} }

# The words before a command. The runtime of a sanitizer must accept a library that is loaded before it.
sub under {
    my ($self) = @_;
    my @asan = $ENV{ASAN_OPTIONS} ? "ASAN_OPTIONS=$ENV{ASAN_OPTIONS}:verify_asan_link_order=0" : ();
    my @monotonic = $self->{monotonic} ? 'SHIFTED_MONOTONIC=1' : ();
    my @standing  = $self->{standing}  ? 'STANDING_CLOCK=1'    : ();
    my @libraries = ($ENV{TEST_PRELOAD} // (), $self->{library});
    return ('env', "LD_PRELOAD=@libraries", "SHIFTED_CLOCK=$self->{file}", @monotonic, @standing, @asan);
}

1;
