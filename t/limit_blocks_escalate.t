# block= with several times, for each algorithm in Redis and in the memory of the node: a client that goes on after a block
# is blocked for longer; a refund that ends a block takes back its step; dry runs and on_error do the same.

use strict;
use warnings;
use IO::Select;
use IO::Socket::INET;
use List::Util qw(min);
use Test::More;
use Testbed qw(seed slow wait_until);
use Testbed::Clock;
use Testbed::Everywhere qw(@PLACES locations);
use Testbed::Http qw(get field connect_to);

seed();

# The clocks leap by this number of seconds, and blocks end half-way between leaps, so it does not matter how long the
# test takes.
use constant LEAP => 1000;
my @steps = map { ($_ + 0.5) * LEAP } 1, 3, 8;    # seconds
my $block = 'block=' . join ',', map { "${_}s" } @steps;

my $bed     = Testbed->new;
my $clock   = Testbed::Clock->new($bed->dir, monotonic => 1);
my $redis   = $bed->redis(clock => $clock);
my $backend = IO::Socket::INET->new(Listen => 50, LocalAddr => '127.0.0.1') or die "listen: $!";
my $limit   = "limit=1 window=400s $block";    # an entry is gone at the next leap
my $nginx   = $bed->serve(
    REDIS   => $redis->address, BACKEND => $backend->sockport,
    CLOCK   => $clock,
    workers => 2,
    store   => 'server %%REDIS%%; timeout 9s; connect_timeout 9s;',
    http    => 'sliding_log_on_error deny; sliding_log_redis away { server 127.0.0.1:1; }',
    server  => locations(full => limit => $limit, inside => 'empty_gif;')
        . locations(wait => limit => "$limit refund=2xx", inside => 'proxy_pass http://127.0.0.1:%%BACKEND%%;')
        . <<"END",
    location /dry   { sliding_log_limit dry key=\$arg_k $limit dry_run=on; empty_gif; }
    location /both  {
        sliding_log_limit both_a key=\$arg_k $limit algorithm=compact;
        sliding_log_limit both_b key=\$arg_k limit=9 window=400s $block algorithm=compact;
        empty_gif;
    }
    location /alone { sliding_log_limit both_b key=\$arg_k limit=9 window=400s $block algorithm=compact; empty_gif; }
    location /away  { sliding_log_on_error local; sliding_log_limit away key=\$arg_k $limit store=away; empty_gif; }
    location /off   { sliding_log_limit off_list key=\$arg_k limit=1 window=400s block=1500s; empty_gif; }
END
);
my $port  = $nginx->port;
my $shift = 0;

sub leap { my ($times) = @_; $clock->set($shift += $times * LEAP); return }

# The step of the block that denies a request, by its Retry-After.
sub step {
    my ($path) = @_;
    my $answer = get($port, $path);
    my $after  = field($answer, 'Retry-After') or return 'passed';
    my ($step) = grep { abs($steps[$_ - 1] - $after) < LEAP / 2 } 1 .. @steps;
    return $step // "Retry-After $after";
}

# A request that is admitted, and the step of the block with which the next one is denied.
sub blocked { my ($path) = @_; return get($port, $path)->{status} == 200 ? step($path) : 'not admitted' }

sub for_all {
    my ($expected, $what) = @_;
    is(blocked("/full/$_?k=a"), $expected, "$_: $what") for @PLACES;
    return;
}

for_all(1, 'the first block lasts the first time');
leap(2);
for_all(2, 'a client that goes on is blocked for the next one');
leap(6);
for_all(3, 'and for the third, if the second one was over for less than its length');
leap(16);
for_all(3, 'the last one repeats');
leap(18);
for_all(1, 'once a block is over for longer than it lasted, the first one follows');
is(blocked('/off?k=a'), 1, 'a block with one time');
leap(2);
is(blocked('/off?k=a'), 1, 'is always as long');
is($redis->cli('EXISTS', 'rl:sliding:off_list:{a}:blocks'), 0, 'and leaves nothing');

# ---- a refund that ends a block

# A request that the backend has. Returns code that has it answered with a status; undef if the request was denied.
sub held {
    my ($path) = @_;
    my $socket = connect_to($port);
    syswrite $socket, "GET $path HTTP/1.0\r\n\r\n";
    my ($ready) = IO::Select->new($socket, $backend)->can_read(5 * slow());
    return undef if !$ready || $ready == $socket;
    my $served = $backend->accept;
    sysread $served, my $request, 65536;
    return sub {
        my ($status) = @_;
        syswrite $served, "HTTP/1.0 $status x\r\nContent-Length: 0\r\n\r\n";
        close $served;
        return Testbed::Http::read_all($socket, 5);
    };
}

for my $place (@PLACES) {
    my $path = "/wait/$place?k=a";
    held($path)->(404);
    is(step($path), 1, "$place: the first block");
    leap(2);
    my $answer = held($path);
    is(step($path), 2, "$place: the second one, while another request has the entry");
    $answer->(200);
    my $next;
    ok(wait_until('the block to end', 5, sub { $next = held($path) }), "$place: it ends when the entry is given back");
    is(step($path), 2, "$place: and was forgotten, while the first one is remembered");
    $next->(404);
    leap(4);
    held($path)->(404);
    is(step($path), 3, "$place: an entry that stays keeps the block");
    leap(20);
    $answer = held($path);
    is(step($path), 1, "$place: a first block");
    $answer->(200);
    ok(wait_until('the block to end', 5, sub { $next = held($path) }), "$place: ends when the entry is given back");
    is(step($path), 1, "$place: and was forgotten");
    $next->(404);
    leap(4);
}

# ---- dry runs, several limits, on_error

get($port, '/dry?k=a') for 1 .. 2;
like($redis->cli('GET', 'rl:sliding:dry:{a}:blocks'), qr/^\d+ 1500000 1$/, 'a dry run begins a block');
leap(2);
is(get($port, '/dry?k=a')->{status}, 200, 'and denies nothing') for 1 .. 2;
like($redis->cli('GET', 'rl:sliding:dry:{a}:blocks'), qr/^\d+ 3500000 2 \d+ 1500000 1$/, 'and escalates');
is(blocked('/both?k=a'), 1, 'one of two limits blocks');
is(get($port, '/alone?k=a')->{status}, 200, 'the other one does not');
is($redis->cli('EXISTS', 'rl:sliding:both_b:{a}:blocks'), 0, 'and remembers nothing');
leap(2);
is(blocked('/both?k=a'), 2, 'the one escalates');
is(blocked('/away?k=a'), 1, 'on_error local blocks');
leap(2);
is(blocked('/away?k=a'), 2, 'and escalates');

# ---- random requests, against a reference

my (@wrong, %seen);
for my $place (@PLACES) {
    my %is  = map { $_ => { entry => -1, until => 0, end => 0, step => 0 } } 1 .. 2;
    my $now = 0;
    leap(1);
    for (my $requests = 0; $requests < 120 || ($requests < 1000 && keys %seen < @steps); $requests++) {
        if (rand() < 0.5) {
            my $leaps = (1, 2, 2, 4, 4, 9, 18)[rand 7];
            leap($leaps);
            $now += $leaps * LEAP;
        }
        my $key    = 1 + int rand 2;
        my $it     = $is{$key};
        my $passes = $now >= $it->{until} && $it->{entry} != $now;
        if ($passes) {
            $it->{entry} = $now;
        } elsif ($now >= $it->{until}) {
            # time also goes on between leaps, so a block that has been over for its length has been so for longer
            $it->{step} = $now < $it->{end} ? min($it->{step} + 1, scalar @steps) : 1;
            @$it{qw(until end)} = map { $now + $_ * $steps[$it->{step} - 1] } 1, 2;
            $seen{ $it->{step} }++;
        }
        my $after    = field(get($port, "/full/$place?k=model$key"), 'Retry-After') // 0;
        my $expected = $passes ? 0 : $it->{until} - $now;
        push @wrong, "$place, key $key at $now: Retry-After $after, expected $expected" if abs($after - $expected) > LEAP / 4;
    }
}
is(join("\n", splice @wrong, 0, 9), '', 'the reference and nginx agree');
is(join(' ', sort keys %seen), '1 2 3', 'all steps were there');

$bed->done;
