# Between nginx and a real Redis, integers of replies are changed, as by a broken proxy or bad memory. No worker dies,
# no request waits longer than `timeout` and the limit's delay=, no request passes a limit that admits none, and no
# answer has impossible values. When replies are intact again, Redis decides again.

use strict;
use warnings;
use List::Util qw(any max);
use POSIX qw(ceil);
use Test::More;
use Testbed qw(seed slow wait_until);
use Testbed::Algorithm qw(@ALGORITHMS);
use Testbed::Http qw(many field);
use Testbed::Relay;

my $seed = seed();
my $requests = Testbed::operations(9000);

use constant { TIMEOUT => 0.2, DELAY => 0.3, WINDOW => 2 };

my $bed   = Testbed->new;
my $redis = $bed->redis;
my $relay = Testbed::Relay->new($bed, to => $redis->port, changes => [0.02, $seed]);

# Limits of each kind of location; its possible statuses besides 200 and 429; most: the largest limit if not 10; held:
# whether it holds requests.
my %kinds = (
    plain    => { limits => ['limit=10'] },
    one      => { limits => ['limit=1'], most => 1 },
    variable => { limits => ['limit=$arg_l'] },
    zero     => { limits => ['limit=0'], statuses => [429], most => 0 },
    none     => { limits => ['limit=$arg_none'], statuses => [429], most => 0 },
    look     => { limits => ['limit=10 cost=0'], statuses => [200] },
    cost     => { limits => ['limit=10 cost=$arg_c'] },
    large    => { limits => ['limit=10 cost=$eleven'], statuses => [429] },
    all      => { limits => ['limit=10 cap=12 count=all'] },
    refund   => { limits => ['limit=10 refund=2xx'] },
    block    => { limits => ['limit=10 block=700ms'] },
    delay    => { limits => ['limit=10 delay=300ms'], held => 1 },
    drop     => { limits => ['limit=10 excess=drop'], statuses => [200, 0] },
    several  => { limits => ['limit=10 cost=2', 'limit=7 delay=300ms refund=4xx', 'limit=9 block=700ms'], held => 1 },
    shut     => { limits => ['limit=10 delay=300ms', 'limit=0'], statuses => [429], held => 1 },
    dry      => { limits => ['limit=3 delay=300ms block=1s'], statuses => [200], inside => 'sliding_log_dry_run on;' },
    deny     => { limits => ['limit=10'], statuses => [200, 429, 503], inside => 'sliding_log_on_error deny;' },
    allow    => { limits => ['limit=10'], inside => 'sliding_log_on_error allow;' },
);
my %bucket = (plain => 'burst=10', several => 'burst=10', zero => 'burst=10', shut => 'burst=10');

my $locations = '';
for my $kind (sort keys %kinds) {
    for my $algorithm (@ALGORITHMS) {
        my $nth    = 0;
        my $limits = join ' ', map {
            my $more = $algorithm eq 'bucket' ? $bucket{$kind} // '' : $algorithm eq 'sampled' ? 'sample=2' : '';
            "sliding_log_limit $kind-$algorithm-@{[$nth++]} key=\$arg_k window=@{[WINDOW]}s algorithm=$algorithm $_ $more;";
        } @{ $kinds{$kind}{limits} };
        $locations .= "location /$kind/$algorithm { $limits @{[$kinds{$kind}{inside} // '']} empty_gif; }\n";
    }
}
my $nginx = $bed->serve(
    PORT_OF_REDIS => $relay->port, TIMEOUT => 1000 * TIMEOUT, LOCATIONS => $locations,
    workers       => 2,
    connections   => 2048,
    store         => <<'STORE',
    server 127.0.0.1:%%PORT_OF_REDIS%%; timeout %%TIMEOUT%%ms; connect_timeout %%TIMEOUT%%ms;
    reconnect 1ms 10ms;
STORE
    http          => <<'HTTP',
    map "" $eleven { default 11; }    # a constant above the limit is refused
    sliding_log_headers all;
HTTP
    how           => '$sliding_log_source',
    server        => '%%LOCATIONS%%',
);
my $workers = wait_until('both workers', 10, sub { my @all = $nginx->workers; @all == 2 && "@all" });

# Keys are always new, otherwise all clients would be denied for long.
my $batch = 0;
sub ask {
    my ($how_many) = @_;
    $batch++;
    my @paths = map {
        my $kind = (sort keys %kinds)[rand keys %kinds];
        "/$kind/$ALGORITHMS[rand @ALGORITHMS]?k=$batch-" . int(rand 2) . '&c=' . int(rand 13) . '&l=' . int(rand 11) . '&none=0';
    } 1 .. $how_many;
    my @answers = many([map { [$nginx->port, $_] } @paths], at_once => 100);
    return map { +{ path => $paths[$_], kind => $paths[$_] =~ m{^/(\w+)/}, %{ $answers[$_] } } } 0 .. $#paths;
}

my (%wrong, %sources, %slowest, $asked);
for (my $left = $requests; $left > 0 && join(' ', $nginx->workers) eq $workers; $left -= 300) {
    for my $answer (ask(300)) {
        my ($path, $kind) = @$answer{qw(path kind)};
        my $expected = $kinds{$kind};
        my $source   = field($answer, 'X-How') // '';
        $asked++;
        $sources{$source}++;
        $wrong{status}{"$path: $answer->{status}"}++ unless any { $_ == $answer->{status} } @{ $expected->{statuses} // [200, 429] };
        my $took = $answer->{time} - $answer->{disturbed};
        my $how  = $expected->{held} ? 'held' : 'not held';
        $slowest{$how} = max($slowest{$how} // 0, $took);
        for my $member (split /, /, field($answer, 'RateLimit') // '') {
            my ($remaining, $reset) = $member =~ /;r=(\d+);t=(\d+)$/;
            $wrong{field}{"$path $source: $member"}++
                if !defined $reset || $remaining > ($path =~ /bucket/ ? 10 : $expected->{most} // 10)
                || $reset > ceil(2 * WINDOW + DELAY) && !($path =~ /bucket/ && $remaining == 0);    # with any debt
        }
    }
}
is(join(' ', $nginx->workers), $workers, 'no worker has died');
cmp_ok($asked, '>=', $requests, "all of the $requests requests were sent");
is(join("\n", sort keys %{ $wrong{status} // {} }), '', 'every request is answered as its limits allow');
is(join("\n", sort keys %{ $wrong{field} // {} }), '', 'no field has an impossible value');
cmp_ok($slowest{'not held'}, '<=', TIMEOUT + 0.1 * slow(), 'without delay= no request waits longer than the timeout');
cmp_ok($slowest{held}, '<=', TIMEOUT + DELAY + 0.1 * slow(), 'with delay= no request waits longer than the timeout and the delay');
cmp_ok($sources{redis} // 0, '>', $requests / 20, 'Redis has decided the requests with possible replies');
cmp_ok($sources{local} // 0, '>', $requests / 100, 'on_error has decided the requests with impossible replies');
cmp_ok($nginx->logged(qr/unexpected reply/), '>', 0, 'the error log has the impossible replies');
note join ', ', map { "$_ $sources{$_}" } sort keys %sources;

$relay->be_honest;
ok(wait_until('Redis to decide again', 10, sub { !grep { (field($_, 'X-How') // 'redis') ne 'redis' } ask(20) }),
    'intact replies: Redis decides again');
my $troubles = $nginx->logged(qr/unexpected reply/);
my %afterwards;
$afterwards{ field($_, 'X-How') // 'dropped' }++ for map { ask(300) } 1 .. 4;
is(join(' ', grep { !/^(?:redis|cache|dropped)$/ } sort keys %afterwards), '', 'intact replies: Redis decides all requests');
is($nginx->logged(qr/unexpected reply/), $troubles, 'intact replies: none is unexpected');

$bed->done;
