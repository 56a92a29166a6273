# sliding-log export: every entry of every log of a limit, once, with the ids of the access log. Counts are verified,
# also of logs that change meanwhile.

use strict;
use warnings;
use JSON::PP ();
use Test::More;
use Testbed qw(wait_until);
use Testbed::Http qw(get);
use Testbed::Process;
use Testbed::Tool qw(tool);
use Time::HiRes qw(time sleep);

my $bed   = Testbed->new;
my $redis = $bed->redis;
my $nginx = $bed->serve(
    redis  => $redis,
    http   => <<'HTTP',
    log_format audit '$request_id $arg_k $status';
    access_log %%DIR%%/access.log audit;
    sliding_log_on_error deny;
HTTP
    server => <<'END',
    location / { sliding_log_limit audit key=$arg_k limit=4 window=1h id=$request_id; empty_gif; }
    location /compact { sliding_log_limit packed key=$arg_k limit=4 window=1h algorithm=compact; empty_gif; }
END
);
my @at = ('--server', $redis->address);

sub lines { return map { JSON::PP::decode_json($_) } split /\n/, $_[0]{out} }

# ---- joins the access log

my $before = int(time * 1000) - 1;
get($nginx->port, "/?k=client$_") for map { ($_) x 6 } 1 .. 5;
my $after = int(time * 1000) + 1;
my %admitted;
ok(wait_until('the access log', 5, sub {
    %admitted = map { /^(\S+) (\S+) 200$/ ? ($1 => $2) : () } split /\n/, Testbed::Process::slurp($nginx->dir . '/access.log');
    keys %admitted == 20;
}), 'twenty requests were admitted');
my $export = tool('export', 'audit', @at);
is($export->{status}, 0, 'export exits with 0');
my @entries = lines($export);
is(scalar @entries, 20, 'export has as many entries as there were admitted requests');
is(join(' ', sort map { $_->{id} . '=' . $_->{key} } @entries), join(' ', sort map { "$_=rl:sliding:audit:{$admitted{$_}}" } keys %admitted),
    'export has the ids and keys of the access log');
is(scalar(grep { $_->{time_ms} < $before || $_->{time_ms} > $after } @entries), 0, 'export has the times at which the requests came');
my ($one) = @entries;
like($one->{time}, qr/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/, 'export has each time in ISO 8601');
is(substr($one->{time}, 20, 3), sprintf('%03d', $one->{time_ms} % 1000), 'both forms of a time have the same milliseconds');
like($export->{err}, qr/^sliding-log: 20 entries of 5 logs, the count of each log was verified$/m, 'export says that the counts were verified');

# ---- one log

my @of_one = grep { $_->{key} eq 'rl:sliding:audit:{client3}' } @entries;
for my $words (['audit', 'client3'], ['rl:sliding:audit:{client3}']) {
    my $one = tool('export', @$words, @at);
    is_deeply([sort { $a->{id} cmp $b->{id} } lines($one)], [sort { $a->{id} cmp $b->{id} } @of_one], "export @$words: the entries of that log only");
    is("$one->{status} $one->{err}", "0 sliding-log: 4 entries of 1 log, the count of each log was verified\n", "export @$words: its count was verified");
}
my $gone = tool('export', 'audit', 'nobody', @at);
is("$gone->{status} $gone->{out}$gone->{err}", "1 sliding-log: no log at rl:sliding:audit:{nobody}\n", 'export of a log that is not there exits with 1');
is(tool('export', 'packed', 'one', @at)->{status}, 1, 'export of no log of another algorithm exits with 1');
get($nginx->port, '/compact?k=one');
my $refused = tool('export', 'packed', 'one', @at);
is("$refused->{status} $refused->{out}", '1 ', 'export of a log of another algorithm exits with 1');
like($refused->{err}, qr/^sliding-log: 1 key of rl:sliding:packed:\{one\} was left out: not of algorithm=log$/m, 'export of a log of another algorithm reports it');
$redis->cli('DEL', 'rl:sliding:packed:{one}');
is(tool('export', 'other:audit:{x}', @at)->{status}, 3, 'export of a key of another program');
like(tool('export', '--secret', 'audit', 'client3', @at)->{err}, qr/no log at rl:sliding:audit:\{sha1-[0-9a-f]{8}\}$/m, 'export --secret: the key is made of the hash');

my $csv = tool('export', 'audit', @at, '--format', 'csv');
my ($head, @rows) = split /\r\n/, $csv->{out};
is($head, 'id,time_ms,time,entry,key', 'CSV begins with the names of its columns');
is(join("\n", sort @rows), join("\n", sort map { join ',', @$_{qw(id time_ms time entry key)} } @entries), 'CSV has the entries that JSON has');
is(tool('export', 'nothing', @at)->{out}, '', 'export of a limit without logs writes nothing');

get($nginx->port, '/compact?k=a');
my $packed = tool('export', 'packed', @at);
is("$packed->{status} $packed->{out}", '1 ', 'export of entries without ids writes nothing and exits with 1');
like($packed->{err}, qr/1 key of packed was left out: not of algorithm=log/, 'export reports that the keys are not logs of algorithm=log');

# ---- ids and keys of any bytes, repeated ids

my $now = int(time * 1000);
$redis->cli('ZADD', "rl:sliding:odd:{\xff\n}", $now, "a\"b,c\e[1m", $now, "\xfe", $now, 'id', $now, 'id~unique', $now, 'id~unique~2', -$now - 9e5, 'blocked for 1000 ms');
my $odd = tool('export', 'odd', @at);
unlike($odd->{out}, qr/[^\x20-\x7e\n]/, 'JSON has hostile bytes escaped');
is(join(' | ', sort map { $_->{id_hex} // unpack('H*', $_->{id}) } lines($odd)), join(' | ', sort unpack('H*', "a\"b,c\e[1m"), 'fe', (unpack('H*', 'id')) x 3),
    'all ids of any bytes are exported as in the access log');
unlike(tool('export', 'odd', @at, '--format', 'csv')->{out}, qr/[^\x20-\x7e\r\n]/, 'CSV has hostile bytes escaped');
like(tool('export', 'odd', @at, '--format', 'csv')->{out}, qr/^"a""b,c\\x1b\[1m",/m, 'CSV has a field with a quote quoted');

# ---- texts that a spreadsheet takes for formulas

my @formulas = ('=1+1', '+1', '-1+1', '-', '@SUM(A1)', "\t=1", "\r=1", '=a,"b"');
my @harmless = ('-15', '15', "'", '1=1', 'a-b', '~=1');
$redis->cli('ZADD', 'rl:sliding:cells:{=key}', map { ($now, $_) } @formulas, @harmless);
my @cells = grep { /^[^,]/ } split /\r\n/, tool('export', 'cells', @at, '--format', 'csv')->{out};
my %begins = map { /^((?:"(?:[^"]|"")*"|[^,"]*)),\d+,/ ? ($1 => 1) : () } @cells;
is(join(' ', sort grep { !/^id$/ } keys %begins), join(' ', sort "'=1+1", "'+1", "'-1+1", "'-", q('@SUM(A1)), '\x09=1', '\x0d=1', q("'=a,""b"""), qw(-15 15 ' 1=1 a-b)),
    'CSV has an apostrophe before possible formulas only');
is(scalar(grep { /,rl:sliding:cells:\{=key\}$/ } @cells), @formulas + @harmless - 1, 'CSV has keys that begin with their prefix');
like(tool('export', 'cells', @at, '--format', 'json')->{out}, qr/"id":"=1\+1"/, 'JSON has a possible formula unchanged');

# ---- long logs, read in pieces while entries come and leave

my $fill = 'for i = 1, ARGV[1] do redis.call("ZADD", KEYS[1], ARGV[2] + i, "m" .. i) end';
$redis->cli('EVAL', $fill, 1, 'rl:sliding:long:{quiet}', 25_000, $now);
my $long = tool('export', 'long', @at);
is(scalar(my @all = lines($long)), 25_000, 'export reads a long log in chunks');
is(join(' ', map { $_->{id} } @all[0, -1]), 'm1 m25000', 'export has the entries of a long log in order');
is(scalar keys %{ { map { $_->{entry} => 1 } @all } }, 25_000, 'export has each entry of a long log once');
is($redis->calls('keys'), 0, 'export never calls KEYS');
cmp_ok($redis->calls('watch'), '>', 0, 'export reads under WATCH');

# a permanent writer: prunes at one end and adds at the other
my $writer = bless { log => '/dev/null' }, 'Testbed::Process';
push @{ $bed->{processes} }, $writer;
$writer->spawn_code(sub {
    my $socket = IO::Socket::INET->new(PeerAddr => $redis->address) or die;
    my $script = 'local n = redis.call("INCR", "n") redis.call("ZADD", KEYS[1], ARGV[1] + 25000 + n, "w" .. n) redis.call("ZPOPMIN", KEYS[1])';
    my $command = join "\r\n", '*5', map({ ('$' . length, $_) } 'EVAL', $script, 1, 'rl:sliding:long:{quiet}', $now), '';
    while (1) {
        print {$socket} $command;
        $socket->flush;
        <$socket>;
        select undef, undef, undef, 0.0005;
    }
});
ok(wait_until('the writer', 5, sub { ($redis->cli('GET', 'n') || 0) > 10 }), 'a writer changes the log all the time');
my $hot = tool('export', 'long', @at);
is($hot->{status}, 0, 'a log that is written to meanwhile is read') or diag($hot->{err});
my @hot = lines($hot);
is(scalar @hot, 25_000, 'a log that is written to meanwhile has all its entries');
my ($first, $last) = ($hot[0]{time_ms}, $hot[-1]{time_ms});
is($last - $first, 24_999, 'a log that is written to meanwhile is read as of one moment');

# ---- where the output goes

is(tool('export', 'long', @at, '--format', 'xml')->{status}, 3, 'an unknown format is refused with status 3');
is(system("'" . Testbed::Tool::binary() . "' export long --server " . $redis->address . ' 2>/dev/null >/dev/full') >> 8, 3, 'a full disk is status 3');

$bed->done;
