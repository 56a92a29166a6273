# Keys made by an attacker: whatever bytes they have, their logs are their own, on their own hash slot, and short.

use strict;
use warnings;
use Digest::SHA qw(sha1_hex);
use Test::More;
use Testbed;
use Testbed::Http qw(request get);

my $bed   = Testbed->new;
my $redis = $bed->redis;
my $nginx = $bed->serve(NUL => "a\0", redis => $redis, http => 'ignore_invalid_headers off;', server => <<'END');
    location / { sliding_log_limit k key=$http_x_key limit=2 window=1h id=$http_x_id; empty_gif; }
    location /addr { sliding_log_limit k key=$binary_remote_addr limit=2 window=1h id=$http_x_id; empty_gif; }
    location /nul  { set $nul "%%NUL%%"; sliding_log_limit k key=$nul$arg_k limit=2 window=1h id=$http_x_id; empty_gif; }
    location ~ "(?s)^/path/(?<rest>.*)" { sliding_log_limit k key=$rest limit=2 window=1h id=$http_x_id; empty_gif; }
END
my $port = $nginx->port;

sub name_of { my ($value) = @_; return $value =~ m{\A(?!sha1-)[A-Za-z0-9_.:/@-]{1,128}\z} ? $value : 'sha1-' . sha1_hex($value) }
sub zcard { return $redis->cli('ZCARD', "rl:sliding:k:{$_[0]}") }

my %values = (
    'a plain one'          => 'acct_42',
    'an address'           => '2001:db8::1',
    'every plain sign'     => 'aZ9_.:/@-',
    'closing braces'       => '}',
    'a hash tag inside'    => '{other}x',
    'another key'          => 'x}:rl:sliding:k:{acct_42',
    'blanks'               => 'a b',
    'quotes'               => q('"`\\),
    'a glob'               => '*?[a-z]',
    'Lua'                  => "']] redis.call('FLUSHALL') --",
    'bytes that are no UTF-8' => "\xff\xfe\x80",
    'a tabulator'          => "a\tb",
    'UTF-8'                => "caf\xc3\xa9",
    '128 bytes'            => 'x' x 128,
    '129 bytes'            => 'x' x 129,
    '30,000 bytes'         => 'y' x 30000,
    'letters beyond ASCII' => "\xc0\xda",
    'a comma'              => 'a,b',
    'a plus'               => 'a+b',
    'a tilde'              => 'a~b',
    'a hash already'       => 'sha1-' . 'a' x 40,
    'the hash of another'  => 'sha1-' . sha1_hex('a b'),
    'its hash in turn'     => 'sha1-' . sha1_hex('sha1-' . sha1_hex('a b')),
    'the mark of a hash'   => 'sha1-',
    'less than the mark'   => 'sha1',
    'the mark in capitals' => 'SHA1-' . 'A' x 40,
);
for my $what (sort keys %values) {
    my $value = $values{$what};
    my @status = map { request($port, '/', headers => { 'X-Key' => $value })->{status} } 1 .. 3;
    is("@status", '200 200 429', "$what: the key has its own limit");
    is(zcard(name_of($value)), 2, "$what: the key has its own name");
}
for my $case (['%0d%0aFLUSHALL%0d%0a', "\r\nFLUSHALL\r\n"], ['*3%0d%0a$3%0d%0aSET', "*3\r\n\$3\r\nSET"], ['a%7fb', "a\x7fb"]) {
    my ($path, $value) = @$case;
    is(get($port, "/path/$path")->{status}, 200, "$path: the key is admitted");
    is(zcard(name_of($value)), 1, "$path: the key has its own name");
}

# NUL: nginx accepts none in a path or header, but addresses have them, and texts of the configuration may
is(get($port, '/path/a%00b')->{status}, 400, 'NUL in a path is refused by nginx itself');
is(request($port, '/', headers => { 'X-Key' => "a\0b" })->{status}, 400, 'NUL in a header is refused by nginx itself');
is(get($port, '/addr')->{status}, 200, 'an address in binary is admitted');
is(zcard(name_of("\x7f\0\0\1")), 1, 'an address in binary counts to its last byte');
is(join(' ', map { get($port, "/nul?k=$_")->{status} } qw(b b b c)), '200 200 429 200', 'the bytes after a NUL are part of the key');
is(zcard(name_of("a\0b")) . zcard(name_of("a\0c")), '21', 'keys with a NUL have their own names');

is($redis->cli('DBSIZE'), keys(%values) + 6, 'Redis has no other key');
is(scalar(grep { length > 200 } split /\n/, $redis->cli('KEYS', '*')), 0, 'Redis has no long key');

# ids made by a client
for (1 .. 2) {
    request($port, '/', headers => { 'X-Key' => 'ids', 'X-Id' => 'same' });
}
like($redis->cli(qw(ZRANGE rl:sliding:k:{ids} 0 -1)), qr/^same\nsame~[A-Za-z0-9_-]{9,12}$/, 'one id twice is two entries');
request($port, '/', headers => { 'X-Key' => 'longid', 'X-Id' => 'i' x 20000 });
is($redis->cli(qw(ZRANGE rl:sliding:k:{longid} 0 -1)), 'sha1-' . sha1_hex('i' x 20000), 'a long id is hashed');

$bed->done;
