# secret=on: a client's secret is nowhere in clear text, neither in Redis nor in any output, whatever its form. The
# limit works as usual. nginx -t warns of keys with secrets in clear text.

use strict;
use warnings;
use Digest::SHA qw(sha1_hex);
use JSON::PP ();
use Test::More;
use Testbed qw(conf wait_until);
use Testbed::Everywhere qw(@PLACES locations);
use Testbed::Http qw(get request);
use Testbed::Process;
use Testbed::Tool qw(tool tool_json);

my $bed   = Testbed->new;
my $redis = $bed->redis;
my $conf  = conf(
    workers => 2,
    redis   => '%%REDIS%%',
    http    => <<'HTTP',
    log_format all '$uri $status $sliding_log_status $sliding_log_source $sliding_log_name $sliding_log_remaining $sliding_log_client';
    access_log %%DIR%%/access.log all;
    sliding_log_on_error deny;
HTTP
    server  => <<'END',
    location /board { sliding_log_dashboard; }
    location /metrics { sliding_log_metrics; }
    location /again { sliding_log_limit secret_log_default key=$cookie_session limit=2 window=1h secret=on; empty_gif; }
    location /open  { sliding_log_limit open key=$http_x_key limit=2 window=1h secret=off; empty_gif; }
    location /held  { sliding_log_limit held key=$http_x_key limit=1 window=1s delay=3s secret=on; empty_gif; }
    %%LOCATIONS%%
END
);
my @nodes = map {
    $bed->nginx($conf,
        REDIS     => $redis->address,
        LOCATIONS => locations(secret => key => '$http_x_key', limit => 'limit=2 window=1h secret=on', inside => 'empty_gif;'))
} 1 .. 2;

my %secrets = (
    'a plain one'         => 'hush_' . sha1_hex(rand),
    'a long one'          => 'hush_' . sha1_hex(rand) . 'x' x 300,
    'braces'              => 'hush_{' . sha1_hex(rand) . '}',
    'UTF-8'               => "hush_\xc3\xa4_" . sha1_hex(rand),
    'a hash by its looks' => 'sha1-' . sha1_hex(rand),
    'an address'          => '2001:db8::' . join(':', unpack '(a4)4', sha1_hex(rand)),
);
$secrets{'the hash of another'} = 'sha1-' . sha1_hex($secrets{'a plain one'});

sub asked { my ($node, $path, $secret) = @_; return request($node->port, $path, headers => { 'X-Key' => $secret })->{status} }
sub stored { return 'sha1-' . sha1_hex($_[0]) }
sub shown { return substr stored($_[0]), 0, 13 }

# ---- it limits, in every algorithm and store, over nodes and locations

for my $place (@PLACES) {
    for my $what (sort keys %secrets) {
        my @asked = $place =~ /local/ ? @nodes[0, 0, 0] : @nodes[0, 1, 0];
        is(join(' ', map { asked($_, "/secret/$place", $secrets{$what}) } @asked), '200 200 429', "$place, $what: two pass");
    }
}
is(get($nodes[1]->port, '/again', headers => { Cookie => "session=$secrets{'a plain one'}" })->{status}, 429, 'locations with one limit share the log of a client');
is(asked($nodes[0], '/open', $secrets{'a plain one'}), 200, 'secret=off: a request passes');
is($redis->cli('DEL', "rl:sliding:open:{$secrets{'a plain one'}}"), 1, 'secret=off: the key has its value in clear text');
is(asked($nodes[0], '/held', $secrets{'a plain one'}), 200, 'secret=on with delay=: a request is served') for 1 .. 2;

# ---- nowhere in clear

# No secret in clear text, nor the whole digest of one, which is the name of its log.
sub tells_nothing {
    my ($what, $text, %options) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    my @names = $options{names} ? () : map { sha1_hex($_) } values %secrets;
    is(join(' ', grep { index($text, $_) >= 0 } @names, map { substr $_, 0, 45 } @secrets{ grep { !$options{names} || !/hash/ } keys %secrets }),
        '', "$what: nothing of a secret");
    return;
}

my @keys = split /\n/, $redis->cli('KEYS', 'rl:sliding:secret_*');
is(scalar @keys, 5 * keys %secrets, 'Redis has a key for each limit and secret');
my %names = map { (stored($_) => 1) } values %secrets;
is(join(' ', grep { !/^rl:sliding:secret_\w+_default:\{(.*)\}$/ || !$names{$1} } @keys), '', 'Redis has keys with hashes of the secrets only');
my %all = (ZRANGE => [0, -1, 'WITHSCORES'], HGETALL => [], GET => []);
my %how = (zset => 'ZRANGE', hash => 'HGETALL', string => 'GET');
tells_nothing('Redis', join("\n", map { my $read = $how{ $redis->cli('TYPE', $_) }; $_, $redis->cli($read, $_, @{ $all{$read} }) } split /\n/, $redis->cli('KEYS', '*')), names => 1);

my $data = JSON::PP::decode_json(get($nodes[0]->port, '/board?format=json')->{body});
my @listed = grep { $_->{limit} =~ /^secret_/ } @{ $data->{used_keys} }, @{ $data->{denied_keys} };
cmp_ok(scalar @listed, '>', 20, 'the dashboard shows keys');
my %shown = map { (shown($_) => 1) } values %secrets;
is(join(' ', grep { !$shown{$_} } map { $_->{key} } @listed), '', 'the dashboard shows eight digits of each key');
for my $node (@nodes) {
    tells_nothing('the dashboard', get($node->port, '/board?format=json')->{body} . get($node->port, '/board')->{body});
    tells_nothing('metrics', get($node->port, '/metrics')->{body});
    ok(wait_until('the access log', 5, sub { Testbed::Process::slurp($node->dir . '/access.log') =~ m{^/metrics}m }), 'the access log is written');
    tells_nothing("the $_ log", Testbed::Process::slurp($node->dir . "/$_.log")) for qw(access error);
    cmp_ok($node->logged(qr/limiting requests/), '>', 0, 'the error log has denials') if $node == $nodes[0];
}

# ---- the tool

my @at = ('--server', $redis->address);
for my $what (sort keys %secrets) {
    my $secret = $secrets{$what};
    for my $words ([$secret], ['-']) {
        my $log = tool({ in => "$secret\nnext line\n" }, 'inspect', '--secret', 'secret_log_default', @$words, @at, '--json');
        is($log->{status}, 0, "sliding-log inspect --secret, $what, " . ($words->[0] eq '-' ? 'from standard input' : 'as a word')) or diag($log->{err});
        like($log->{out}, qr/"key":"rl:sliding:secret_log_default:\{@{[shown($secret)]}\}".*"entries":2,/,
            "sliding-log inspect --secret, $what: the log is found");
        tells_nothing("sliding-log inspect --secret, $what", $log->{out} . $log->{err});
    }
}
my $key  = 'rl:sliding:secret_log_default:{' . stored($secrets{braces}) . '}';
my $conf_file = $nodes[0]->dir . '/nginx.conf';
my @known = (['--secret'], ['--nginx-conf', $conf_file]);
for my $known (@known) {
    my $by = $known->[0];
    for my $words (['inspect', $key], ['inspect', 'secret_log_default', $secrets{braces}], ['top', '--count', 100], ['top', 'secret_bucket_default'],
        ['export', 'secret_log_default'], ['export', 'secret_log_default', '--format', 'csv'])
    {
        for my $json ($words->[0] eq 'export' ? () : '--json', undef) {
            my $ran = tool(@$words, @at, @$known, $json // ());
            is($ran->{status}, 0, "sliding-log $words->[0] $by" . ($json ? ' --json' : '')) or diag($ran->{err});
            like($ran->{out}, qr/rl:sliding:secret_\w+_default:\{sha1-[0-9a-f]{8}\}/, "sliding-log $words->[0] $by shows eight digits");
            tells_nothing("sliding-log $words->[0] $by", $ran->{out} . $ran->{err});
        }
    }
}
is(scalar(grep { $_->{key} =~ /:secret_/ } @{ tool_json('top', @at, '--secret', '--count', 100)->{logs} }), 5 * keys %secrets,
    'sliding-log top --secret shows each log separately');
like(tool('top', @at)->{out}, qr/\{sha1-[0-9a-f]{40}\}/, 'sliding-log top without --secret and --nginx-conf shows whole names');
asked($nodes[0], '/open', 'acct_42');
like(tool('top', 'open', @at, @$_)->{out}, qr/^rl:sliding:open:\{acct_42\} /m, "sliding-log top $_->[0] shows a value that is not secret") for @known;
is(tool('inspect', 'open', 'acct_42', @at, '--nginx-conf', $conf_file)->{status}, 0, 'sliding-log inspect --nginx-conf finds a value that is not secret');

for my $case (['--secret', 'a plain one', 'secret_log_default'], ['--nginx-conf', 'braces', 'secret_compact_default']) {
    my ($by, $what, $name) = @$case;
    my @words = ('reset', $name, '-', @at, $by eq '--secret' ? $by : ($by, $conf_file));
    my $reset = tool({ in => $secrets{$what} }, @words);
    is($reset->{status}, 0, "sliding-log reset $by exits with 0") or diag($reset->{err});
    is($redis->cli('EXISTS', "rl:sliding:$name:{" . stored($secrets{$what}) . '}'), 0, "sliding-log reset $by removes the log");
    my $again = tool({ in => "$secrets{$what}\n" }, @words);
    is($again->{status}, 1, "sliding-log reset $by exits with 1 if the log is gone");
    tells_nothing("sliding-log reset $by", join '', map { @$_{qw(out err)} } $reset, $again);
}
for my $empty ('', "\n", "\nx\n") {
    my $ran = tool({ in => $empty }, 'reset', '--secret', 'secret_log_default', '-', @at);
    is("$ran->{status} $ran->{err}", "3 sliding-log: standard input is empty, expected a line with the value of the limit's key\n",
        'sliding-log reset refuses an empty VALUE');
}
my $unknown = tool('inspect', 'nobody', 'x', @at, '--nginx-conf', $conf_file);
is("$unknown->{status} $unknown->{err}", "3 sliding-log: $conf_file has no sliding_log_limit nobody\n",
    'sliding-log inspect refuses a NAME that the configuration lacks');

# ---- warnings of nginx -t

my $frame = conf(http => 'map $http_authorization $user { default x; }', server => '%%LIMIT%%');
for my $row (
    ['$http_authorization'          => 1],
    ['$http_x_api_key'              => 1],
    ['$cookie_session'              => 1],
    ['${http_x_api_key}'            => 1],
    ['$HTTP_X_API_KEY'              => 1],
    ['$remote_addr:$Cookie_SID:$uri' => 1],
    ['a${cookie_a}b'                => 1],
    ['$http_x_api_key_id'           => 0],
    ['$http_x_user'                 => 0],
    ['$user'                        => 0],
    ['$remote_addr'                 => 0],
    ['cookie_session'               => 0],
    ['$arg_cookie_session'          => 0],
) {
    my ($text, $is_warned) = @$row;
    for my $secret ('', 'secret=off', 'secret=on') {
        my ($accepted, $printed) = $bed->configuration($frame, LIMIT => "sliding_log_limit api key=$text limit=1 window=1m $secret;")->check;
        ok($accepted, "nginx -t takes key=$text $secret") or diag($printed);
        my $warning = qr/\[warn\].*"sliding_log_limit" api has key "\Q$text\E", .*expected secret=on with it.* in \S*nginx\.conf:\d+$/m;
        is($printed =~ $warning ? 1 : 0, $is_warned && $secret ne 'secret=on' ? 1 : 0,
            "key=$text $secret: nginx -t " . ($is_warned && $secret ne 'secret=on' ? 'warns' : 'does not warn'));
    }
}

$bed->done;
