# store=$variable: each tenant has a home, a Redis of its own, a cluster, or the memory of the node. Logs of one NAME and
# key in two homes have nothing in common, whatever happens to one of them.

use strict;
use warnings;
use JSON::PP ();
use Test::More;
use Testbed qw(wait_until);
use Testbed::Algorithm qw(@ALL_ALGORITHMS horizon);
use Testbed::Checked qw($REDIS check);
use Testbed::Http qw(get field statuses);
use Testbed::Metrics qw(scrape);
use Testbed::Tool qw(tool tool_json);

my $bed     = Testbed->new;
my %redis   = map { $_ => $bed->redis } qw(eu us spare);
my $cluster = $bed->cluster(masters => 2);
my $conf    = Testbed::conf(
    workers => 2,
    listen  => 'reuseport',
    how     => '$sliding_log_source $sliding_log_status',
    http    => '%%HOMES%%',
    server  => '%%SERVER%%',
);

# The same prefix in all of them.
my $homes = <<"END";
    sliding_log_redis eu   { server @{[$redis{eu}->address]}; timeout 5s; connect_timeout 5s; reconnect 10ms 50ms; }
    sliding_log_redis us   { server @{[$redis{us}->address]}; timeout 5s; connect_timeout 5s; reconnect 10ms 50ms; }
    sliding_log_redis asia { server @{[($cluster->nodes)[0]->address]}; mode cluster; timeout 5s; connect_timeout 5s; reconnect 10ms 50ms; }
    sliding_log_redis spare { server @{[$redis{spare}->address]}; timeout 5s; connect_timeout 5s; reconnect 10ms 50ms; clock nginx; }
    map \$arg_t \$home {
        ~^(?<named>eu|us|asia|spare|local|default) \$named;
        ~^odd   mars;
        default "";
    }
    map \$arg_o \$other_home { default us; eu eu; local local; asia asia; }
    map \$uri \$home_by_uri { volatile; default eu; /moved us; }
END

my $algorithms = join "\n", map {
    my $window = $_ eq 'inflight' ? '' : horizon($_, '1h', 'month');
    my $sample = $_ eq 'sampled' ? 'sample=1' : '';
    "location /of-$_ { sliding_log_limit of-$_ key=\$arg_k limit=2 $window algorithm=$_ $sample store=\$home; empty_gif; }"
} @ALL_ALGORITHMS, 'inflight';
my $server = <<"END";
    $algorithms
    location /metrics { sliding_log_metrics; }
    location /board   { sliding_log_dashboard; }
    location /deny    { sliding_log_on_error deny;  sliding_log_limit away key=\$arg_k limit=2 window=1h store=\$home; empty_gif; }
    location /local   { sliding_log_on_error local; sliding_log_limit away key=\$arg_k limit=2 window=1h store=\$home; empty_gif; }
    location /two {
        sliding_log_limit first  key=\$arg_k limit=100 window=1h store=\$home algorithm=compact;
        sliding_log_limit second key=\$arg_k limit=2   window=1h store=\$other_home;
        sliding_log_limit third  key=\$arg_k limit=9   window=1h store=us;
        empty_gif;
    }
    location /moving {
        sliding_log_limit moves key=\$arg_k limit=5 window=1h store=\$home_by_uri dry_run=on;
        error_page 404 = /moved?k=\$arg_k;
        root /nowhere;
    }
    location /moved { sliding_log_limit moves key=\$arg_k limit=5 window=1h store=\$home_by_uri; empty_gif; }
    location /known { sliding_log_limit known key=\$arg_k limit=1 window=1h block=30m store=\$home; empty_gif; }
    location /permits { sliding_log_limit permits key=\$arg_k limit=100000 window=1h prefetch=100 store=\$home; empty_gif; }
    location /refund { sliding_log_limit refund key=\$arg_k limit=3 window=1h refund=2xx store=\$home; empty_gif; }
    location /settle { sliding_log_limit settle key=\$arg_k limit=100 window=1h algorithm=compact cost=5 settle=\$arg_c store=\$home; empty_gif; }
    location /record { sliding_log_limit record key=\$arg_k limit=3 window=1h override=on store=\$home; empty_gif; }
    location /numbers { sliding_log_limit numbers key=\$arg_k limit=\$arg_l cost=\$arg_c window=1h store=\$home; empty_gif; }
    location /random { sliding_log_on_error deny; sliding_log_limit random key=\$arg_k limit=4 window=1h algorithm=compact store=\$home; empty_gif; }
END
my $nginx = $bed->nginx($conf, HOMES => $homes, SERVER => $server);
my $port  = $nginx->port;
my $key   = 0;

sub asked { my ($path) = @_; my $answer = get($port, $path); return "$answer->{status} " . ((field($answer, 'X-How') // '') =~ s/ .*//r) }
sub asked_of { my ($path, $home, $k, $more) = @_; return asked("$path?t=$home&k=$k" . ($more // '')) }
sub zcard { my ($home, $name, $k) = @_; return $redis{$home}->cli('ZCARD', "rl:sliding:$name:{$k}") }

# ---- who is connected to

is($redis{spare}->connections, 0, 'a store that no request has named is not connected to');
is(asked_of('/deny', 'asia', 'first'), '503 error', 'the first request that names a store finds no connection yet: on_error decides');
for my $home (qw(eu us asia)) {
    ok(wait_until($home, 10, sub { my @all = map { asked_of('/of-log', $home, 'warm' . rand) } 1 .. 8; !grep { !/redis$/ } @all }), "$home is connected to then");
}
is($redis{spare}->connections, 0, 'and no other one');

# ---- every algorithm, every home

for my $algorithm (@ALL_ALGORITHMS, 'inflight') {
    my $k     = 'k' . $key++;
    my @homes = qw(eu us asia local);
    my $last  = $algorithm eq 'inflight' ? '200' : '429';
    my %is    = map { my $home = $_; ($home => join ' ', map { (split / /, asked_of("/of-$algorithm", $home, $k))[0] } 1 .. 3) } @homes;
    is_deeply(\%is, { map { ($_ => "200 200 $last") } @homes }, "$algorithm: each home counts its own");
    my $source = $algorithm eq 'inflight' ? '200 local' : '429 local';
    is(asked_of("/of-$algorithm", 'local', $k), $source, "$algorithm: local is the memory of the node");
}
is(asked_of('/of-log', 'default', 'd') . zcard('eu', 'of-log', 'd'), '200 redis1', 'default is the store of a limit without store=');

# ---- no store

is(asked_of('/of-log', 'odd', 'a'),  '429 invalid', 'a value that is no store is denied');
is(asked_of('/of-log', 'none', 'a'), '429 invalid', 'no value, too');
is(get($port, '/of-log?t=odd&k=')->{status}, 200, 'where the key is empty, the limit does not apply, and no store is told');
is(asked_of('/numbers', 'odd', 'a', '&l='),  '200 ',        'nor where the limit is empty');
is(asked_of('/numbers', 'eu',  'a', '&l=x'), '429 invalid', 'a limit that is no number is still told');
like(
    $nginx->error_log,
    qr/limit "of-log": invalid "store" value "mars", expected the name of a sliding_log_redis block, local or default/,
    'and told'
);
is(scrape($port)->value('sliding_log_requests_total', limit => 'of-log', result => 'rejected', source => 'invalid'), 2, 'and counted');

# ---- all or nothing over several homes

is(statuses(map { get($port, '/two?t=asia&o=eu&k=all') } 1 .. 6), '200:2 429:4', 'three limits of three homes: the second denies');
is(zcard('us', 'third', 'all'), 2, 'what the third one has is what all admitted');
is((split ' ', asked('/two?t=local&o=local&k=all'))[0], 200, 'another home has its own logs');
is(zcard('us', 'third', 'all'), 3, 'the third limit has one home for all');

# ---- the home stays for the request

is(get($port, '/moving?k=m')->{status}, 200, 'a NAME in a dry run is asked again where it is enforced');
is(zcard('eu', 'moves', 'm') . zcard('us', 'moves', 'm'), '10', 'in the home that it had first, although the variable has changed');
is(get($port, '/moved?k=m')->{status}, 200, 'another request is admitted');
is(zcard('eu', 'moves', 'm') . zcard('us', 'moves', 'm'), '11', 'in another home');

# ---- what a node knows is of one home

is(join(' ', map { asked_of('/known', 'eu', 'k') } 1 .. 3), '200 redis 429 redis 429 cache', 'a known denial with a block');
is(asked_of('/known', 'us', 'k'), '200 redis', 'is none in another home');
get($port, '/permits?t=eu&k=hot') for 1 .. 40;
my $of_us = $redis{us}->cli('ZCARD', 'rl:sliding:permits:{hot}');
is($of_us,                                        0,           'permits of one home');
is(asked_of('/permits', 'us', 'hot'),             '200 redis', 'are none of another');
is($redis{us}->cli('ZCARD', 'rl:sliding:permits:{hot}') > 0, 1, 'which has its own');

# ---- what is given back goes home

is(join(' ', map { asked_of('/refund', 'us', 'r') } 1 .. 5), join(' ', ('200 redis') x 5), 'refunds');
ok(wait_until('the refunds', 5, sub { zcard('us', 'refund', 'r') == 0 }), 'refunds go home');
is($redis{eu}->cli('EXISTS', 'rl:sliding:refund:{r}'), 0, 'and nowhere else');
asked_of('/settle', 'us', 's', '&c=42');
my @us = ('--server', $redis{us}->address);
ok(wait_until('the settled cost', 5, sub { tool_json('inspect', @us, 'settle', 's')->{used} == 42 }), 'settled costs, too') or diag explain tool_json('inspect', @us, 'settle', 's');

# ---- records

my $path = "$nginx->{dir}/nginx.conf";
my @conf = ('--nginx-conf', $path);
like(tool('set', @conf, 'record', '--all', '--limit', 7, '--store', 'us')->{out}, qr/^all keys of record: limit=7 until unset$/m, 'a record of the NAME in one home');
ok(wait_until('the record', 5, sub { asked_of('/record', 'us', 'n' . rand); get($port, '/record?t=us&k=a'); my $board = JSON::PP::decode_json(get($port, '/board?format=json')->{body}); my ($limit) = grep { $_->{name} eq 'record' } @{ $board->{limits} }; @{ $limit->{records} } == 1 && $limit->{records}[0]{store} eq 'us' && $limit->{store} eq '$home' && "@{ $limit->{stores} }" eq 'eu us asia spare' }), 'the dashboard tells where');
sub admitted { my ($home) = @_; my $k = 'c' . $key++; return scalar grep { asked_of('/record', $home, $k) =~ /^200/ } 1 .. 9 }
is(join(' ', map { admitted($_) } qw(us eu asia local)), '7 3 3 3', 'it counts in that home alone');
is(scrape($port)->value('sliding_log_override_active', limit => 'record'), 1, 'metrics tell that one is in force');
like($nginx->error_log, qr/limit "record" in store "us": all keys have override limit=7 until unset/, 'the log names the home');
my $all = tool('set', @conf, 'record', '--all', '--deny', '--why', 'attack', '--json');
is(join(' ', map { JSON::PP::decode_json($_)->{store} } split /\n/, $all->{out}), 'eu us asia spare', 'without --store it is set in each home');
for my $home (qw(eu us asia)) {
    ok(wait_until("$home denies", 5, sub { asked_of('/record', $home, 'x' . rand) eq '429 override' }), "$home obeys");
}
is(admitted('local'), 3, 'the memory of the node has no record');
my $listed = tool('overrides', @conf, 'record');
is(join(' ', $listed->{out} =~ /^store "(\w+)":$/mg), 'eu us asia spare', 'overrides lists each home');
is(scalar(() = $listed->{out} =~ /all keys of record/g), 4, 'and its record');
$redis{spare}->pause;
$redis{spare}->kill;
my $partly = tool('unset', @conf, 'record', '--all');
is($partly->{status}, 3, 'a home that is away is told');
like($partly->{err}, qr/^sliding-log: store "spare": /m, 'by its name');
for my $home (qw(eu us asia)) {
    ok(wait_until("$home admits", 5, sub { asked_of('/record', $home, 'y' . rand) eq '200 redis' }), "$home: the others are unset all the same");
}
like(tool('set', @conf, 'record', 'c', '--limit', 9)->{err}, qr/has several sliding_log_redis: .*; expected --store with one of/, 'a record of a key needs to know its home');
tool('set', @conf, 'record', 'c', '--limit', 5, '--store', 'asia');
is(join(' ', map { my $home = $_; scalar grep { asked_of('/record', $home, 'c') =~ /^200/ } 1 .. 9 } qw(eu asia)), '3 5', 'then it counts there alone');

# ---- a home is away

$redis{$_}->kill for qw(us);
ok(wait_until('us is down', 10, sub { asked_of('/local', 'us', 'z' . rand) =~ /local$/ }), 'a home is away');
is(asked_of('/deny', 'us', 'a') . asked_of('/deny', 'eu', 'a'), '503 error200 redis', 'on_error decides for its tenants, and for no others');
is(join(' ', map { asked_of('/local', 'spare', 'one') } 1 .. 3), '200 local 200 local 429 local', 'the node counts each home apart');
is(join(' ', map { asked_of('/local', 'us',    'one') } 1 .. 3), '200 local 200 local 429 local', 'with the same key');
is(join(' ', map { asked_of('/local', 'local', 'one') } 1 .. 3), '200 local 200 local 429 local', 'and its own');

# ---- random requests, and a reload that adds and removes a home

my $seed = Testbed::seed();
my (%logged, @wrong);
for my $n (1 .. Testbed::operations(600)) {
    my $home = (qw(eu asia local))[rand 3];
    my $k    = 'r' . int rand 40;
    my $is;    # 503: a worker has no connection yet
    wait_until("$home to decide", 10, sub { ($is = get($port, "/random?t=$home&k=$k")->{status}) != 503 });
    my $as   = ++$logged{"$home $k"} <= 4 ? 200 : 429;
    push @wrong, "$n: $home $k: $is" if $is != $as;
    if ($n % 100 == 50) {
        $nginx->configure($conf, HOMES => $n % 200 == 50 ? $homes =~ s/^\s+sliding_log_redis (?:us|spare) .*\n//gmr : $homes, SERVER => $n % 200 == 50 ? $server =~ s/store=us//r : $server);
        $nginx->reload;
    }
}
is(join("\n", @wrong[0 .. ($#wrong > 4 ? 4 : $#wrong)]), '', "random requests over homes and reloads (seed $seed)");

# ---- what nginx -t says

my $stores = $REDIS . ' sliding_log_redis eu { server 127.0.0.1:6380; }';
my $limit  = 'sliding_log_limit api key=$remote_addr limit=10 window=1m';
sub at { return join ' ', map { "location /$_->[0] { $limit $_->[1]; }" } @_ }
for (
    [at(['a', 'store=$tenant'], ['b', 'store=$tenant']),    qr/syntax is ok/,                                                            'agreement is of the text'],
    [at(['a', 'store=$tenant'], ['b', 'store=${tenant}']),  qr/invalid store "\$\{tenant\}" in "sliding_log_limit api" directive, expected the one of the other limits of that name/, 'another text is refused'],
    [at(['a', 'store=$tenant'], ['b', 'store=eu']),         qr/invalid store "eu" in "sliding_log_limit api" directive, expected the one of the other limits/,               'a constant beside it is refused'],
    [at(['a', 'store=eu'],      ['b', 'store=$tenant']),    qr/invalid store "\$tenant" in "sliding_log_limit api" directive, expected the one of the other limits/,         'and it beside a constant'],
    [at(['a', '']            ,  ['b', 'store=$tenant']),    qr/invalid store "\$tenant" in "sliding_log_limit api" directive, expected the one of the other limits/,         'and it beside none'],
    [at(['a', 'store=$arg_s']),                             qr/\[warn\].*: store=\$arg_s is what the client chooses, let a map give it/, 'what the client chooses is warned of'],
    [at(['a', 'store=$nobody']),                            qr/unknown "nobody" variable/,                                               'a variable must be there'],
    [at(['a', 'store=$tenant prefetch=10 override=on']),    qr/^(?!.*\[warn\]).*syntax is ok/s,                                          'no warning of what needs Redis'],
  )
{
    my ($limits, $said, $what) = @$_;
    like(check($bed, $stores, $limits), $said, $what);
}
like(check($bed, '', at(['a', 'store=$tenant override=on'])), qr/override=on has no effect without Redis/, 'without a block all requests are local');

my $alone = $bed->nginx(Testbed::conf(how => '$sliding_log_source', http => 'map $arg_t $home { default $arg_t; }', server => 'location / { sliding_log_limit api key=$arg_k limit=1 window=1h store=$home; empty_gif; }'));
is(join(' ', map { my $answer = get($alone->port, "/?t=$_&k=$_"); "$answer->{status} " . field($answer, 'X-How') } qw(local default eu)), '200 local 200 local 429 invalid', 'without a block local and default are the memory of the node');

$bed->done;
