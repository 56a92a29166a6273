# Requests with several limits of one client while its hash slot is migrated, however long that takes: Redis decides
# them all, exactly and without a wait, wherever each log is. When the slot has arrived, they are asked together again.
# The same in calls with requests of several clients.

use strict;
use warnings;
use List::Util qw(shuffle);
use Test::More;
use Testbed qw(seed slow wait_until);
use Testbed::Http qw(get);
use Testbed::Load;
use Testbed::Metrics qw(scrape);
use Time::HiRes qw(sleep);

seed();
use constant ROUNDS => Testbed::operations(5);

my $bed     = Testbed->new;
my $cluster = $bed->cluster(masters => 2);
my ($left, $right) = $cluster->nodes;
my $nginx   = $bed->serve(
    SEEDS   => $left->address,
    workers => 2,
    listen  => 'reuseport',
    store   => 'server %%SEEDS%%; mode cluster; timeout 1s; connect_timeout 1s;',
    http    => <<'HTTP',
    sliding_log_on_error deny;
    sliding_log_log_level info;
HTTP
    how     => '$sliding_log_source $pid $sliding_log_latency',
    server  => <<'END_OF_CONF',
    location /metrics { sliding_log_metrics; }
    location /one { sliding_log_limit first key=$arg_k limit=1000 window=1h; empty_gif; }
    location /all {
        sliding_log_limit first  key=$arg_k limit=1000 window=1h;
        sliding_log_limit second key=$arg_k limit=1000 window=1d;
        sliding_log_limit third  key=$arg_k limit=12   window=1h;
        empty_gif;
    }
    location /two {
        sliding_log_limit first  key=$arg_k limit=9    window=1h;
        sliding_log_limit second key=$arg_k limit=1000 window=1d;
        empty_gif;
    }
    location /dry {
        sliding_log_dry_run on;
        sliding_log_limit dry_first  key=$arg_k limit=9 window=1h;
        sliding_log_limit dry_second key=$arg_k limit=4 window=1d;
        empty_gif;
    }
    location /fresh {
        sliding_log_limit fresh_a key=$arg_k limit=1000 window=1h;
        sliding_log_limit fresh_b key=$arg_k limit=1000 window=1h;
        empty_gif;
    }
END_OF_CONF
);
my $port = $nginx->port;


# Entries of a log, wherever it is.
sub entries {
    my ($name, $tag, $owner) = @_;
    return Testbed::Redis::run_cli(['-p', $owner->port, '-c'], 'ZCARD', "rl:sliding:$name:{$tag}");
}

# The contents of all logs of the tag, in the order of their names.
sub all_entries { my ($tag, $owner) = @_; return join ' ', map { "$_:" . entries($_, $tag, $owner) } qw(dry_first dry_second first second third) }

sub errors { my ($reason) = @_; return scrape($port)->value('sliding_log_store_errors_total', reason => $reason) // 0 }
sub calls { return $left->calls('evalsha') + $right->calls('evalsha') }

get($port, '/all?k=' . $cluster->tag_on($_)) for ($left, $right) x 4;
for my $round (1 .. ROUNDS) {
    my ($from, $to) = shuffle($left, $right);
    my $tag  = $cluster->tag_on($from);
    my $slot = $cluster->slot_of($tag);
    my $is_first = $round == 1;    # some of its logs are moved for sure
    my @before = map { "/$_?k=$tag" } $is_first ? 'all' : (), map { (qw(one all two dry))[rand 4] } 1 .. rand 6;
    my %passed;
    $passed{$_} += get($port, $_)->{status} == 200 for @before;

    $cluster->begin_move($slot, $from, $to);
    my @keys  = $cluster->keys_left($slot);
    my @moved = $is_first ? $keys[0] : grep { rand() < 0.5 } @keys;
    $cluster->move_keys($slot, @moved) if @moved;
    my $load = Testbed::Load->start($bed, $port, paths => [map { "/$_?k=$tag" } qw(one all two dry)], rate => 160);
    sleep 1.2;
    my $record = $load->stop;

    my $what = sprintf 'round %d, %d of %d logs were moved', $round, scalar @moved, scalar @keys;
    is($record->that(source => 'redis')->count + $record->that(source => 'cache')->count, $record->count, "$what: Redis decides each request");
    is($record->that(status => 503)->count, 0, "$what: no request meets an error");
    cmp_ok($record->percentile(0.99), '<', 0.2 * slow(), "$what: no request waits");
    $passed{ $_->{path} } += $_->{status} == 200 for $record->requests;
    my ($one, $all, $two, $dry) = map { $passed{"/$_?k=$tag"} // 0 } qw(one all two dry);
    is($all, 12, "$what: the smallest of three limits decides");
    my $expected = join ' ', 'dry_first:4', 'dry_second:4', 'first:' . ($one + $all + $two), 'second:' . ($all + $two), "third:$all";
    wait_until('take-backs', 3, sub { all_entries($tag, $from) eq $expected });
    is(all_entries($tag, $from), $expected, "$what: each log holds what passed");

    $cluster->finish_move($slot);
    my $new = "/fresh?k=$tag";
    ok(wait_until('calls to go together', 5, sub { my $calls = calls(); get($port, $new) for 1 .. 4; return calls() == $calls + 4 }), "$what: requests are one call again when all have");
    is(all_entries($tag, $to), $expected, "$what: each log has arrived");
}
cmp_ok($cluster->errors('TRYAGAIN'), '>', 0, 'TRYAGAIN occurred');
is(errors('try_again') + errors('timeout'), 0, 'TRYAGAIN is no error of the store');
is($nginx->logged(qr/could not be taken back/), 0, 'no take-back was lost');

$bed->done;
