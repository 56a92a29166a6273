# Hash slots move to another node and back under load, with MOVED, ASK and TRYAGAIN. No request fails, and the limits
# stay exact.

use strict;
use warnings;
use Test::More;
use Testbed qw(wait_until);
use Testbed::Algorithm qw(horizon);
use Testbed::Http qw(get field many);
use Testbed::Load;
use Time::HiRes qw(time sleep);

my $bed     = Testbed->new;
my $cluster = $bed->cluster(masters => 2);
my ($left, $right) = $cluster->nodes;

# /few: one limit; /apart: two, whose keys may lie in different slots; /count: the first of them alone
my $algorithms = join "\n", map { my $of = "algorithm=$_ " . horizon($_, '1h', 'month'); <<"END" } qw(log compact quota);
location /few/$_   { sliding_log_limit few_$_ key=\$arg_k limit=50 $of; empty_gif; }
location /count/$_ { sliding_log_limit apart_$_ key=\$arg_k limit=100000 $of; empty_gif; }
location /apart/$_ {
    sliding_log_limit apart_$_ key=\$arg_k limit=100000 $of;
    sliding_log_limit tight_$_ key=\$arg_l limit=30 $of;
    empty_gif;
}
END
my $nginx = $bed->serve(
    SEEDS => join(' ', map { $_->address } $cluster->nodes), ALGORITHMS => $algorithms,
    workers => 2,
    store   => 'server %%SEEDS%%; mode cluster; timeout 2s; connect_timeout 2s;',
    http    => 'sliding_log_on_error deny;',
    how     => '$sliding_log_source $pid $sliding_log_latency',
    server  => <<'END',
    location /one { sliding_log_limit load key=$arg_k limit=100000 window=1h; empty_gif; }
    %%ALGORITHMS%%
    location /two {
        sliding_log_limit two_a key=$arg_k limit=100000 window=1h;
        sliding_log_limit two_b key=$arg_k limit=100000 window=1d;
        empty_gif;
    }
END
);
my $port = $nginx->port;

my @tags  = map { $cluster->tag_on($left) } 1 .. 4;
my @slots = map { $cluster->slot_of($_) } @tags;
my $fixed = $cluster->tag_on($right);

# all four slots to the other side and back, again and again, while requests come
my @paths = map { ("/one?k=$_", "/two?k=$_") } @tags;
my $load  = Testbed::Load->start($bed, $port, paths => \@paths, rate => 250);
my ($rounds, $end) = (0, time + 4);
while (time < $end || $rounds < 2) {
    for my $i (0 .. 3) {
        my @way = $rounds % 2 ? ($right, $left) : ($left, $right);
        $cluster->begin_move($slots[$i], @way);
        sleep 0.02;
        $cluster->finish_move($slots[$i]);
    }
    $rounds++;
}
my $record = $load->stop;
is($record->statuses, '200:' . $record->count, "4 slots moved $rounds times under load: no request failed");
is($record->that(source => 'redis')->count, $record->count, "4 slots moved $rounds times under load: Redis decided every request");
my %sent;
$sent{ $_->{path} }++ for $record->requests;
for my $tag (@tags) {
    is($cluster->zcard('load', $tag), $sent{"/one?k=$tag"}, "4 slots moved $rounds times under load: each request of $tag is logged once");
    is($cluster->zcard('two_a', $tag) . ' ' . $cluster->zcard('two_b', $tag), join(' ', ($sent{"/two?k=$tag"}) x 2),
        "4 slots moved $rounds times under load: each request of $tag is in both logs of two limits");
}
cmp_ok($cluster->errors('MOVED'), '>', 0, 'slots moved under load: MOVED occurred');
cmp_ok($cluster->errors('ASK'),   '>', 0, 'slots moved under load: ASK occurred');
is($cluster->errors('CROSSSLOT'), 0, 'slots moved under load: CROSSSLOT did not occur');
cmp_ok($_->calls('cluster|slots'), '<', 200, 'slots moved under load: the map is requested less often than redirects occur') for $left, $right;

# a half-moved slot: one of two keys is here, the other there
my $tag  = "half$tags[0]";
my $slot = $cluster->slot_of($tag);
my $from = $cluster->owner_of($slot);
my ($to) = grep { $_ != $from } $left, $right;
get($port, "/two?k=$tag");
$cluster->begin_move($slot, $from, $to, "rl:sliding:two_a:{$tag}");
$load = Testbed::Load->start($bed, $port, paths => ["/two?k=$tag"], rate => 50);
wait_until('TRYAGAIN to be met', 5, sub { $cluster->errors('TRYAGAIN') > 3 });
cmp_ok($cluster->errors('TRYAGAIN'), '>', 3, 'a half-moved slot: TRYAGAIN occurs');
$cluster->finish_move($slot);
$record = $load->stop;
is($record->statuses, '200:' . $record->count, 'a half-moved slot: requests wait for the move, within the timeout');
is($cluster->zcard('two_a', $tag), 1 + $record->count, 'a half-moved slot: requests are logged');

for my $algorithm (qw(log compact quota)) {

    # the limit holds while its slot moves; an importing node that has lost its scripts loads them
    $tag  = "few$tags[0]";
    $slot = $cluster->slot_of($tag);
    $from = $cluster->owner_of($slot);
    ($to) = grep { $_ != $from } $left, $right;
    my $ask = sub { scalar grep { $_->{status} == 200 } many([map { [$port, "/few/$algorithm?k=$tag"] } 1 .. 30]) };
    is($ask->(), 30, "$algorithm: all requests before a move are admitted");
    $cluster->begin_move($slot, $from, $to);
    $cluster->move_all_keys($slot);
    $to->cli('SCRIPT', 'FLUSH');
    is($ask->(), 20, "$algorithm: the limit is exact in a move");
    $cluster->end_move($slot);
    is($ask->(), 0, "$algorithm: the limit is exact after a move");

    # a take-back reaches the log wherever it is by then
    $tag  = "apart$tags[0]";
    $slot = $cluster->slot_of($tag);
    $from = $cluster->owner_of($slot);
    ($to) = grep { $_ != $from } $left, $right;
    my $denied = sub { scalar grep { $_->{status} == 429 } many([map { [$port, "/apart/$algorithm?k=$tag&l=$fixed"] } 1 .. $_[0]], at_once => $_[1]) };
    is($denied->(40, 1), 10, "$algorithm: limits of two slots: the smaller denies");
    $cluster->begin_move($slot, $from, $to);
    $cluster->move_all_keys($slot);
    is($denied->(40, 40), 40, "$algorithm: limits of two slots: the smaller denies while the other slot moves");
    $cluster->end_move($slot);
    is($denied->(40, 40), 40, "$algorithm: limits of two slots: the smaller denies when the other slot has moved");

    # a request of cost 0 is counted by the metrics
    my ($counted, $looked) = (0, 0);
    ok(wait_until('entries to be taken back', 5, sub {
        my ($left) = field(get($port, "/count/$algorithm?k=$tag"), 'RateLimit') =~ /r=(\d+)/;
        $counted = 100000 - $left - ++$looked;
        return $counted == 30;
    }), "$algorithm: limits of two slots: all is taken back, on the other node") or diag($counted);
}
is($nginx->logged(qr/could not be taken back/), 0, 'no take-back was lost');

$bed->done;
