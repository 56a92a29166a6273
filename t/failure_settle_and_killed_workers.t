# Workers are killed at each step of requests whose costs are settled: whatever the step, a log has the estimate or the
# true cost of a request, never the difference twice, and what other workers admit afterwards is decided by it.

use strict;
use warnings;
use Test::More;
use Testbed qw(seed wait_until);
use Testbed::Algorithm qw(@ALL_ALGORITHMS horizon takes);
use Testbed::Http qw(get field connect_to);
use Testbed::UnderWay;
use Time::HiRes qw(sleep time);

seed();

use constant { LIMIT => 100, ESTIMATE => 10 };
my @COSTS = (0, 4, 30);

my $bed        = Testbed->new;
my $redis      = $bed->redis;
my $upstream   = Testbed::UnderWay->new;
my @algorithms = grep { takes($_, 'settle') } @ALL_ALGORITHMS;
my @places     = map { my $algorithm = $_; map { "$algorithm-$_" } qw(default local) } @algorithms;

sub limit_of { my ($place, $more) = @_; my ($algorithm, $store) = split /-/, $place; return "sliding_log_limit $place key=\$arg_k limit=@{[LIMIT]} algorithm=$algorithm store=$store " . horizon($algorithm, '366d', 'month') . " $more;" }

my $nginx = $bed->serve(
    REDIS    => $redis->address, UPSTREAM => $upstream->port,
    workers  => 2,
    how      => '$sliding_log_source $pid',
    http     => <<'HTTP',
    sliding_log_redis { server %%REDIS%%; timeout 20s; connect_timeout 5s; reconnect 10ms 50ms; }
    sliding_log_on_error deny;
    proxy_connect_timeout 20s;
    server { listen 127.0.0.1:%%PORT2%%; location / { add_header X-Cost $arg_real; return 200; } }
HTTP
    server   => join("\n", map {
        my $limit = limit_of($_, 'cost=10 settle=$upstream_http_x_cost');
        "location /slow/$_ { $limit proxy_pass http://127.0.0.1:%%UPSTREAM%%; }
         location /fast/$_ { $limit proxy_pass http://127.0.0.1:%%PORT2%%; }
         location /look/$_ { @{[limit_of($_, 'cost=0')]} empty_gif; }"
    } @places),
);
my $port = $nginx->port;
$nginx->expect_kills->expect_in_log(qr/sliding_log_redis/);

# The number of entries in the log of that key, by a worker that lives; 'nothing' if none answers.
sub used {
    my ($place, $key) = @_;
    my $left;
    wait_until('a worker', 10, sub { ($left) = eval { field(get($port, "/look/$place?k=$key"), 'RateLimit') // '' } =~ /;r=(\d+)/; defined $left }) or return 'nothing';
    return LIMIT - $left;
}

sub kill_workers {
    my @old = $nginx->workers;
    CORE::kill('KILL', @old);
    my %old = map { $_ => 1 } @old;
    return wait_until('other workers', 10, sub { my @workers = $nginx->workers; @workers == 2 && !grep { $old{$_} } @workers });
}

# Does the step with requests of all places and costs, and checks what their logs have then.
sub step {
    my ($what, $places, $code, $expected) = @_;
    my @requests = map { my $place = $_; map { { place => $place, cost => $_, key => ($what =~ tr/a-z//cdr) . $_ } } @COSTS } @$places;
    $code->(@requests);
    my @wrong;
    my %seen;
    for my $one (@requests) {
        my $used = used($one->{place}, $one->{key});
        my %may  = map { $_ => 1 } $expected->($one);
        push @wrong, "$one->{place} of cost $one->{cost} has $used" if !$may{$used};
        $seen{ $used eq $one->{cost} ? 'settled' : $used eq ESTIMATE ? 'estimated' : 'not taken' }++;
    }
    is(join(', ', @wrong), '', "$what: " . join ', ', map { "$seen{$_} $_" } sort keys %seen);
    return \%seen;
}

sub begin_all { $_->{one} = $upstream->begin($port, "/slow/$_->{place}?k=$_->{key}") for @_; return }
sub answer_all { Testbed::UnderWay::answer($_->{one}, 'X-Cost' => $_->{cost}) for @_; return }
my @over_redis = grep { /default/ } @places;

# Each worker has answered twice: what came before was processed.
sub processed {
    my %answered;
    return wait_until('both workers', 10, sub {
        my (undef, $worker) = split / /, field(get($port, '/look/compact-local?k=none'), 'X-How') // '';
        $answered{ $worker // '' }++;
        return 2 == grep { ($answered{$_} // 0) > 1 } $nginx->workers;
    });
}

# Redis executes what was sent to it, and its replies are not read.
sub executes_unheard {
    my ($done) = @_;
    processed();
    CORE::kill('STOP', $nginx->workers);
    $redis->resume;
    ok(wait_until('Redis to execute what was sent', 10, $done), 'Redis has executed what was sent');
    return kill_workers();
}

used($_, 'warm') for @places;    # scripts are loaded
step('killed before Redis has decided', \@over_redis, sub {
    $redis->pause;
    $_->{one} = $upstream->send_only($port, "/slow/$_->{place}?k=$_->{key}") for @_;
    processed();
    kill_workers();
    $redis->resume;
}, sub { (0, ESTIMATE) });

step('killed between the decision and its reply', \@over_redis, sub {
    my @logs = map { "rl:sliding:$_->{place}:{$_->{key}}" } @_;
    $redis->pause;
    $_->{one} = $upstream->send_only($port, "/slow/$_->{place}?k=$_->{key}") for @_;
    executes_unheard(sub { $redis->cli('EXISTS', @logs) == @logs });
}, sub { ESTIMATE });

step('killed while the upstream server works', \@places, sub {
    begin_all(@_);
    kill_workers();
    answer_all(@_);
}, sub { ESTIMATE });

step('killed when the request has ended and Redis has not settled it', \@over_redis, sub {
    begin_all(@_);
    $redis->pause;
    answer_all(@_);
    Testbed::UnderWay::read_answer($_->{one}) for @_;
    kill_workers();
    $redis->resume;
}, sub { (ESTIMATE, $_[0]{cost}) });

my $seen = step('killed when Redis has settled it and not replied', \@over_redis, sub {
    begin_all(@_);
    my $calls = $redis->calls('evalsha');
    $redis->pause;
    answer_all(@_);
    Testbed::UnderWay::read_answer($_->{one}) for @_;
    executes_unheard(sub { $redis->calls('evalsha') > $calls });
}, sub { (ESTIMATE, $_[0]{cost}) });
ok($seen->{settled}, 'killed when Redis has settled it and not replied: some are settled');

step('killed when it is settled', \@places, sub {
    begin_all(@_);
    answer_all(@_);
    for my $one (@_) {
        Testbed::UnderWay::read_answer($one->{one});
        wait_until('the settling', 5, sub { used($one->{place}, $one->{key}) == $one->{cost} });
    }
    kill_workers();
}, sub { $_[0]{cost} });

# at any moment: requests of keys of their own, while a worker is killed again and again
my (%may, $number, $kills);
my $end = time + 4;
until (time > $end) {
    my @some = map { { place => $places[rand @places], cost => $COSTS[rand @COSTS], key => 'any' . ++$number } } 1 .. 20;
    $_->{client} = connect_to($port) for @some;
    syswrite $_->{client}, "GET /fast/$_->{place}?k=$_->{key}&real=$_->{cost} HTTP/1.0\r\n\r\n" for @some;
    sleep rand 0.02;
    my @workers = $nginx->workers;
    CORE::kill('KILL', $workers[rand @workers]) if @workers;
    $kills++;
    for my $one (@some) {
        my $status = Testbed::Http::parse(Testbed::Http::read_all($one->{client}, 10))->{status};
        $may{"$one->{place} $one->{key}"} = $status == 200 ? [ESTIMATE, $one->{cost}] : [0, ESTIMATE, $one->{cost}];
    }
    wait_until('workers', 10, sub { $nginx->workers == 2 });
}
my %used = map { $_ => used(split / /) } sort keys %may;

# If a worker was killed while it changed a local log, this log, or all of them, are dropped, and the error log says so when
# it is used again. What is settled later is all that it has then.
my $drops = $nginx->logged(qr/a worker was killed while it changed/);
my (@wrong, %are);
for my $log (sort keys %may) {
    my $used = $used{$log};
    $are{$used}++;
    next if $drops && $log =~ /-local / && grep { $_ eq $used } 0, $may{$log}[-1] - ESTIMATE;
    push @wrong, "$log has $used, not one of @{ $may{$log} }" if !grep { $_ eq $used } @{ $may{$log} };
}
is(join(', ', @wrong), '', "$number requests while workers were killed $kills times: " . join ', ', map { "$are{$_} have $_" } sort { $a <=> $b } keys %are);
ok($are{$_}, "some have $_") for 4, 30;
is($nginx->logged(qr/could not be settled/), 0, 'nothing else was lost');

$bed->done;
