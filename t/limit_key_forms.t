# key= is any text with variables. Its value is that of the moment when the limit is asked, however the text is written.

use strict;
use warnings;
use Test::More;
use Testbed;
use Testbed::Http qw(get field);

my $bed   = Testbed->new;
my $nginx = $bed->serve(
    http   => 'map $arg_k $mapped { volatile; default m_$arg_k; none ""; }',
    server => <<'END',
    add_header X-Key $sliding_log_key always;
    location /alone  { sliding_log_limit alone key=$arg_k limit=9 window=1m; empty_gif; }
    location /braces { sliding_log_limit braces key=${arg_k} limit=9 window=1m; empty_gif; }
    location /case   { sliding_log_limit case key=$ARG_K limit=9 window=1m; empty_gif; }
    location /behind { sliding_log_limit behind key=a_$arg_k limit=9 window=1m; empty_gif; }
    location /before { sliding_log_limit before key=${arg_k}_b limit=9 window=1m; empty_gif; }
    location /twice  { sliding_log_limit twice key=$arg_k$arg_k limit=9 window=1m; empty_gif; }
    location /both   { sliding_log_limit both key=$arg_k$arg_m limit=9 window=1m; empty_gif; }
    location /mapped { sliding_log_limit mapped key=$mapped limit=9 window=1m; empty_gif; }
    location /text   { sliding_log_limit text key=all limit=9 window=1m; empty_gif; }
    location ~ ^/part/(\w+)/(\w+)$ { sliding_log_limit part key=$2 limit=9 window=1m; empty_gif; }
    location ~ ^/parts/(\w+)/(?<second>\w+)$ { sliding_log_limit parts key=$second limit=9 window=1m; empty_gif; }
    location ~ ^/mixed/(\w+)$ { sliding_log_limit mixed key=$1$arg_k limit=9 window=1m; empty_gif; }
    location /from { sliding_log_limit from key=$uri limit=9 window=1m; try_files /none /to; }
    location /to   { sliding_log_limit to   key=$uri limit=5 window=1m; empty_gif; }
END
);

sub key { my ($uri) = @_; return field(get($nginx->port, $uri), 'X-Key') // '-' }

my %keys = (
    '/alone?k=a'          => ['a',       'a variable alone'],
    '/alone'              => ['-',       'a variable that is not there: the limit does not apply'],
    '/alone?k='           => ['-',       'an empty variable: the limit does not apply'],
    '/braces?k=a'         => ['a',       'a variable in braces'],
    '/case?k=a'           => ['a',       'the name of a variable in capitals'],
    '/behind?k=a'         => ['a_a',     'a variable behind a text'],
    '/before?k=a'         => ['a_b',     'a variable in front of a text'],
    '/twice?k=a'          => ['aa',      'a variable, twice'],
    '/both?k=a&m=b'       => ['ab',      'two variables'],
    '/both?m=b'           => ['b',       'two variables, of which one is empty'],
    '/mapped?k=a'         => ['m_a',     'a map'],
    '/mapped?k=none'      => ['-',       'an empty map: the limit does not apply'],
    '/text'               => ['all',     'a text'],
    '/part/one/two'       => ['two',     'a numbered part of the location'],
    '/parts/one/two'      => ['two',     'a named part of the location'],
    '/mixed/one?k=a'      => ['onea',    'a numbered part, and a variable'],
    '/from'               => ['/to',     'a variable that an internal redirect has changed since another limit was asked'],
);
is(key($_), $keys{$_}[0], "$_: $keys{$_}[1]") for sort keys %keys;

$bed->done;
