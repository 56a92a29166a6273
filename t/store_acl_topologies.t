# The ACL rules of docs/operations.md for Cluster and Sentinel are sufficient, and each of their rights is used.

use strict;
use warnings;
use Test::More;
use Testbed qw(wait_until);
use Testbed::Acl qw(documented_rule store_with_users);
use Testbed::Http qw(get);

my $bed     = Testbed->new;
my @rule    = split ' ', documented_rule('limiter', 'us3rpass');
my @watcher = split ' ', documented_rule('watcher', 'w4tchpass');

sub limited_by {
    my ($mode, $server) = @_;
    return $bed->serve(
        store  => store_with_users($mode, $server),
        http   => 'sliding_log_on_error deny;',
        server => 'location / { sliding_log_limit t key=$arg_k limit=3 window=1h; empty_gif; }',
    );
}
sub statuses { my ($nginx, $key) = @_; return join ' ', map { get($nginx->port, "/?k=$key")->{status} } 1 .. 4 }
sub grant { my ($redis, $user, @words) = @_; return is($redis->cli('ACL', 'SETUSER', $user, @words), 'OK', "Redis accepts the rule of $user") }

# ---- Cluster

my @extra   = qw(+cluster|slots +asking);
my $cluster = $bed->cluster(masters => 2);
grant($_, 'limiter', @rule, @extra) for $cluster->nodes;
my ($from, $to) = $cluster->nodes;
my $nginx = limited_by('cluster', $from);
is(statuses($nginx, $cluster->tag_on($_)), '200 200 200 429', 'cluster: a node decides') for $cluster->nodes;
my $tag = $cluster->tag_on($from);
$cluster->begin_move($cluster->slot_of($tag), $from, $to);
is(statuses($nginx, $tag), '200 200 200 429', 'cluster: a migrating slot is followed');
$cluster->end_move($cluster->slot_of($tag));
is(statuses($nginx, $tag), '429 429 429 429', 'cluster: a slot that has moved is followed');
is($_->cli('ACL', 'LOG'), '', 'cluster: nothing was refused') for $cluster->nodes;
is($from->calls('cluster|slots') > 0, 1, 'cluster: cluster|slots is used');
is($to->calls('asking') > 0,          1, 'cluster: asking is used');

# ---- Sentinel

my $master   = $bed->redis;
my $sentinel = $bed->sentinel(master => $master);
grant($master, 'limiter', @rule, '+role');
grant($sentinel, 'watcher', @watcher);
$nginx = limited_by('sentinel', $sentinel);
is(statuses($nginx, 'a'), '200 200 200 429', 'Sentinel: the master named by the Sentinels decides');
ok(wait_until('the subscription', 5, sub { $sentinel->cli('CLIENT', 'LIST') =~ / sub=2 .* user=watcher /m }), 'Sentinel: the module is subscribed');
is($_->cli('ACL', 'LOG'), '', 'Sentinel: nothing was refused') for $master, $sentinel;
cmp_ok($master->calls('role'), '>', 0, 'Sentinel: role is used');
is($nginx->logged(qr/us3rpass|w4tchpass/), 0, 'no password is in the error log');

# wrong secrets
grant($sentinel, 'watcher', 'resetpass', '>another');
$nginx->reload(gone => 1);
is(get($nginx->port, '/?k=b')->{status}, 503, 'a wrong password for the Sentinel: on_error decides');
ok(wait_until('the cause', 5, sub { get($nginx->port, '/?k=b'); $nginx->logged(qr/no Sentinel knows the master: .*WRONGPASS; on_error deny decides$/) }),
    'a wrong password for the Sentinel: the error log has the cause')
    or diag(grep { /sliding_log_redis/ } split /^/, $nginx->error_log);
is($nginx->logged(qr/us3rpass|w4tchpass/), 0, 'a wrong password for the Sentinel: the error log has no password');

$bed->done;
