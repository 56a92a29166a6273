# The example of docs/recipes.md that limits tunnels, with nginx 1.31 or later as a forward proxy.

use strict;
use warnings;
use Cwd ();
use File::Basename ();
use IO::Socket::INET;
use Test::More;
use Testbed qw(wait_until);
use Testbed::Examples qw(indented_example in_context needs_directive);
use Testbed::Http qw(connect_to field);

my $bed    = Testbed->new;
my $root   = Cwd::abs_path(File::Basename::dirname(__FILE__) . '/..');
my $target = IO::Socket::INET->new(Listen => 100, LocalAddr => '127.0.0.1', Timeout => 20) or die "listen: $!";
my $text   = indented_example("$root/docs/recipes.md", 'Tunnels');
$text =~ s/127\.0\.0\.1:3128\b/127.0.0.1:%%PORT%%/ or BAIL_OUT('no port');
$text =~ s/^( +)443 /$1@{[$target->sockport]} /m or BAIL_OUT('no target');
my $conf = in_context($text, 'sliding_log_redis { server %%REDIS%%; timeout 5s; connect_timeout 5s; }');
needs_directive($bed, 'tunnel_pass', $conf, REDIS => '127.0.0.1');
my $redis = $bed->redis;
my $nginx = $bed->nginx($conf, REDIS => $redis->address);

sub read_head {
    my ($socket) = @_;
    my $text = '';
    while ($text !~ /\r\n\r\n/ && sysread $socket, my $more, 4096) { $text .= $more }
    my ($status) = $text =~ m{\AHTTP/1\.1 (\d+)};
    return { status => $status // 0, head => $text };
}

# A client that asks for a tunnel; the end of it at the server, if there is one.
sub tunnel {
    my ($port) = @_;
    my $client = connect_to($nginx->port);
    $client->syswrite("CONNECT 127.0.0.1:$port HTTP/1.1\r\nHost: 127.0.0.1:$port\r\n\r\n");
    my $answer = read_head($client);
    return { %$answer, client => $client, server => $answer->{status} == 200 ? scalar $target->accept : undef };
}

sub under_way { return $redis->cli(qw(ZCARD rl:sliding:open_tunnels:{127.0.0.1})) }

is(tunnel(1)->{status}, 403, 'there are no tunnels to another port');
my @open = map { tunnel($target->sockport) } 1 .. 20;
is(join(' ', map { $_->{status} } @open), join(' ', (200) x 20), 'twenty tunnels are opened');
$open[0]{client}->syswrite('question');
sysread $open[0]{server}, my $got, 100;
is($got, 'question', 'which the client speaks through');
is(under_way(), 20, 'each of them counts');
my $denied = tunnel($target->sockport);
is($denied->{status}, 429, 'the next one is denied');
like($denied->{head}, qr/^Retry-After: 1\r$/m, 'and is told when to come back');
close $open[0]{client};
ok(wait_until('the place', 5, sub { under_way() == 19 }), 'one that the client closes counts no more');
close $open[1]{server};
ok(wait_until('the place', 5, sub { under_way() == 18 }), 'nor one that the server closes');
push @open, map { tunnel($target->sockport) } 1 .. 3;
is(join(' ', map { $_->{status} } @open[-3 .. -1]), '200 200 429', 'two others are opened then');
close $_ for map { grep { defined } @$_{qw(client server)} } @open;
ok(wait_until('all places', 5, sub { under_way() eq '0' }), 'none counts in the end');
$bed->done;
