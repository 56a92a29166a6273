# If Redis has denied a cost, the node denies larger costs, too, without a call, if all else is the same: with every
# algorithm but sampled, whatever the other limits of the request ask. A request of a smaller cost is asked, and its
# admission does not end the known denial.

use strict;
use warnings;
use IO::Socket::UNIX;
use Test::More;
use Testbed qw(answers_as_told wait_until);
use Testbed::Algorithm qw(@ALL_ALGORITHMS horizon);
use Testbed::Http qw(get field);
use Time::HiRes qw(time);

my $bed   = Testbed->new;
my $redis = $bed->redis;
my $other = $bed->redis;
my $each  = join "\n", map {
    my $window = horizon($_, '1h', 'month') . ($_ eq 'sampled' ? ' sample=1' : '');
    "location /$_ { sliding_log_limit each_$_ key=\$arg_k limit=10 $window algorithm=$_ cost=\$arg_c; empty_gif; }"
} @ALL_ALGORITHMS;
my $nginx = $bed->serve(
    ONE => $redis->address, TWO => $other->address,
    workers => 2,
    listen  => 'reuseport',
    http    => answers_as_told(204, 404) . <<'HTTP',
    sliding_log_redis one { server %%ONE%%; timeout 5s; connect_timeout 5s; }
    sliding_log_redis two { server %%TWO%%; timeout 5s; connect_timeout 5s; }
    sliding_log_on_error deny;
    add_header X-Source "$sliding_log_source" always;
HTTP
    server  => <<"END",
    $each
    location /all     { sliding_log_limit all key=\$arg_k limit=10 window=1h cost=\$arg_c count=all cap=1000; empty_gif; }
    location /dry     { sliding_log_limit dry key=\$arg_k limit=10 window=1h cost=\$arg_c dry_run=on; empty_gif; }
    location /block   { sliding_log_limit block key=\$arg_k limit=10 window=1h cost=\$arg_c block=10m; empty_gif; }
    location /delay   { sliding_log_limit delay key=\$arg_k limit=10 window=1h cost=\$arg_c delay=1s; empty_gif; }
    location /two     {
        sliding_log_limit a key=\$arg_k limit=10 window=1h cost=\$arg_a;
        sliding_log_limit b key=\$arg_k limit=20 window=1d cost=\$arg_c;
        empty_gif;
    }
    location /refund  { sliding_log_limit refund key=\$arg_k limit=10 window=1h cost=\$arg_c refund=404; proxy_pass http://127.0.0.1:%%PORT2%%; }
    location /first   { sliding_log_limit first key=\$arg_k limit=10 window=1h cost=\$arg_c; try_files /none \@later; }
    location /look    { sliding_log_limit first key=\$arg_k limit=10 window=1h cost=0; empty_gif; }
    location /later   { sliding_log_limit later key=\$arg_k limit=10 window=1h cost=\$arg_d store=two; empty_gif; }
    location \@later   { sliding_log_limit later key=\$arg_k limit=10 window=1h cost=\$arg_d store=two; empty_gif; }
END
);

# The number of calls so far. Asked on connections that stay, since a known denial lasts only a second.
my %stats = map { ($_->path => IO::Socket::UNIX->new(Peer => $_->path) // die "connect: $!") } $redis, $other;
sub calls_now {
    my $sum = 0;
    for my $socket (values %stats) {
        print {$socket} "INFO commandstats\r\n";
        $socket->flush;
        read $socket, my $text, 2 + (readline($socket) =~ /^\$(\d+)/)[0];
        $sum += $1 while $text =~ /^cmdstat_(?:evalsha|sliding_log\.2):calls=(\d+)/mg;
    }
    return $sum;
}

my $calls = 0;

# The answer. $calls is the number of calls that it made.
sub ask {
    my ($path) = @_;
    my $before = calls_now();
    my $answer = get($nginx->port, $path);
    $calls = calls_now() - $before;
    return $answer;
}

# Has a call deny this path, and returns what the code returns while that is known, which is almost a second. If the
# machine was slower, it does so again.
sub denied {
    my ($what, $path, $code) = @_;
    for (1 .. 20) {
        wait_until("$path to be denied by a call", 5, sub { my $answer = ask($path); $calls > 0 && $answer->{status} =~ /^(429|204|200)$/ }) or last;
        my $start   = time;
        my @results = $code->();
        return @results if time - $start < 0.8;
    }
    return fail("$what: nothing was known");
}

# Answers of these paths as: status, source, seconds to wait, calls.
sub seen {
    my (@paths) = @_;
    return map { my $answer = ask($_); join ' ', $answer->{status}, field($answer, 'X-Source') // '-', field($answer, 'Retry-After') ? 'later' : 'never', $calls } @paths;
}

for my $algorithm (grep { $_ ne 'sampled' } @ALL_ALGORITHMS) {
    get($nginx->port, "/$algorithm?k=a&c=7");
    my @seen = denied($algorithm, "/$algorithm?k=a&c=5", sub { return seen(map { "/$algorithm?k=a&c=$_" } 5, 6, 10, 11, 1, 8, 4) });
    is_deeply([@seen[0 .. 3]], [('429 cache later 0') x 3, '429 cache never 0'], "$algorithm: larger costs are denied without a call, one above the limit for ever");
    like($seen[4], qr/^(200 redis never|429 redis later) 1$/, "$algorithm: a smaller cost asks");
    is($seen[5], '429 cache later 0', "$algorithm: an admission of a smaller cost ends no known denial");
    is($seen[6], '429 redis later 1', "$algorithm: a smaller cost than the denied one asks");
}

# sampled: each call draws anew
ask('/sampled?k=a&c=10');
is_deeply([denied('sampled', '/sampled?k=a&c=5', sub { return seen(map { "/sampled?k=a&c=$_" } 5, 6, 7) })],
    ['429 cache later 0', ('429 redis later 1') x 2], 'sampled: another cost asks');
get($nginx->port, '/all?k=a&c=10');
is_deeply([denied('count=all', '/all?k=a&c=5', sub { return seen(map { "/all?k=a&c=$_" } 5, 6) })], [('429 redis later 1') x 2], 'count=all: each request asks');

# what an answer tells of the log is true for each cost
get($nginx->port, '/log?k=fields&c=7');
my ($fields) = denied('fields', '/log?k=fields&c=5', sub { return field(ask('/log?k=fields&c=8'), 'RateLimit') });
like($fields, qr/^"each_log";r=3;t=(3600|359\d)$/, 'what remains is of the log, not of the request');

get($nginx->port, '/block?k=a&c=10');
is_deeply([denied('block=', '/block?k=a&c=5', sub { return seen(map { "/block?k=a&c=$_" } 9, 11) })], ['429 cache later 0', '429 cache never 0'], 'block=: larger costs are denied without a call');
get($nginx->port, '/delay?k=a&c=10');
is_deeply([denied('delay=', '/delay?k=a&c=5', sub { return seen('/delay?k=a&c=9') })], ['429 cache later 0'], 'delay=: a larger cost is denied without a call');
get($nginx->port, '/dry?k=a&c=10');
my ($dry) = denied('a dry run', '/dry?k=a&c=5', sub { my ($seen) = seen('/dry?k=a&c=9'); return $seen });
like($dry, qr/^200 .* 0$/, 'a dry run: a larger cost makes no call and passes');

# two limits in one call
get($nginx->port, '/two?k=a&a=1&c=18');
my @two = denied('two limits', '/two?k=a&a=2&c=5', sub { return seen(map { "/two?k=a&$_" } 'a=1&c=5', 'a=9&c=6', 'a=10&c=20', 'a=11&c=5', 'a=1&c=21', 'a=2&c=2') });
is_deeply([@two[0 .. 2]], [('429 cache later 0') x 3], 'two limits: the cost of the one that denies decides, whatever the other one asks');
is_deeply([@two[3, 4]], [('429 cache never 0') x 2], 'two limits: a cost above either limit has no time');
is($two[5], '200 redis never 1', 'two limits: a smaller cost of the one that denies asks');

# a refund ends it
get($nginx->port, '/refund?k=a&c=7');
my @refund = denied('refund=', '/refund?k=a&c=5', sub {
    my @before = seen('/refund?k=a&c=6');
    get($nginx->port, '/refund?k=a&c=1&status=404');
    return @before, seen('/refund?k=a&c=6');
});
like(join(', ', @refund), qr/^429 cache later 0, 429 redis later [12]$/, 'a refund of a smaller cost ends what is known of larger ones');

# a redirect: the first location's entries are given back, and what is known of the second one is used
get($nginx->port, '/later?k=a&d=10');
my ($redirected) = denied('a redirect', '/later?k=a&d=5', sub { return seen('/first?k=a&c=3&d=6') });
like($redirected, qr/^429 cache later/, 'a redirect: the second location denies a larger cost by what is known');
ok(wait_until('the first location to give back', 5, sub { (field(ask('/look?k=a'), 'RateLimit') // '') =~ /;r=10;/ }), 'a redirect: what the first location took is given back');

# two requests with the same limits, which take turns: a denial of one says nothing of the other
for my $key (map { "turns$_" } 1 .. 3) {    # new keys, of which nothing is known
    get($nginx->port, "/two?k=$key&a=6&c=16");
    my @turns = denied('in turns', "/two?k=$key&a=5&c=1", sub { get($nginx->port, "/two?k=$key&a=1&c=5"); return seen(map { "/two?k=$key&$_" } 'a=6&c=1', 'a=1&c=6', 'a=5&c=5') });
    is_deeply(\@turns, [('429 cache later 0') x 3], 'in turns: each of two denials is known');
}

$bed->done;
