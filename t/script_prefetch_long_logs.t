# Permits ahead of now make no call of a long compact log slow: a call moves the entries behind them, not the whole log.

use strict;
use warnings;
use Test::More;
use Testbed;
use Testbed::Script;

use constant { ENTRIES => 100_000, PERMITS => 500, LIFE => 1000 };

my $bed    = Testbed->new;
my $redis  = $bed->redis;
my $script = Testbed::Script->new($redis, 'compact_log');
my $T      = 1_800_000_000_000;
my %log    = (key => 'long', limit => 2 * ENTRIES, window => 600_000, ttl => 660_000);
sub ask { my ($at, $options) = @_; return $script->ask($at, { %log, options => join ' ', grep { length } $options, 'ahead=' . LIFE }) }

ask($T - 100 + $_, 'cost=1000') for 1 .. ENTRIES / 1000;
my $left = ENTRIES - 1 - PERMITS;
is(ask($T, 'permits=' . PERMITS), "1 $left 599901 0 " . PERMITS, 'permits are given');

my $rewritten = $redis->calls('set');
my @expected = map { join ' ', 1, $left - $_, 599_901 - $_, 0 } 1 .. 50;
is_deeply([map { ask($T + $_, '') } 1 .. 50], \@expected, 'requests are added before the permits');
my %back = (now => $T + 60, logged => $T + LIFE, taken => $T);
is($script->take_back(\%back, '', { %log, options => 'cost=400 ahead=' . LIFE }), 1, 'permits are returned');
is(ask($T + 61, ''), join(' ', 1, $left - 50 + 400 - 1, 599_901 - 61, 0), 'and their entries are gone');
cmp_ok($redis->calls('set') - $rewritten, '<=', 1, 'no call writes the whole log anew, unless it has grown');
$bed->done;
