# A fleet is upgraded node by node under the rights that an older version documented. The module does without further
# rights, and logs that once. The rules are those of older versions of docs/operations.md, and do not change.
# prove: first

use strict;
use warnings;
use Test::More;
use Testbed qw(wait_until);
use Testbed::Acl qw(store_with_users);
use Testbed::Http qw(get);
use Time::HiRes qw(sleep time);

my $first  = '+evalsha +script|load +time +zrange +zrangebyscore +zremrangebyscore +zremrangebyrank +zcard +zadd +zrem +pexpire';
my $before = "$first +getrange +setrange +set +del +pttl +config|get +info";
my %versions = (
    'the first version'             => { rights => "$first +config|get", algorithms => ['log', 'sampled'] },
    'the first version, minimal rights'     => { rights => $first, algorithms => ['log'] },
    'the previous version'   => { rights => $before, algorithms => ['log', 'compact', 'sampled'] },
    'the previous version, all rights'  => {
        rights     => "$before +hgetall +hget +hset +hincrby +hdel +zscore +select",
        algorithms => [qw(log compact counter bucket sampled)],
        more       => 'block=1s',
        database   => 1,
    },
);

# The optional commands.
my %optional = map { $_ => 1 } qw(role info config|get +promoted-slave);

my %modes = (
    standalone => { rights => '' },
    cluster    => { rights => '+cluster|slots +asking' },
    sentinel   => { rights => '+role', watcher => '&+switch-master -@all +sentinel|get-master-addr-by-name +subscribe' },
);

my $bed = Testbed->new;

sub locations {
    my ($version) = @_;
    my $locations = '';
    for my $algorithm (@{ $version->{algorithms} }) {
        my %limits = (
            plain  => 'limit=4 window=1h',
            slides => 'limit=4 window=300ms',
            held   => 'limit=4 window=1h delay=1ms',
            costly => 'limit=8 window=1h cost=2',
            all    => 'limit=4 window=1h' . ($algorithm eq 'bucket' || $algorithm eq 'counter' ? '' : ' count=all cap=6'),
            named  => 'limit=4 window=1h' . ($algorithm eq 'log' ? ' id=$request_id' : ''),
            again  => 'limit=4 window=1h refund=404',
            boxed  => 'limit=4 window=1h ' . ($version->{more} // ''),
        );
        my $kind = "algorithm=$algorithm" . ($algorithm eq 'sampled' ? ' sample=1' : '');
        $locations .= "location /$algorithm/$_ { sliding_log_limit ${algorithm}_$_ key=\$arg_k $limits{$_} $kind; "
            . ($_ eq 'again' ? 'return 404;' : 'empty_gif;') . " }\n" for sort keys %limits;
    }
    return $locations;
}

# Of a mode: its servers, and its Sentinel, if any.
my %worlds;
sub world {
    my ($mode) = @_;
    return $worlds{$mode} //= do {
        my @servers = $mode eq 'cluster' ? $bed->cluster(masters => 2)->nodes : $bed->redis;
        my $guard   = $mode eq 'sentinel' ? $bed->sentinel(master => $servers[0]) : undef;
        $guard->cli('ACL', 'SETUSER', 'watcher', 'on', '>w4tchpass', 'resetkeys', 'resetchannels', split ' ', $modes{$mode}{watcher})
            if $guard;
        { servers => \@servers, guard => $guard };
    };
}

sub holds {
    my ($mode, $version) = @_;
    my $world   = world($mode);
    my @servers = @{ $world->{servers} };
    for my $server (@servers) {
        is($server->cli('ACL', 'SETUSER', 'limiter', 'reset', 'on', '>us3rpass', 'resetchannels', '~rl:sliding:*', '-@all',
            split(' ', $version->{rights}), split(' ', $modes{$mode}{rights})), 'OK', 'Redis accepts the rule');
        $server->cli(qw(ACL LOG RESET));
        $server->cli(qw(FLUSHALL));
    }
    my $database = $mode eq 'cluster' ? '' : $version->{database} ? "database $version->{database};" : '';
    my $nginx = $bed->serve(
        workers => 2,
        store   => store_with_users($mode, $world->{guard} // $servers[0], $database),
        http    => 'sliding_log_on_error deny;',
        server  => locations($version),
    );

    for my $algorithm (@{ $version->{algorithms} }) {
        for my $limit (qw(plain slides held costly all named boxed)) {
            my $got = join ' ', map { get($nginx->port, "/$algorithm/$limit?k=a")->{status} } 1 .. 5;
            # on a slow machine entries of a short window leave, and tokens return
            like($got, $limit eq 'slides' ? qr/^200(?: 200| 429)*$/ : qr/^200 200 200 200 429$/, "$algorithm, $limit: decided by Redis");
        }
        is(join(' ', map { get($nginx->port, "/$algorithm/again?k=a")->{status} } 1 .. 8), join(' ', ('404') x 8), "$algorithm: refunds are given");
        sleep 0.35;
        is(get($nginx->port, "/$algorithm/slides?k=a")->{status}, 200, "$algorithm: a log whose entries have all left");
    }

    # many stale entries too
    my ($stale, $now) = ('rl:sliding:log_slides:{stale}', int(time * 1000));
    my @to = $mode ne 'cluster' && $version->{database} ? ('-n', $version->{database}) : ();
    for my $server (@servers) {
        $server->cli(@to, 'EVAL', 'for i = 1, 3000 do redis.call("ZADD", KEYS[1], ARGV[1] - i, "m" .. i) end', 1, $stale, $now - 10_000);
    }
    is(get($nginx->port, '/log/slides?k=stale')->{status}, 200, 'a long log whose entries have all left');

    # other connections of both workers, and a script that is lost
    for (1 .. 3) {
        $_->cli(qw(SCRIPT FLUSH)), $_->cli(qw(CLIENT KILL TYPE normal SKIPME yes)) for @servers;
        ok(wait_until('both workers', 10, sub {
            my $status = get($nginx->port, '/log/plain?k=new' . rand)->{status};
            $status == 200 && $servers[0]->connections >= 1;
        }), 'a new connection is served');
    }
    my @refused = map { my %entry = split /\n/; $entry{reason} eq 'auth' ? () : $entry{object} }
        map { split /^(?=count$)/m, $_->cli(qw(ACL LOG 100)) } @servers, $world->{guard} // ();
    is(scalar(grep { $_ eq 'role' } @refused) > 0, $mode eq 'standalone', 'ROLE is sent without the right to it');
    is(join(' ', sort grep { !$optional{$_} } @refused), '', 'only optional commands were refused');
    is($nginx->logged(qr/NOPERM|ACL failure|can't run this command/) - $nginx->logged(qr/(?:ROLE|\+promoted-slave) answered: NOPERM/), 0, 'nothing else is logged')
        or diag(grep { /NOPERM|ACL failure|can't run/ } split /^/, $nginx->error_log);
    is($nginx->logged(qr/\[error\].*ROLE answered: NOPERM/), $mode eq 'standalone' ? 1 : 0, 'ROLE: a missing right is logged once');
    is($nginx->logged(qr/\[error\].*SUBSCRIBE \+promoted-slave answered: NOPERM/), $mode eq 'sentinel' ? 1 : 0, 'SUBSCRIBE: a missing right is logged once');
    $nginx->finish;
    @{ $bed->{processes} } = grep { $_ != $nginx } @{ $bed->{processes} };
    return;
}

for my $mode (sort keys %modes) {
    subtest "$mode: $_" => sub { holds($mode, $versions{$_}) } for sort keys %versions;
}

$bed->done;
