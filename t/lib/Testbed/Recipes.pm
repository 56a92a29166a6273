package Testbed::Recipes;

# Tries the examples of a page, each with Redis and on one node without Redis, and what a test asks of them. The test says by
# the title of its section what an example does.

use strict;
use warnings;
use Exporter 'import';
use IO::Socket::INET;
use Test::More;
use Testbed qw(wait_until);
use Testbed::Examples qw(in_context);
use Testbed::Http qw(get field many connect_to);
use Time::HiRes qw(time);

our @EXPORT_OK = qw($port $redis $silent are_full passed_at_once remaining slow statuses try_examples);

# Of the nginx with the example that is tried; its Redis; an upstream server that accepts and does not answer.
our ($port, $redis, $silent);

my $http = <<'END';
log_format joined '$request_id $uri $status';
access_log %%DIR%%/access.log joined;
set_real_ip_from 127.0.0.1;
real_ip_header   X-Client;
%%REDIS%%
server {
    listen 127.0.0.1:%%PORT2%%;
    access_log off;
    location = /auth {
        if ($http_x_who = "") { return 401; }
        add_header X-User $http_x_who;
        add_header X-Limit $http_x_plan;
        return 204;
    }
    location / {
        add_header X-Total-Tokens $arg_tokens;
        add_header X-Query-Cost $arg_points;
        add_header X-Rows $arg_rows;
        if ($arg_slow) { proxy_pass http://127.0.0.1:%%SILENT%%; break; }
        if ($arg_status = 401) { return 401; }
        if ($arg_status = 500) { return 500; }
        return 200;
    }
}
END

# The statuses of successive requests: how often each came, in order.
sub statuses {
    my ($times, $path, %headers) = @_;
    my @seen;
    for (1 .. $times) {
        my $status = get($port, $path, headers => \%headers)->{status};
        push @seen, [$status, 0] if !@seen || $seen[-1][0] != $status;
        $seen[-1][1]++;
    }
    return join ' ', map { "$_->[1]x$_->[0]" } @seen;
}

# Of this number of requests of a client, how many passed, and in how many seconds.
sub passed_at_once {
    my ($count, $path, $field) = @_;
    my $begin   = time;
    my @answers = many([map { [$port, $path, "$field: a\r\n"] } 1 .. $count]);
    return (scalar(grep { $_->{status} == 200 } @answers), time - $begin);
}

# The remaining requests of a limit, from an answer.
sub remaining {
    my ($name, $path, %headers) = @_;
    my ($left) = (field(get($port, $path, headers => \%headers), 'RateLimit') // '') =~ /"$name";r=(\d+);/;
    return $left;
}

# Opens so many requests. They last until they are closed, since their bodies do not come.
sub slow {
    my ($count, $path, $field) = @_;
    my @clients = map { connect_to($port) } 1 .. $count;
    $_->syswrite("POST $path HTTP/1.1\r\nHost: x\r\n$field\r\nContent-Length: 1\r\n\r\n") for @clients;
    return @clients;
}

# Waits until as many of them are under way as the limit admits.
sub are_full { my ($path, %headers) = @_; return wait_until("$path to be full", 10, sub { get($port, $path, headers => \%headers)->{status} == 429 }) }

# %$recipes: title => code, which is called with the nginx and whether it asks Redis. Each has an example, [title, text].
sub try_examples {
    my ($bed, $recipes, @examples) = @_;
    my %left = %$recipes;
    $redis  = $bed->redis;
    $silent = IO::Socket::INET->new(Listen => 10, LocalAddr => '127.0.0.1', Timeout => 20) or die "listen: $!";
    for my $example (@examples) {
        my ($title, $text) = @$example;
        next if $text =~ /_by_lua_block|^js_import/m;    # docs_streamed_answers.t, docs_json_web_tokens.t
        my $check = delete $left{$title};
        $text =~ s/127\.0\.0\.1:8000\b/127.0.0.1:%%PORT%%/;
        $text =~ s/127\.0\.0\.1:(?:8080|9000)\b/127.0.0.1:%%PORT2%%/g;
        for my $store ('sliding_log_redis { server ' . $redis->address . '; timeout 5s; connect_timeout 5s; }', '') {
            $check or next;
            subtest $title . ($store ? ', Redis' : ', one node') => sub {
                my $nginx = $bed->nginx(in_context($text, $http), REDIS => $store, SILENT => $silent->sockport);
                $port = $nginx->port;
                $redis->cli('FLUSHALL');    # pages and examples share names
                $check->($nginx, $store ne '');
            };
        }
        ok($check, "$title: is tried");
    }
    is(join(', ', sort keys %left), '', 'every example tried is on its page');
    return;
}

1;
