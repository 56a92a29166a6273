# A reload changes lease= while requests are under way: the longest lease of the workers that live counts for all of
# them, in Redis and in the memory of the node, whichever configuration has it, over three of them. That of a worker
# that was killed counts no more.

use strict;
use warnings;
use Test::More;
use Testbed qw(conf wait_until);
use Testbed::UnderWay;
use Testbed::Http qw(get field);
use Time::HiRes qw(sleep time);

my @stores = qw(default local);
my $bed    = Testbed->new;
my $redis  = $bed->redis;
my $silent = Testbed::UnderWay->new;

my $locations = join "\n", map { my $store = $_; my $log = "at_$store key=\$arg_k algorithm=inflight lease=%%LEASE%% store=$store"; <<"END" } @stores;
    location /$store/at   { sliding_log_limit $log limit=3; proxy_pass http://127.0.0.1:%%SILENT%%; }
    location /$store/wait { sliding_log_limit $log limit=1 delay=20s; proxy_pass http://127.0.0.1:%%SILENT%%; }
    location /$store/look { sliding_log_limit $log limit=3 cost=0; sliding_log_headers ietf; empty_gif; }
END
my $conf = conf(
    workers => 1,
    store   => 'server %%REDIS%%; timeout 5s; connect_timeout 5s;',
    server  => $locations,
);
my @values = (REDIS => $redis->address, SILENT => $silent->port);
my $nginx  = $bed->nginx($conf, @values, LEASE => '300ms');
my $port   = $nginx->port;

sub reload_with { my ($lease) = @_; return $nginx->configure($conf =~ s/%%LEASE%%/$lease/gr)->reload }
sub begin { my ($path) = @_; my $one = $silent->begin($port, $path); ok($one->{backend}, "$path is admitted"); return $one }
sub left { my ($store) = @_; return (field(get($port, "/$store/look?k=a"), 'RateLimit') // '') =~ /;r=(\d+)/ ? $1 : 'unknown' }

# What is left, by each store, for longer than the shorter lease.
sub stays {
    my ($left, $name) = @_;
    my %seen;
    for (my $until = time + 1.5; time < $until; sleep 0.05) {
        $seen{$_}{ left($_) }++ for @stores;
    }
    return is(join(' ', map { join ',', sort keys %{ $seen{$_} } } @stores), "$left $left", $name);
}

sub comes_to {
    my ($left, $name) = @_;
    return ok(wait_until("$left to be left", 15, sub { !grep { left($_) ne $left } @stores }), $name) || diag(join ' ', map { left($_) } @stores);
}

# ---- a longer one

my @old     = map { begin("/$_/at?k=a") } @stores;
my @waiting = map { $silent->queue($port, "/$_/wait?k=a") } @stores;
sleep 0.5;
reload_with('6s');
my @new = map { my $store = $_; map { begin("/$store/at?k=a") } 1, 2 } @stores;
stays(0, 'a longer lease: the old worker renews its entries and removes none');
Testbed::UnderWay::end($_) for @old;
my $until = time + 1.5;
while ((my $rest = $until - time) > 0) {
    $silent->next_one($rest);
}
is(scalar grep({ $_->{backend} } @waiting), 0, 'a longer lease: the old worker counts by it');
stays(1, 'a longer lease: the old worker has removed nothing');
Testbed::UnderWay::end($_) for @new;
ok($silent->arrives($_), 'who waits in the old worker is admitted in the end') for @waiting;
Testbed::UnderWay::end($_) for @waiting;
ok(wait_until('the old worker to end', 20, sub { $nginx->workers == 1 }), 'the old worker ends');
comes_to(3, 'all is given back');

# ---- shorter ones

my ($first) = $nginx->workers;
my @of_first = map { begin("/$_/at?k=a") } @stores;
reload_with('300ms');
stays(2, 'a shorter lease: what the old worker holds counts');
my @of_second = map { begin("/$_/at?k=a") } @stores;
reload_with('1s');
stays(1, 'a third configuration: all of it counts');
kill 'KILL', $first;
$nginx->expect_kills;
stays(1, 'a worker was killed: what it held counts at first');
comes_to(2, 'a worker was killed: what it held leaves');
Testbed::UnderWay::end($_) for @of_second;
comes_to(3, 'what the others hold is given back');
close $_->{client}, close $_->{backend} for @of_first;

$bed->done;
