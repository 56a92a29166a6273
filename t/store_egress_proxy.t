# nginx as an egress proxy: the recipe of docs/recipes.md, with a real nginx as the third party. Two nodes share a
# quota. All requests of our services get through, and the third party never receives more than it permits in any of its
# windows.

use strict;
use warnings;
use Cwd ();
use File::Basename ();
use List::Util qw(max);
use Test::More;
use Testbed qw(wait_until slow);
use Testbed::Examples qw(examples in_context);
use Testbed::Http qw(get field many);

# The recipe's figures, and those of this test: the margin is as large as a busy machine needs.
use constant { QUOTA => 10, WINDOW => 2000, THEIR_WINDOW => 1000, REQUESTS => 30 };

my $bed   = Testbed->new;
my $redis = $bed->redis;
my $root  = Cwd::abs_path(File::Basename::dirname(__FILE__) . '/..');

my $partner = $bed->serve(
    http   => <<'HTTP',
    log_format arrival '$msec $arg_n';
    access_log %%DIR%%/arrivals.log arrival;
HTTP
    server => 'location / { empty_gif; }',
);

my ($text) = map { $_->[1] } grep { $_->[0] =~ /^Outbound/ } examples("$root/docs/recipes.md");
my $replaced = $text =~ s/127\.0\.0\.1:8000\b/127.0.0.1:%%PORT%%/;
$replaced += $text =~ s/127\.0\.0\.1:9000\b/127.0.0.1:%%PARTNER%%/;
$replaced += $text =~ s/limit=100 window=11s delay=30s/'limit=' . QUOTA . ' window=' . WINDOW . 'ms delay=6s'/e;
is($replaced, 3, 'the recipe has the figures of this test');
my %values = (PARTNER => $partner->port, REDIS => $redis->address);
my @nodes  = map {
    $bed->nginx(in_context($text, 'access_log off; sliding_log_redis { server %%REDIS%%; timeout 5s; connect_timeout 5s; }'), %values)
} 1 .. 2;

my @answers = many([map { [$nodes[$_ % 2]->port, "/?n=$_"] } 1 .. REQUESTS]);
is(scalar(grep { $_->{status} == 200 } @answers), REQUESTS, 'all requests are answered');
cmp_ok(max(map { $_->{time} } @answers), '>', WINDOW / 1000 * (REQUESTS / QUOTA - 1.1), 'the last requests are answered at their reservations');

my @arrivals = map { [split] } split /\n/, Testbed::Process::slurp($partner->dir . '/arrivals.log');
my %seen     = map { $_->[1] => 1 } @arrivals;
is(scalar keys %seen, REQUESTS, 'the third party received each request');
is(scalar @arrivals, REQUESTS, 'the third party received each request once');
my @at      = sort { $a <=> $b } map { $_->[0] } @arrivals;
my @crowded = grep { $at[$_] - $at[ $_ - QUOTA ] < THEIR_WINDOW / 1000 } QUOTA .. $#at;
is(scalar @crowded, 0, 'the third party never received more than its quota in any window') or diag(join ' ', @at);
my $last = (sort { $a->{time} <=> $b->{time} } @answers)[-1]{time};
cmp_ok($last, '<', 6 * slow(), 'no request waits longer than needed');

# a request that would wait too long is denied at once, with the time to try again
@answers = many([map { [$nodes[$_ % 2]->port, "/?n=$_"] } 1 .. 6 * QUOTA]);
my @denied = grep { $_->{status} == 429 } @answers;
my $served = grep { $_->{status} == 200 } @answers;
is($served + @denied, 6 * QUOTA, 'six quotas at once: each request is held or denied');
cmp_ok(scalar @denied, '>', 0, 'six quotas at once: the last requests are denied');
is(scalar(grep { !field($_, 'Retry-After') } @denied), 0, 'six quotas at once: a denied request gets Retry-After');
cmp_ok(max(map { $_->{time} } @denied), '<', WINDOW / 1000 * slow(), 'six quotas at once: a denied request is answered at once');

$bed->done;
