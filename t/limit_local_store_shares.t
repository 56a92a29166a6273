# The local store in a full zone: many hostile keys of one limit evict that limit's own logs, and none of a limit that
# has no more than its share of the zone. Expired logs are removed first. Also the memory of single logs: large costs,
# long names.

use strict;
use warnings;
use Test::More;
use Testbed qw(conf wait_until);
use Testbed::Http qw(get field);
use Time::HiRes qw(time);

use constant KEYS => Testbed::operations(100_000);    # of a flood; the zone has room for a thousand

my $bed  = Testbed->new;
my $conf = conf(
    workers => 2,
    listen  => 'reuseport',
    http    => <<'HTTP',
    sliding_log_zone %%SIZE%%;
    sliding_log_redis away { server 127.0.0.1:%%NOBODY%%; }
    sliding_log_redis deep { server 127.0.0.1:%%NOBODY%%; prefix %%PREFIX%%; }
HTTP
    server  => <<'END',
    sliding_log_on_error local;
    location /hostile { sliding_log_limit hostile key=$arg_k limit=10 window=1h store=local; empty_gif; }
    location /flood   { sliding_log_limit hostile key=$connection-$connection_requests limit=10 window=1h store=local; empty_gif; }
    location /login   { sliding_log_limit login key=$arg_k limit=3 window=1h store=local; empty_gif; }
    location /far     { sliding_log_limit far key=$arg_k limit=3 window=1h store=away; empty_gif; }
    location /deep    { sliding_log_limit %%NAME%% key=$arg_k limit=3 window=1h store=deep; empty_gif; }
    location /short   { sliding_log_limit short key=$arg_k limit=10 window=300ms store=local; empty_gif; }
    location /other   { sliding_log_limit other key=$arg_k limit=10 window=1h store=local; empty_gif; }
    location /large   { sliding_log_limit large key=$arg_k limit=1000000 window=1h cost=100000 algorithm=compact store=local; empty_gif; }
    location /back    { sliding_log_limit back key=$arg_k limit=100000 window=1h cost=100000 algorithm=compact refund=404 store=local; }
    location /all {
        %%LIMITS%%
        empty_gif;
    }
END
);
my %values = (
    SIZE   => '256k',
    NOBODY => Testbed::free_port(),
    PREFIX => 'p' x 128,
    NAME   => 'n' x 64,
    LIMITS => join("\n", map { "sliding_log_limit all$_ key=\$arg_k limit=5 window=1h store=local;" } 1 .. 32),
);
my $nginx = $bed->nginx($conf, %values);
my $port  = $nginx->port;

sub statuses { return join ' ', map { get($port, $_)->{status} } @_ }

sub passed_of { my ($count, @arguments) = @_; return `h2load --h1 -n $count @arguments 2>&1` =~ /status codes: (\d+) 2xx/ ? $1 : 'none' }

# How many requests passed: one for each of this number of keys, in order.
sub passed_in_turn {
    my ($path, $keys) = @_;
    my $file = $bed->dir . '/urls';
    open my $urls, '>', $file or die "$file: $!";
    print {$urls} "http://127.0.0.1:$port$path$_\n" for 1 .. $keys;
    close $urls or die "$file: $!";
    return passed_of($keys, "-c 1 -i $file");
}

# one of these limits is flooded
for my $path ('/login?k=', '/far?k=') {
    is(statuses(map { ("$path$_") x 4 } 1 .. 5), join(' ', ('200 200 200 429') x 5), "$path: five keys come to be denied");
}
is(statuses('/hostile?k=early'), '200', 'a flood: a key of that limit passes before');
my $flooded = time;
is(passed_of(KEYS, "-c 8 http://127.0.0.1:$port/flood"), KEYS, 'a flood: all keys of another limit pass');
for my $path ('/login?k=', '/far?k=') {
    is(statuses(map { "$path$_" } 1 .. 5), join(' ', ('429') x 5), "a flood: $path: five keys are still denied");
}
get($port, '/hostile?k=late');
like(field(get($port, '/hostile?k=late'), 'RateLimit'), qr/^"hostile";r=8;/, 'a flood: the latest keys have their logs');
like(field(get($port, '/hostile?k=early'), 'RateLimit'), qr/^"hostile";r=9;/, 'a flood: the least recently used keys were removed');
my $told = $nginx->logged(qr/\[error\].*"sliding_log_zone" is full: live logs of limit "hostile" are dropped/);
ok($told >= 1 && $told <= 2 + (time - $flooded) / 60, 'a flood: the error log has this limit once a minute') or diag($told);
is($nginx->logged(qr/is full: live logs of limit "(?!hostile")/), 0, 'a flood: the error log has no other limit');

# a limit below its share takes memory from the one that has most
is(passed_in_turn('/other?k=', 100), 100, 'a limit that comes late: its requests pass');
like(field(get($port, '/other?k=1'), 'RateLimit'), qr/^"other";r=8;/, 'a limit that comes late: its logs are kept');
is(statuses(map { "/login?k=$_" } 1 .. 5), join(' ', ('429') x 5), 'a limit that comes late: the logs of small limits are kept');

# names with cells of their own
my @long = map { 'x' x 127 . $_ } 1 .. 3;
for my $path ('/login?k=', '/deep?k=') {
    is(statuses(map { "$path$_" } (@long) x 3), join(' ', ('200') x 9), "long names: $path: three requests of each key pass");
    is(statuses(map { "$path$_" } @long), join(' ', ('429') x 3), "long names: $path: further requests are denied");
}

# a cost is a number
is(statuses(map { ("/large?k=$_") x 11 } 1 .. 20), join(' ', (('200') x 10, '429') x 20), 'costs of 100,000: 200 of them are exact in 256k');
is(statuses(('/back?k=a') x 20), join(' ', ('404') x 20), 'costs of 100,000: refunds give them back');

# what has expired goes first
my $small = $bed->nginx($conf, %values, SIZE => '64k');
$port = $small->port;
statuses(map { ("/login?k=$_") x 3 } 1 .. 5);
is(passed_in_turn('/short?k=', 60), 60, 'expired logs: 60 keys of a short window pass');
my $begun = time;
wait_until('the end of the short window', 5, sub { time > $begun + 0.4 });
is(passed_in_turn('/other?k=', 80), 80, 'expired logs: 80 other keys pass');
is($small->logged(qr/is full: live logs/), 0, 'expired logs: no live log was removed for these');
is(statuses(map { "/login?k=$_" } 1 .. 5), join(' ', ('429') x 5), 'expired logs: live logs are kept');

# a request of more logs than fit
my $tiny = $bed->nginx($conf, %values, SIZE => '32k');
$port = $tiny->port;
is(statuses(('/all?k=a') x 50), join(' ', ('503') x 50), 'too many logs: the request is a store error');
my $tiny_told = $tiny->logged(qr/\[error\].*"sliding_log_zone" of 32k is too small for the logs of one request, which on_error decides; make it larger/);
cmp_ok($tiny_told, '>', 0, 'too many logs: the error log names the memory that is too small');
cmp_ok($tiny_told, '<', 25, 'too many logs: the error log names it a few times at most');
is(statuses('/login?k=a'), '200', 'too many logs: a log that fits passes');

$bed->done;
