package Testbed::NativeStore;

# A Redis with the native module, and nginx that finds it: which of them decides, the module or a script.

use strict;
use warnings;
use Exporter 'import';
use Testbed::Algorithm qw(horizon);
use Testbed::Http qw(get field);
use Testbed::Metrics qw(scrape);

our @EXPORT_OK = qw(asked is_native location);

# The location /PATH with a limit of a key: NAME is the path without its slashes. Its horizon is an hour, or this one.
sub location {
    my ($path, $limit, $algorithm, $more, $long) = @_;
    return "location /$path { sliding_log_limit @{[$path =~ tr{/}{_}r]} key=\$arg_k limit=$limit algorithm=$algorithm " . horizon($algorithm, $long // '1h', 'month') . " $more; empty_gif; }\n";
}

sub new { my ($class, $bed, $redis, @locations) = @_; return bless { bed => $bed, redis => $redis, locations => join '', @locations }, $class }

# An nginx with the locations. $store: more of the directives of its store; $address: another than that of the Redis.
sub nginx {
    my ($self, $store, $address) = @_;
    $address //= $self->{redis}->address;
    return $self->{bed}->serve(
        store   => "server $address; timeout 2s; connect_timeout 2s; reconnect 50ms 100ms; $store",
        http    => 'sliding_log_on_error deny;',
        how     => '$sliding_log_source',
        server  => "$self->{locations} location = /metrics { sliding_log_metrics; }",
        workers => 1,
    );
}

# The calls of each kind that the code makes.
sub calls_of {
    my ($self, $code) = @_;
    my %before = map { ($_ => $self->{redis}->calls($_)) } qw(evalsha sliding_log.2);
    $code->();
    return join ', ', map { my $more = $self->{redis}->calls($_) - $before{$_}; "$more $_" } qw(evalsha sliding_log.2);
}

sub deny { my ($self, $name, $key) = @_; return $self->{redis}->cli('SET', "rl:sliding:$name:{$key}:override", 'deny until=0 since=1 by=tester why=') }

# The status of an answer, and who decided.
sub asked { my ($nginx, $path) = @_; my $answer = get($nginx->port, $path); return "$answer->{status} " . (field($answer, 'X-How') // '') }

# What the metrics say of it.
sub is_native { my ($nginx) = @_; return scrape($nginx->port)->value('sliding_log_store_native', store => 'default') }

1;
