# A limit with dry_run=on beside enforced ones of other stores: in several stores, while one of them is down or hangs, and
# over the nodes of a cluster.

use strict;
use warnings;
use Test::More;
use Testbed qw(wait_until);
use Testbed::Http qw(get field);
use Testbed::Metrics qw(new_results);

my $bed   = Testbed->new;
my %redis = map { $_ => $bed->redis } qw(one two);
my $nginx = $bed->serve(
    ONE  => $redis{one}->address, TWO => $redis{two}->address,
    http => <<'HTTP',
    sliding_log_redis default { server %%ONE%%; timeout 9s; connect_timeout 9s; }
    sliding_log_redis two     { server %%TWO%%; timeout 2s; connect_timeout 2s; reconnect 20ms 50ms; }
    add_header X-Source "$sliding_log_source" always;
HTTP
    server => <<'END',
    location /stores {
        sliding_log_limit stores_near  key=$arg_k limit=5 window=1h store=local;
        sliding_log_limit stores_far   key=$arg_k limit=4 window=1h store=two algorithm=compact;
        sliding_log_limit stores_dry   key=$arg_k limit=1 window=1h dry_run=on count=all cap=20;
        sliding_log_limit stores_other key=$arg_k limit=2 window=1h dry_run=on store=two;
        sliding_log_limit stores_own   key=$arg_k limit=3 window=1h dry_run=on store=local;
        empty_gif;
    }
    location /down {
        sliding_log_limit down_on  key=$arg_k limit=9 window=1h;
        sliding_log_limit down_dry key=$arg_k limit=1 window=1h dry_run=on store=two;
        location /down/deny  { sliding_log_on_error deny; empty_gif; }
        location /down/allow { sliding_log_on_error allow; empty_gif; }
        location /down/local { sliding_log_on_error local; empty_gif; }
    }
    location /away {
        sliding_log_on_error deny;
        sliding_log_limit away_on  key=$arg_k limit=9 window=1h store=two;
        sliding_log_limit away_dry key=$arg_k limit=1 window=1h dry_run=on;
        empty_gif;
    }
    location /metrics { sliding_log_metrics; }
END
);
my $port = $nginx->port;

sub statuses { my ($path, $times) = @_; return join ' ', map { get($port, $path)->{status} } 1 .. $times }
sub zcard { my ($name, $key, $redis) = @_; return $redis{ $redis // 'one' }->cli('ZCARD', "rl:sliding:$name:{" . ($key // 'a') . '}') }
sub results { return new_results($port, @_) }
ok(wait_until('both stores', 10, sub { (field(get($port, '/stores?k=warm' . rand), 'X-Source') // '') =~ /^(?:redis|local)$/ }), 'both stores are asked');

# ---- several stores

is(statuses('/stores?k=a', 5), '200 200 200 200 429', 'several stores: the enforced limit decides');
is(zcard('stores_dry'), 4, 'several stores: a dry limit with count=all logs what it would deny, not what others deny');
is(zcard('stores_other', 'a', 'two'), 2, 'several stores: another dry limit logs what it admits');
is(results('stores_own'), 'passed:4 rejected_dry_run:1', 'several stores: a dry limit in shared memory logs what it admits');
is(zcard('stores_near'), 0, 'several stores: local logs are not in Redis');

# ---- a store that is away

$redis{two}->kill;
ok(wait_until('the end of the connection', 5, sub { get($port, '/away?k=warm')->{status} == 503 }), 'the store is down');
is(statuses("/down/$_?k=$_", 3), '200 200 200', "the store of a dry limit is down, on_error $_: no request is denied") for qw(deny allow local);
is(zcard('down_on', $_), 3, "the store of a dry limit is down, on_error $_: the enforced limit logs") for qw(deny allow local);
is(results('down_dry'), 'passed:4 rejected_dry_run:5', 'the store of a dry limit is down: the decision of on_error is counted');
is(get($port, '/away?k=a')->{status}, 503, 'the store of a limit is down, on_error deny: denied');
is(zcard('away_dry'), 0, 'the store of a limit is down, on_error deny: the dry limit does not log');

# ---- a store that hangs

$redis{two}->start;
my $hangs = $bed->serve(
    ONE   => $redis{one}->address, TWO => $redis{two}->address,
    http  => <<'HTTP',
    sliding_log_redis one { server %%ONE%%; timeout 1s; connect_timeout 1s; }
    sliding_log_redis two { server %%TWO%%; timeout 1s; connect_timeout 1s; }
    sliding_log_on_error deny;
HTTP
    server => <<'SERVER',
    location /warm { sliding_log_limit warm key=$arg_k limit=9 window=1h store=two; empty_gif; }
    location /first {
        sliding_log_limit first_on  key=$arg_k limit=9 window=1h store=one;
        sliding_log_limit first_dry key=$arg_k limit=9 window=1h store=two dry_run=on;
        try_files /none @second;
    }
    location @second { sliding_log_limit second_on key=$arg_k limit=9 window=1h store=one; empty_gif; }
SERVER
);
ok(wait_until('both stores', 10, sub { get($hangs->port, '/warm?k=w')->{status} == 200 && get($hangs->port, '/first?k=w')->{status} == 200 }), 'both stores decide');
$redis{two}->pause;
is(get($hangs->port, '/first?k=a')->{status}, 200, 'the store of a dry limit hangs: the enforced limit after a redirect is asked');
is(zcard('second_on', 'a'), 1, 'the store of a dry limit hangs: the enforced limit after a redirect logs');
$redis{two}->resume;

# ---- a cluster

my $cluster = $bed->cluster;
my $many    = $bed->serve(
    SEED   => ($cluster->nodes)[0]->address,
    store  => 'server %%SEED%%; mode cluster; timeout 9s; connect_timeout 5s;',
    http   => 'sliding_log_on_error deny;',
    server => <<'END',
    location / {
        sliding_log_limit first  key=$arg_a limit=3 window=1h;
        sliding_log_limit second key=$arg_b limit=9 window=1h;
        sliding_log_limit third  key=$arg_c limit=1 window=1h dry_run=on;
        sliding_log_limit fourth key=$arg_a limit=2 window=1h dry_run=on;
        empty_gif;
    }
END
);
ok(wait_until('the cluster', 10, sub { get($many->port, '/?a=warm&b=warm&c=warm')->{status} != 503 }), 'the cluster is asked');
my @tags = map { $cluster->tag_on($_) } ($cluster->nodes)[0 .. 2];
is(join(' ', map { get($many->port, "/?a=$tags[0]&b=$tags[1]&c=$tags[2]")->{status} } 1 .. 4), '200 200 200 429', 'a cluster: the enforced limit decides');
is(join(' ', map { $cluster->zcard(@$_) } ['first', $tags[0]], ['second', $tags[1]], ['third', $tags[2]], ['fourth', $tags[0]]), '3 3 1 2',
    'a cluster: each log has what its limit admits');

$bed->done;
