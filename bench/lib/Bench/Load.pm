package Bench::Load;

# The cost of a request, by variant and number of connections, which determines how many requests a call to Redis
# carries; with all processes pinned, and with none.

use strict;
use warnings;
use List::Util qw(max);

use Bench::Group;
use Bench::Progress qw(progress);
use Bench::Table qw(ratio);
use Bench::Turns;
use Bench::Variants;

use constant CONNECTIONS => [1, 8, Bench::Variants::CONNECTIONS];

# [name, format, figure], of either pinning
my @columns = (
    ['nginx us',    '%.1f', 'nginx'],
    ['Redis us',    '%.1f', 'redis'],
    ['sum us',      '%.1f', 'sum'],
    ['of Lua peer', '%.2f', 'lua'],
    ['calls',       '%.3f', 'calls'],
    ['us a call',   '%.1f', 'inside'],
);

# Options: turns, and those of Bench::Group
sub table {
    my ($world, %options) = @_;
    my (@rows, @others, %pinned);
    for my $connections (@{ +CONNECTIONS }) {
        my @groups = map { Bench::Group->new($_, %options, connections => $connections) } $world, $world->unpinned;
        # a whole window: from then on entries leave the logs as fast as others are added
        push @others, Bench::Turns::measure([map { $_->nodes } @groups], turns => $options{turns},
            warm_up => Bench::Variants::milliseconds($options{window}) / 1000);
        $_->stop for @groups;
        my @figures = map { [figures($_->nodes)] } @groups;
        $pinned{$connections} = $figures[0];
        for my $i (0 .. $#{ $figures[0] }) {
            push @rows, [$figures[0][$i]{name}, $connections, map { cells($_->[$i]) } @figures];
        }
    }
    progress('');
    return Bench::Table->new(
        title   => 'Load: CPU time of one request by the number of connections',
        columns => [
            ['', 'variant'],
            ['', 'connections'],
            map { my $how = $_; map { [$_ == 0 ? $how : '', $columns[$_][0]] } 0 .. $#columns } 'pinned', 'unpinned',
        ],
        rows    => \@rows,
        notes   => [
            sprintf('One worker, %d keys picked at random or one, window %s; nginx\'s own empty image. CPU: user and',
                Bench::Variants::KEYS, $options{window}),
            sprintf('system, medians of %d turns of %g s, in which all rows of as many connections take turns. of Lua',
                $options{turns}, Bench::Turns::LENGTH),
            'peer: the sum in units of that of the row of the same kind, connections and pinning, turn by turn. calls:',
            'EVALSHA, or the C peer\'s command, per request; us a call: inside Redis, by its own count.',
            Bench::Turns::others_note(max(@others)),
        ],
        pinned  => \%pinned,
    );
}

# What each node took; nothing of Redis if it does not ask it.
sub figures {
    my (@nodes) = @_;
    return map {
        my %of = (
            Bench::Turns::medians(@{ $_->{turns} }),
            name => $_->{name},
            lua  => in_units_of_the_lua_peer($_, @nodes),
        );
        @of{qw(redis calls inside)} = () if !$_->{redis};
        @of{qw(calls inside)}       = () if $_->{family} eq 'floor';    # GET: scripts call it, too
        \%of;
    } @nodes;
}

sub in_units_of_the_lua_peer {
    my ($node, @nodes) = @_;
    my ($peer) = grep { $_->{family} eq 'lua' && $_->{kind} eq $node->{kind} } @nodes;
    return $peer && ratio(map { Bench::Turns::series($_, 'sum') } $node, $peer);
}

sub cells {
    my ($of) = @_;
    return map {
        my (undef, $format, $what) = @$_;
        defined $of->{$what} ? sprintf $format, $of->{$what} : '';
    } @columns;
}

1;
