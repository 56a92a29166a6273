# nginx finds the native module when it connects, and uses it unless `native off` is set. If the module is unloaded or not
# permitted, nginx uses the scripts; with `native required` it does not. The module changes keys as the scripts do, also
# on a replica and in an AOF of a server without it.

use strict;
use warnings;
use IO::Socket::INET;
use Test::More;
use Testbed qw(wait_until);
use Testbed::Acl qw(documented_rule);
use Testbed::Algorithm qw(@ALL_ALGORITHMS %ALL_SCRIPTS %SCRIPTS horizon);
use Testbed::Http qw(get many field connect_to);
use Testbed::Metrics qw(scrape);
use Testbed::Native qw(native_module unload);
use Testbed::Relay;
use Testbed::Script;
use Testbed::Tool qw(tool_json);

delete $ENV{TEST_NATIVE};
my $bed   = Testbed->new;
my $redis = $bed->redis(args => ['--loadmodule', native_module(), '--enable-module-command', 'yes', '--appendonly', 'yes', '--appendfsync', 'always']);
my $replica = $bed->redis(args => ['--replicaof', '127.0.0.1', $redis->port]);
Testbed::wait_until('the replica to follow', 20, sub { $replica->info('master_link_status') eq 'up' });

my $limits = join "\n", map { "location /$_ { sliding_log_limit $_ key=\$arg_k limit=3 algorithm=$_ " . horizon($_, '1h', 'month') . '; empty_gif; }' } @ALL_ALGORITHMS;
$limits .= join "\n", '', map { "location /over/$_ { sliding_log_limit over_$_ key=\$arg_k limit=3 algorithm=$_ override=on " . horizon($_, '1h', 'month') . '; empty_gif; }' } @ALL_ALGORITHMS;
$limits .= ' location /cost { sliding_log_limit cost key=$arg_k limit=2500 window=1h algorithm=compact cost=$arg_c; empty_gif; }';
$limits .= join "\n", '', map { "location /settle/$_ { sliding_log_limit settle_$_ key=\$arg_k limit=100 algorithm=$_ cost=\$arg_cost settle=\$arg_real " . horizon($_, '366d', 'month') . '; empty_gif; }' } qw(compact counter bucket quota);
my $many = 'location /many { sliding_log_limit many key=$arg_k limit=1000 window=1h; empty_gif; }';

sub nginx {
    my ($store, $address) = @_;
    return $bed->serve(
        store   => "server $address; timeout 2s; connect_timeout 2s; reconnect 50ms 100ms; $store",
        http    => 'sliding_log_on_error deny;',
        how     => '$sliding_log_source',
        server  => "$limits $many location = /metrics { sliding_log_metrics; }",
        workers => 1,
    );
}

sub asked { my ($nginx, $path) = @_; my $answer = get($nginx->port, $path); return "$answer->{status} " . (field($answer, 'X-How') // '') }

sub calls_of {
    my ($code) = @_;
    my %before = map { ($_ => $redis->calls($_)) } qw(evalsha sliding_log.2);
    $code->();
    return join ', ', map { my $more = $redis->calls($_) - $before{$_}; "$more $_" } qw(evalsha sliding_log.2);
}

sub is_native {
    my ($nginx) = @_;
    return scrape($nginx->port)->value('sliding_log_store_native', store => 'default');
}

# ---- found

my $auto = nginx('', $redis->address);
asked($auto, "/$_?k=first") for @ALL_ALGORITHMS;
is(calls_of(sub {
    for my $algorithm (@ALL_ALGORITHMS) {
        is(join(', ', map { asked($auto, "/$algorithm?k=a") } 1 .. 4), '200 redis, 200 redis, 200 redis, 429 redis', "$algorithm: three of four are admitted") if $algorithm ne 'sampled';
        asked($auto, "/$algorithm?k=a") if $algorithm eq 'sampled';
    }
}), '0 evalsha, ' . (4 * (@ALL_ALGORITHMS - 1) + 1) . ' sliding_log.2', 'every call is one of the native module');
is(is_native($auto), 1, 'the metrics say so');

my $off = nginx('native off;', $redis->address);
asked($off, '/log?k=b');
is(calls_of(sub { is(asked($off, '/log?k=a'), '429 redis', 'native off: the log is the same') }), '1 evalsha, 0 sliding_log.2', 'native off: a script decides');
is(is_native($off), 0, 'native off: the metrics say so');

# ---- a replica and an AOF without it

Testbed::wait_until('the replica to have all keys', 10, sub { $replica->cli('DBSIZE') == $redis->cli('DBSIZE') });
my @keys = sort split /\n/, $redis->cli('KEYS', '*');
cmp_ok(scalar @keys, '>=', 2 * @ALL_ALGORITHMS - 2, 'there are logs of all algorithms');
for my $key (@keys) {
    Testbed::wait_until("$key on the replica", 10, sub { $replica->cli('PEXPIRETIME', $key) == $redis->cli('PEXPIRETIME', $key) });
    my $read = { zset => 'DUMP', string => 'GET', hash => 'HGETALL' }->{ $redis->cli('TYPE', $key) };
    is($replica->cli($read, $key), $redis->cli($read, $key), "$key is the same on a replica without the module");
}
my $aof = join '', map { Testbed::Process::slurp($_) } glob "$redis->{dir}/appendonlydir/*.aof";
unlike($aof, qr/sliding_log[.]2/, 'the AOF has plain commands only');
like($aof, qr/ZADD/, 'the AOF has those');

# ---- overrides

sub deny { my ($name, $key) = @_; return $redis->cli('SET', "rl:sliding:$name:{$key}:override", 'deny until=0 since=1 by=tester why=') }
deny("over_$_", 'denied') for @ALL_ALGORITHMS;
$redis->cli('RPUSH', 'rl:sliding:over_log:{broken}:override', 'x');
is(calls_of(sub {
    is(asked($auto, "/over/$_?k=denied"), '429 override', "$_: the native module obeys a record") for @ALL_ALGORITHMS;
    is(asked($auto, '/over/log?k=broken'), '200 redis', 'a record that is broken counts as none');
}), '0 evalsha, ' . (@ALL_ALGORITHMS + 1) . ' sliding_log.2', 'every call is one of the native module');
is($auto->logged(qr/key "broken": its override is broken, and counts as none/), 1, 'a broken record is told');

$redis->cli('ACL', 'SETUSER', 'decider', split(' ', documented_rule('decider', 'secret')), '+sliding_log.2');
my $decider = nginx('username decider; password secret;', $redis->address);
deny('over_log', $_) for qw(permitted forbidden);
deny('over_compact', 'hidden');
asked($decider, '/over/log?k=first');
is(calls_of(sub { is(asked($decider, '/over/log?k=permitted'), '429 override', 'with the documented rule records are obeyed') }), '0 evalsha, 1 sliding_log.2', 'by the native module');
$redis->cli('ACL', 'SETUSER', 'decider', '-get');
is(calls_of(sub { is(asked($decider, '/over/log?k=forbidden'), '200 redis', 'a user who may not run GET: the record counts as none') }), '0 evalsha, 1 sliding_log.2', 'by the native module, too');
$redis->cli('ACL', 'SETUSER', 'decider', '+get', 'resetkeys', '~rl:sliding:*}');
is(asked($decider, '/over/compact?k=hidden'), '200 redis', 'a user who may not read records: it counts as none');
is($decider->logged(qr/key "$_": its override may not be read/), 1, "it is told: $_") for qw(forbidden hidden);
is($redis->cli('ACL', 'LOG') =~ /^rl:sliding:over_compact:\{hidden\}:override$/m, 1, 'and ACL LOG has its key');
$decider->finish;
$redis->cli('ACL', 'DELUSER', 'decider');

# an older module, which does not know the option: the first call of each kind on a connection finds that out
my $relay = Testbed::Relay->new($bed, to => $redis->port, rewrites => sub { $_[0] =~ s/(\r\nsliding_log\.2\r\n(?:(?!\r\n\*).)*?)override/$1foreseen/gsr });
for my $native (qw(auto required)) {
    my $old = nginx("native $native;", '127.0.0.1:' . $relay->port);
    asked($old, '/log?k=old');
    deny('over_log', "$native$_") for 1 .. 3;
    is(calls_of(sub { is(asked($old, "/over/log?k=$native$_"), '429 override', "native $native, an older module: a script obeys the record") for 1 .. 3 }),
        '3 evalsha, 1 sliding_log.2', 'after the module was asked once');
    is(calls_of(sub { asked($old, "/log?k=old$native") }), '0 evalsha, 1 sliding_log.2', 'other calls are decided by the module');
    is(is_native($old), 1, 'the metrics say so');
    is($old->logged(qr/unknown option|on_error/), 0, 'the error log has nothing of it');
}

# settled costs: by today's module, by an older one, which does not know `ended`, and in calls of an older nginx, which
# do not have it
{
    my %rewrites = (
        'an older module' => sub { $_[0] =~ s/(\r\nsliding_log\.2\r\n(?:(?!\r\n\*).)*?)ended=/${1}since=/gsr },
        'an older nginx'  => sub { $_[0] =~ s/\r\n\$(\d+)\r\n([^\r]*?) ended=0{12}/"\r\n\$" . ($1 - 19) . "\r\n$2"/ger },
        'both of today'   => sub { $_[0] },
    );
    Testbed::Script->new($redis, $ALL_SCRIPTS{$_}) for qw(compact counter bucket quota);    # loads them
    for my $who (sort keys %rewrites) {
        my $relay = Testbed::Relay->new($bed, to => $redis->port, rewrites => $rewrites{$who});
        my $nginx = nginx('', '127.0.0.1:' . $relay->port);
        for my $algorithm (qw(compact counter bucket quota)) {
            my $key  = "$algorithm-" . $who =~ tr/ /-/r;
            my $more = sub { my ($left) = @_; get($nginx->port, "/settle/$algorithm?k=$key&cost=1&real=3"); wait_until('the settling', 10, sub { (field(get($nginx->port, "/settle/$algorithm?k=$key&cost=0&real=0"), 'RateLimit') // '') =~ /;r=(\d+)/ && $1 == $left }) };
            asked($nginx, "/settle/$algorithm?k=warm$key&cost=0&real=0");
            my $left = 100;
            is(calls_of(sub { ok($more->($left -= 3), "$who, $algorithm: a cost is settled") }) =~ s/\d+ (?=sliding)//r, $who eq 'an older module' ? '1 evalsha, sliding_log.2' : '0 evalsha, sliding_log.2',
                "$who, $algorithm: " . ($who eq 'an older module' ? 'by a script' : 'by the module'));
            $more->($left -= 3);
            is(calls_of(sub { asked($nginx, "/settle/$algorithm?k=$key&cost=5&real=2") }) =~ /^0 evalsha/, 1, "$who, $algorithm: less is given back by the module");
        }
        is($nginx->logged(qr/unknown option|could not be settled/), 0, "$who: the error log has nothing of it");
    }
}

# an older module, which knows no costs of plain calls
{
    my $costs = Testbed::Relay->new($bed, to => $redis->port, rewrites => sub { $_[0] =~ s/(\r\nsliding_log\.2\r\n(?:(?!\r\n\*).)*?(?:\r\n| ))777(?=\r\n)/${1}7x7/gsr });
    my $old   = nginx('', '127.0.0.1:' . $costs->port);
    asked($old, '/compact?k=old');
    Testbed::Script->new($redis, $SCRIPTS{compact});    # loads it
    asked($auto, '/cost?k=old&c=776');
    is(calls_of(sub { is(asked($old, "/cost?k=old&c=777"), $_, 'an older module: a script decides a plain call with a cost') for '200 redis', '200 redis', '429 redis' }),
        '3 evalsha, 2 sliding_log.2', 'after the module was asked once, by a short call and another one');
    is(calls_of(sub { asked($old, '/compact?k=old2'); asked($old, '/cost?k=old2&c=1'); asked($old, '/cost?k=old2&c=0') }), '0 evalsha, 3 sliding_log.2', 'other calls are decided by the module');
    is($old->logged(qr/wrong arguments|on_error/), 0, 'the error log has nothing of it');
    is(calls_of(sub { asked($auto, '/cost?k=new&c=777') }), '0 evalsha, 1 sliding_log.2', "today's module decides them");
}

# an older module, which knows no short calls: it has no algorithm of that name, or wants more words
my %long = (
    log     => sub { $_[0] =~ s/(\r\nsliding_log\.2\r\n\$\d+\r\nlog) (\d+) (\d+) (?=\d+\r)/$1_$2_$3_/gr },
    compact => sub { $_[0] =~ s/\*3(\r\n\$13\r\nsliding_log\.2\r\n)\$\d+\r\ncompact [^\r]*\r\n/*2$1/gr },
);
for my $algorithm (sort keys %long) {
    my $relay = Testbed::Relay->new($bed, to => $redis->port, rewrites => $long{$algorithm});
    my $asked = $algorithm eq 'log' ? 5 : 4;    # Redis does not count calls with too few words
    for my $native (qw(auto required)) {
        my $old   = nginx("native $native;", '127.0.0.1:' . $relay->port);
        my $other = $algorithm eq 'log' ? 'compact' : 'log';
        asked($old, "/$other?k=long");
        is(calls_of(sub { is(asked($old, "/$algorithm?k=long$native"), $_, "$algorithm, native $native, a module without short calls: it decides") for ('200 redis') x 3, '429 redis' }),
            "0 evalsha, $asked sliding_log.2", 'after it was asked once by a short call');
        is(calls_of(sub { asked($old, "/$other?k=long") }), '0 evalsha, 1 sliding_log.2', 'and all other calls');
        is(is_native($old), 1, 'the metrics say so');
        is($old->logged(qr/no such algorithm|wrong number|on_error/), 0, 'the error log has nothing of it');
        $old->finish;
    }
}

# ---- requests under way

my $waits = IO::Socket::INET->new(Listen => 9, LocalAddr => '127.0.0.1', Timeout => 20) or die "listen: $!";
$limits .= ' location /inflight { sliding_log_limit at key=$arg_k limit=2 algorithm=inflight lease=2s; proxy_pass http://127.0.0.1:' . $waits->sockport . '; }';

# A request that lasts is renewed twice, then $then is called and it is renewed twice again: the calls since it began.
sub lasts {
    my ($nginx, $key, $then) = @_;
    my $log   = "rl:sliding:at:{$key}";
    my $twice = sub {
        for (1, 2) {
            my $time = $redis->cli('ZRANGE', $log, 0, 0, 'WITHSCORES');
            ok(Testbed::wait_until('a renewal', 10, sub { $redis->cli('ZRANGE', $log, 0, 0, 'WITHSCORES') ne $time }), "$key: its entry is renewed");
        }
        my @state = (['ZRANGE', $log, 0, -1, 'WITHSCORES'], ['PEXPIRETIME', $log]);
        ok(Testbed::wait_until('the replica', 10, sub { !grep { $redis->cli(@$_) ne $replica->cli(@$_) } @state }), "$key: on the replica, too");
    };
    my $calls = calls_of(sub {
        my $client = connect_to($nginx->port);
        $client->syswrite("GET /inflight?k=$key HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        my $backend = $waits->accept or die "the request did not arrive\n";
        $twice->();
        if ($then) {
            $then->();
            $twice->();
        }
        close $backend;
        Testbed::Http::read_all($client, 10);
    });
    ok(Testbed::wait_until('its end', 10, sub { $redis->cli('EXISTS', $log) == 0 }), "$key: and given back");
    return $calls;
}

my $holds = nginx('', $redis->address);
like(lasts($holds, 'native'), qr/^0 evalsha, [3-9] sliding_log[.]2$/, 'the native module decides and renews');
unlike(lasts($holds, 'unloaded', sub { unload($redis) }), qr/^0 evalsha/, 'unloaded meanwhile: the script renews');
is($holds->logged(qr/on_error|unknown/), 0, 'the error log has nothing of it') if $redis->info('redis_version') =~ /^7[.]0[.]/;
$holds->finish;
$redis->cli('MODULE', 'LOAD', native_module());

# an older module, which has no such algorithm: asked for a decision, or first for a renewal
my %older = (
    decides => sub { $_[0] =~ s/(\r\nsliding_log\.2\r\n\$\d+\r\n)inflight/$1infinite/gr },
    renews  => sub { $_[0] =~ s/(\r\nsliding_log\.2\r\n\$8\r\n)inflight(?=\r\n\$1\r\n1\r\n\$\d+\r\n[^\r]*\r\n\$5\r\nrenew)/$1infinite/gr },
);
for my $how (sort keys %older) {
    my $old = nginx('', '127.0.0.1:' . Testbed::Relay->new($bed, to => $redis->port, rewrites => $older{$how})->port);
    asked($old, '/log?k=first');
    # a short call and another one; or a decision and a renewal
    like(lasts($old, $how), qr/^[2-9] evalsha, 2 sliding_log[.]2$/, "$how: the script does what the older module does not");
    is($old->logged(qr/no such algorithm|on_error/), 0, "$how: the error log has nothing of it");
    $old->finish;
}

# ---- unloaded and loaded under load

my ($admitted, @others) = (0);
{
    my $loads = fork // die $!;
    if (!$loads) {
        for (1 .. 10) {
            unload($redis);
            select undef, undef, undef, 0.02;
            $redis->cli('MODULE', 'LOAD', native_module());
            select undef, undef, undef, 0.02;
        }
        POSIX::_exit(0);
    }
    my @answers = many([map { [$auto->port, '/many?k=unload'] } 1 .. 1500], at_once => 30);
    waitpid $loads, 0;
    $admitted = grep { $_->{status} == 200 } @answers;
    @others   = grep { (field($_, 'X-How') // '') !~ /^(?:redis|cache)/ } @answers;
}
is($admitted, 1000, 'the module is unloaded under load: no request is lost, none is counted twice');
is(scalar @others, 0, 'the module is unloaded under load: Redis decides all');
Testbed::wait_until('scripts to be used', 10, sub { asked($auto, '/log?k=c'); is_native($auto) == 0 }) if is_native($auto);
is($redis->cli('ZCARD', 'rl:sliding:many:{unload}'), 1000, 'the log has each of them once');

# ---- a connection that is idle, or goes on, when the module is unloaded: Redis 8 remembers the last command of each

{
    my $loaded = sub { $redis->cli('MODULE', 'LIST') =~ /sliding_log/ };
    $redis->cli('MODULE', 'LOAD', native_module()) if !$loaded->();
    my ($busy, $idle) = map { Testbed::Script->new($redis, $SCRIPTS{log}, native => 1) } 1 .. 2;
    my @words = ('sliding_log.2', 'log', 1, 'remembered', 'name', 100, 60_000, 66_000);
    $_->call(@words) for $busy, $idle;
    my $first = $redis->cli('MODULE', 'UNLOAD', 'sliding_log');
    like($redis->info('redis_version') =~ /^(?:[89]|\d\d)[.]/ ? $first : '', qr/^(?:ERR .*not possible.*|)$/, 'Redis 8 is asked to wait while connections have the command');
    like($busy->call(@words), qr/^error ERR unknown command 'sliding_log[.]2'/, 'the command is unknown at once');
    is($busy->call('PING'), 'PONG', 'a connection that goes on is not closed');
    ok(unload($redis), 'it is unloaded in the end');
    is($busy->call('PING'), 'PONG', 'that connection is not closed by it either');
    like(eval { $idle->call(@words) } // 'closed', qr/^(?:closed|error ERR unknown command)/, 'an idle one has no command any more');
    is($redis->cli('PING'), 'PONG', 'and Redis lives');
    $redis->cli('MODULE', 'LOAD', native_module());
}

# ---- not permitted

$redis->cli('ACL', 'SETUSER', 'limiter', split(' ', documented_rule('limiter', 'secret')));
my $weak = nginx('username limiter; password secret;', $redis->address);
is(asked($weak, '/log?k=weak'), '200 redis', 'not permitted: a script decides');
is(is_native($weak), 0, 'not permitted: the metrics say so');
is($weak->logged(qr/\[error\].*native module answered: NOPERM .*; scripts are used/), 1, 'not permitted: the error log says so once');
$redis->cli('ACL', 'SETUSER', 'limiter', '+sliding_log.2');
my $strong = nginx('username limiter; password secret;', $redis->address);
is(asked($strong, '/log?k=strong'), '200 redis', 'permitted: decided');
ok(Testbed::wait_until('the module to be found', 10, sub { is_native($strong) == 1 }), 'permitted: the native module decides');
$redis->cli('ACL', 'SETUSER', 'limiter', '-sliding_log.2');
is(asked($strong, '/log?k=strong'), '200 redis', 'not permitted any more: a script decides at once');

# ---- required

my $required = nginx('native required;', $redis->address);
is(asked($required, '/log?k=required'), '200 redis', 'required and loaded: decided');
my $recomputes = $redis->info('redis_version') !~ /^7[.]0[.]/;
my $refused    = $redis->cli('MODULE', 'UNLOAD', 'sliding_log');
like($refused, $recomputes ? qr/^ERR .*(?:not possible|ACL users reference)/ : qr/^OK$/, 'a server that stops where a rule names an unknown command is not asked to');
is($redis->cli('PING'), 'PONG', 'it lives');
$redis->cli('ACL', 'DELUSER', 'limiter');
unload($redis);
Testbed::wait_until('the server to count as down', 10, sub { asked($required, '/log?k=required2') =~ / error$/ });
ok(Testbed::wait_until('the error log', 10, sub { $required->logged(qr/sliding_log[.]2 answered: ERR unknown command.*on_error deny decides/) }), 'required and missing: on_error decides, and the error log says why');
$redis->cli('MODULE', 'LOAD', native_module());
ok(Testbed::wait_until('the server to be used again', 10, sub { asked($required, '/log?k=required3') eq '200 redis' }), 'required and loaded again: decided');

# ---- sliding-log doctor

sub doctor {
    my (@more) = @_;
    my ($check) = grep { $_->{check} eq 'native' } @{ tool_json('doctor', @more)->{checks} };
    return "$check->{status}: $check->{text}";
}
my @at = ('--server', $redis->address);
my $conf = $bed->write_file('required.conf', "http {\nsliding_log_redis { server " . $redis->address . "; native required; }\n}\n");
is(doctor(@at), 'ok: the native module decides', 'doctor: loaded');
$redis->cli('ACL', 'SETUSER', 'limiter', split(' ', documented_rule('limiter', 'secret')));
like(doctor(@at, '--user', 'limiter', '--password-file', $bed->write_file('password', 'secret')), qr/^warning: .* not permitted: [+]sliding_log[.]2$/, 'doctor: not permitted');
unload($redis);
is(doctor(@at), 'ok: no native module: the scripts decide', 'doctor: not loaded');
is(doctor('--nginx-conf', $conf), 'critical: no native module, which "native required" asks for', 'doctor: not loaded, and required');
$redis->cli('MODULE', 'LOAD', native_module());

like(doctor(@at, '--check-user', 'limiter'), qr/^warning: .* not permitted: [+]sliding_log[.]2$/, 'doctor: another user may not use it');
$redis->cli('ACL', 'SETUSER', 'limiter', '+sliding_log.2');
is(doctor(@at, '--check-user', 'limiter'), 'ok: the native module decides', 'doctor: another user may use it');
$redis->cli('ACL', 'SETUSER', 'asker', 'on', '>secret', '~*', '+@all', '-acl|dryrun');
like(doctor(@at, '--user', 'asker', '--password-file', $bed->write_file('password', 'secret'), '--check-user', 'limiter'),
    qr/^warning: the native module is loaded; ACL DRYRUN requires [+]acl\|dryrun$/, 'doctor: nor may this one ask about another');
$redis->cli('ACL', 'DELUSER', 'limiter');

# ---- a cluster

{
    local $ENV{TEST_NATIVE} = 1;
    my $cluster = $bed->cluster(masters => 2);
    my ($here, $there) = $cluster->nodes;
    my $tag  = '{' . $cluster->tag_on($there) . '}';
    my @call = ('sliding_log.2', 'log', 2, "${tag}a", "${tag}b", '', 2, 1, 'name', 5, 60_000, 0, 66_000, '', '');
    like($here->cli(@call), qr/^MOVED /, 'a node of a cluster sends a call to the node that has its keys');
    like($there->cli(@call), qr/^1\n\d+\n4\n/, 'the node that has them decides');
    my @short = ('sliding_log.2', 'log 5 60000 66000', "${tag}short", 'name');
    like($here->cli(@short), qr/^MOVED /, 'a short call, too');
    like($there->cli(@short), qr/^1 \d+ 4 60000 0$/, 'the node that has its key decides it');
    $call[4] = '{' . $cluster->tag_on($here) . '}b';
    like($there->cli(@call), qr/^CROSSSLOT /, 'keys in two slots are refused');
}

# ---- wrong arguments and contents

my %wrong = (
    'no arguments'         => ['log', '0'],
    'an unknown algorithm' => ['nonsense', '0', '0'],
    'too many keys'        => ['log', '5', 'a', ''],
    'a negative number'    => ['log', '1', 'a', 'n', '-1', '1000', '1100'],
    'a fraction'           => ['log', '1', 'a', 'n', '1.5', '1000', '1100'],
    'an unknown option'    => ['log', '1', 'a', '', '1', '1', 'n', '1', '1000', '0', '1100', 'nonsense=1'],
    'a renewal of no log'  => ['inflight', '0', 'renew', ''],
    'a renewal of nothing' => ['inflight', '1', 'a', 'renew', '', '1100', '0'],
    'a renewal of many'    => ['inflight', '1', 'a', 'renew', '', '1100', '1001', map { "m$_" } 1 .. 1001],
    'a renewal of fewer'   => ['inflight', '2', 'a', 'b', 'renew', '', '1100', '1', 'm', '1100', '2', 'm'],
    'a renewal of a log'   => ['log', '1', 'a', 'renew', '', '1100', '1', 'm'],
    'no requests'          => ['log', '1', 'a', '', '1', '0', '1', '1000', '0', '1100', ''],
    'many requests'        => ['log', '1', 'a', '', '1', '999999999999999', 'n', '1', '1000', '0', '1100', ''],
    'words left'           => ['log', '1', 'a', '', '1', '1', 'n', '1', '1000', '0', '1100', '', 'x'],
    'a short call of an unknown algorithm' => ['nonsense 1 1000 1100', 'a'],
    'a short call without such a form'     => ['bucket 1 1000 1100', 'a'],
    'a short call without a name'          => ['log 1 1000 1100', 'a'],
    'a short call with a name'             => ['compact 1 1000 1100', 'a', 'n'],
    'a short call with a cost'             => ['log 1 1000 1100 2', 'a', 'n'],
    'a short call with two costs'          => ['compact 1 1000 1100 2 2', 'a'],
    'a short call without time to live'    => ['compact 1 1000', 'a'],
    'a short call with no time to live'    => ['inflight 1 1000 0', 'a', 'n'],
    'a short call with two spaces'         => ['compact  1 1000 1100', 'a'],
    'a short call with a space at its end' => ['compact 1 1000 1100 ', 'a'],
    'a short call with a fraction'         => ['compact 1.5 1000 1100', 'a'],
    'a short call of a long text'          => ['compact 1 1000 1100' . ' ' x 100_000, 'a'],
    'a bucket of no size'  => ['bucket', '1', 'a', '', '1', '1', 'n', '1', '1000', '0', '1100', 'cost=1'],
);
like($redis->cli('sliding_log.2', @{ $wrong{$_} }), qr/^ERR (?:sliding_log[.]2: |wrong number)/, "$_: refused") for sort keys %wrong;
is($redis->cli('EXISTS', 'a'), 0, 'what is refused has done nothing');
is($redis->cli(qw(COMMAND GETKEYS sliding_log.2 log 2 a b x y)), "a\nb", 'its keys are known to clusters and ACLs');
is($redis->cli(qw(COMMAND GETKEYS sliding_log.2 inflight 2 a b renew), '', qw(1100 1 x 1100 1 y)), "a\nb", 'those of a renewal, too');
is($redis->cli('COMMAND', 'GETKEYS', 'sliding_log.2', 'log 1 1000 1100', 'a', 'name'), 'a', 'that of a short call');
is($redis->cli('COMMAND', 'GETKEYS', 'sliding_log.2', 'compact 1 1000 1100', 'a'), 'a', 'and of one without a name');

# ---- the replies to short calls

$redis->cli('ACL', 'SETUSER', 'owner', 'on', '>secret', '~mine*', '+sliding_log.2');
my $as_owner = sub { return $redis->cli('--user', 'owner', '--pass', 'secret', '--no-auth-warning', 'sliding_log.2', @_) };
$redis->cli('DEL', 'mine', 'wrong');
$redis->cli('LPUSH', 'wrong', 1);
like($as_owner->('compact 3 3600000 3960000', 'mine'), qr/^1 \d+ 2 3600000 0$/, 'a text');
like($as_owner->('compact 3 3600000 3960000 2', 'mine'), qr/^1 \d+ 0 3\d{6} 0$/, 'with a cost');
like($as_owner->('compact 3 3600000 3960000', 'mine'), qr/^0 \d+ 0 3\d{6} 3\d{6}$/, 'denied');
like($as_owner->('compact 0 3600000 3960000', 'mine2'), qr/^0\n\d+\n0\n3600000\n-1$/, 'left to the frame: an array');
like($as_owner->('compact 3 3600000 3960000', 'other'), qr/^NOPERM /, 'not with the key of another');
like($redis->cli('sliding_log.2', 'log 3 3600000 3960000', 'wrong', 'name'), qr/^WRONGTYPE /, 'another type: an error in an array');
$redis->cli('ACL', 'DELUSER', 'owner');

$bed->done;
