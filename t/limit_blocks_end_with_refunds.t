# refund= with block=, as in the recipe for logins: only failures block a user, however many logins two nodes of two
# workers have at the same time. In each store and algorithm; the backend answers after random times.

use strict;
use warnings;
use IO::Select;
use IO::Socket::INET;
use List::Util qw(min shuffle);
use Test::More;
use Testbed qw(seed wait_until);
use Testbed::Everywhere qw(@PLACES locations);
use Testbed::Http qw(get field many);
use Time::HiRes qw(time);

use constant LIMIT => 5;

seed();

# A backend that answers with status=, after ms=.
my $backend = IO::Socket::INET->new(Listen => 500, LocalAddr => '127.0.0.1') or die "listen: $!";
my $pid     = fork // die "fork: $!";
if (!$pid) {
    my ($readable, @due) = IO::Select->new($backend);
    while (1) {
        my $next = @due ? min(map { $_->[0] } @due) - time : 1;
        for my $socket ($readable->can_read($next > 0 ? $next : 0)) {
            if ($socket == $backend) {
                $readable->add($backend->accept);
                next;
            }
            $readable->remove($socket);
            sysread $socket, my $request, 65536 or next;
            my ($status, $ms) = map { $request =~ /\b$_=(\d+)/ } qw(status ms);
            push @due, [time + $ms / 1000, $socket, $status];
        }
        my $now = time;
        for my $answer (grep { $_->[0] <= $now } @due) {
            syswrite $answer->[1], "HTTP/1.0 $answer->[2] x\r\nContent-Length: 0\r\n\r\n";
        }
        @due = grep { $_->[0] > $now } @due;
    }
}

my $bed    = Testbed->new;
my $redis  = $bed->redis;
my $limits = locations(login => limit => 'limit=' . LIMIT . ' window=1d refund=1xx,2xx,3xx block=1h',
    inside => 'proxy_pass http://127.0.0.1:%%BACKEND%%;');
my @nodes = map { $bed->serve(
    REDIS => $redis->address, BACKEND => $backend->sockport,
    workers => 2,
    listen  => 'reuseport',
    store   => 'server %%REDIS%%; timeout 9s; connect_timeout 9s;',
    http    => 'sliding_log_on_error deny;',
    server  => $limits,
) } 1 .. 2;

for my $place (@PLACES) {
    my @ports = map { $_->port } $place =~ /local/ ? $nodes[0] : @nodes;
    my ($denied, $locked, @wrong) = (0, 0);
    for my $user (1 .. 6) {
        my $path     = "/login/$place?k=u$user";
        my $failures = 0;
        for my $round (1 .. 6) {
            my @statuses = shuffle((200) x (2 + int rand 8), (401) x int rand 4);
            my @answers  = many([map { [$ports[rand @ports], "$path&status=$_&ms=" . int rand 60] } @statuses]);
            $failures += grep { $_->{status} == 401 } @answers;
            $denied   += grep { $_->{status} == 429 } @answers;
            push @wrong, "$failures failures passed" if $failures > LIMIT;
            last if $failures >= LIMIT;
            wait_until('a successful login to pass', 5, sub { get($ports[rand @ports], "$path&status=200&ms=0")->{status} == 200 })
                or push @wrong, "user $user was locked out after $failures failures";
            last if @wrong;
        }
        last if @wrong;
        next if $failures < LIMIT;
        # the entry of the last success may not have been given back yet
        my $after = 0;
        wait_until('a failed login to be denied', 5, sub {
            my $answer = get($ports[rand @ports], "$path&status=200&ms=0");
            push @wrong, "user $user passed after $failures failures" if $answer->{status} == 200;
            $after = field($answer, 'Retry-After') // 0;
            return $after > 3500;
        }) or push @wrong, "user $user got Retry-After $after";
        $locked++;
    }
    is(join("\n", @wrong), '', "$place: of six users $locked failed too often and were locked out, for the time of a block");
    cmp_ok($denied, '>', 0, "$place: $denied attempts were denied while others were on their way");
}

kill TERM => $pid;
waitpid $pid, 0;
$bed->done;
