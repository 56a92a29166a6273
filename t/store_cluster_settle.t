# Costs are settled while hash slots move between the nodes of a cluster. Random requests, of one limit or several, in one
# slot or in two, over HTTP/1.1 and HTTP/2, end when some or all of their logs have moved. After each end the logs have
# the contents of a list of requests with their true costs.

use strict;
use warnings;
use List::Util qw(max sum0);
use Test::More;
use Testbed qw(seed slow wait_until);
use Testbed::Algorithm qw(@ALL_ALGORITHMS horizon takes);
use Testbed::Http qw(get field);
use Testbed::UnderWay;
use Time::HiRes qw(time);

use constant LIMIT => 12;

seed();

my $bed        = Testbed->new;
my $cluster    = $bed->cluster(masters => 2);
my @nodes      = $cluster->nodes;
my $upstream   = Testbed::UnderWay->new;
my @algorithms = grep { takes($_, 'settle') } @ALL_ALGORITHMS;

sub any { return $_[int rand @_] }

# [NAME, argument with the key, field with the cost] of each limit of a location
my %locations = (mixed => [map { ["a_$_", 'k', 'cost'] } @algorithms]);
for (@algorithms) {
    $locations{"one/$_"}      = [["a_$_", 'k', 'cost']];
    $locations{"again/$_"}    = [["a_$_", 'k', 'cost']];                            # the same name in another location
    $locations{"together/$_"} = [["a_$_", 'k', 'cost'], ["b_$_", 'k', 'other']];    # one call
    $locations{"apart/$_"}    = [["a_$_", 'k', 'cost'], ["c_$_", 'l', 'other']];    # two slots
}

sub limit_of {
    my ($name, $argument, $more) = @_;
    my ($algorithm) = $name =~ /_(\w+)/;
    return "sliding_log_limit $name key=\$arg_$argument limit=" . LIMIT . " algorithm=$algorithm " . horizon($algorithm, '366d', 'month') . " $more;";
}

sub location {
    my ($path) = @_;
    my @limits = map { limit_of(@$_[0, 1], "cost=\$arg_cost settle=\$upstream_http_x_$_->[2]") } @{ $locations{$path} };
    return "location /$path { @limits proxy_pass http://127.0.0.1:%%UPSTREAM%%; }";
}
my @looks = map { my $log = $_; map { "location /look/${log}_$_ { " . limit_of("${log}_$_", 'k', 'cost=0') . ' empty_gif; }' } @algorithms } qw(a b c);
my $conf  = join "\n", @looks, map { location($_) } sort keys %locations;

my $nginx = $bed->serve(
    UPSTREAM => $upstream->port, SEEDS => join(' ', map { $_->address } @nodes),
    store    => 'server %%SEEDS%%; mode cluster; timeout 5s; connect_timeout 5s;',
    http     => 'sliding_log_on_error deny;',
    server   => "listen 127.0.0.1:%%PORT2%% http2;\n$conf",
);

# ---- the model

my %requests;    # "NAME KEY" => requests
my @tags = map { my $node = $_; map { $cluster->tag_on($node) } 1 .. 2 } @nodes;
my %slot = map { $_ => $cluster->slot_of($_) } @tags;
my %home = map { my $slot = $_; $slot => $cluster->owner_of($slot) } values %slot;

sub used { my ($log) = @_; return sum0 map { $_->{cost} } @{ $requests{$log} } }
sub limits_of { my ($path, %key) = @_; return map { { log => "$_->[0] $key{$_->[1]}", field => $_->[2] } } @{ $locations{$path} } }

# What is left in a log, by a request that only looks.
sub left { my ($log) = @_; my ($name, $key) = split / /, $log; my ($left) = (field(get($nginx->port, "/look/$name?k=$key"), 'RateLimit') // '') =~ /;r=(\d+)/; return $left // 'nothing' }

my ($wrong, %seen, @under_way);

# Settling comes after the answer, and follows the slot.
sub agrees {
    my ($what, @logs) = @_;
    for my $log (@logs) {
        my ($is, $should) = ('', max(LIMIT - used($log), 0));
        wait_until("$what: $log", 3, sub { $is = left($log); $is eq $should }) or return $wrong = "$what: $is of $log is left, not $should";
    }
    return;
}

sub begin_one {
    my $path  = any(sort keys %locations);
    my %key   = (k => any(@tags), l => any(@tags));
    my $cost  = any(0, 1, 1, 2, 3);
    my @of    = limits_of($path, %key);
    my $fits  = !grep { used($_->{log}) + $cost > LIMIT } @of;
    my $http2 = rand() < 0.3;
    my $what  = "/$path k=$key{k} l=$key{l} cost=$cost";
    my $one   = $upstream->begin($nginx->port($http2 ? 'PORT2' : 'PORT'), "/$path?k=$key{k}&l=$key{l}&cost=$cost", http2 => $http2, denied => !$fits);
    my $is    = $one->{denied} ? $one->{denied}{status} : 200;
    $seen{ $fits ? 'admitted' : 'denied' }++;
    return $wrong = "$what: $is, has used " . join ', ', map { "$_->{log} " . used($_->{log}) } @of if $is != ($fits ? 200 : 429);
    return agrees("$what, denied", map { $_->{log} } @of) if !$fits;
    for my $limit (@of) {
        $limit->{request} = { cost => $cost };
        push @{ $requests{ $limit->{log} } }, $limit->{request};
    }
    push @under_way, { %$one, of => \@of, what => $what, k => $key{k}, moves => $seen{moves} // 0 };
    return;
}

sub end_one {
    my $one    = splice @under_way, int rand @under_way, 1;
    my %cost   = (cost => any('', 0 .. 6, 15), other => any('', 0 .. 6));
    my $before = $cluster->errors('ASK') + $cluster->errors('MOVED');
    if (rand() < 0.1) {
        %cost = (cost => '', other => '');
        Testbed::UnderWay::leave($one);
        $seen{'left by the client'}++;
    } else {
        my $answer = Testbed::UnderWay::end($one, 'X-Cost' => $cost{cost}, 'X-Other' => $cost{other});
        return $wrong = "$one->{what}: answered with $answer->{status}" if $answer->{status} != 200;
    }
    for my $limit (grep { $cost{ $_->{field} } ne '' } @{ $one->{of} }) {
        $limit->{request}{cost} = $cost{ $limit->{field} };
    }
    # logs of one call: if a node does not have both, they are settled when the slot has arrived
    end_move($slot{ $one->{k} }) if $one->{what} =~ m{^/together|^/apart.* k=(\S+) l=\1 } && $cluster->is_moving($slot{ $one->{k} });
    agrees("$one->{what} settled with $cost{cost} and $cost{other}", map { $_->{log} } @{ $one->{of} });
    $seen{'moved under way'}++ if ($seen{moves} // 0) > $one->{moves};
    $seen{'redirected at the end'}++ if $cluster->errors('ASK') + $cluster->errors('MOVED') > $before;
    $seen{'over HTTP/2'}++ if $one->{http2};
    return;
}

# A step of a move: its beginning, some of the keys, or the rest and its end.
sub move_on {
    my $slot = any(sort keys %home);
    end_move($slot) if $cluster->move_on($slot, $home{$slot}, grep { $_ != $home{$slot} } @nodes) && rand() < 0.5;
    return;
}

sub end_move {
    my ($slot) = @_;
    $home{$slot} = $cluster->finish_move($slot);
    $seen{moves}++;
    return;
}

my @kinds = (qw(admitted denied), 'moved under way', 'redirected at the end', 'over HTTP/2', 'left by the client');
my $begin = time;
until ($wrong || time > $begin + 8 && !grep({ !$seen{$_} } @kinds) && $cluster->errors('TRYAGAIN') || time > $begin + 30 * slow()) {
    $seen{operations}++;
    rand() < 0.25 ? move_on() : @under_way && rand() < @under_way / 10 ? end_one() : begin_one();
}
end_one() while @under_way && !$wrong;
is($wrong, undef, 'each log has what the model has: ' . join ', ', map { "$seen{$_} $_" } sort keys %seen);
ok($seen{$_}, "some are $_") for @kinds;
cmp_ok($cluster->errors($_), '>', 0, "$_ occurred") for qw(MOVED ASK TRYAGAIN);
is($nginx->logged(qr/could not be (?:settled|taken back)/), 0, 'nothing was lost');

# nothing is settled twice, however late a reply came
agrees('in the end', sort keys %requests) if !$wrong;
is($wrong, undef, 'in the end all is as it was settled');
close $_->{client}, close $_->{backend} for @under_way;

$bed->done;
