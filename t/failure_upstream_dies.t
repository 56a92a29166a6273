# An upstream server dies under many requests of one key, which are all to be given back at once (refund=5xx). A worker
# has few take-backs on the wire, so Redis has time for other limits, and what Redis does not answer is not lost.

use strict;
use warnings;
use IO::Socket::INET;
use Test::More;
use Testbed qw(wait_until slow);
use Testbed::Http qw(get field);
use Testbed::Http2 qw(open_http2 ask_stream answers);
use Testbed::Metrics qw(scrape);

# The limit is large: what the log may have is no reason to divide what is given back into more calls.
use constant { REQUESTS => 800, ON_THE_WIRE => 16, LIMIT => 1_000_000_000 };

my $bed = Testbed->new;

# An upstream that accepts connections and says nothing, until it is closed.
sub silent { return IO::Socket::INET->new(Listen => 4096, LocalAddr => '127.0.0.1') // die "listen: $!" }

sub node {
    my ($redis, $upstream) = @_;
    return $bed->serve(
        connections => 4096,
        workers     => 1,
        store       => "server @{[$redis->address]}; timeout 1s; connect_timeout 1s; reconnect 20ms 200ms;",
        http        => 'http2_max_concurrent_streams 4096; sliding_log_on_error deny;',
        server      => <<"END",
    listen 127.0.0.1:%%PORT2%% http2;
    location /work { sliding_log_limit busy key=k limit=@{[LIMIT]} window=1h algorithm=compact refund=5xx; proxy_connect_timeout 60s; proxy_read_timeout 60s; proxy_pass http://127.0.0.1:@{[$upstream->sockport]}; }
    location /look { sliding_log_limit busy key=k limit=@{[LIMIT]} window=1h algorithm=compact cost=0; empty_gif; }
    location /other { sliding_log_limit other key=k limit=10000 window=1h; empty_gif; }
    location /free { empty_gif; }
    location /metrics { sliding_log_metrics; }
END
    );
}

sub used { my ($node) = @_; return (field(get($node->port, '/look'), 'RateLimit') // '') =~ /;r=(\d+)/ ? LIMIT - $1 : -1 }
sub lost { my ($node) = @_; return scrape($node->port)->value('sliding_log_store_take_backs_lost_total') }

# All are under way.
sub begin {
    my ($node) = @_;
    my $client = open_http2($node->port('PORT2'));
    ask_stream($client, 2 * $_ + 1, '/work') for 0 .. REQUESTS - 1;
    ok(wait_until('requests to be under way', 20, sub { used($node) == REQUESTS }), REQUESTS . ' requests are in the log') or diag(used($node));
    return $client;
}

my @streams = map { 2 * $_ + 1 } 0 .. REQUESTS - 1;

{
    my ($redis, $upstream) = ($bed->redis, silent());
    my $node   = node($redis, $upstream);
    my $client = begin($node);
    my $calls = $redis->calls('evalsha');
    $redis->pause;    # so that all are given back in one turn of the event loop, also on a busy machine
    close $upstream;
    my $answers = answers($client, \@streams, 30);
    $redis->resume;
    is(scalar(grep { $_->{status} == 502 } values %$answers), REQUESTS, 'the upstream dies: clients get 502');
    ok(wait_until('refunds', 20, sub { used($node) == 0 }), 'all of them are given back') or diag(used($node));
    is(lost($node), 0, 'none is lost');
    cmp_ok($redis->calls('evalsha') - $calls, '<', REQUESTS / 4, 'those that wait go together');
}

{
    my ($redis, $upstream) = ($bed->redis, silent());
    my $node   = node($redis, $upstream);
    my $client = begin($node);
    $redis->pause;
    close $upstream;
    answers($client, \@streams, 30);
    get($node->port, '/other') for 1 .. 3;    # they time out, so the connection is given up
    ok(wait_until('the silence', 20, sub { $node->logged(qr/timed out/) }), 'Redis hangs meanwhile, and its connection is given up');
    $redis->resume;
    ok(wait_until('Redis', 20, sub { used($node) >= 0 }), 'Redis goes on');
    my $lost = 0;
    ok(wait_until('refunds', 20, sub { $lost = lost($node); used($node) <= $lost }), 'what was not lost is given back') or diag(used($node) . " in the log, $lost lost");
    cmp_ok($lost, '<=', ON_THE_WIRE, 'no more are lost than were on the wire');
}

{
    my ($redis, $upstream) = ($bed->redis, silent());
    my $node   = node($redis, $upstream);
    my $other  = node($redis, $upstream);
    my $client = begin($node);
    $node->signal('QUIT');
    close $upstream;
    answers($client, \@streams, 30);
    ok(wait_until('refunds', 20, sub { used($other) == 0 }), 'a worker that quits gives all of them back') or diag(used($other));
    is($node->logged(qr/could not be taken back/), 0, 'it loses none');
}
$bed->done;
