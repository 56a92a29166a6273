# The local store: exact over all workers of a node, without Redis. It survives reloads, and a full zone removes the
# least recently used keys.

use strict;
use warnings;
use Test::More;
use Testbed qw(conf slow wait_until);
use Testbed::Http qw(get many field);
use Time::HiRes qw(sleep time);

my $bed   = Testbed->new;
my $redis = $bed->redis;
my $conf  = conf(workers => 4, listen => 'reuseport', http => '%%ZONE%%', server => <<'END');
    location /hour  { sliding_log_limit hour key=$arg_k limit=%%LIMIT%% window=1h; empty_gif; }
    location /short { sliding_log_limit short key=$arg_k limit=3 window=600ms; sliding_log_headers all; empty_gif; }
    location /many  { sliding_log_limit many key=$arg_k limit=50 window=1h; empty_gif; }
    location /two {
        sliding_log_limit small key=$arg_k limit=2 window=1h;
        sliding_log_limit large key=$arg_k limit=5 window=1h;
        empty_gif;
    }
    location /large { sliding_log_limit large key=$arg_k limit=5 window=1h; empty_gif; }
    location /name  { sliding_log_limit name key=$arg_k limit=5 window=1h; add_header X-Log "$sliding_log_status $sliding_log_source $sliding_log_latency"; empty_gif; }
END
my $nginx = $bed->nginx($conf, ZONE => '', LIMIT => 500);
my $port  = $nginx->port;

sub admitted { my ($path, $times) = @_; return scalar grep { $_->{status} == 200 } many([map { [$port, $path] } 1 .. $times]) }

is(admitted('/hour?k=a', 2000), 500, 'four workers, one log: exactly the limit passes');
is(admitted('/two?k=a', 50), 2, 'two limits: the smaller decides');
is(admitted('/large?k=a', 50), 3, 'two limits: a request that the smaller one denied is not in the other log');
is(field(get($port, '/name?k=a'), 'X-Log'), 'PASSED local 0.000', 'the variables show the source');
like(field(get($port, '/name?k=a'), 'RateLimit'), qr/^"name";r=3;t=\d+$/, 'the fields are those of any store');
is(get($port, '/name')->{status}, 200, 'an empty key is not limited');

# it slides
my @times;
my $end = time + 3;
while (time < $end) {
    my $before = time;
    push @times, [$before, time] if get($port, '/short?k=a')->{status} == 200;
}
cmp_ok(scalar @times, '>=', 9, 'a short window: requests keep being admitted');
# the fourth was decided no later than its answer, the first no earlier than its request; times are ms in turns
is(scalar(grep { $times[$_ + 3][1] - $times[$_][0] < 0.595 } 0 .. $#times - 3), 0, 'a short window: no window has more than the limit');
my $denied = get($port, '/short?k=a');
get($port, '/short?k=b') for 1 .. 3;
$denied = get($port, '/short?k=b');
is($denied->{status} . ' ' . field($denied, 'Retry-After') . ' ' . field($denied, 'RateLimit'), '429 1 "short";r=0;t=1',
    'a short window: a denial has Retry-After and RateLimit');

# reload
$nginx->reload(gone => 1);
is(admitted('/hour?k=a', 20), 0, 'a reload loses nothing');
$nginx->{values}{LIMIT} = 505;
$nginx->configure($conf)->reload(gone => 1);
is(admitted('/hour?k=a', 20), 5, 'a raised limit applies to the log that exists');

# a small zone: bounded memory, the most recently used keys keep their logs
my $small = $bed->nginx($conf, ZONE => 'sliding_log_zone 64k;', LIMIT => 100_000);
$port = $small->port;
is(admitted('/many?k=first', 50), 50, 'a small zone: 50 requests of a key pass');
for my $round (1 .. 20) {
    my @answers = many([map { [$port, "/many?k=$round-$_"] } 1 .. 100]);
    is(scalar(grep { $_->{status} == 200 } @answers), 100, "a small zone: 100 other keys pass, round $round") or last;
    last if $round == 20;
    get($port, '/many?k=kept') for 1 .. 2;
}
like(field(get($port, '/many?k=kept'), 'RateLimit'), qr/^"many";r=11;t=\d+$/, 'a small zone: a used key keeps its log');
like(field(get($port, '/many?k=first'), 'RateLimit'), qr/^"many";r=49;t=\d+$/, 'a small zone: the least recently used key was removed');
is($small->logged(qr/\[error\].*"sliding_log_zone" is full: live logs of limit "many" are dropped/), 1, 'a small zone: the error log has the full zone, at most once a minute');

$bed->done;
