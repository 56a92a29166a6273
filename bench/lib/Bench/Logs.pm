package Bench::Logs;

# Logs of given lengths, made by the scripts of the algorithms from random arrivals.

use strict;
use warnings;
use Exporter 'import';
use List::Util qw(max sum);

use Bench::Algorithm;
use Bench::Client;
use Bench::Progress qw(progress);

our @EXPORT_OK = qw(fill copies memory);

use constant {
    LENGTHS => [10, 100, 1_000, 10_000, 100_000],
    WINDOW  => 60_000,               # ms
    START   => 1_800_000_000_000,    # ms: a clock of our own
    PLENTY  => 10_000_000,           # a limit that nobody reaches in a run
    ENTRIES => 2_000,                # at least so many in the logs of one length
    AT_ONCE => 500,                  # calls pipelined: their replies fit into a socket's buffer
};

# A Redis with logs of all LENGTHS.
#   redis, client, algorithms
#   of_length  length => [what fill returns, for each algorithm]
sub new {
    my ($class, $world) = @_;
    my $redis      = $world->redis_with_module;
    my $client     = Bench::Client->new($redis);
    my @algorithms = Bench::Algorithm::all($client);
    my $self       = bless { redis => $redis, client => $client, algorithms => \@algorithms }, $class;
    for my $length (@{ +LENGTHS }) {
        my %shape = (keys => max(1, ENTRIES / $length), entries => $length, window => WINDOW, start => START);
        $self->{of_length}{$length} = [map { fill($client, $_, %shape) } @algorithms];
    }
    return $self;
}

# Fills logs through `client`: the arrivals of a window and a little more, so that logs are as they are when entries
# leave as fast as others come. The same options give the same arrivals whatever the algorithm. Options:
#   keys     how many logs
#   entries  arrivals per window and key
#   window   ms
#   start    ms, the clock at the first arrival
# Returns { keys, clock (ms, a fraction in it), entries (requests in the window, for each log), used (of the limit, as the
# algorithm told last) }. The logs never expire: the clock is not Redis's.
sub fill {
    my ($client, $algorithm, %options) = @_;
    my $limit = { limit => PLENTY, window => $options{window} };
    my @keys  = map { $algorithm->key("$options{entries}_$_") } 1 .. $options{keys};
    my $mean  = $options{window} / ($options{entries} * @keys);
    my $clock = $options{start};
    my $left  = int(1.1 * $options{entries} * @keys);
    my (@arrivals, @used);
    srand 1;
    while ($left > 0) {
        my ($calls, @asked) = ('');
        while ($left > 0 && @asked < AT_ONCE) {
            # all that arrive in the same millisecond, each for another log
            my ($now, %now) = (int $clock);
            do {
                $now{ int rand @keys } = 1;
                $clock -= log(1 - rand) * $mean;
                $left--;
            } while ($left > 0 && int $clock == $now && @keys > 1);
            my @now = sort { $a <=> $b } keys %now;
            $calls .= $algorithm->calls($limit, $now, @keys[@now]);
            push @asked, @now;
            push @{ $arrivals[$_] }, $now for @now;
        }
        my @verdicts = $algorithm->verdicts($limit, $client->exchange($calls));
        @verdicts == @asked && !(grep { !$_->[0] } @verdicts) or die $algorithm->name, ": not all were admitted\n";
        $used[$asked[$_]] = $verdicts[$_][1] for 0 .. $#asked;
        progress(sprintf 'log lengths: %s, %d x %d, %d to go', $algorithm->name, scalar @keys, $options{entries}, $left);
    }
    @keys == grep { $_ } @arrivals[0 .. $#keys] or die $algorithm->name, ": a log got no request\n";
    my @entries = map { my $last = $_->[-1]; scalar grep { $_ > $last - $options{window} } @$_ } @arrivals;
    !$algorithm->{exact} || "@entries" eq "@used" or die $algorithm->name, ": a log has other entries than it was sent\n";
    $client->ask_all(map { ['PERSIST', $_] } @keys);
    return { keys => \@keys, clock => $clock, entries => \@entries, used => \@used };
}

# Copies logs, one after the other, to the keys `before . number . after` for number = 1 to count; each lives for an
# hour.
my $copy = <<'END';
local templates = #KEYS
for i = ARGV[3], ARGV[4] do
  local to = ARGV[1] .. string.format('%d', i) .. ARGV[2]
  redis.call('COPY', KEYS[1 + i % templates], to)
  redis.call('PEXPIRE', to, 3600000)
end
END

sub copies {
    my ($client, $templates, $before, $after, $count) = @_;
    for (my $first = 1; $first <= $count; $first += 1000) {
        my $last = $first + 999 < $count ? $first + 999 : $count;
        $client->ask('EVAL', $copy, scalar @$templates, @$templates, $before, $after, $first, $last);
        progress("copying logs: $last of $count");
    }
    return;
}

# The memory of all keys, including their names.
sub memory {
    my ($client, @keys) = @_;
    my $sum = 0;
    while (my @some = splice @keys, 0, AT_ONCE) {
        # a sample may have logged nothing yet: no key
        $sum += sum(0, grep { defined } $client->ask_all(map { ['MEMORY', 'USAGE', $_, 'SAMPLES', 0] } @some));
    }
    return $sum;
}

1;
