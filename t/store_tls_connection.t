# A TLS connection to Redis works as a plain one: with many keys at once, writes that the network does not accept yet,
# handshakes that hang or break off, a killed Redis, a reloaded nginx.

use strict;
use warnings;
use IO::Socket::INET;
use Test::More;
use Testbed qw(slow wait_until);
use Testbed::Certificates;
use Testbed::Http qw(get many slowest flood load_while connect_to parse);
use Testbed::Relay;
use Testbed::Tls qw(tls_is_built);

plan skip_all => 'hiredis here is older than 1.0: no TLS' unless tls_is_built();

my $bed   = Testbed->new;
my $ca    = Testbed::Certificates->new($bed);
my $redis = $bed->redis(tls => [$ca->issue(['DNS:redis.test', 'IP:127.0.0.1'])]);
my $trust = 'tls on; tls_trusted_certificate ' . $ca->file . ';';

my $signal  = $bed->dir . '/hold';
my $silent  = IO::Socket::INET->new(Listen => 5, LocalAddr => '127.0.0.1') or die $!;
my $silent2 = IO::Socket::INET->new(Listen => 5, LocalAddr => '127.0.0.1') or die $!;

my $patience = 5 * slow();    # maximum seconds of a handshake whose bytes come one by one

# [name, contents of the block, possible statuses]
my @cases = (
    ['whole', 'server ' . $redis->address . '; timeout 5s; connect_timeout 5s; reconnect 20ms 200ms;', qr/^200$/],
    ['bytes', relayed(slow => 1) . "timeout ${patience}s; connect_timeout ${patience}s;", qr/^200$/],
    ['held',  relayed(hold => $signal) . 'timeout 25s; connect_timeout 5s;', qr/^200$/],
    ['mute',  relayed(mute => 1), qr/^503$/],
    ['deaf',  relayed(deaf => 1), qr/^503$/],
    ['named',   'server 127.0.0.1:' . $silent->sockport . '; tls_server_name redis.test;', qr/^503$/],
    ['address', 'server 127.0.0.1:' . $silent2->sockport . ';', qr/^503$/],
    map({ ["cut$_", relayed(cut_after => $_), qr/^503$/] } 0, 1, 5, 6, 100, 200, 400, 600),
    map({ ["cut$_", relayed(cut_after => $_), qr/^(?:200|503)$/] } 800, 1000, 1200, 1400, 1600, 1800, 2000, 3000),
);
sub relayed { return 'server 127.0.0.1:' . Testbed::Relay->new($bed, to => $redis->port, @_)->port . '; ' }

my $many = join "\n", map { 'sliding_log_limit ' . "n$_" . 'x' x 60 . ' key=$arg_k limit=1000 window=1h store=held id=$arg_i;' } 1 .. 32;
my $nginx = $bed->serve(
    connections => 4096,
    main        => 'worker_rlimit_nofile 8192;',
    http        => join("\n", 'sliding_log_on_error deny;', map { my ($name, $inside) = @$_; "sliding_log_redis $name { $trust " . defaults($inside) . ' }' } @cases),
    server      => join("\n", "location /many { $many empty_gif; } location /status { stub_status; }", map { "location /$_->[0] { sliding_log_limit $_->[0] key=\$arg_k limit=1000000 window=1h store=$_->[0]; empty_gif; }" } @cases),
);
my $port = $nginx->port;
my ($worker) = $nginx->workers;

sub defaults {
    my ($inside) = @_;
    my %default = (connect_timeout => '300ms', timeout => '300ms', reconnect => '100ms 400ms');
    return join ' ', $inside, map { "$_ $default{$_};" } grep { $inside !~ /\b(?<!_)$_ / } sort keys %default;
}

# ---- the name in the client's first message

sub first_words { my ($listen) = @_; my $client = $listen->accept; sysread $client, my $hello, 4096; return $hello }
like(first_words($silent), qr/redis\.test/, 'a server name is sent in the first message');
unlike(first_words($silent2), qr/127\.0\.0\.1/, 'an address is not sent in the first message');

# ---- each case for a while

my %answers;
for my $round (1 .. 20) {
    my @answers = many([map { [$port, "/$_->[0]?k=$round"] } @cases]);
    for my $i (0 .. $#cases) {
        my ($name, undef, $expected) = @{ $cases[$i] };
        $cases[$i][3]{ $answers[$i]{status} }++;
        push @{ $answers{$name} }, $answers[$i];
    }
    select undef, undef, undef, 0.05;
}
for my $case (@cases) {
    my ($name, undef, $expected, $seen) = @$case;
    is(join(' ', grep { !/$expected/ } keys %$seen), '', "$name: " . join ' or ', sort keys %$seen);
    cmp_ok(slowest(@{ $answers{$name} }), '<', ($name eq 'bytes' ? $patience : 0.3) + 0.3 * slow(), "$name: every request is answered in time");
}
is($nginx->logged(qr/"mute".*is down: connect timed out/) > 0, 1, 'a handshake that hangs ends with connect_timeout');
cmp_ok($nginx->logged(qr/"cut600".*is down: TLS: /), '>', 0,
    'a handshake that breaks off is logged') or diag(grep { /cut600/ } split /^/, $nginx->error_log);

# ---- many keys at once, and more than the network takes

my $seen = flood([map { [$port, "/whole?k=key$_"] } 1 .. 1500], sub { });
is(join(' ', %$seen), '200 1500', 'many keys at once: every request is admitted');
is($redis->cli('ZCARD', "rl:sliding:whole:{key$_}"), 1, "many keys at once: key $_ is logged once") for 1, 700, 1500;

$bed->write_file('hold', '');
my $first = connect_to($port);
$first->syswrite("GET /many?k=first&i=first HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
my $key = 'k' x 120;
$seen = flood([map { [$port, "/many?k=$key$_&i=$key$_"] } 1 .. 1500], sub {
    my $waiting = 0;
    wait_until('all of them to be asked', 20, sub { ($waiting) = get($port, '/status')->{body} =~ /Writing: (\d+)/; $waiting > 1500 });
    cmp_ok($waiting, '>', 1500, 'slow network: calls wait to be written, and half a record is on its way to nginx');
    $bed->write_file('hold', 7_000_000);    # of about 9 MB, more than the buffer of a socket
});
is(join(' ', %$seen), '200 1500', 'slow network: all is written and answered in the end');
is(parse(Testbed::Http::read_all($first, 10))->{status}, 200, 'slow network: the other half of the record comes');

# ---- Redis killed and back, nginx reloaded

my @load = map { [$port, "/whole?k=load$_"] } 1 .. 100;
my ($statuses, $slowest) = load_while(\@load, sub {
    for (1 .. 3) {
        select undef, undef, undef, 0.2;
        $redis->kill;
        select undef, undef, undef, 0.2;
        $redis->start;
        wait_until('Redis to decide again', 5, sub { get($port, '/whole?k=load1')->{status} == 200 }) or fail('Redis decides again after a kill');
    }
});
like($statuses, qr/^200:\d+ 503:\d+$/, 'Redis killed three times under load: every request is answered');
cmp_ok($slowest, '<', 1.5 * slow(), 'Redis killed three times under load: no request waits long') or diag($slowest);

is($nginx->workers, 1, 'Redis killed three times under load: one worker runs');
is(($nginx->workers)[0], $worker, 'Redis killed three times under load: the worker is the same as at the start');
($statuses) = load_while(\@load, sub { $nginx->reload(gone => 1) for 1 .. 3 });
like($statuses, qr/^200:\d+$/, 'three reloads under load: every request is admitted');
is($nginx->logged(qr/stale global SSL error/), 0, "no OpenSSL errors are left for other code");

$bed->done;
