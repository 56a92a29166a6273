# Random trees of locations with all kinds of internal redirects, with limits of several algorithms and stores, some of
# them in dry run, alone or with their location, against a model of a page. Each answer and all logs must be the
# model's. Some limits have places (algorithm=inflight), a few of which are taken all the time. Others hold a request for
# a moment: its places are asked for after the hold, which must change nothing else.
# prove: first

use strict;
use warnings;
use List::Util qw(min sum0);
use Test::More;
use Testbed qw(seed);
use Testbed::Corrupt qw(any);
use Testbed::Http qw(request field);
use Testbed::RedirectTree qw(%algorithm %holds %longest %place %store %ways @locations @names cost directive grow inside is_dry is_of_places places);
use Testbed::UnderWay;

seed();
my $operations = Testbed::operations(2000, 2);
use constant TAKEN => 2;

my $bed = Testbed->new;
my %redis = map { $_ => $bed->redis } qw(one two);
my $silent = Testbed::UnderWay->new;

grow();

my $nginx = $bed->serve(
    ONE => $redis{one}->address, TWO => $redis{two}->address,
    workers => 1,    # so a refund is complete before the next request
    http    => <<'HTTP',
    sliding_log_redis one { server %%ONE%%; timeout 9s; connect_timeout 9s; }
    sliding_log_redis two { server %%TWO%%; timeout 9s; connect_timeout 9s; }
    sliding_log_on_error deny;
    sliding_log_log_level info;
    recursive_error_pages on;
    server {
        listen 127.0.0.1:%%PORT2%%;
        location /answer/200 { return 200; }
        location /answer/404 { return 404; }
        location /answer/500 { return 500; }
        location ~ ^/accel/(\d+) { add_header X-Accel-Redirect /$1; return 200; }
    }
HTTP
    server  => join "\n", 'add_header X-Status $sliding_log_status always;', 'location @nothing { return 200; }',
        "location /hold { @{[map { directive($holds{$_}) } sort keys %holds]} empty_gif; }",
        "location /taken { @{[map { places($_, TAKEN, 1) . ';' } grep { $algorithm{$_} eq 'inflight' } sort keys %place]} proxy_read_timeout 1h; proxy_pass http://127.0.0.1:@{[$silent->port]}; }",
        map { "location = /$_ { @{[inside($_)]} } location \@n$_ { @{[inside($_)]} }" } 0 .. $#locations,
);

# ---- the model: how many entries each log has

my %entries;    # "NAME key" => number
sub log_of { my ($limit, $key) = @_; return is_of_places($limit) ? "$limit->{name} all" : "$limit->{name} $key" }
$entries{"$_ all"} = TAKEN for grep { $algorithm{$_} eq 'inflight' } keys %place;

# Asks these limits stage after stage: true if all have room. Puts the logged entries into @$held.
sub ask {
    my ($limits, $key, $held) = @_;
    my (%places, $refused);
    push @{ $places{ $place{ $_->{name} } } }, $_ for @$limits;
    for my $place (sort { $a <=> $b } keys %places) {
        my @asked = @{ $places{$place} };
        next if $refused && !grep { $_->{all} } @asked;
        my $denied = grep { ($entries{ log_of($_, $key) } // 0) + cost($_) > $_->{limit} } @asked;
        for my $limit (@asked) {
            my $log = log_of($limit, $key);
            if (!$denied) {
                $entries{$log} += cost($limit);
                push @$held, { %$limit, log => $log };
            }
            elsif ($limit->{all}) {
                $entries{$log} = min(($entries{$log} // 0) + cost($limit), $longest{ $limit->{name} });
            }
        }
        $refused ||= $denied;
    }
    return !$refused;
}

sub take_back {
    my ($held, $which) = @_;
    $entries{ $_->{log} } -= cost($_) for grep { $which->($_) } @$held;
    @$held = grep { !$which->($_) } @$held;
    return;
}

# The module's expected answer: (status, $sliding_log_status, remaining requests of each enforced limit)
sub walk {
    my ($number, $key) = @_;
    my @held;
    my @answer = answer_of($number, $key, \@held);
    take_back(\@held, \&is_of_places);    # the request is not under way any more
    return @answer;
}

sub answer_of {
    my ($number, $key, $held) = @_;
    my ($worked, $denied, $round, $dry_status, %asked, %remains) = (0, 0, 0, '');
    my $said = sub { return $denied ? 'REJECTED' : (grep { $_ eq 'enforced' } values %asked) ? 'PASSED' : $dry_status };
    while (1) {
        my $location = $locations[$number];
        my $unasked  = sub { my ($dry) = @_; return grep { !!is_dry($_, $location) eq !!$dry && !(($asked{ $_->{name} } // '') eq 'enforced' || $dry && $asked{ $_->{name} }) } @{ $location->{limits} } };
        my @enforced = $denied ? () : $unasked->(0);
        if (@enforced) {
            my %now = map { $_->{name} => 1 } @enforced;
            take_back($held, sub { $_[0]{dry} && $now{ $_[0]{name} } });
            my @logged;
            my $admitted = ask(\@enforced, $key, \@logged);
            push @$held, map { { %$_, worked => $worked } } @logged;
            $asked{ $_->{name} } = 'enforced' for @enforced;
            if (!$admitted) {
                take_back($held, sub { !$_[0]{all} && $_[0]{worked} == $worked });
                $denied = 1;
                return (429, $said->()) if !defined $location->{page};
                $number = $location->{page};
                next;
            }
            $remains{ $_->{name} } = $_->{limit} - $entries{ log_of($_, $key) } for @enforced;
        }
        # beside enforced limits each dry limit is asked alone, otherwise all together
        my @rehearsed = $denied ? () : $unasked->(1);
        for my $together ($location->{dry} ? ([@rehearsed]) : map { [$_] } @rehearsed) {
            next if !@$together;
            my @logged;
            $round++;
            my $admitted = ask($together, $key, \@logged);
            push @$held, map { { %$_, dry => 1, worked => $worked, round => $round } } @logged;
            $asked{ $_->{name} } = 'dry' for @$together;
            $dry_status = $admitted ? $dry_status || 'PASSED' : 'REJECTED_DRY_RUN';
            next if $admitted;
            take_back($held, sub { !$_[0]{all} && ($_[0]{round} // 0) == $round });
            @$held = grep { ($_->{round} // 0) != $round } @$held;    # with count=all the entry is now that of a denied attempt
        }
        my $way = $ways{ $location->{way} };
        $worked += $way->{worked} // 0;
        if (!defined $location->{next}) {
            my $status = $way->{status} // ($location->{way} eq 'upstream' ? $location->{status} : 200);
            take_back($held, sub { $_[0]{refund} eq $status }) if !$denied;
            return ($status, $said->(), $denied ? undef : \%remains);
        }
        $number = $location->{next};
    }
}

# ---- the comparison

sub text { my ($remains) = @_; return join ' ', map { "$_:$remains->{$_}" } grep { !$holds{$_} } sort keys %$remains }

# The number of entries in Redis, if a command of Redis tells it.
sub in_redis {
    my ($name, $key) = @_;
    my ($redis, $log) = ($redis{ $store{$name} }, "rl:sliding:$name:{$key}");
    return $redis->cli('ZCARD', $log) if $algorithm{$name} =~ /log|sampled/;
    return sum0($redis->cli('HVALS', $log) =~ /(\d+)/g) if $algorithm{$name} eq 'counter';
    return undef;
}

my %seen;
Testbed::wait_until('Redis to decide', 10, sub { !grep { request($nginx->port, "/$_", headers => { K => 'warm' })->{status} == 503 } 0 .. $#locations })
    or die "no Redis\n";
my @taken = map { $silent->begin($nginx->port, '/taken') } 1 .. TAKEN;
is(scalar(grep { $_->{denied} } @taken), 0, 'some places are taken');

# A request that was held is admitted otherwise, or not.
sub is_status { my ($told, $expected) = @_; $seen{held}++ if $told =~ s/^DELAYED/PASSED/; return $told =~ s/^PASSED_DRY_RUN$/PASSED/r eq $expected }

for my $operation (1 .. 3 * $operations) {
    last if $operation > $operations && ($seen{held} // 0) > $operations / 300;
    my ($number, $key) = (int rand @locations, 'k' . any(1 .. 3) . '-' . int $operation / 150);
    my ($status, $says, $remains) = walk($number, $key);
    request($nginx->port, '/hold', headers => { H => $operation }) if $operation % 10 == 0;
    my $answer = request($nginx->port, "/$number", headers => { K => $key, H => $operation });
    my %said   = (field($answer, 'RateLimit') // '') =~ /"([\w-]+)";r=(\d+)/g;
    my $is_right = $answer->{status} == $status && is_status(field($answer, 'X-Status') // '', $says) && (!$remains || text(\%said) eq text($remains));
    my @wrong;
    if ($operation % 10 == 0) {
        for my $name (grep { $store{$_} ne 'local' } @names) {
            my ($there, $model) = (undef, $entries{"$name $key"} // 0);
            my $agrees = sub { $there = in_redis($name, $key); return !defined $there || $there == $model };
            push @wrong, "$name has $there, not $model" if !Testbed::wait_until("$name $key", 2, $agrees);    # a refund is on its way
        }
    }
    if (!$is_right || @wrong) {
        fail("operation $operation: /$number with key $key is answered as the model says");
        diag("the model says $status $says, " . ($remains ? text($remains) : 'denied') . "; the answer is $answer->{status} " . (field($answer, 'X-Status') // '') . ', ' . text(\%said), map { "\n$_" } @wrong);
        for (my $at = $number; defined $at; $at = $locations[$at]{next}) {
            diag("/$at: " . inside($at) . ($locations[$at]{page} ? " (page: $locations[$at]{page})" : ''));
        }
        last;
    }
    $seen{ $remains ? 'admitted' : 'denied' }++;
}
cmp_ok($seen{admitted} // 0, '>', $operations / 20, 'requests were admitted as the model says');
Testbed::UnderWay::end($_) for @taken;
cmp_ok($seen{held}     // 0, '>', $operations / 300, 'requests were held');
cmp_ok($seen{denied}   // 0, '>', $operations / 20, 'requests were denied as the model says');

$bed->done;
