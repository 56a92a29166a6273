# TLS to Redis: trusted and untrusted certificates, the error log, and refused configurations.

use strict;
use warnings;
use IO::Socket::IP;
use Test::More;
use Testbed qw(conf wait_until);
use Testbed::Certificates;
use Testbed::Http qw(get many);
use Testbed::Tls qw(tls_is_built);

my $bed = Testbed->new;

sub configuration {
    my ($inside, %more) = @_;
    my $server = delete $more{server} // 'server 127.0.0.1;';
    return $bed->configuration(conf(
        http   => '%%BLOCK%%',
        server => 'location / { sliding_log_limit api key=a limit=5 window=1h; empty_gif; }',
    ), BLOCK => "sliding_log_redis { $server $inside }", %more);
}

if (!tls_is_built()) {
    my ($accepted, $printed) = configuration('tls on;')->check;
    ok(!$accepted, 'tls on is refused with this hiredis');
    like($printed, qr/\[emerg\].*invalid value "on" in "tls" directive, expected off: the module was built with hiredis 0\.\d+\.\d+, and TLS needs 1\.0 or later with hiredis_ssl; build with: HIREDIS=1\.2 \.\/build\.sh deb \(or module\) in /,
        'tls on is refused with the reason');
    ($accepted, $printed) = configuration('tls off; tls_verify off;')->check;
    ok($accepted, 'tls off is accepted') or diag($printed);
    note('hiredis here is older than 1.0: TLS itself cannot be tested');
    $bed->done;
    exit;
}

my $ca           = Testbed::Certificates->new($bed);
my $other_ca     = Testbed::Certificates->new($bed);
my $intermediate = Testbed::Certificates->new($bed, by => $ca);
my @good         = $ca->issue(['DNS:localhost', 'DNS:redis.test', 'IP:127.0.0.1', 'IP:::1']);
my @elsewhere    = $ca->issue(['DNS:elsewhere.test', 'IP:127.0.0.9']);
my @expired      = $ca->issue(['DNS:localhost'], expired => 1);
my @client       = $ca->issue([]);
my @stranger     = $other_ca->issue([]);
my @below        = $intermediate->issue(['DNS:localhost']);
my $chain        = $bed->write_file('chain.pem', join '', map { Testbed::Process::slurp($_) } $below[0], $intermediate->file);

# ---- configuration

my $plain_file = $bed->write_file('text', "no certificate\n");
my $locked     = $bed->dir . '/locked.key';
system("openssl pkey -in $client[1] -aes256 -passout pass:s3cret -out $locked 2>/dev/null") == 0 or die 'openssl';
my $trust = 'tls_trusted_certificate ' . $ca->file . ';';
for my $row (
    ["tls on; tls_trusted_certificate none.pem;",          qr/invalid file "[^"]*\/none.pem" in "tls_trusted_certificate" directive, expected a PEM file of CA certificates: No such file or directory/],
    ["tls on; tls_trusted_certificate $plain_file;",       qr/invalid file "\Q$plain_file\E" in "tls_trusted_certificate" directive, expected a PEM file of CA certificates: no /],
    ["tls on; $trust tls_certificate none.pem; tls_certificate_key none.key;", qr/invalid file "[^"]*\/none.pem" in "tls_certificate" directive, expected a PEM certificate, with its chain: No such file/],
    ["tls on; $trust tls_certificate $client[0]; tls_certificate_key none.key;", qr/invalid file "[^"]*\/none.key" in "tls_certificate_key" directive, expected the certificate's PEM key, not encrypted: No such file/],
    ["tls on; $trust tls_certificate $client[0]; tls_certificate_key $good[1];", qr/invalid file "\Q$good[1]\E" in "tls_certificate_key" directive, expected .*: key values mismatch/],
    ["tls on; $trust tls_certificate $client[0]; tls_certificate_key $locked;",  qr/invalid file "\Q$locked\E" in "tls_certificate_key" directive, expected the certificate's PEM key, not encrypted: /],
    ["tls on; $trust tls_certificate $client[0];",         qr/"tls_certificate \Q$client[0]\E" is not allowed here, expected tls_certificate_key with it/],
    ["tls on; $trust tls_certificate_key $client[1];",     qr/"tls_certificate_key \Q$client[1]\E" is not allowed here, expected tls_certificate with it/],
    [$trust,                                               qr/"tls_trusted_certificate .*" is not allowed here, expected tls on beside it, or tls off/],
    ['tls_verify on;',                                     qr/"tls_verify on" is not allowed here, expected tls on/],
    ["tls on; $trust tls_server_name '';",                 qr/invalid value "" in "tls_server_name" directive, expected a text/],
    ["tls on; tls on; $trust",                             qr/"tls" directive is duplicate/],
    ['tls yes;',                                           qr/invalid value "yes" in "tls" directive, expected off or on/],
    ["tls on; $trust tls_verify optional;",                qr/invalid value "optional" in "tls_verify" directive, expected off or on/],
    ["tls on; $trust", qr/invalid address "unix:\/tmp\/x.sock" in "server" directive, expected one that is reached by TCP with tls on/, server => 'server unix:/tmp/x.sock;'],
) {
    my ($inside, $message, %more) = @$row;
    my ($accepted, $printed) = configuration($inside, %more)->check;
    ok(!$accepted, "refused: $inside");
    like($printed, qr/\[emerg\].*$message/, "refused with the reason: $inside");
    unlike($printed, qr/s3cret|BEGIN/, "refused without a secret: $inside");
}
for my $inside ("tls on; $trust", "tls on; $trust tls_certificate $client[0]; tls_certificate_key $client[1];", 'tls on; tls_verify off;',
    "tls off; $trust", "tls on; $trust tls_server_name redis.test;")
{
    my ($accepted, $printed) = configuration($inside)->check;
    ok($accepted, "accepted: $inside") or diag($printed);
}

# the system's CA certificates, as OpenSSL finds them
{
    local @ENV{qw(SSL_CERT_FILE SSL_CERT_DIR)} = ('/nowhere', '/nowhere');
    my ($accepted, $printed) = configuration('tls on;')->check;
    ok(!$accepted, 'refused: a system without CA certificates');
    like($printed, qr/"tls_verify on" is not allowed here, expected tls_trusted_certificate, as this system has no CA certificates/,
        'refused with the reason: a system without CA certificates');
}
my $hashed = $bed->dir . '/hashed';
mkdir $hashed;
symlink $ca->file, "$hashed/ca.pem";
system("openssl rehash $hashed") == 0 or die 'openssl rehash';

# ---- connections: [name, contents of the block, cause in the error log (none: it works)]

my %redis = (
    good      => $bed->redis(tls => \@good),
    six       => eval { IO::Socket::IP->new(Listen => 1, LocalHost => '::1') } ? $bed->redis(tls => \@good, host => '::1') : undef,
    elsewhere => $bed->redis(tls => \@elsewhere),
    expired   => $bed->redis(tls => \@expired),
    chain     => $bed->redis(tls => [$chain, $below[1]]),
    strict    => $bed->redis(tls => [@good, $ca->file]),
    plain     => $bed->redis,
);
sub server { my ($name, $host) = @_; return 'server ' . ($host // '127.0.0.1') . ':' . $redis{$name}->port . ';' }

my $other  = 'tls_trusted_certificate ' . $other_ca->file . ';';
my @blocks = (
    ['address',      server('good') . "tls on; $trust"],
    ['name',         server('good', 'localhost') . "tls on; $trust"],
    ['servername',   server('good') . "tls on; $trust tls_server_name redis.test;"],
    ['chain',        server('chain', 'localhost') . "tls on; $trust"],
    ['overridden',   server('elsewhere') . "tls on; $trust tls_server_name elsewhere.test;"],
    ['otheraddress', server('elsewhere') . "tls on; $trust tls_server_name 127.0.0.9;"],
    ['withclient',   server('strict') . "tls on; $trust tls_certificate $client[0]; tls_certificate_key $client[1];"],
    ['anybody',      server('elsewhere') . 'tls on; tls_verify off;'],
    ['anytime',      server('expired') . 'tls on; tls_verify off;'],
    ['system',       server('good') . 'tls on;'],
    $redis{six} ? ['six', server('six', '[::1]') . "tls on; $trust"] : (),
    ['wrongca',      server('good') . "tls on; $other", qr/is down: TLS: the server's certificate: unable to get local issuer certificate/],
    ['wrongname',    server('elsewhere', 'localhost') . "tls on; $trust", qr/is down: TLS: the server's certificate: hostname mismatch/i],
    ['wrongaddress', server('elsewhere') . "tls on; $trust", qr/is down: TLS: the server's certificate: IP address mismatch/],
    ['wrongserver',  server('good') . "tls on; $trust tls_server_name elsewhere.test;", qr/is down: TLS: the server's certificate: hostname mismatch/i],
    ['expired',      server('expired', 'localhost') . "tls on; $trust", qr/is down: TLS: the server's certificate: certificate has expired/],
    ['noclient',     server('strict') . "tls on; $trust", qr/is down: (?:TLS: .*alert.*certificate|Connection reset by peer)/],
    ['stranger',     server('strict') . "tls on; $trust tls_certificate $stranger[0]; tls_certificate_key $stranger[1];", qr/is down: (?:TLS: .*alert unknown ca|Connection reset by peer)/],
    ['plainserver',  server('plain') . "tls on; $trust", qr/is down: TLS: |is down: connect timed out/],
    ['plainclient',  server('good') . 'tls off;', qr/is down: (?:Server closed the connection|Connection reset by peer)/],
);
$ENV{SSL_CERT_FILE} = '/nowhere';
$ENV{SSL_CERT_DIR}  = $hashed;
my $nginx = $bed->serve(
    http   => join("\n", 'sliding_log_on_error deny;', map { "sliding_log_redis $_->[0] { $_->[1] timeout 3s; connect_timeout 3s; reconnect 20ms 100ms; }" } @blocks),
    server => join("\n", map { "location /$_->[0] { sliding_log_limit $_->[0] key=\$arg_k limit=5 window=1h store=$_->[0]; empty_gif; }" } @blocks),
);
delete @ENV{qw(SSL_CERT_FILE SSL_CERT_DIR)};

for my $block (@blocks) {
    my ($name, undef, $cause) = @$block;
    if ($cause) {
        is(get($nginx->port, "/$name?k=a")->{status}, 503, "$name: the connection is refused, on_error decides");
        ok(wait_until('the cause', 5, sub { $nginx->logged(qr/sliding_log_redis "$name".*$cause/) }), "$name: the error log has $cause");
    }
    else {
        # the first address of localhost may not be that of Redis
        ok(wait_until($name, 5, sub { get($nginx->port, "/$name?k=a")->{status} == 200 }), "$name: Redis decides");
    }
}
unless ($redis{six}) {
    note('no IPv6 here');
}
is($redis{good}->cli(qw(ZCARD rl:sliding:name:{a})), 1, 'the request is logged by TLS');
is($redis{plain}->cli('DBSIZE'), 0, 'nothing is logged if TLS is refused');
is($nginx->logged(qr/stale global SSL error/), 0, "no OpenSSL errors are left for other code");

$bed->done;
