# A reload names another Redis while a request is under way: each Redis admits a limit of its own, the old worker gives
# back to the one that admitted, and the former one still has its logs when a reload returns to it.

use strict;
use warnings;
use Test::More;
use Testbed qw(conf wait_until);
use Testbed::UnderWay;
use Testbed::Http qw(get);

my $bed    = Testbed->new;
my ($former, $other) = map { $bed->redis } 1, 2;
my $silent = Testbed::UnderWay->new;

my $conf = conf(
    workers => 1,
    store   => 'server %%REDIS%%; timeout 5s; connect_timeout 5s;',
    server  => <<'END',
    location /log { sliding_log_limit moved_log key=$arg_k limit=2 window=1h; empty_gif; }
    location /at  { sliding_log_limit moved_at key=$arg_k algorithm=inflight lease=1m limit=1; proxy_pass http://127.0.0.1:%%SILENT%%; }
END
);
my $nginx = $bed->nginx($conf, SILENT => $silent->port, REDIS => $former->address);
my $port  = $nginx->port;

sub reload_to { my ($redis) = @_; return $nginx->configure($conf =~ s/%%REDIS%%/$redis->address/gre)->reload(told => 1) }
sub three     { return join ' ', map { get($port, '/log?k=a')->{status} } 1 .. 3 }
sub under_way { return join ' ', map { $_->cli('ZCARD', 'rl:sliding:moved_at:{a}') } $former, $other }

is(three(), '200 200 429', 'the first Redis admits a limit');
my @requests = $silent->begin($port, '/at?k=a');
is(get($port, '/at?k=a')->{status}, 429, 'a second request at a time is denied');

reload_to($other);
is(three(), '200 200 429', 'the other Redis admits a limit of its own');
push @requests, $silent->begin($port, '/at?k=a');
ok($requests[1]{backend}, 'a second request is under way, by the other Redis');
is(under_way(), '1 1', 'each Redis knows of one');
Testbed::UnderWay::end($requests[0]);
ok(wait_until('the former Redis to know of none', 15, sub { under_way() eq '0 1' }), 'the old worker gives back to the former Redis');
ok(wait_until('the old worker to end', 15, sub { $nginx->workers == 1 }), 'the old worker ends');
is($former->connections, 0, 'nobody is connected to the former Redis');

reload_to($former);
is(get($port, '/log?k=a')->{status}, 429, 'the former Redis still has its logs');
Testbed::UnderWay::end($requests[1]);
ok(wait_until('the other Redis to know of none', 15, sub { under_way() eq '0 0' }), 'a worker that is old gives back to the other Redis');

$bed->done;
