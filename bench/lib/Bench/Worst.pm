package Bench::Worst;

# The longest calls: each kind of call that nginx sends, to long logs, as a client would make them that wants Redis to be
# slow. The time of a call, in which Redis serves nobody else, is that of its SLOWLOG, or the CPU time of its main thread if
# that is less: then another process had its core.

use strict;
use warnings;
use FindBin;
use IPC::Open2 qw(open2);
use List::Util qw(max min);
use Time::HiRes qw(sleep time);

use Testbed::Algorithm qw(%ALL_SCRIPTS takes);
use Testbed::Process;
use Testbed::Script;
use Bench::Client qw(command);
use Bench::Progress qw(progress);
use Bench::Table qw(median);
use Bench::WorstCalls;

use constant {
    ALGORITHMS    => [qw(log compact sampled inflight counter bucket quota)],
    KEY           => 'rl:sliding:worst:{acct}',
    MOST_REQUESTS => 512,           # of a call, as Batch in src/store/batch.hpp
    MOST_WORK     => 1_000_000,     # ns of an estimate, as in src/store/work.hpp
    APART         => 20_000,        # ms between entries of the log that is not dense
    BOUND         => 10_000,        # us that no call may take on a log of BOUNDED entries
    BOUNDED       => 100_000,
    FEWEST        => 1_000,         # us: an estimate may miss what is shorter, which delays nobody
};

# How the entries of a log came; `far`: the ms from one to the next are three bytes.
my %kinds = (
    compact  => ['one each ms', 'cost 5 each ms', 'costs 1 and 4', 'one in 20 s', 'ahead'],
    zset     => ['one each ms', 'ahead'],
    constant => ['used'],
);

# Options: worst => [[entries, turns], ...], only
sub table {
    my ($world, %options) = @_;
    my $redis  = $world->redis_with_module('--slowlog-log-slower-than', 0, '--slowlog-max-len', 32);
    my $client = Bench::Client->new($redis);
    my $self   = bless { redis => $redis, client => $client, estimates => estimates($world) }, __PACKAGE__;
    my (@rows, @low, @long);
    for my $algorithm (@{ +ALGORITHMS }) {
        my %scripts = (
            script => Testbed::Script->new($redis, $ALL_SCRIPTS{$algorithm}),
            module => Testbed::Script->new($redis, $ALL_SCRIPTS{$algorithm}, native => 1),
        );
        my @calls = grep { $_->{for}->($algorithm) && "$algorithm: $_->{name}" =~ /$options{only}/ } Bench::WorstCalls::all();
        my %found;    # call => entries => kind => { estimate, script, module }
        for my $size (@calls ? @{ $options{worst} } : ()) {
            my ($entries, $turns) = @$size;
            for my $kind (@{ $kinds{ group($algorithm) } }) {
                next if !grep { suits($_, $kind) } @calls;
                my $log = $self->fill($algorithm, $kind, $entries, $scripts{module});
                for my $call (grep { suits($_, $kind) } @calls) {
                    my $title = "$algorithm, $call->{name}, $entries entries, $kind";
                    progress("worst: $title");
                    my $estimate = $self->estimate($log, $call);
                    my %took     = map { $_ => [$self->times($scripts{$_}, $log, $call, $turns, $title)] } keys %scripts;
                    $found{ $call->{name} }{$entries}{$kind} = { estimate => $estimate, %took };
                    for my $way (sort keys %took) {
                        my $took = median(@{ $took{$way} });
                        push @low,  sprintf '%s, %s: %.0f us, estimated %.0f', $title, $way, $took, $estimate if $estimate && $took > 2 * $estimate && $took > FEWEST;
                        push @long, sprintf '%s, %s: %.0f us', $title, $way, $took if $entries <= BOUNDED && $took > BOUND;
                    }
                }
                $client->ask('UNLINK', $log->{key});
            }
        }
        push @rows, map { row($algorithm, $_->{name}, $found{ $_->{name} }, map { $_->[0] } @{ $options{worst} }) } @calls;
    }
    progress('');
    $redis->kill;
    my $table = Bench::Table->new(
        title   => 'Time of the longest calls',
        columns => [
            ['', 'algorithm'], ['', 'call'], ['', 'log'],
            map { ["us, N = $_->[0]", 'estimate'], ['', 'script'], ['', 'native module'] } @{ $options{worst} },
        ],
        rows  => \@rows,
        notes => [
            'Microseconds of Redis for one call, in which it serves nobody else: median / longest of ' . join(' and ', map { $_->[1] } @{ $options{worst} }) . ' calls,',
            'each to a copy of a log of N entries. *log*: how its entries came, of those tried the one whose',
            'call by the script takes longest. *estimate*: of src/store/work.hpp, by which a worker divides its requests into calls; none where a worker',
            'cannot know what a log has, or has lost.',
        ],
    );
    $table->{broken} = join '', map { "$_\n" } (@low ? ('the estimate is less than half of what these take:', @low) : ()),
        (@long ? ('these take more than ' . BOUND / 1000 . ' ms with ' . BOUNDED . ' entries:', @long) : ());
    return $table;
}

sub group { my ($algorithm) = @_; return $algorithm eq 'compact' ? 'compact' : $algorithm =~ /^(?:log|sampled|inflight)$/ ? 'zset' : 'constant' }

sub suits { my ($call, $kind) = @_; return ($call->{on} // '') eq 'ahead' ? $kind eq 'ahead' : $kind ne 'ahead' }

sub row {
    my ($algorithm, $name, $found, @sizes) = @_;
    my $first = $found->{ $sizes[0] };
    my ($kind) = sort { median(@{ $first->{$b}{script} }) <=> median(@{ $first->{$a}{script} }) } sort keys %$first;
    return [
        $algorithm, $name, $kind,
        map {
            my $cell = $found->{$_}{$kind};
            (($cell->{estimate} ? sprintf '%.0f', $cell->{estimate} : ''), map { sprintf '%.0f / %.0f', median(@$_), max(@$_) } @$cell{qw(script module)})
        } @sizes,
    ];
}

# ---- logs

# A log of so many entries: key, entries, at->(i) and name->(i) of an entry.
sub fill {
    my ($self, $algorithm, $kind, $entries, $script) = @_;
    progress("worst: fills $algorithm, $entries entries, $kind");
    my $client = $self->{client};
    my $key    = KEY . ':full';
    my $now    = int(1000 * time);
    my $step   = $kind eq 'one in 20 s' ? APART : 1;
    my ($one, $other) = $kind eq 'cost 5 each ms' ? (5, 5) : $kind eq 'costs 1 and 4' ? (1, 4) : (1, 1);
    my $requests = int(2 * $entries / ($one + $other));
    my $oldest   = $kind eq 'ahead' ? $now + 600_000 : $now - 1000 - $requests * $step;
    my $log      = {
        algorithm => $algorithm, key => $key, entries => $entries, kind => $kind,
        at   => sub { return $oldest + int($_[0] * $requests / $entries) * $step },
        name => sub { return sprintf 'q7ZkT-0x%05x', $_[0] },
    };
    $client->ask('UNLINK', $key);
    if (group($algorithm) eq 'zset') {
        for (my $i = 0; $i < $entries; $i += 500) {
            $client->ask('ZADD', $key, map { ($log->{at}->($_), $log->{name}->($_)) } $i .. $i + 499);
        }
    }
    elsif (group($algorithm) eq 'constant') {
        $self->ask($script, '', $log, { limit => 10 * $entries, cost => $entries }, $key);
    }
    else {
        for (my $i = 0; $i < $requests; $i += 500) {
            $client->exchange(join '', map {
                command($self->words($script, $oldest + $_ * $step, $log, { limit => 10 * $entries, cost => $_ % 2 ? $other : $one }, $key))
            } $i .. $i + 499);
        }
    }
    return $log;
}

# ---- calls

# The words of what is asked of the log at that key; `now`: '' is Redis's clock.
sub words {
    my ($self, $script, $now, $log, $ask, $key, $names) = @_;
    my $algorithm = $log->{algorithm};
    my $unit      = Bench::WorstCalls::unit($algorithm);
    my $window    = $ask->{window} // ($algorithm eq 'quota' ? Bench::WorstCalls::MONTH : Bench::WorstCalls::WINDOW);
    my $limit     = $ask->{limit} * $unit;
    my $requests  = $ask->{requests} // 1;
    my $options   = join ' ', map { $_ // () }
        $ask->{named} ? 'ids' : undef,
        ($ask->{cost} // 1) != 1 ? "cost=$ask->{cost}" : undef,
        $ask->{count} ? 'count=all' : undef,
        $ask->{delay} ? ("delay=$ask->{delay}", "ahead=$ask->{delay}") : undef,
        $ask->{block} ? 'block=' . ($ask->{times} // $ask->{block}) : undef,
        $ask->{settle}  ? "settle=$ask->{settle}"   : undef,
        $ask->{ended}   ? "ended=$ask->{ended}"     : undef,
        $ask->{permits} ? "permits=$ask->{permits}" : undef,
        $ask->{override} ? 'override' : undef,
        takes($algorithm, 'burst')  ? "burst=$limit" : undef,
        takes($algorithm, 'sample') ? 'sample=' . Bench::WorstCalls::SAMPLE : undef;
    my %of_log = (key => $key, limit => $limit, window => $window, cap => ($ask->{cap} // 0) * $unit, ttl => 2 * $window, options => $options);
    my $named  = rand() . '~';
    my @names  = map { sprintf '%.8s%d', $named, $_ } 1 .. $requests;
    $of_log{ids} = ['id'] if $ask->{named};
    return $script->words($now, [$names // \@names, \%of_log]);
}

sub ask {
    my ($self, $script, $now, @of) = @_;
    my $reply = $script->call($self->words($script, $now, @of));
    die "bench: worst: $reply\n" if !ref $reply || !ref $reply->[0];
    return $reply->[0][0];
}

# Microseconds of the call, to so many copies of the log.
sub times {
    my ($self, $script, $log, $call, $turns, $title) = @_;
    my ($client, $key) = ($self->{client}, KEY);
    my $is_kept = group($log->{algorithm}) eq 'zset' && !grep { $call->{$_} } qw(before raw back);    # a call changes little of it
    my @took;
    for my $turn (1 .. $turns) {
        $client->ask_all(['UNLINK', $key, "$key:override", "$key:blocks"], ['COPY', $log->{key}, $key]) if $turn == 1 || !$is_kept;
        my ($commands, $asked, $pause) = $call->{before} ? $call->{before}->($log, $key) : ([], []);
        $client->ask(@$_) for @$commands;
        $self->ask($script, '', $log, $_, $key) for @$asked;
        my $ask = $call->{ask} ? $call->{ask}->($log) : {};
        if ($ask->{override}) {
            $client->ask('SET', "$key:override", 'limit=' . $ask->{override} * Bench::WorstCalls::unit($log->{algorithm}) . ' until=0 since=1 by=bench why=');
        }
        if (($ask->{requests} // '') eq 'most') {
            $ask->{requests} = $self->most_requests($log, $ask);
        }
        my @words = $call->{raw} ? $call->{raw}->($log, $key, $script->command) : $call->{back} ? $self->take_back($script, $log, $call, $ask, $key) : $self->words($script, '', $log, $ask, $key);
        sleep $pause if $pause;
        $client->ask('SLOWLOG', 'RESET');
        my $before = $self->cpu;
        my $reply  = $script->call(@words);
        my $cpu    = ($self->cpu - $before) / 1000;
        check($call, $ask, $reply, $title);
        my ($entry) = grep { lc $_->[3][0] eq lc $words[0] } @{ $client->ask('SLOWLOG', 'GET', 32) };
        push @took, min($entry->[2], $cpu);
    }
    return @took;
}

# Nanoseconds that Redis's main thread has had, when it sleeps.
sub cpu {
    my ($self) = @_;
    my ($pid, $before, $now) = ($self->{redis}->pid, -1, 0);
    while ($now != $before) {
        sleep 0.0003;
        ($before, $now) = ($now, (split ' ', Testbed::Process::slurp("/proc/$pid/task/$pid/schedstat"))[0]);
    }
    return $now;
}

sub take_back {
    my ($self, $script, $log, $call, $ask, $key) = @_;
    my $entry = $call->{back}->($log);
    my $at    = group($log->{algorithm}) eq 'constant' ? int(1000 * time) : $log->{at}->($entry);
    return $self->words($script, Testbed::Script::taking_back({ now => '', logged => $at, taken => $at }), $log, $ask, $key, [$log->{name}->($entry)]);
}

# A call that does something else than its name says has no place in the table.
sub check {
    my ($call, $ask, $reply, $title) = @_;
    my $text = ref $reply ? join ' ', map { ref ? @$_ : $_ } @$reply : $reply;
    my $admitted = ref $reply && ref $reply->[0] ? $reply->[0][0] : undef;
    my $wanted   = ($call->{admits} // 0) < 0 ? $ask->{requests} : $call->{admits};
    my $fine     = defined $wanted ? defined $admitted && $admitted == $wanted : $text !~ /error/ && $text =~ /^[1-9]|^0$/;
    $fine &&= $reply == 1 if $call->{back} && $title !~ /^sampled/;
    die "bench: $title: Redis replied $text\n" if !$fine;
    return;
}

# ---- estimates

# What a call of one request is estimated to take, and each request more (ns).
sub estimates {
    my ($world) = @_;
    my $root    = "$FindBin::RealBin/..";
    my $program = $world->dir . '/estimate';
    system('g++', '-std=c++20', '-O1', "-I$root/src", "$root/bench/estimate.cpp", '-o', $program) == 0 or die "bench: bench/estimate.cpp does not compile\n";
    open2(my $from, my $to, $program);
    return { from => $from, to => $to };
}

sub estimated {
    my ($self, $log, $ask) = @_;
    my $unit = Bench::WorstCalls::unit($log->{algorithm});
    print { $self->{estimates}{to} } join(' ', $log->{algorithm}, $ask->{limit} * $unit, $ask->{cost} // 1, map({ $ask->{$_} // 0 } qw(named count delay block)),
        takes($log->{algorithm}, 'sample') ? Bench::WorstCalls::SAMPLE : 0, $ask->{permits} // 0), "\n";
    $self->{estimates}{to}->flush;
    return split ' ', readline $self->{estimates}{from};
}

# Of one log.
sub most_requests {
    my ($self, $log, $ask) = @_;
    my ($first, $more) = $self->estimated($log, $ask);
    my $most = 1 + int((MOST_WORK - $first) / $more);
    return $most < 1 ? 1 : $most > MOST_REQUESTS ? MOST_REQUESTS : $most;
}

# Microseconds; undef where nothing is estimated.
sub estimate {
    my ($self, $log, $call) = @_;
    return if $call->{blind} || $call->{back} || $call->{raw};
    my $ask = $call->{ask}->($log);
    my ($first, $more) = $self->estimated($log, $ask);
    my $others = ($ask->{requests} // 1) eq 'most' ? $self->most_requests($log, $ask) - 1 : 0;
    return ($first + $others * $more) / 1000;
}

1;
