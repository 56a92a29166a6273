# A request waits no longer than `timeout` for its decision, however many stores it asks, and whatever their state.

use strict;
use warnings;
use Test::More;
use Testbed qw(conf slow wait_until);
use Testbed::Http qw(get field many);

my $bed = Testbed->new;
my %redis = map { $_ => $bed->redis } qw(one two three);
my $conf = conf(
    http   => <<'HTTP',
    sliding_log_redis one   { server %%ONE%%;   timeout 600ms; connect_timeout 10s; reconnect 50ms 100ms; }
    sliding_log_redis two   { server %%TWO%%;   timeout 600ms; connect_timeout 10s; reconnect 50ms 100ms; }
    sliding_log_redis three { server %%THREE%%; timeout 600ms; connect_timeout 10s; reconnect 50ms 100ms; }
HTTP
    server => <<'END',
    add_header X-Latency $sliding_log_latency always;
    location /one {
        sliding_log_on_error allow;
        sliding_log_limit a key=$arg_k limit=5 window=1h store=one;
        empty_gif;
    }
    location /all {
        sliding_log_limit a key=$arg_k limit=5 window=1h store=one;
        sliding_log_limit b key=$arg_k limit=5 window=1h store=two;
        sliding_log_limit c key=$arg_k limit=5 window=1h store=three;
        location /all/deny  { sliding_log_on_error deny;  empty_gif; }
        location /all/allow { sliding_log_on_error allow; empty_gif; }
        location /all/dry   { sliding_log_on_error deny; sliding_log_dry_run on; empty_gif; }
    }
END
);
my @addresses = map { (uc $_ => $redis{$_}->address) } keys %redis;

# The longest of these successive requests, and their statuses.
sub ask {
    my ($nginx, @paths) = @_;
    my @answers = map { get($nginx->port, "$_?k=$_") } @paths;
    my ($slowest) = sort { $b <=> $a } map { $_->{time} } @answers;
    return (join(' ', map { $_->{status} } @answers), $slowest, @answers);
}
my $late = 0.6 + 0.5 * slow();    # two timeouts take 1.2

my $nginx = $bed->nginx($conf, @addresses);
my ($statuses) = ask($nginx, qw(/all/deny /all/allow /all/dry));
is($statuses, '200 200 200', 'all stores answer: all requests pass');
for my $hang ([qw(two)], [qw(one two three)]) {
    $redis{$_}->pause for @$hang;
    for my $case (['/all/deny', 503], ['/all/allow', 200], ['/all/dry', 200]) {
        my ($path, $expected) = @$case;
        my ($status, $slowest, $answer) = ask($nginx, $path);
        is($status, $expected, "@$hang hang, $path: the status is $expected");
        cmp_ok($slowest, '<', $late, "@$hang hang, $path: the request is answered inside the timeout");
        cmp_ok(field($answer, 'X-Latency'), '<', $late, "@$hang hang, $path: \$sliding_log_latency is inside the timeout");
    }
    $redis{$_}->resume for @$hang;
    ok(wait_until('the stores to answer', 10, sub { (ask($nginx, '/all/deny'))[0] =~ /200|429/ }), "@$hang hung: the stores decide again");
}

# a connection during its setup, at the start and for much longer than the timeout
$_->pause for values %redis;
my $new = $bed->nginx($conf, @addresses);
my ($status, $slowest) = ask($new, '/one');
is($status, 200, 'a connection is being set up: on_error decides');
cmp_ok($slowest, '<', $late, 'a connection is being set up: a request is answered within the timeout');
my @answers = many([map { [$new->port, '/one?k=x'] } 1 .. 20]);
cmp_ok((sort { $b <=> $a } map { $_->{time} } @answers)[0], '<', $late, 'a connection is being set up: many requests are answered within the timeout');
$_->resume for values %redis;
ok(wait_until('the connection', 10, sub { field(get($new->port, '/one?k=y'), 'RateLimit') }), 'a connection that has been set up is asked');

$bed->done;
