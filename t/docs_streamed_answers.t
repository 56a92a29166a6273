# The example of docs/recipes.md that counts the tokens of streamed answers by Lua, with the real module: wherever the
# stream is cut into pieces, and whoever closes it.

use strict;
use warnings;
use Cwd ();
use File::Basename ();
use IO::Select;
use Test::More;
use Testbed qw(wait_until);
use Testbed::Examples qw(examples in_context with_modules);
use Testbed::Http qw(field);
use Testbed::UnderWay;

my $bed      = Testbed->new;
my $redis    = $bed->redis;
my $upstream = Testbed::UnderWay->new;
my $root     = Cwd::abs_path(File::Basename::dirname(__FILE__) . '/..');
my ($text)   = map { $_->[1] } grep { $_->[0] eq 'Tokens of streamed answers' } examples("$root/docs/recipes.md") or BAIL_OUT('no example');
$text =~ s/127\.0\.0\.1:8000\b/127.0.0.1:%%PORT%%/;
$text =~ s/127\.0\.0\.1:8080\b/127.0.0.1:%%UPSTREAM%%/;
my $conf  = in_context($text, 'sliding_log_redis { server %%REDIS%%; timeout 5s; connect_timeout 5s; }');
my $nginx = with_modules($bed, 'libnginx-mod-http-lua', [qw(ndk_http_module ngx_http_lua_module)], $conf, REDIS => $redis->address, UPSTREAM => $upstream->port);
$nginx->expect_in_log(qr/failed to load the 'resty\.core' module/);

sub begin { my ($key) = @_; return $upstream->begin($nginx->port, '/v1/stream/', headers => "X-Account: $key\r\n") }

# What is left of the tokens, told to a request that costs nothing in the end.
sub left {
    my ($key) = @_;
    my $one = begin($key);
    syswrite $one->{backend}, "HTTP/1.0 200 OK\r\n\r\n" . '{"total_tokens": 0}';
    close $one->{backend};
    my ($left) = (field(Testbed::UnderWay::read_answer($one), 'RateLimit') // '') =~ /;r=(\d+)/;
    return ($left // -1000) + 1000;
}

# Streams these pieces, each when the client has the one before; then the upstream server closes, or the client leaves.
sub stream {
    my ($key, $leaves, @pieces) = @_;
    my $one = begin($key);
    my $got = '';
    syswrite $one->{backend}, "HTTP/1.0 200 OK\r\nContent-Type: text/event-stream\r\n\r\n";
    for my $piece (@pieces) {
        syswrite $one->{backend}, $piece;
        wait_until('a piece', 5, sub { sysread $one->{client}, $got, 65536, length $got if IO::Select->new($one->{client})->can_read(0.1); return index($got, $piece) >= 0 });
    }
    return Testbed::UnderWay::leave($one) if $leaves;
    close $one->{backend};
    return Testbed::Http::read_all($one->{client}, 5);
}

my $number = 0;
sub costs {
    my ($what, $tokens, $leaves, @pieces) = @_;
    my $key = 'a' . ++$number;
    stream($key, $leaves, @pieces);
    my $left;
    return ok(wait_until($what, 5, sub { ($left = left($key)) == 20_000 - $tokens }), $what) || diag("$left left");
}

my $events = qq(data: {"text": "a"}\n\ndata: {"text": "b"}\n\n);
my $last   = qq(data: {"usage": {"total_tokens": 321, "prompt": 7}}\n\n);
costs('in one piece',                         321,  0, $events . $last . "data: [DONE]\n\n");
costs('in pieces',                            321,  0, $events, $last, "data: [DONE]\n\n");
costs("cut at byte $_ of the last event",     321,  0, $events . substr($last, 0, $_), substr $last, $_) for grep { $_ > 14 && $_ < 40 } 1 .. length $last;
costs('in many events',                       42,   0, map { qq(data: {"total_tokens":$_}\n\n) } 5, 17, 42);
costs('more than was estimated',              5000, 0, $events, qq(data: {"total_tokens": 5000}\n\n));
costs('a stream that does not tell',          1000, 0, $events);
costs('a client that leaves before the end',  1000, 1, $events);
costs('a client that leaves at the end',      321,  1, $events, $last);

$bed->done;
