# The error log line of a denial has all its data. $sliding_log_key is the key as it is stored.

use strict;
use warnings;
use Digest::SHA qw(sha1_hex);
use Test::More;
use Testbed qw(wait_until);
use Testbed::Http qw(get field);

my $bed   = Testbed->new;
my $redis = $bed->redis;
my $nginx = $bed->serve(
    REDIS => $redis->address, GONE => '127.0.0.1:' . Testbed::free_port(),
    store  => 'server %%REDIS%%; timeout 5s; connect_timeout 5s; prefix "p:";',
    http   => <<'HTTP',
    add_header X-Key $sliding_log_key always;
    sliding_log_redis gone { server %%GONE%%; }
    sliding_log_on_error deny;
HTTP
    server => <<'END',
    location /plain  { sliding_log_limit plain key=$arg_k limit=1 window=1h; empty_gif; }
    location /local  { sliding_log_limit local key=$arg_k limit=1 window=90s store=local; empty_gif; }
    location /secret { sliding_log_limit secret key=$arg_k limit=1 window=1h secret=on; empty_gif; }
    location /block  { sliding_log_limit block key=$arg_k limit=1 window=1m block=15m; empty_gif; }
    location /zero   { sliding_log_limit zero key=$arg_k limit=0 window=1m block=15m; empty_gif; }
    location /gone   { sliding_log_limit gone key=$arg_k limit=1 window=1m store=gone; empty_gif; }
    location /two    {
        sliding_log_limit loose key=$arg_l limit=9 window=1m;
        sliding_log_limit tight key=$arg_k limit=1 window=1m;
        empty_gif;
    }
    location /from   { sliding_log_limit first key=$arg_l limit=9 window=1m; try_files /none @to; }
    location @to     { sliding_log_limit last key=$arg_k limit=1 window=1m store=local; empty_gif; }
    location /free   { empty_gif; }
END
);
my $port = $nginx->port;
my $hash = 'sha1-' . sha1_hex('a b');
my $eight = 'sha1-' . substr sha1_hex('hush'), 0, 8;

is(field(get($port, '/free'), 'X-Key'), undef, 'no limit: $sliding_log_key is empty');

# path, $sliding_log_key, and the text of the line between the limit's name and the client
for (
    ['/plain?k=192.0.2.7',  '192.0.2.7', qr/"plain": key "192\.0\.2\.7", 1 in 1h, next in (?:1h|59m\d+s), by redis/],
    ['/plain?k=a%20b',      'a%20b',     qr/"plain": key "sha1-\w{40}", 1 in 1h, next in \S+, by redis/],
    ['/local?k=a',          'a',         qr/"local": key "a", 1 in 1m30s, next in 1m(?:30|29)s, by local/],
    ['/secret?k=hush',      $eight,      qr/"secret": key "$eight", 1 in 1h, next in \S+, by redis/],
    ['/block?k=a',          'a',         qr/"block": key "a", 1 in 1m, blocked, next in 15m, by redis/],
    ['/two?k=a&l=b',        'a',         qr/"tight": key "a", 1 in 1m, next in (?:1m|59s), by redis/],
    ['/from?k=a&l=b',       'a',         qr/"last": key "a", 1 in 1m, next in (?:1m|59s), by local/],
) {
    my ($path, $key, $line) = @$_;
    $key = 'sha1-' . sha1_hex($key) if $key =~ /%/;
    is(get($port, $path)->{status}, 200, "$path: the first request passes");
    my $denied = get($port, $path);
    is($denied->{status}, 429, "$path: the second one is denied");
    is(field($denied, 'X-Key'), $key, "$path: \$sliding_log_key is the key as it is stored");
    is($nginx->logged(qr/\[error\].*limiting requests, by limit $line, client: 127\.0\.0\.1/), 1, "$path: one line tells the denial");
}
is(get($port, '/plain?k=192.0.2.7')->{status}, 429, 'a known denial denies');
is($nginx->logged(qr/by limit "plain": key "192\.0\.2\.7", .*, by cache, client/), 1, 'a known denial: the line has the cache as the source');
is(get($port, '/zero?k=a')->{status}, 429, 'a limit of 0 denies');
is($nginx->logged(qr/by limit "zero": key "a", 0 in 1m, by redis, client/), 1, 'a limit of 0: the line has no time to retry');
is(get($port, '/gone?k=a')->{status}, 503, 'a store that is down: on_error denies');
is($nginx->logged(qr/by limit "gone": key "a", store unavailable, client/), 1, 'a store that is down: the line has the error');
unlike($nginx->error_log, qr/hush(?!\S* HTTP)/, 'the value of a secret is only in the request line of nginx');

$bed->done;
