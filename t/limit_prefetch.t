# Permits (prefetch=): the node admits requests of a busy key without asking, and exactly as many as the limit allows.
# What is not used is returned when the life of the permits ends, when a worker quits, and when a request that used one
# is denied on its way. Permits end when a call finds that the log is gone.

use strict;
use warnings;
use Test::More;
use Testbed qw(conf wait_until);
use Testbed::Http qw(connect_to get field fields parse);
use Testbed::Metrics qw(scrape);
use Time::HiRes qw(sleep time);

my $bed   = Testbed->new;
my $redis = $bed->redis;
my %api   = (log => '', compact => ' algorithm=compact');
my $conf  = conf(
    workers => 1,
    store   => 'server %%REDIS%%; timeout 2s; connect_timeout 2s; reconnect 10ms 50ms;',
    http    => <<'HTTP',
    sliding_log_redis caller { server %%REDIS%%; timeout 5s; connect_timeout 5s; clock nginx; }
    sliding_log_on_error deny;
    add_header X-Source $sliding_log_source always;
    add_header X-Left $sliding_log_remaining always;
HTTP
    server => join("\n", map({ <<"END" } sort keys %api), <<'END'),
    location /$_       { sliding_log_limit $_ key=\$arg_k limit=200 window=1h prefetch=1000$api{$_}; empty_gif; }
    location /plain/$_ { sliding_log_limit $_ key=\$arg_k limit=300 window=1h$api{$_}; empty_gif; }
    location /cost/$_  { sliding_log_limit cost-$_ key=\$arg_k limit=600 window=1h prefetch=50 cost=3$api{$_}; empty_gif; }
    location /dry/$_   { sliding_log_limit dry-$_ key=\$arg_k limit=50 window=1h prefetch=50 dry_run=on$api{$_}; empty_gif; }
    location /caller/$_ { sliding_log_limit caller-$_ key=\$arg_k limit=200 window=1h prefetch=50 store=caller$api{$_}; empty_gif; }
    location /denied/$_ {
        sliding_log_limit cost-$_ key=\$arg_k limit=600 window=1h prefetch=50 cost=3$api{$_};
        root %%DIR%%;
        try_files /none \@deny;
    }
    location /two/$_ {
        sliding_log_limit one-$_ key=\$arg_k limit=100 window=1h prefetch=50$api{$_};
        sliding_log_limit other-$_ key=\$arg_k limit=1000 window=1h prefetch=20$api{$_};
        empty_gif;
    }
    location /half/$_ {
        sliding_log_limit half-$_ key=\$arg_k limit=100 window=1h prefetch=50$api{$_};
        sliding_log_limit whole-$_ key=\$arg_k limit=1000 window=1h$api{$_};
        empty_gif;
    }
END
    location @deny { sliding_log_limit never key=all limit=0 window=1h store=local; empty_gif; }
    location /metrics { sliding_log_metrics; }
END
);
my %usual = (REDIS => $redis->address);
my $nginx = $bed->nginx($conf, %usual);
my $port  = $nginx->port;

sub source { return field($_[0], 'X-Source') // '' }

# Requests one after the other: how many of each status and source.
sub ask {
    my ($path, $count) = @_;
    my %seen;
    for (1 .. $count) {
        my $answer = get($port, $path);
        $seen{ $answer->{status} . ' ' . source($answer) }++;
    }
    return \%seen;
}

# Entries of the log, as the tool of the project counts them: what a location without prefetch= has left.
sub entries {
    my ($algorithm, $name, $key) = @_;
    return $redis->cli('ZCARD', "rl:sliding:$name:{$key}") if $algorithm eq 'log';
    my $state = $redis->cli('GETRANGE', "rl:sliding:$name:{$key}", 0, 36);
    return length $state < 17 ? 0 : unpack 'N', substr $state, 13, 4;
}

sub has_entries {
    my ($expected, $algorithm, $name, $key, $what) = @_;
    my $found;
    wait_until($what, 3, sub { ($found = entries($algorithm, $name, $key)) == $expected });
    return is($found, $expected, $what);
}

for my $algorithm (sort keys %api) {
    my $begin   = time;
    my @answers = map { get($port, "/$algorithm?k=a") } 1 .. 100;
    my $oldest  = int(time - $begin);    # s: the first entry is not older
    is(join(' ', map { field($_, 'X-Left') } @answers), join(' ', reverse 100 .. 199), "$algorithm: permits of the node count as remaining");
    cmp_ok(scalar(grep { source($_) eq 'prefetch' } @answers), '>', 60, "$algorithm: most requests use permits");
    my ($told) = fields($answers[-1], 'RateLimit');
    ok(scalar(grep { $told eq "\"$algorithm\";r=100;t=$_" } 3600 - $oldest .. 3600), "$algorithm: the response fields of a permit are those of Redis") or diag($told);
    has_entries(100, $algorithm, $algorithm, 'a', "$algorithm: unused permits are returned");
    my $seen = ask("/$algorithm?k=a", 150);
    is($seen->{'200 redis'} + $seen->{'200 prefetch'}, 100, "$algorithm: exactly as many as the limit are admitted");

    ask("/$algorithm?k=gone", 60);
    my $source = sub { source(get($port, "/$algorithm?k=gone")) };    # the first permit of a reply: no call is under way
    ok(wait_until('a permit', 5, sub { $source->() eq 'redis' && $source->() eq 'prefetch' }), "$algorithm: there are permits");
    $redis->cli('DEL', "rl:sliding:$algorithm:{gone}");
    get($port, "/plain/$algorithm?k=gone");
    is($source->(), 'redis', "$algorithm: permits end when a call finds that the log is gone");

    $seen = ask("/cost/$algorithm?k=a", 300);
    is($seen->{'200 redis'} + $seen->{'200 prefetch'}, 200, "$algorithm, cost=3: exactly as many as the limit are admitted");
    cmp_ok($seen->{'200 prefetch'}, '>', 100, "$algorithm, cost=3: most use permits");

    $seen = ask("/denied/$algorithm?k=b", 100);
    is_deeply($seen, { '429 local' => 100 }, "$algorithm: a limit behind a redirect denies");
    has_entries(0, $algorithm, "cost-$algorithm", 'b', "$algorithm: permits of denied requests are returned");
    $seen = ask("/cost/$algorithm?k=b", 20);
    is($seen->{'200 redis'} + $seen->{'200 prefetch'}, 20, "$algorithm: and used by others");
    $seen = ask("/denied/$algorithm?k=b", 50);
    has_entries(60, $algorithm, "cost-$algorithm", 'b', "$algorithm: permits of denied requests are returned where others stay");

    $seen = ask("/dry/$algorithm?k=a", 100);
    is($seen->{'200 redis'} + $seen->{'200 prefetch'} + $seen->{'200 cache'}, 100, "$algorithm: a dry run denies nothing");
    cmp_ok($seen->{'200 prefetch'}, '>', 10, "$algorithm: a dry run uses permits");

    $seen = ask("/caller/$algorithm?k=a", 250);
    is($seen->{'200 redis'} + $seen->{'200 prefetch'}, 200, "$algorithm: by the clock of nginx, exactly as many as the limit are admitted");
    cmp_ok($seen->{'200 prefetch'}, '>', 100, "$algorithm: by the clock of nginx, most use permits");

    $seen = ask("/two/$algorithm?k=a", 150);
    is($seen->{'200 redis'} + $seen->{'200 prefetch'}, 100, "$algorithm: of two limits, exactly as many as the smaller allows are admitted");
    cmp_ok($seen->{'200 prefetch'}, '>', 50, "$algorithm: of two limits, both have permits");
    has_entries(100, $algorithm, "other-$algorithm", 'a', "$algorithm: unused permits of both are returned");
    $seen = ask("/half/$algorithm?k=a", 50);
    is_deeply($seen, { '200 redis' => 50 }, "$algorithm: permits are not used beside a limit without prefetch=");
}

subtest 'a worker that quits returns its permits' => sub {
    ask('/log?k=quit', 60);
    ask('/compact?k=quit', 60);
    $nginx->reload(gone => 1);
    has_entries(60, $_, $_, 'quit', $_) for sort keys %api;
};

subtest 'a worker that quits returns the permits of a call in flight' => sub {
    ask("/caller/$_?k=late", 60) for sort keys %api;
    has_entries(60, $_, "caller-$_", 'late', "$_: unused permits are returned") for sort keys %api;
    my @old   = $nginx->workers;
    my $calls = sub { scrape($port)->value('sliding_log_store_calls_total', store => 'caller') };
    my $sent  = $calls->();
    $redis->pause;
    my @waiting = map { connect_to($port) } sort keys %api;
    syswrite $waiting[$_], 'GET /caller/' . (sort keys %api)[$_] . "?k=late HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n" for 0 .. $#waiting;
    ok(wait_until('the calls', 10, sub { $calls->() == $sent + 2 }), 'calls are in flight');
    $nginx->reload;
    wait_until('the old worker to quit', 10, sub { grep { (Testbed::Process::slurp("/proc/$old[0]/cmdline") // '') =~ /shutting down/ } 1 });
    $redis->resume;
    is(parse(Testbed::Http::read_all($_, 10))->{status}, 200, 'a request is answered') for @waiting;
    wait_until('the old worker to be gone', 10, sub { !kill 0, $old[0] });
    has_entries(61, $_, "caller-$_", 'late', $_) for sort keys %api;
};

subtest 'Redis dies' => sub {
    my $admitted = 0;
    wait_until('permits', 5, sub { ask('/log?k=dies', 10); $admitted += 10; return entries('log', 'log', 'dies') > $admitted + 2 });
    $redis->pause;
    my ($answer, $used) = (undef, 0);
    wait_until('the permits to end', 3, sub { $answer = get($port, '/log?k=dies'); $used += $answer->{status} == 200; $answer->{status} == 503 });
    cmp_ok($used, '>', 0, 'permits are used without Redis');
    is(source($answer), 'error', 'on_error decides when they have ended');
    $redis->resume;
    wait_until('Redis to be asked', 5, sub { source(get($port, '/plain/log?k=other')) eq 'redis' });
    has_entries($admitted + $used, 'log', 'log', 'dies', 'unused permits are returned when Redis is back');
};

my $metrics = scrape($port);
my ($granted, $returned) = map { $metrics->value("sliding_log_store_permits${_}_total", store => 'default') } '', '_returned';
my $used = $metrics->value('sliding_log_requests_total', limit => 'log', result => 'passed', source => 'prefetch');
cmp_ok($granted, '>', 500, 'metrics: permits granted');
cmp_ok($returned, '>', 50, 'metrics: permits returned');
cmp_ok($returned, '<', $granted, 'metrics: most permits are used');
cmp_ok($used, '>', 100, 'metrics: requests that used permits');
$nginx->expect_in_log(qr/sliding_log_redis/);
$bed->done;
