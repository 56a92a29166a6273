# docs/from-limit-req.md: algorithm=bucket decides as limit_req does, with every combination of its burst, delay and
# nodelay. Both modules get the same random arrivals. Each decision is compared with a model of limit_req at the time
# when nginx itself saw the request, so a busy machine makes no difference. Decisions at the exact edge may differ.

use strict;
use warnings;
use List::Util qw(max);
use Test::More;
use Testbed qw(seed wait_until);
use Testbed::Http qw(connect_to);
use Testbed::Process;
use Time::HiRes qw(time sleep);

seed();

# name, requests a second, burst, the part of it that passes at once, and the parameters of both modules
my @cases = (
    ['plain',   10, 0, 0, '',                'burst=1'],
    ['nodelay', 10, 7, 7, 'burst=7 nodelay', 'burst=8'],
    ['delayed', 10, 5, 0, 'burst=5',         'burst=1 delay=500ms'],
    ['partly',  10, 9, 3, 'burst=9 delay=3', 'burst=4 delay=600ms'],
    ['minute',  2,  4, 4, 'burst=4 nodelay', 'burst=5'],
);
my %rate_text = (10 => ['10r/s', 'limit=10 window=1s'], 2 => ['120r/m', 'limit=120 window=1m']);
my $edge_ms   = 4;

my $zones     = join "\n", map { "limit_req_zone all zone=$_->[0]:64k rate=$rate_text{$_->[1]}[0];" } @cases;
my $locations = join "\n", map {
    my ($name, $rate, undef, undef, $theirs, $ours) = @$_;
    "location /$name/theirs { limit_req zone=$name $theirs; empty_gif; }
     location /$name/ours { sliding_log_limit $name key=all algorithm=bucket $rate_text{$rate}[1] $ours; empty_gif; }"
} @cases;
my $bed   = Testbed->new;
my $nginx = $bed->serve(
    ZONES => $zones, LOCATIONS => $locations,
    connections => 4096,
    http        => <<'HTTP',
    log_format decision '$uri $arg_n $msec $request_time $status $limit_req_status$sliding_log_status';
    access_log %%DIR%%/access.log decision;
    limit_req_status 429;
    limit_req_log_level info;
    sliding_log_log_level info;
    %%ZONES%%
HTTP
    server      => '%%LOCATIONS%%',
);

# ---- the same arrivals for both: crowds, gaps and single requests

my $requests = 80;
my @sockets;
for my $n (1 .. $requests) {
    for my $case (@cases) {
        for my $module (qw(theirs ours)) {
            my $socket = connect_to($nginx->port);
            $socket->syswrite("GET /$case->[0]/$module?n=$n HTTP/1.0\r\n\r\n");
            push @sockets, $socket;
        }
    }
    my $kind = rand;
    sleep($kind < 0.5 ? 0.001 : $kind < 0.95 ? rand 0.12 : rand 0.8);
}
my $log = $nginx->dir . '/access.log';
my $all = $requests * @cases * 2;
ok(wait_until('the answers', 30, sub { $all == (() = Testbed::Process::slurp($log) =~ /\n/g) }), 'every request is answered');

# ---- what the model says for the arrivals that nginx logged

# { arrived (ms), took (ms), status, word } of each request by number
sub decisions {
    my ($uri) = @_;
    my %of;
    for (split /\n/, Testbed::Process::slurp($log)) {
        my ($its_uri, $n, $ended, $took, $status, $word) = split;
        next if $its_uri ne $uri;
        $word =~ s/^-|-$//g;
        $of{$n} = { arrived => sprintf('%.0f', ($ended - $took) * 1000), took => $took * 1000, status => $status, word => $word };
    }
    return map { $of{$_} } sort { $a <=> $b } keys %of;
}

# The differences between a module's decisions and limit_req's rule (ngx_http_limit_req_module.c): the excess falls by
# the rate, each admitted request adds one, and more than the burst is denied.
sub differences {
    my ($case, @decisions) = @_;
    my (undef, $rate, $burst, $at_once) = @$case;
    my ($excess, $last, @wrong) = (0, undef);
    my $edge = $edge_ms * $rate / 1000;
    for my $each (sort { $a->{arrived} <=> $b->{arrived} } @decisions) {
        my $now = defined $last ? max(0, $excess - ($each->{arrived} - $last) * $rate / 1000 + 1) : 0;
        my $is_admitted = $each->{status} == 200;
        if (abs($now - $burst) > $edge && $is_admitted != ($now <= $burst)) {
            push @wrong, sprintf('%s at %d with an excess of %.3f', $is_admitted ? 'admitted' : 'denied', $each->{arrived}, $now);
        }
        next if !$is_admitted;    # as the module decided, so one edge does not change the next decisions
        my $delay = max(0, ($now - $at_once) / $rate * 1000);
        push @wrong, sprintf('held for %d ms, not %d', $each->{took}, $delay) if $each->{took} < $delay - $edge_ms - 1;
        $each->{late} = $each->{took} - $delay;
        ($excess, $last) = ($now, $each->{arrived});
    }
    return @wrong;
}

for my $case (@cases) {
    my ($name, undef, $burst, $at_once) = @$case;
    my %of = map { $_ => [decisions("/$name/$_")] } qw(theirs ours);
    for my $module (qw(theirs ours)) {
        my @admitted = grep { $_->{status} == 200 } @{ $of{$module} };
        is(join(', ', differences($case, @{ $of{$module} })), '', "$name: limit_req's rule holds for " . ($module eq 'ours' ? 'sliding_log_limit' : 'limit_req'));
        ok(@admitted > 5 && @admitted < $requests, "$name: some requests are admitted, some are not (" . @admitted . ')');
        my @late = sort { $a <=> $b } map { $_->{late} } @admitted;
        cmp_ok($late[@late / 2], '<', 50, "$name: half of the requests are held no more than 50 ms too long");
        my %words = map { $_->{word} => 1 } @{ $of{$module} };
        is(join(' ', sort keys %words), $at_once < $burst ? 'DELAYED PASSED REJECTED' : 'PASSED REJECTED', "$name: the status variable has limit_req's words");
    }
}

$bed->done;
