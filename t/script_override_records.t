# A record of an override is read in three programs: by the scripts, by the native module, and by the tool. Whatever text
# is there, they agree whether it is a record, and on what it says.

use strict;
use warnings;
use Test::More;
use Testbed qw(seed);
use Testbed::Native qw(native_module);
use Testbed::Script;
use Testbed::Tool qw(tool_json);

use constant { TEXTS => 1500, AT_ONCE => 100 };

seed();

my $bed = Testbed->new;
my $now = 1_800_000_000_000;

sub any { return $_[rand @_] }

# Mostly right, so that each mistake is alone often enough.
sub text {
    my $blank = sub { return rand() < 0.03 ? any("\t", "\n", "\x0b", "\f", "\r", '  ', '', "\0", "\xa0") : ' ' };
    my $what = any('allow', 'deny', map({ 'limit=' . int rand 10**$_ } 1 .. 12), 'limit=1000000000000',
        rand() < 0.3 ? ('limit=1000000000001', 'limit=', 'limit', 'limit=allow', 'limit=-1', 'limit=1e3', 'allow=1', 'deny=', 'Allow', 'allowed', 'denylimit=5',
            '', 'limit=0000000000005', 'limit=00000000000005', 'limit=' . '9' x 30, 'limit=5x', 'x=5') : ());
    my $number = sub { return any(0, 1, $now + 1 + int rand 10**10, rand() < 0.2 ? ($now, '', 'x', -5, '9' x 15, '9' x 16, '0' x 15, '0' x 16, '1.5', '1e3') : ()) };
    my $who    = any('alice', '', 'a=b', "b\xc3\xb6b", 'why=', rand() < 0.2 ? ("a\tb", "a\0b", 'a b', "\n", "\x85") : ());
    my $text   = $what . $blank->() . 'until=' . $number->() . $blank->() . 'since=' . $number->() . $blank->() . "by=$who" . $blank->() . 'why=' . any('', 'a test', " \n", 'until=0', "\0");
    $text = substr $text, 0, rand 1 + length $text                     if rand() < 0.05;
    substr($text, rand length $text, 1, any(map { chr } 0 .. 255)) if $text ne '' && rand() < 0.1;
    return rand() < 0.02 ? any('', 'NOPERM this user', 'WRONGTYPE Operation') : $text;
}

my @texts  = map { text() } 1 .. TEXTS;
my $redis = $bed->redis(args => ['--loadmodule', native_module()]);
my %says;

for my $who (qw(scripts native)) {
    my $script = Testbed::Script->new($redis, 'sliding_log', native => $who eq 'native', frame => 1);
    for (my $first = 0 ; $first < TEXTS ; $first += AT_ONCE) {
        my @groups = map { [1, { key => "api:{$_}", limit => 3, window => 1000, options => 'override told', ids => [$texts[$_]] }] } $first .. $first + AT_ONCE - 1;
        my $replies = $script->call($script->words($now, @groups));
        push @{ $says{$who} }, map { "$_->[5] $_->[6]" } @$replies;
    }
}
is(scalar grep({ $says{native}[$_] eq $says{scripts}[$_] } 0 .. $#texts), TEXTS, 'the native module reads what the scripts read') or
    diag(join "\n", map { "$says{scripts}[$_], natively $says{native}[$_]: " . $texts[$_] =~ s/([^ -~])/sprintf '\\x%02x', ord $1/egr } grep { $says{native}[$_] ne $says{scripts}[$_] } 0 .. $#texts);

my $broken = grep { /^-4 / } @{ $says{scripts} };
cmp_ok($broken, '>', TEXTS / 20, "many are broken: $broken");
cmp_ok($broken, '<', 3 * TEXTS / 4, 'and most are not');

# The tool lists what is there, also what has ended.
my $client = Testbed::Script->new($redis, 'sliding_log', native => 0);
$client->call('SET', "rl:sliding:api:{$_}:override", $texts[$_]) for 0 .. $#texts;
my %listed = map { $_->{key} => $_ } @{ tool_json('overrides', '--server', $redis->address)->{overrides} };
my @others;
for my $i (0 .. $#texts) {
    my ($said, $until) = split / /, $says{scripts}[$i];
    my $listed   = $listed{"rl:sliding:api:{$i}"};
    my $expected = $said >= 0 ? "limit=$said" : { -2 => 'allow', -3 => 'deny' }->{$said} // 'broken';
    my $found    = $listed->{what};
    # the scripts say none of what has ended, and of an empty text
    my $has_ended = $said == -1 && ($texts[$i] eq '' || ($listed->{until_ms} // $now + 1) <= $now);
    push @others, "$i: $found, not $expected" if !$has_ended && ($found ne $expected || $until != ($listed->{until_ms} // 0));
}
is(join("\n", @others), '', 'the tool lists what the scripts read');

$bed->done;
