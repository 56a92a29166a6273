package Testbed::FakeSentinel;

# A Sentinel with the replies of a test, in RESP, and an nginx that asks it.

use strict;
use warnings;
use Exporter 'import';
use Testbed::FakeRedis;

our @EXPORT_OK = qw(text list address confirmed message switched asked_by_nginx);

sub text { my ($text) = @_; return '$' . length($text) . "\r\n$text\r\n" }
sub list { my (@items) = @_; return '*' . @items . "\r\n" . join '', @items }

# The reply that names that server as the master.
sub address { my ($server) = @_; return list(text('127.0.0.1'), text($server->port)) }

# The reply to SUBSCRIBE for the nth channel of a connection.
sub confirmed { my ($channel, $nth) = @_; return list(text('subscribe'), text($channel), ":$nth\r\n") }

sub message { my ($channel, $text) = @_; return list(text('message'), text($channel), text($text)) }

sub switched { my ($old, $new) = @_; return message('+switch-master', 'limits 127.0.0.1 ' . $old->port . ' 127.0.0.1 ' . $new->port) }

# An nginx whose only Sentinel gives these replies, one after the other, to SENTINEL and to SUBSCRIBE; the last one stays.
# times: timeout, connect_timeout and reconnect.
sub asked_by_nginx {
    my ($bed, %options) = @_;
    my $sentinel = Testbed::FakeRedis->new($bed, answers => { SENTINEL => $options{masters}, SUBSCRIBE => $options{subscriptions} });
    return $bed->serve(
        store  => 'mode sentinel limits; server 127.0.0.1:' . $sentinel->port . "; $options{times}",
        http   => 'sliding_log_on_error deny;',
        server => 'location / { sliding_log_limit a key=$arg_k limit=100000 window=1h; empty_gif; }',
    );
}

1;
