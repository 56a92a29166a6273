# Records (override=on) change a thousand times under load: another limit, allowed, denied, none. Each decision of two
# nodes obeyed a record that was there between the sending of its request and the arrival of its answer; a known denial
# may obey one of a second before. Requests have a cost of 0, so their answers depend on the record alone.

use strict;
use warnings;
use Test::More;
use Testbed qw(seed slow);
use Testbed::Http ();
use Testbed::Script;
use Time::HiRes qw(sleep time);

use constant { CHANGES => Testbed::operations(1000), PAUSE => 0.006, CLIENTS => 3, ENTRIES => 50, LIMIT => 60, KNOWN => 1 };

my $seed = seed();

my $bed   = Testbed->new;
my $redis = $bed->redis;
my @ports = map {
    $bed->serve(
        redis   => $redis,
        workers => 2,
        how     => '$sliding_log_source $sliding_log_limit $sliding_log_remaining',
        http    => 'sliding_log_on_error deny;',
        server  => <<'END')->port
    location /log     { sliding_log_limit log key=k limit=60 window=1h override=on count=all cap=1000 cost=0; empty_gif; }
    location /compact { sliding_log_limit compact key=k limit=60 window=1h override=on count=all cap=1000 cost=0 algorithm=compact; empty_gif; }
    location /known   { sliding_log_limit log key=k limit=60 window=1h override=on cap=1000 cost=0; empty_gif; }
    location /fill/log     { sliding_log_limit log key=k limit=60 window=1h override=on cap=1000 cost=50; empty_gif; }
    location /fill/compact { sliding_log_limit compact key=k limit=60 window=1h override=on cap=1000 cost=50 algorithm=compact; empty_gif; }
END
} 1 .. 2;
is(Testbed::Http::get($ports[0], "/fill/$_")->{status}, 200, "$_: the log has fifty entries") for qw(log compact);

# ---- clients: each writes what it saw to a file of its own

sub client {
    my ($file, $end) = @_;
    open my $out, '>', $file or die $!;
    my @paths = ('/log', '/log', '/compact', '/known');
    while (time < $end && !-e $bed->dir . '/stop') {
        my ($port, $path) = ($ports[rand @ports], $paths[rand @paths]);
        my $sent   = time;
        my $answer = Testbed::Http::get($port, $path);
        printf {$out} "%.6f %.6f %s %s %s\n", $sent, time, $path, $answer->{status}, Testbed::Http::field($answer, 'X-How') // 'none';
    }
    close $out;
    return;
}

my @children;
for my $number (1 .. CLIENTS) {
    my $pid = fork // die "fork: $!";
    if ($pid == 0) {
        srand $seed + $number;
        eval { client($bed->dir . "/client$number", time + 60); 1 } or print STDERR $@;
        POSIX::_exit(0);
    }
    push @children, $pid;
}

# ---- the changes: [an answer under it, from when it may have held, from when it no longer held]

my $writer  = Testbed::Script->new($redis, 'sliding_log');
my @keys    = map { "rl:sliding:$_:{k}:override" } qw(log compact);
my $none    = '200 redis ' . LIMIT . ' ' . (LIMIT - ENTRIES);
my @records = ([$none, 0]);
for (1 .. CHANGES) {
    my $kind  = rand;
    my $limit = int rand 100;
    my ($text, $like) =
        $kind < 0.1 ? (undef, $none)
        : $kind < 0.2 ? ('allow', '200 override ' . LIMIT . ' ' . LIMIT)
        : $kind < 0.3 ? ('deny', '429 override ' . LIMIT . ' 0')
        :               ("limit=$limit", ($limit >= ENTRIES && $limit > 0 ? 200 : 429) . " redis $limit " . ($limit > ENTRIES ? $limit - ENTRIES : 0));
    my $sent = time;
    $writer->call(defined $text ? ('MSET', map { ($_, "$text until=0 since=1 by=tester why=$sent") } @keys) : ('DEL', @keys));
    $records[-1][2] = time;
    push @records, [$like, $sent];
    sleep PAUSE * slow() * rand;
}
$records[-1][2] = time + 60;
$bed->write_file('stop', '');
waitpid $_, 0 for @children;

# ---- each answer

my ($answers, $wrong, $known, %obeyed) = (0, 0, 0);
for my $number (1 .. CLIENTS) {
    my $first = 0;
    for (split /\n/, Testbed::Process::slurp($bed->dir . "/client$number")) {
        my ($sent, $got, $path, $like) = split / /, $_, 4;
        my $from = $path eq '/known' ? $sent - KNOWN : $sent;
        $answers++;
        $known++ if $like =~ s/ cache / redis /;
        $first++ while $first < $#records && $records[$first][2] < $sent - KNOWN;
        my @held = grep { $records[$_][1] <= $got && $records[$_][2] >= $from && $records[$_][0] eq $like } $first .. $#records;
        $obeyed{$_}++ for @held;
        diag("$_: no record of that time says so") if !@held && $wrong++ < 5;
    }
}
note "$answers answers, $known of them known denials, under ", scalar keys %obeyed, ' of ', scalar @records, ' records';
cmp_ok($answers, '>', CHANGES, 'there was load');
is($wrong, 0, 'each decision obeyed the record of its moment');
cmp_ok($known, '>', 0, 'some were known denials');
cmp_ok(scalar keys %obeyed, '>', CHANGES / 4, 'many records were met');
is($redis->cli('ZCARD', 'rl:sliding:log:{k}'), ENTRIES, 'the log has not grown');

$bed->done;
