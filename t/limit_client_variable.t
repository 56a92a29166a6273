# $sliding_log_client: the address of the client; of an IPv6 address its /64.

use strict;
use warnings;
use Test::More;
use Testbed;
use Testbed::Http qw(get);

my $bed   = Testbed->new;
my $nginx = $bed->serve(server => <<'END');
    set_real_ip_from 127.0.0.1;
    real_ip_header X-Real-IP;
    location / { return 200 $sliding_log_client; }
    location /limited { sliding_log_limit client key=$sliding_log_client limit=1 window=1h; empty_gif; }
END
my $port = $nginx->port;

sub client { return get($port, '/', headers => { 'X-Real-IP' => $_[0] })->{body} }
sub limited { return get($port, '/limited', headers => { 'X-Real-IP' => $_[0] })->{status} }

is(get($port, '/')->{body},                     '127.0.0.1',            'the address of the peer is kept');
is(client('192.0.2.77'),                        '192.0.2.77',           'IPv4: the address of realip is taken');
is(client('2001:db8:1:2:3:4:5:6'),              '2001:db8:1:2::',       'IPv6: an address is cut to its /64');
is(client('2001:db8:1:2::'),                    '2001:db8:1:2::',       'IPv6: the first address of a /64 is cut to it');
is(client('2001:db8:1:2:ffff:ffff:ffff:ffff'),  '2001:db8:1:2::',       'IPv6: the last address of a /64 is cut to it');
is(client('2001:db8:1:3::1'),                   '2001:db8:1:3::',       'IPv6: the next /64 is another client');
is(client('::1'),                               '::',                   'IPv6: a short address is cut to its /64');
is(client('::ffff:192.0.2.77'),                 '192.0.2.77',           'IPv4 inside IPv6: the IPv4 address is taken');

is(limited('2001:db8:1:2::1'), 200, 'as the key: the first of a /64 passes');
is(limited('2001:db8:1:2::2'), 429, 'as the key: the second of a /64 is denied');
is(limited('2001:db8:1:3::1'), 200, 'as the key: another /64 passes');
is(limited('192.0.2.1'),       200, 'as the key: an IPv4 address passes');
is(limited('192.0.2.2'),       200, 'as the key: another IPv4 address passes');
is(limited('::ffff:192.0.2.1'), 429, 'as the key: an IPv4 address inside IPv6 is the same client');

$bed->done;
