# Requests ask several stores while one of them hangs: each limit is decided by its own store. Random limits of three
# Redis (one of them a cluster) and of the local store, under every on_error; a store is stopped now and then. Admitted
# requests keep to the limits of working stores, and are exactly the entries of their logs. Clients that leave while
# several stores are asked leave nothing behind.

use strict;
use warnings;
use List::Util qw(shuffle);
use Test::More;
use Testbed qw(seed slow wait_until);
use Testbed::Http qw(get field connect_to);
use Testbed::Load;
use Testbed::Stopwatch;
use Time::HiRes qw(sleep time);

seed();
use constant { ROUNDS => Testbed::operations(5), TIMEOUT => 0.5, LOCATIONS => 12 };

my $bed     = Testbed->new;
my $cluster = $bed->cluster(masters => 1);
my %redis   = (one => $bed->redis, two => $bed->redis, three => $cluster->nodes);
my @stores  = (sort(keys %redis), 'local');

my @locations = map {
    my $number = $_;
    my @names  = (shuffle(@stores))[0 .. 1 + int rand 3];
    {
        on_error => (qw(allow deny local))[$number % 3],
        limits   => { map { $_ => 2 + int rand 20 } @names },
        order    => \@names,
    }
} 0 .. LOCATIONS - 1;

# The limits of the location; cost=0 only looks.
sub limits {
    my ($number, $cost) = @_;
    my $location = $locations[$number];
    return join ' ', map { "sliding_log_limit l$number-$_ key=\$arg_k limit=$location->{limits}{$_} window=1h store=$_ cost=$cost refund=499;" } @{ $location->{order} };
}

my $nginx = $bed->serve(
    (map { (uc $_ => $redis{$_}->address) } keys %redis),
    workers     => 2,
    connections => 2048,
    listen      => 'reuseport',
    http        => <<'HTTP',
    sliding_log_redis one   { server %%ONE%%;   timeout 500ms; connect_timeout 500ms; reconnect 50ms 200ms; }
    sliding_log_redis two   { server %%TWO%%;   timeout 500ms; connect_timeout 500ms; reconnect 50ms 200ms; }
    sliding_log_redis three { server %%THREE%%; timeout 500ms; connect_timeout 500ms; reconnect 50ms 200ms; mode cluster; }
    sliding_log_log_level info;
HTTP
    how         => '$sliding_log_source $pid $sliding_log_latency',
    server      => join "\n", map {
        "location = /$_ { sliding_log_on_error $locations[$_]{on_error}; @{[limits($_, 1)]} empty_gif; }"
            . " location = /look/$_ { sliding_log_on_error deny; @{[limits($_, 0)]} empty_gif; }"
    } 0 .. $#locations,
);
my $port = $nginx->port;

# Whether two workers are left, and both ask every store of each location.
sub all_decide {
    my %undecided = map { my $worker = $_; map { ("$worker $_" => 1) } 0 .. $#locations } $nginx->workers;
    return 0 if keys %undecided != 2 * @locations;
    for my $number (map { ($_) x 10 } 0 .. $#locations) {
        my $answer = get($port, "/look/$number?k=w");
        return 0 if $answer->{status} != 200;
        my (undef, $worker) = split / /, field($answer, 'X-How');
        delete $undecided{"$worker $number"};
    }
    return !%undecided;
}

# Clients come and leave for this time, some at once and some after a while.
sub leave {
    my ($key, $seconds) = @_;
    my @open;
    for (my $end = time + $seconds; time < $end; sleep 0.02) {
        my $socket = connect_to($port);
        syswrite $socket, "GET /@{[int rand @locations]}?k=$key HTTP/1.1\r\nHost: x\r\n\r\n";
        push @open, $socket;
        splice @open, int rand @open, 1 if @open > 20;
    }
    return;
}

# Entries of each limit that these requests add.
sub entries {
    my ($number, $key) = @_;
    my %left = (field(get($port, "/look/$number?k=$key"), 'RateLimit') // '') =~ /"l$number-(\w+)";r=(\d+)/g;
    return map { $_ => $locations[$number]{limits}{$_} - ($left{$_} // -1) } keys %{ $locations[$number]{limits} };
}

# Lost take-backs of a store according to the error log.
sub given_up { my ($store) = @_; return $nginx->logged(qr/sliding_log_redis "$store" .*could not be taken back/) }

wait_until('all stores', 10, sub { all_decide() });
for my $round (1 .. ROUNDS) {
    my $hangs = (sort keys %redis)[rand keys %redis];
    my %given_up = map { $_ => given_up($_) } keys %redis;
    my $watch = Testbed::Stopwatch->start;
    my $load  = Testbed::Load->start($bed, $port, paths => [map { "/$_?k=r$round" } 0 .. $#locations], rate => 240);
    sleep rand 0.3;
    $redis{$hangs}->pause;
    leave("left$round", 0.1 + rand 0.7);
    $nginx->reload if rand() < 0.4;    # so old workers finish their requests
    leave("left$round", 0.1 + rand 0.7);
    $redis{$hangs}->resume;
    sleep rand 0.3;
    my $record = $load->stop;
    my $slack  = 0.05 * slow() + $watch->disturbed;
    is($record->that(status => 0)->count, 0, "round $round, store $hangs hangs: every request is answered");
    cmp_ok($record->longest_wait, '<=', TIMEOUT + $slack, "round $round, store $hangs hangs: no request waits longer than the timeout");
    wait_until('all stores to be well', 20, sub { all_decide() });
    # take-backs for a store that hangs are lost with a worker that quits meanwhile
    is(join(' ', grep { $_ ne $hangs && given_up($_) > $given_up{$_} } sort keys %redis), '', "round $round, store $hangs hangs: no take-back of another store is lost");

    my @wrong;
    for my $number (0 .. $#locations) {
        my %there = entries($number, "left$round");
        push @wrong, map { "/$number, clients that left: $_ has $there{$_} entries" } grep { $_ ne $hangs && $there{$_} > $locations[$number]{limits}{$_} } sort keys %there;
    }
    for my $number (0 .. $#locations) {
        my ($location, $those) = ($locations[$number], $record->that(path => qr{^/$number\?}));
        my $passed = $those->that(status => 200)->count;
        my @well   = grep { $_ ne $hangs } sort keys %{ $location->{limits} };
        my $expected = join ' ', map { "$_:$passed" } @well;
        my $is;
        wait_until("take-backs of $number", 3, sub { my %there = entries($number, "r$round"); ($is = join ' ', map { "$_:$there{$_}" } @well) eq $expected });
        my $what = "/$number, on_error $location->{on_error}, @{[map { qq($_=$location->{limits}{$_}) } @well]}";
        push @wrong, "$what: $passed passed" if grep { $passed > $location->{limits}{$_} } @well;
        push @wrong, "$what: $passed passed, entries $is" if $is ne $expected;
        push @wrong, "$what: " . $those->statuses if $location->{on_error} ne 'deny' && $those->that(status => 503)->count;
    }
    is(join("\n", @wrong), '', "round $round, store $hangs hangs: the limits of other stores hold, and their logs have the admitted requests");
}
$bed->done;
