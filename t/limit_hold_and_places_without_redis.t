# A request that `delay=` holds, and places of algorithm=inflight, while a Redis hangs or is down: the places in another
# store are limited, and on_error local decides by both limits.

use strict;
use warnings;
use Test::More;
use Testbed qw(wait_until);
use Testbed::Http qw(field);
use Testbed::UnderWay;

my $bed    = Testbed->new;
my %redis  = map { $_ => $bed->redis } qw(one two);
my $silent = Testbed::UnderWay->new;
my $nginx = $bed->serve(
    ONE => $redis{one}->address, TWO => $redis{two}->address, SILENT => $silent->port,
    how    => '$sliding_log_status $sliding_log_name $sliding_log_source',
    http   => <<'HTTP',
    sliding_log_redis one { server %%ONE%%; timeout 1s; connect_timeout 1s; reconnect 20ms 200ms; }
    sliding_log_redis two { server %%TWO%%; timeout 1s; connect_timeout 1s; }
    sliding_log_on_error allow;
HTTP
    server => <<'SERVER',
    location / {
        sliding_log_limit pace key=$arg_u limit=1 window=2s delay=20s store=one;
        sliding_log_limit all  key=$arg_a limit=1 algorithm=inflight store=two;
        proxy_pass http://127.0.0.1:%%SILENT%%;
    }
    location /local {
        sliding_log_on_error local;
        sliding_log_limit pace-local key=$arg_u limit=1 window=2s delay=20s store=one;
        sliding_log_limit all-local  key=$arg_a limit=2 algorithm=inflight store=one;
        proxy_pass http://127.0.0.1:%%SILENT%%;
    }
SERVER
);
my $port = $nginx->port;

sub queue  { my ($path) = @_; return $silent->queue($port, $path) }
sub begin  { my ($path) = @_; return $silent->decided(queue($path)) }
sub answer { my ($one) = @_; return Testbed::UnderWay::end($one) }
sub said   { my ($one) = @_; return ($one->{denied}{status} // 'none') . ' ' . (field($one->{denied}, 'X-How') // '') }

# ---- a store that hangs leaves time for the places in another one

ok(wait_until('the stores', 10, sub { my $one = begin("/?u=${\ rand}&a=warm" . rand); field(answer($one), 'X-How') =~ /redis/ }), 'both stores decide');
$redis{one}->pause;
my $inside = begin('/?u=hangs&a=hangs');
is(said(begin('/?u=hangs2&a=hangs')), '429 REJECTED all redis', 'the store of the limit that holds hangs: places are limited');
answer($inside);

# ---- on_error local

$redis{one}->kill;
ok(wait_until('the end of the connection', 5, sub { my $one = begin('/local?u=' . rand . '&a=' . rand); field(answer($one), 'X-How') =~ /local/ }), 'the store is down');
my @few  = map { begin("/local?u=${_}down&a=down") } 1, 2;
is(scalar(grep { $_->{backend} } @few), 2, 'on_error local: two have places');
my $last = queue('/local?u=1down&a=down');
ok(!$silent->arrives($last, 0.2), 'on_error local: one of them is held with its next request');
is(said(begin('/local?u=3down&a=down')), '429 REJECTED all-local local', 'on_error local: a third one finds no place');
answer(shift @few);
my $third = begin('/local?u=4down&a=down');
ok($third->{backend}, 'on_error local: one that is held takes none');
answer(shift @few);
ok($silent->arrives($last), 'on_error local: it comes when its slot has come');
answer($_) for $third, $last;

$bed->done;
