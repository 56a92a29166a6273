package Bench::Group;

# The chosen variants, each in an nginx of its own, and the Redis that they ask.

use strict;
use warnings;
use FindBin;

use Testbed::Process;
use Bench::Node;
use Bench::Variants;

# Options: only (a regular expression for names), window, c-peer (see Bench::Variants), connections of each
sub new {
    my ($class, $world, %options) = @_;
    my @chosen = grep { $_->{name} =~ /$options{only}/ } Bench::Variants::all(@options{qw(window c-peer)});
    @chosen or die "no variant matches $options{only}\n";
    my $redis  = $world->redis_with_module($options{'c-peer'} ? ('--loadmodule', "$options{'c-peer'}/ratelimit.so") : ());
    my $script = $redis->cli('SCRIPT', 'LOAD', Testbed::Process::slurp("$FindBin::RealBin/peer/original.lua"));
    $redis->cli('MSET', map { ("acct_$_" => $_) } 1 .. Bench::Variants::KEYS) if grep { $_->{family} eq 'floor' } @chosen;
    my $number = 0;
    my @nodes  = map {
        my %variant = (%$_, connections => $options{connections});
        Bench::Node->new($world, $redis, \%variant, NAME => 'bench' . ++$number, SCRIPT => $script);
    } @chosen;
    return bless { redis => $redis, nodes => \@nodes }, $class;
}

sub nodes { my ($self) = @_; return @{ $self->{nodes} } }

sub stop {
    my ($self) = @_;
    $_->stop for $self->nodes;
    $self->{redis}->kill;
    return;
}

1;
