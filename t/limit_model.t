# Thousands of random requests with every combination of algorithm, store, cost, count, refund and several limits,
# against a simple model: a list of entries per log. Each answer must be the model's.
#
# The clock of nginx and Redis leaps by 1,000 s, and windows end half-way between leaps, so the duration of the test
# itself does not matter.

use strict;
use warnings;
use List::Util qw(max min);
use Test::More;
use Testbed qw(answers_as_told seed);
use Testbed::Algorithm qw(@ALGORITHMS);
use Testbed::Clock;
use Testbed::Http qw(get field);

use constant LEAP => 1000;

seed();
my $operations = Testbed::operations(3000);

my $bed   = Testbed->new;
my $clock = Testbed::Clock->new($bed->dir, monotonic => 1);
my $redis = $bed->redis(clock => $clock);

# NAME => what all its limits share. Endless: counters and buckets, whose time the model does not know.
my %logs;
for my $store (qw(default local)) {
    for my $number (0 .. $#ALGORITHMS) {
        my $algorithm = $ALGORITHMS[$number];
        my $endless = $algorithm =~ /counter|bucket/;
        $logs{"$algorithm-$store"} = {
            algorithm => $algorithm,
            store     => $store,
            leaps     => $endless ? 1e9 : 1 + int rand 3,
            cap       => 12 + int rand 10,
            place     => $store eq 'local' ? 0 : 1 + $number,
        };
    }
}

sub any { return $_[int rand @_] }

# Locations: one to three limits of different NAMEs.
my @locations = map {
    my %others = map { $_ => 1 } map { any(sort keys %logs) } 1 .. any(1, 1, 2, 2, 3);
    [map {
        {
            name   => $_,
            limit  => 1 + int rand 12,
            cost   => any(1, 1, '$arg_cost', 2),
            count  => rand() < 0.2 ? 'all' : 'allowed',
            refund => any('', '', 'refund=404', 'refund=404,500'),
        }
    } sort keys %others];
} 1 .. 40;

sub directive {
    my ($limit) = @_;
    my $cost   = $limit->{cost} eq '2' && $limit->{limit} < 2 ? '$two' : $limit->{cost};    # a constant one is refused
    my $log    = $logs{ $limit->{name} };
    my $window = $log->{leaps} > 1000 ? '366d' : ($log->{leaps} * LEAP + LEAP / 2) . 's';
    my $more   = $log->{algorithm} eq 'sampled' ? 'sample=1' : '';
    return "sliding_log_limit $limit->{name} key=\$arg_k limit=$limit->{limit} window=$window cap=$log->{cap} cost=$cost"
        . " count=$limit->{count} $limit->{refund} algorithm=$log->{algorithm} store=$log->{store} $more;";
}

my $nginx = $bed->serve(
    CLOCK => $clock, REDIS => $redis->address,
    workers => 1,    # so a refund is complete before the next request
    store   => 'server %%REDIS%%; timeout 9s; connect_timeout 9s;',
    http    => answers_as_told(200, 404, 500) . <<'HTTP',
    sliding_log_on_error deny;
    sliding_log_log_level info;
    map "" $two { default 2; }
    add_header X-Source $sliding_log_source always;
HTTP
    server  => locations(),
);

sub locations {
    return join "\n", map { "location /$_/ { @{[map { directive($_) } @{ $locations[$_] }]} proxy_pass http://127.0.0.1:%%PORT2%%; }" } 0 .. $#locations;
}

# ---- the model

my $now = 0;    # in leaps
my %entries;    # "NAME key" => when each entry came, oldest first

# The live entries.
sub live {
    my ($limit, $key) = @_;
    my $log = $logs{ $limit->{name} };
    my $all = $entries{"$limit->{name} $key"} //= [];
    @$all = grep { $now - $_ <= $log->{leaps} } @$all;
    return $all;
}

sub cost { my ($limit, $asked) = @_; return $limit->{cost} eq '$arg_cost' ? $asked : $limit->{cost} }

sub lacks_room { my ($limit, $key, $asked) = @_; return @{ live($limit, $key) } + cost($limit, $asked) > $limit->{limit} }

# Seconds until there is room, 'never', or 'long' if the model does not know.
sub retry {
    my ($limit, $key, $cost) = @_;
    return 'never' if $cost > $limit->{limit};
    my $log = $logs{ $limit->{name} };
    return 'long' if $log->{leaps} > 1000;
    my $live = live($limit, $key);
    return ($live->[@$live - $limit->{limit} + $cost - 1] + $log->{leaps} - $now) * LEAP + LEAP / 2;
}

# The expected answer: { admitted, remaining by NAME, and denied: the retries of the limits that deny, by stage: the
# first stage that denies, or one with a known denial }. The entries change.
sub decide {
    my ($location, $key, $asked) = @_;
    my %places;
    push @{ $places{ $logs{ $_->{name} }{place} } }, $_ for @$location;
    my ($refused, @denied, @logged) = 0;
    for my $place (sort { $a <=> $b } keys %places) {
        my @limits = @{ $places{$place} };
        my @denying = grep { lacks_room($_, $key, $asked) } @limits;
        my $is_asked = !$refused || grep { $_->{count} eq 'all' } @limits;
        for my $limit ($is_asked ? @limits : ()) {
            next if @denying && $limit->{count} ne 'all';
            my $live    = live($limit, $key);
            my $longest = max(scalar @$live, $logs{ $limit->{name} }{cap});
            push @$live, ($now) x cost($limit, $asked);
            splice @$live, 0, max(@$live - $longest, 0) if @denying;
        }
        push @logged, @limits if $is_asked && !@denying;
        # the denied attempt itself may leave no room, if it counts
        push @denied, [map { retry($_, $key, cost($_, $asked)) } grep { lacks_room($_, $key, $asked) } @limits] if @denying;
        $refused ||= @denying > 0;
    }
    if ($refused) {
        take_back($_, $key, cost($_, $asked)) for grep { $_->{count} ne 'all' } @logged;
        return { admitted => 0, denied => \@denied };
    }
    return { admitted => 1, remaining => { map { $_->{name} => $_->{limit} - @{ live($_, $key) } } @$location } };
}

sub take_back {
    my ($limit, $key, $cost) = @_;
    my $live = live($limit, $key);
    pop @$live for 1 .. min($cost, scalar grep { $_ == $now } @$live);
    return;
}

# ---- the comparison

my ($admitted, $denied, $refunded) = (0, 0, 0);

sub describe {
    my ($number, $key, $asked) = @_;
    return diag("at $now, key $key, cost $asked:", map { "\n  " . directive($_) . ' with ' . join ' ', @{ $entries{"$_->{name} $key"} } } @{ $locations[$number] });
}

# A known denial is of a moment ago: requests with a larger limit may have made the wait longer since.
sub is_denied_for {
    my ($answer, @retries) = @_;
    my $after = field($answer, 'Retry-After');
    return !defined $after if grep { $_ eq 'never' } @retries;
    return defined $after && $after >= 1 if grep { $_ eq 'long' } @retries;
    my $too_long = ($after // 9e9) - max(@retries);
    return $too_long < LEAP / 4 && (field($answer, 'X-Source') eq 'cache' || $too_long > -LEAP / 4);
}

# True when the answer is what the model says.
sub is_as_said {
    my ($answer, $said, $status) = @_;
    return $answer->{status} == 429 && grep { is_denied_for($answer, @$_) } @{ $said->{denied} } if !$said->{admitted};
    my %left = (field($answer, 'RateLimit') // '') =~ /"([\w-]+)";r=(\d+)/g;
    return $answer->{status} == $status && join(' ', map { "$_ $left{$_}" } sort keys %left) eq
        join(' ', map { "$_ $said->{remaining}{$_}" } sort keys %{ $said->{remaining} });
}

# a leap while nginx connects to Redis would be a timeout
Testbed::wait_until('Redis to decide', 10, sub { !grep { get($nginx->port, "/$_/?k=warm&cost=0")->{status} == 503 } 0 .. $#locations })
    or die "no Redis\n";

for my $operation (1 .. $operations) {
    if (rand() < 0.02) {
        $now++;
        $redis->set_clock($now * LEAP) or die "no leap\n";
    }
    my ($number, $key, $asked, $status) = (int rand @locations, any(qw(a b c)) . int $operation / 150, any(0, 1, 1, 2, 5, 13), any(200, 200, 404, 500));
    my $said   = decide($locations[$number], $key, $asked);
    my $answer = get($nginx->port, "/$number/?k=$key&cost=$asked&status=$status");
    if (!is_as_said($answer, $said, $status)) {
        fail("operation $operation: " . ($said->{admitted} ? "$status, left " . join(' ', %{ $said->{remaining} }) : "denied, for " . join(' or ', map { "@$_" } @{ $said->{denied} })));
        diag($answer->{text} =~ /^(.*?)\r\n\r\n/s);
        describe($number, $key, $asked);
        last;
    }
    $said->{admitted} ? $admitted++ : $denied++;
    for my $limit (grep { $said->{admitted} && $_->{refund} =~ /$status/ } @{ $locations[$number] }) {
        take_back($limit, $key, cost($limit, $asked));
        $refunded++;
    }
}
cmp_ok($admitted, '>', $operations / 20, "$admitted requests were admitted as the model says");
cmp_ok($denied,   '>', $operations / 20, "$denied requests were denied as the model says");
cmp_ok($refunded, '>', $operations / 200, "$refunded requests were refunded as the model says");

$bed->done;
