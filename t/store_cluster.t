# A cluster of three masters, two nginx: exactly `limit` requests pass, whichever node has the log. Several limits are
# all or nothing, in one hash slot and over several.

use strict;
use warnings;
use Test::More;
use Testbed qw(conf wait_until);
use Testbed::Http qw(get field flood many);

my $bed     = Testbed->new;
my $cluster = $bed->cluster;
my @masters = $cluster->nodes;

my $conf = conf(
    workers     => 2,
    connections => 2048,
    listen      => 'reuseport',
    store       => 'server %%SEED%%; mode cluster; timeout 20s; connect_timeout 5s;',
    http        => 'sliding_log_on_error deny;',
    server      => <<'END',
    location /one { sliding_log_limit exact key=$arg_k limit=100 window=1h; empty_gif; }
    location /compact { sliding_log_limit compact key=$arg_k limit=100 window=1h algorithm=compact; empty_gif; }
    location /same {
        sliding_log_limit small key=$arg_k limit=5 window=1h;
        sliding_log_limit large key=$arg_k limit=10 window=1d;
        empty_gif;
    }
    location /apart {
        sliding_log_limit first key=$arg_a limit=%%FIRST%% window=1h;
        sliding_log_limit second key=$arg_b limit=%%SECOND%% window=1h id=$request_id;
        sliding_log_limit third key=$arg_c limit=%%THIRD%% window=1d;
        empty_gif;
    }
END
);
my %limits = (FIRST => 10, SECOND => 10, THIRD => 10);
my @nginx  = map { $bed->nginx($conf, SEED => $masters[0]->address, %limits) } 1 .. 2;
my $port   = $nginx[0]->port;

# exact, over nodes and nginx
my @tags = map { $cluster->tag_on($_) } @masters, @masters;
for my $path (qw(one compact)) {
    my $seen = flood([map { [$nginx[$_ % 2]->port, "/$path?k=" . $tags[$_ / 2 % 6]] } 1 .. 2400], sub { });
    is(join(' ', map { "$_:$seen->{$_}" } sort keys %$seen), '200:600 429:1800', "$path: six keys on three masters, two nginx: exactly the limits pass");
}
is($cluster->zcard('exact', $_), 100, "exact: the log of $_ is full") for @tags;
is(scalar(grep { $_->calls('evalsha') == 0 } @masters), 0, 'every master was asked');

# several limits in one slot go in one call
my @answers = many([map { [$port, "/same?k=$tags[$_ % 3]s"] } 1 .. 60]);
is(scalar(grep { $_->{status} == 200 } @answers), 15, 'two limits of one key: the smaller decides');
is($cluster->zcard($_->[0], "$_->[1]s"), 5,
    "two limits of one key: $_->[0] of $_->[1] has the admitted requests") for map { my $tag = $_; map { [$_, $tag] } qw(small large) } @tags[0 .. 2];
is($cluster->errors('CROSSSLOT'), 0, 'two limits of one key: no key was sent with one of another slot');

# limits in different hash slots: whichever denies, the others have no entry of the denied request
for my $tight (qw(FIRST SECOND THIRD)) {
    $_->{values} = { SEED => $masters[0]->address, %limits, $tight => 4 } for @nginx;
    $_->configure($conf)->reload(gone => 1) for @nginx;
    my %tag = (first => "$tags[0]-$tight", second => "$tags[1]-$tight", third => "$tags[2]-$tight");
    my $seen = flood([map { [$nginx[$_ % 2]->port, "/apart?a=$tag{first}&b=$tag{second}&c=$tag{third}"] } 1 .. 400], sub { });
    cmp_ok($seen->{200}, '<=', 4, "three slots, \L$tight\E denies: never more than its limit");
    is($seen->{200} + $seen->{429}, 400, "three slots, \L$tight\E denies: every request is decided");
    # entries that are taken back may have denied others meanwhile
    many([map { [$port, "/apart?a=$tag{first}&b=$tag{second}&c=$tag{third}"] } 1 .. 4], at_once => 1);
    my $settled = sub { return join ' ', map { $cluster->zcard($_, $tag{$_}) } sort keys %tag };
    ok(wait_until('entries to be taken back', 5, sub { $settled->() eq '4 4 4' }),
        "three slots, \L$tight\E denies: all three logs have the same entries") or diag($settled->());
    my $answer = get($port, "/apart?a=$tag{first}&b=$tag{second}&c=$tag{third}");
    is($answer->{status}, 429, "three slots, \L$tight\E denies: the next request is denied");
}
like(field(get($port, "/apart?a=x&b=y&c=z"), 'RateLimit'), qr/^(?:"(?:first|second|third)";r=(?:9|3);t=\d+(?:, |$)){3}/,
    'three slots: the fields list each limit');
is($cluster->errors('CROSSSLOT'), 0, 'no key was ever sent with one of another slot');
is($cluster->errors('MOVED'), 0, 'every key was sent to its node: the map was known');

# one connection for each worker and node
my $mine = sub { return scalar grep { /cmd=(?:evalsha|config|cluster|info)/ } split /\n/, $_[0]->cli(qw(CLIENT LIST TYPE normal)) };
cmp_ok($mine->($_), '<=', 4, 'a master has at most one connection for each worker') for @masters;
is(join(' ', map { $_->logged(qr/\[error\].*sliding_log_redis/) } @nginx), '0 0', 'the store had no errors');

$bed->done;
