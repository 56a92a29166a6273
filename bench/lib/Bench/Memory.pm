package Bench::Memory;

# The Redis memory of a logged request, by algorithm and by the length of the log.

use strict;
use warnings;
use List::Util qw(sum);

use Bench::Algorithm;
use Bench::Client;
use Bench::Logs qw(copies fill memory);
use Bench::Progress qw(progress);
use Bench::Table;

use constant { MANY_KEYS => 50_000, MANY_LONG => 1_000 };

# Options: templates, how many of the many logs are filled request by request
sub table {
    my ($world, $logs, %options) = @_;
    my @names = map { $_->name } @{ $logs->{algorithms} };
    my %bytes;    # per request, by algorithm and length
    for my $length (@{ +Bench::Logs::LENGTHS }) {
        my @filled = @{ $logs->{of_length}{$length} };
        for my $i (0 .. $#names) {
            my $entries = sum(@{ $filled[$i]{entries} });
            $bytes{ $names[$i] }{$length} = memory($logs->{client}, @{ $filled[$i]{keys} }) / $entries;
        }
    }
    my $many = many_logs($world, $options{templates});
    progress('');
    return Bench::Table->new(
        title   => 'Memory: bytes of Redis per logged request',
        columns => [['', 'log length'], map { ['', $_] } @names],
        rows    => [
            map { my $length = $_; [$length, map { digits($bytes{$_}{$length}) } @names] } @{ +Bench::Logs::LENGTHS }
        ],
        notes => [
            'MEMORY USAGE with SAMPLES 0 of the whole key, including its name, per request in the window. The log was filled by',
            'the script of the algorithm, with random arrivals in a window of one minute. counter and bucket take the same',
            'memory for any number of requests; sampled logs one in ten.',
            many_note($many, map { [$_, $bytes{$_}{ MANY_LONG() }] } @names),
        ],
        names   => \@names,
        figures => \%bytes,
    );
}

sub digits { my ($bytes) = @_; return sprintf $bytes < 0.1 ? '%.4f' : $bytes < 10 ? '%.2f' : '%.1f', $bytes }

# Stores the logs of fifty thousand clients that send a thousand requests a minute. Some are filled request by
# request, the others are copies of them, which are checked to be as large and to decide alike.
sub many_logs {
    my ($world, $templates) = @_;
    my $redis  = $world->redis;
    my $client = Bench::Client->new($redis);
    my ($compact) = grep { $_->name eq 'compact' } Bench::Algorithm::all($client);

    my $empty = $client->info('memory')->{used_memory};
    my $logs = fill($client, $compact, keys => $templates, entries => MANY_LONG, window => Bench::Logs::WINDOW,
        start => Bench::Logs::START);
    my ($before, $after) = $compact->key('#') =~ /^(.*)#(.*)$/;
    copies($client, $logs->{keys}, $before, $after, MANY_KEYS - $templates);
    my $used = $client->info('memory')->{used_memory} - $empty;

    my $keys = $client->ask('DBSIZE');
    $keys == MANY_KEYS or die "bench: $keys keys instead of ${\ MANY_KEYS}\n";
    my @entries = @{ $logs->{entries} };
    my @of_copy = map { $entries[$_ % $templates] } 1 .. MANY_KEYS - $templates;
    my $size    = memory($client, @{ $logs->{keys} });
    my $copied  = memory($client, map { $compact->key($_) } 1 .. $templates);
    abs($copied / $size - 1) < 0.02 or die "bench: logs of $size bytes take $copied as copies\n";
    for my $number (1 .. $templates) {
        for my $room (0, 1) {
            # a window that no entry has left since the last request
            my $limit = { limit => $of_copy[$number - 1] + $room, window => 10 * Bench::Logs::WINDOW };
            my $call = $compact->calls($limit, int $logs->{clock}, $compact->key($number));
            my ($verdict) = $compact->verdicts($limit, $client->exchange($call));
            $verdict->[0] == $room or die "bench: a copy of a log decides otherwise\n";
        }
    }
    $redis->kill;
    return { used => $used, requests => sum(@entries, @of_copy), templates => $templates };
}

sub many_note {
    my ($many, @algorithms) = @_;
    return (
        sprintf('%d logs with %.1f million requests, algorithm=compact, stored: used_memory grew by %.1f MB, %.2f bytes',
            MANY_KEYS, $many->{requests} / 1e6, $many->{used} / 1e6, $many->{used} / $many->{requests}),
        sprintf('a request, including the key space (%d of the logs were filled request by request, the others are copies).',
            $many->{templates}),
        "Computed from the row of ${\ MANY_LONG} they take: "
            . join(', ', map { sprintf '%s %.0f MB', $_->[0], $_->[1] * $many->{requests} / 1e6 } @algorithms) . '.',
    );
}

1;
