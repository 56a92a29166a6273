# The example of docs/recipes.md that limits by a field of a form, and by one of a JSON document, with an nginx that can
# read the body early: however the field is written.

use strict;
use warnings;
use Cwd ();
use File::Basename ();
use Test::More;
use Testbed;
use Testbed::Examples qw(indented_example in_context needs_directive);
use Testbed::Http qw(request field statuses);

my $bed  = Testbed->new;
my $root = Cwd::abs_path(File::Basename::dirname(__FILE__) . '/..');
my $text = indented_example("$root/docs/recipes.md", 'Fields of the request body');
$text =~ s/ settle=\$tokens;/;/ or BAIL_OUT('no cost that is settled');
$text =~ s/127\.0\.0\.1:8080\b/127.0.0.1:%%PORT2%%/g;
$text =~ s/^(server \{)/$1 listen 127.0.0.1:%%PORT%%;/m or BAIL_OUT('no server');
my $conf = in_context($text, 'sliding_log_redis { server %%REDIS%%; timeout 5s; connect_timeout 5s; } server { listen 127.0.0.1:%%PORT2%%; return 200; }');
needs_directive($bed, 'client_body_early_read', $conf, REDIS => '127.0.0.1');
my $redis = $bed->redis;
my $nginx = $bed->nginx($conf, REDIS => $redis->address);

sub sign_in { my ($body) = @_; return request($nginx->port, '/signin', method => 'POST', body => $body) }
sub asked   { my (@bodies) = @_; return statuses(map { sign_in($_) } @bodies) }
sub logged  { my ($key) = @_; return $redis->cli('ZCARD', "rl:sliding:attempts:{$key}") }

is(asked(map { "password=$_&account=alice" } 1 .. 6), '200:5 429:1', 'an account has five attempts');
is(asked('account=alice&password=7'), '429:1', 'wherever the field is');
is(asked('account=bob%40example.com&password=1'), '200:1', 'another account is not denied');
is(logged('alice'), 5, 'the field is the key');
is(asked('account=alice&account=bob'), '200:1', 'two fields of that name are another key');
is(asked('account=%61lice', 'other=1', '', 'account=' . 'a' x 65), '200:4', 'and so are other ways to write it, and none');
is(asked('account=%61lice'), '429:1', 'which all have one limit');
is(logged('other'), 5, 'of their own');
is(asked('account=carol&password=' . 'x' x 70_000), '413:1', 'what is larger than the buffer is refused');

# What the request cost: each account asks once.
my $accounts = 0;

sub cost {
    my ($document) = @_;
    my $answer = request($nginx->port, '/v1/chat/', method => 'POST', body => $document, headers => { 'X-Account' => $accounts++ });
    my ($left) = (field($answer, 'RateLimit') // '') =~ /;r=(\d+)/ or return "status $answer->{status}";
    return 20_000 - $left;
}

is(cost('{"max_tokens": 321, "model": "m"}'), 321, 'a number of a document is the cost');
is(cost(qq({ "messages": [],\n\t"max_tokens"\t:9999\n})), 9999, 'wherever it is');
is(cost('{"messages": [{"content": "\\"max_tokens\\": 7"}], "max_tokens": 8}'), 8, 'a text that quotes it is none');
is(cost($_), 1000, "$_ costs what is estimated") for '{}', '{"max_tokens": 0}', '{"max_tokens": -5}', '{"max_tokens": 10000}', '{"max_tokens": 5.5}', '{"max_tokens": "5"}', '{"other_max_tokens": 5}';
is(cost('{"max_tokens": 5, "messages": "' . 'x' x 60_000 . '"}'), 5, 'a long document is searched');
$bed->done;
