package Testbed::Inflight;

# Two nodes of two workers each that limit by algorithm=inflight, and a reference: the list of the requests that are under
# way. They are at the upstream server, which answers when told.

use strict;
use warnings;
use List::Util qw(sum0);
use Testbed ();
use Testbed::UnderWay;
use Time::HiRes qw(time);

# limit => requests at once of a key ($arg_k; the cost is $arg_c), lease => seconds,
# locations => { path => what follows the lease in the directive, and further directives }
sub new {
    my ($class, $bed, %of) = @_;
    my $self  = bless { lease => $of{lease}, under_way => [], redis => $bed->redis, upstream => Testbed::UnderWay->new }, $class;
    my $limit = "sliding_log_limit at key=\$arg_k limit=$of{limit} algorithm=inflight lease=$of{lease}s cost=\$arg_c";
    $self->{nodes} = [map {
        $bed->serve(
            REDIS => $self->{redis}->address, UPSTREAM => $self->{upstream}->port,
            workers => 2,
            listen  => 'reuseport',
            store   => 'server %%REDIS%%; timeout 5s; connect_timeout 5s; reconnect 20ms 200ms;',
            http    => 'sliding_log_on_error deny;',
            server  => join "\n", map { "location $_ { $limit $of{locations}{$_} proxy_pass http://127.0.0.1:%%UPSTREAM%%; }" } sort keys %{ $of{locations} },
        )
    } 1, 2];
    return $self;
}

sub redis     { return $_[0]{redis} }
sub upstream  { return $_[0]{upstream} }
sub nodes     { return @{ $_[0]{nodes} } }
sub under_way { return @{ $_[0]{under_way} } }

# A request is sent to the node of this number: see queue() of Testbed::UnderWay.
sub queue {
    my ($self, $node, $path, $key, $cost, $more) = @_;
    my $one = $self->{upstream}->queue($self->{nodes}[$node]->port, "$path?k=$key&c=$cost" . ($more // ''));
    @$one{qw(node key cost)} = ($node, $key, $cost);
    return $one;
}

# The reference: these come to the upstream server; what those of a key cost; one ends in any way; those of a node are gone.
sub add  { my ($self, @come) = @_; push @{ $self->{under_way} }, @come; return }
sub used { my ($self, $key) = @_; return sum0 map { $_->{cost} } grep { $_->{key} eq $key } $self->under_way }

sub finish {
    my ($self, $one) = @_;
    Testbed::UnderWay::end_anyhow($one);
    $self->{under_way} = [grep { $_ != $one } $self->under_way];
    return;
}

sub forget_node {
    my ($self, $node) = @_;
    my @gone = grep { $_->{node} == $node } $self->under_way;
    $self->{under_way} = [grep { $_->{node} != $node } $self->under_way];
    return @gone;
}

# What the log of a key has. Entries of killed workers stay in it for a while after their lease, and do not count.
sub entries { my ($self, $key) = @_; return $self->{redis}->cli('ZCOUNT', "rl:sliding:at:{$key}", '(' . int(1000 * (time - $self->{lease})), '+inf') }

# Kills the workers of a node, and waits until it has new ones.
sub kill_workers {
    my ($self, $number) = @_;
    my $node = $self->{nodes}[$number];
    my %old  = map { $_ => 1 } $node->workers;
    kill 'KILL', keys %old;
    return Testbed::wait_until('new workers', 10, sub { my @pids = $node->workers; @pids >= 2 && !grep { $old{$_} } @pids });
}

1;
