# The example of docs/recipes.md that limits by a claim of a JSON Web Token, with the real njs: valid tokens, and those that
# clients make up.

use strict;
use warnings;
use Cwd ();
use Digest::SHA qw(hmac_sha256);
use File::Basename ();
use JSON::PP ();
use MIME::Base64 qw(encode_base64url);
use Test::More;
use Testbed;
use Testbed::Examples qw(examples in_context with_modules);
use Testbed::Http qw(get field statuses);

my $bed    = Testbed->new;
my $redis  = $bed->redis;
my $root   = Cwd::abs_path(File::Basename::dirname(__FILE__) . '/..');
my $page   = Testbed::Process::slurp("$root/docs/recipes.md");
my ($js)   = $page =~ /^## By a claim of a JSON Web Token\n.*?^```js\n(.*?)^```/ms or BAIL_OUT('no jwt.js');
my ($text) = map { $_->[1] } grep { $_->[0] eq 'By a claim of a JSON Web Token' } examples("$root/docs/recipes.md") or BAIL_OUT('no example');
$js   =~ s{/etc/nginx/jwt.key}{@{[$bed->write_file('jwt.key', 'a secret')]}};
$text =~ s/jwt\.js/@{[$bed->write_file('jwt.js', $js)]}/;
$text =~ s/127\.0\.0\.1:8000\b/127.0.0.1:%%PORT%%/;
$text =~ s/127\.0\.0\.1:8080\b/127.0.0.1:%%PORT2%%/;
my $conf = in_context($text, 'sliding_log_redis { server %%REDIS%%; timeout 5s; connect_timeout 5s; } server { listen 127.0.0.1:%%PORT2%%; return 200; }');
my $port = with_modules($bed, 'libnginx-mod-http-js', ['ngx_http_js_module'], $conf, REDIS => $redis->address)->port;

sub token {
    my ($claims, %other) = @_;
    my $signed = join '.', map { encode_base64url($_) } $other{header} // '{"alg":"HS256","typ":"JWT"}', JSON::PP->new->canonical->encode($claims);
    return "$signed." . ($other{signature} // encode_base64url(hmac_sha256($signed, $other{key} // 'a secret')));
}
sub asked { my ($token) = @_; return get($port, '/claims/', headers => { Authorization => "Bearer $token" }) }
sub left  { my ($token) = @_; return ((field(asked($token), 'RateLimit') // '') =~ /r=(\d+)/)[0] }

my $exp = time + 3600;
is(left(token({ sub => 'alice', plan => 'gold', exp => $exp })), 999, 'the claims tell the account and its plan');
is(left(token({ sub => 'alice', plan => 'gold', exp => $exp + 1 })), 998, 'another token of the account counts for it, too');
is(left(token({ sub => 'bob', exp => $exp })), 9, 'an account without a plan has the default');
my $left = 10;
for (
    ['no token',               ''],
    ['another key',            token({ sub => 'alice', plan => 'gold', exp => $exp }, key => 'guessed')],
    ['no signature',           token({ sub => 'alice', plan => 'gold', exp => $exp }, header => '{"alg":"none"}', signature => '')],
    ['an algorithm of its own', token({ sub => 'alice', plan => 'gold', exp => $exp }, header => '{"alg":"HS256", "typ":"JWT"}')],
    ['a token that is over',   token({ sub => 'alice', plan => 'gold', exp => time - 1 })],
    ['a token without an end', token({ sub => 'alice', plan => 'gold' })],
    ['no JSON',                do { my $signed = encode_base64url('{"alg":"HS256","typ":"JWT"}') . '.' . encode_base64url('x'); "$signed." . encode_base64url(hmac_sha256($signed, 'guessed')) }],
    ['two parts',              'a.b'],
) {
    is(left($_->[1]), --$left, "$_->[0]: the request counts for its address");
}
is(statuses(map { asked('x.y.z') } 1 .. 3), '200:2 429:1', 'which has a limit');
$bed->done;
