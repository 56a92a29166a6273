# The output and statuses in docs/tool.md are those of sliding-log. Every option is in its --help and its manual.

use strict;
use warnings;
use Cwd ();
use Digest::SHA qw(sha1_hex);
use File::Basename ();
use Test::More;
use Testbed qw(wait_until);
use Testbed::Certificates;
use Testbed::Process;
use Testbed::Redis;
use Testbed::Tls qw(tls_is_built);
use Testbed::Tool qw(tool);

my $root = Cwd::abs_path(File::Basename::dirname(__FILE__) . '/..');
my $bed  = Testbed->new;

# ---- the servers and files of the examples

my $plain    = $bed->redis;
my $sized    = $bed->redis(args => [qw(--maxmemory 4gb)]);
my $cluster  = $bed->cluster;
my $replica  = $bed->redis(args => [qw(--repl-diskless-sync-delay 0)]);
my $sentinel = $bed->sentinel(master => $plain);
$plain->cli(qw(CONFIG SET repl-diskless-sync-delay 0));
$plain->cli(qw(ACL SETUSER operator on >secret ~* +@all));
my ($first) = $cluster->nodes;
my @tls;
my %files = (
    'operator.password' => "secret\n",
    'session.txt'       => "hush\n",
    'nginx.conf'        => 'http { sliding_log_redis { server ' . $plain->address . "; }\n"
        . "server { sliding_log_limit sessions key=\$cookie_session limit=9 window=1m secret=on; }\n"
        . "server { sliding_log_limit login key=\$remote_addr limit=5 window=10m; } }\n",
);
if (tls_is_built()) {
    my $ca = Testbed::Certificates->new($bed);
    @tls = ($bed->redis(tls => [$ca->issue(['IP:127.0.0.1'])]));
    $files{'redis-ca.pem'} = Testbed::Process::slurp($ca->file);
}
$bed->write_file($_, $files{$_}) for keys %files;
my $text = Testbed::Process::slurp("$root/docs/tool.md");
my ($defaults) = $text =~ /^```sliding-log-conf\n(.*?)^```/ms or die "no example of /etc/sliding-log.conf\n";
$defaults = $bed->write_file('sliding-log.conf', $defaults =~ s{/etc/(?:nginx/)?}{$bed->{dir}/}gr =~ s{sliding-log\.password}{operator.password}r);
chdir $bed->dir or die $!;
END { chdir '/' }    # the directory is removed

my $now = int(time * 1000);
$plain->cli('ZADD', 'rl:sliding:api:{acct_42}', map { ($now - 5000 * $_, "request$_") } 1 .. 5);
$plain->cli('PEXPIRE', 'rl:sliding:api:{acct_42}', 66_000);
$plain->cli('ZADD', 'rl:sliding:login:{192.0.2.7}', map { ($now - 5000 * $_, "request$_") } 1 .. 5);
$plain->cli('PEXPIRE', 'rl:sliding:login:{192.0.2.7}', 659_000);
my $session = 'rl:sliding:sessions:{sha1-' . sha1_hex('hush') . '}';
$plain->cli('ZADD', $session, $now, 'request');
$plain->cli('PEXPIRE', $session, 66_000);
$plain->cli('ZADD', 'rl:sliding:audit:{acct_42}', $now, '6a5c7d0e1f2b3c4d5e6f708192a3b4c5');

$plain->cli('SET', 'rl:sliding:api:{acct_13}:override', "deny until=0 since=$now by=alice why=scraping");

my $scraper = 'rl:sliding:catalogue:{192.0.2.7}';
my $until   = $now + 3_543_000;
$plain->cli('ZADD', $scraper, -$until, 'blocked for 3600000 ms', $now, 'request');
$plain->cli('SET', "$scraper:blocks", join ' ', $until, 3_600_000, 3, $now - 60_000, 600_000, 2);
$plain->cli('PEXPIRE', $_, 3_600_000) for $scraper, "$scraper:blocks";

# A command line of the examples for the servers of this test, with its input; undef: for none of them.
sub words_of {
    my ($line) = @_;
    my ($word, @words) = split ' ', $line;
    my $mode = $line =~ /--mode (\w+)/ ? $1 : 'standalone';
    my $to   = $mode eq 'cluster' ? $first : $mode eq 'sentinel' ? $sentinel : $line =~ / size/ ? $sized : $line =~ /--tls/ ? $tls[0] : $plain;
    return undef if !$to;
    my $server = $line =~ /unix:/ ? 'unix:' . $to->path : $to->address;
    $line =~ s/ --server \S+//g;
    my $in = $line =~ s/ < (\S+)// ? $files{$1} : '';
    (undef, @words) = split ' ', $line;
    return [{}, @words] if $line =~ /--nginx-conf| acl /;
    return [{ env => { SLIDING_LOG_CONF => $defaults } }, @words] if $line !~ /--/ && $line =~ / inspect /;
    return [{ in => $in }, @words, '--server', $server];
}

# The text without what differs between runs, machines and servers.
sub shape {
    my ($text) = @_;
    $text =~ s/^(?:\S*:\d+|unix:\S+)$/SERVER/mg;
    $text =~ s/\d{4}-\d\d-\d\dT[\d:.]+Z/WHEN/g;
    $text =~ s/(?:Redis|Valkey) [\d.]+/VERSION/g;
    $text =~ s/\d[\d.]* (?:ms|[smhd])(?: \d+ [smh])?\b/TIME/g;
    $text =~ s/\d[\d.]* (?:B|kB|MB|GB)\b/SIZE/g;
    $text =~ s/\b\d+m\b/MEGABYTES/g;
    $text =~ s/"time_ms":\d+/"time_ms":N/g;
    $text =~ s/\d[\d.]* %/PERCENT/g;
    $text =~ s/^ +\w+ +latency .*/latency/m;    # depends on the machine
    $text =~ s/\d+ of 10,000 connections/N connections/;
    $text =~ s/ +/ /g;
    return $text;
}

my $ran  = 0;
while ($text =~ /^```console\n(.*?)^```/msg) {
    for my $example (split /^(?=\$ )/m, $1) {
        my ($line, $output) = $example =~ /^\$ (sliding-log [^\n]*)\n(.*)\z/s or die "no command: $example\n";
        my $words = words_of($line) or next;
        my $got   = tool(@$words);
        cmp_ok($got->{status}, '<', 3, $line) or diag($got->{err});
        is(shape($got->{out}), shape($output), "$line: the output is what docs/tool.md shows") if length $output;
        $ran++;
    }
}
cmp_ok($ran, '>', 6, 'more than 6 examples of docs/tool.md were run');

# ---- --help, the manual, and wrong usage

my $manual = Testbed::Process::slurp("$root/docs/sliding-log.1") =~ s/\\-/-/gr;
my $help   = tool('--help');
is($help->{status}, 0, 'sliding-log --help succeeds');
my @commands = $help->{out} =~ /^  ([a-z]+)\b/mg;
is("@commands", 'size doctor inspect top reset blocked unblock set unset overrides export acl', 'sliding-log --help names the commands');
my %options;
for my $page ($help, map { tool($_, '--help') } @commands) {
    unlike($page->{out}, qr/^usage: .*?  /, 'the usage has no double blanks');
    $options{$_}++ for $page->{out} =~ /^  (--[a-z-]+)/mg;
}
cmp_ok(scalar keys %options, '>', 25, '--help of all commands has more than 25 options');
like($manual, qr/^\.B[IR]? \Q$_\E\b/m, "$_ is in the manual") for sort keys %options;
is(join(' ', grep { !$options{$_} } $manual =~ /^\.B[IR]? (--[a-z-]+)/mg), '', 'every option of the manual is in --help');
is(join(' ', grep { !$options{$_} && !/^--(?:server|version)$/ } $text =~ /(--[a-z][a-z-]+)/g), '', 'every option of docs/tool.md is in --help');

is(tool($_)->{out}, $help->{out}, "sliding-log $_ does what --help does") for qw(-h help);
for my $command (@commands) {
    my $page = tool($command, '--help');
    is($page->{out}, tool(@$_)->{out}, "sliding-log @$_ does what $command --help does") for [$command, '-h'], ['help', $command];
}

for my $row (
    [['help', 'frobnicate'],                      qr/unknown command "frobnicate"/],
    [[],                                          qr/a command is missing/],
    [['frobnicate'],                              qr/unknown command "frobnicate"/],
    [['top', '--frob'],                           qr/unknown option "--frob"/],
    [['inspct', 'a', 'b'],                        qr/unknown command "inspct"; did you mean "inspect"\?; see sliding-log --help/],
    [['unste', 'a', 'b'],                         qr/unknown command "unste"; did you mean "unset"\?/],
    [['doc'],                                     qr/unknown command "doc"; did you mean "doctor"\?/],
    [['x' x 5000],                                qr/unknown command "x+"; see/],
    [['set', 'a', 'b', '--dney'],                 qr/unknown option "--dney"; did you mean "--deny"\?/],
    [['inspect', 'a', 'b', '--windows=1s'],       qr/unknown option "--windows"; did you mean "--window"\?/],
    (map { [['inspect', 'a', @$_, '--server', '127.0.0.1:1'], qr/"\Q$_->[-2]\E" has invalid value "\Q$_->[-1]\E"/] }
        ['b', '--limit', 'five'], ['b', '--window', '1x'], ['b', '--lease', '1x'], ['b', '--burst', '-1'], ['b', '--sample', '0'], ['-', '--limit', 'five']),
    [['top', '--server', '127.0.0.1:1', '--count', 'x'], qr/"--count" has invalid value/],
    [['blocked', '--server', '127.0.0.1:1', '--for', 'x'], qr/"--for" has invalid value/],
    [['size', '--server', '127.0.0.1:1', '--window', '1x'], qr/"--window" has invalid value/],
    [['export', 'a', '--server', '127.0.0.1:1', '--pause', 'x'], qr/"--pause" has invalid value/],
    [['top', "--\e[1m"],                          qr/unknown option "--\\x1b\[1m"/],
    [['top', '--json=yes'],                       qr/"--json" takes no value/],
    [['top', '--count'],                          qr/"--count" requires a value: N/],
    [['top', '--count', 'many'],                  qr/"--count" has invalid value "many", expected a whole number from 1 to 10000, as 500 or 200k/],
    [['top', '--pause', 'soon'],                  qr/"--pause" has invalid value "soon", expected a time from 1ms to 366d/],
    [['top', '--by', 'name'],                     qr/"--by" has invalid value "name", expected entries or bytes/],
    [['top', '--server', 'a b'],                  qr/"--server" has invalid value "a b", expected HOST\[:PORT\]/],
    [['top', '--server', 'a:70000'],              qr/"--server" has invalid value "a:70000"/],
    [['top', '--server', 'a', '--server', 'b'],   qr/"--server" is given more than once/],
    [['top', '--mode', 'sentinel'],               qr/"--mode" has invalid value "sentinel", expected standalone, cluster or sentinel MASTER/],
    [['top', '--mode', 'cluster', '--db', '1'],   qr/"--db" has invalid value "1", expected 0 in mode cluster/],
    [['top', '--password-file', '/nowhere'],      qr/"--password-file" has invalid value "\/nowhere", expected a readable file/],
    [['top', '--cacert', 'redis-ca.pem'],         qr/"--cacert" needs "--tls"/],
    [['top', 'a{b'],                              qr/"a\{b" is not the NAME of a limit/],
    [['inspect', 'api'],                          qr/"api" does not begin with "rl:sliding:"/],
    [['inspect'],                                 qr/expected a full key, or a limit's NAME and the value of its key/],
    [['doctor', '--algorithms', 'log,lag'],       qr/"--algorithms" has invalid value "log,lag", expected one or more of log, compact/],
    [['doctor', 'api'],                           qr/doctor takes no operand: "api"/],
    [['set', 'a', 'b'],                           qr/expected one of --limit N, --allow, --deny and, with --all, --dry-run/],
    [['set', 'a', 'b', '--allow', '--deny'],      qr/expected one of --limit N, --allow, --deny and, with --all, --dry-run/],
    [['set', 'a', 'b', '--limit', '-1'],          qr/"--limit" has invalid value "-1", expected a whole number from 0 to 1000000000000/],
    [['set', 'a', 'b', '--deny', '--for', '0'],   qr/"--for" has invalid value "0", expected a time from 1ms to 366d/],
    [['set', 'a', 'b', '--deny', '--why', "a\nb"], qr/"--why" has invalid value "a\\x0ab", expected one line/],
    [['set', 'a', 'b', '--deny', '--by', 'a b'],  qr/"--by" has invalid value "a b", expected a name without blanks/],
    [['set', 'a', '--deny'],                      qr/"a" does not begin with "rl:sliding:"/],
    [['overrides', 'a', 'b'],                     qr/expected at most one NAME/],
    [['export'],                                  qr/expected the NAME of a limit, with or without the value of its key, or a full key/],
    [['export', 'a', 'b', 'c'],                   qr/expected the NAME of a limit, with or without the value of its key, or a full key/],
    [['size', '--entries', '2000000'],            qr/"--entries" has invalid value "2000000", expected a whole number from 1 to 1000000, as 500 or 200k/],
    [['size', '--entries', '2m'],                 qr/"--entries" has invalid value "2m", expected a whole number from 1 to 1000000/],
    [['size', '--keys', '1.5k'],                  qr/"--keys" has invalid value "1.5k"/],
    [['size', '--keys', 'k'],                     qr/"--keys" has invalid value "k"/],
    [['size', '--keys', '9000000g'],              qr/"--keys" has invalid value "9000000g"/],
    tls_is_built() ? () : [['top', '--tls'],      qr/"--tls" is not possible: this tool was built with hiredis 0\.\d+\.\d+, and TLS needs .*; build with: HIREDIS=1\.2 \.\/build\.sh deb/],
) {
    my ($words, $message) = @$row;
    my $wrong = tool(@$words);
    is("$wrong->{status}$wrong->{out}", '3', "sliding-log @$words: status 3" =~ s/[^ -~]/?/gr);
    like($wrong->{err}, qr/^sliding-log: $message.*\n\z/, "sliding-log @$words: one line has the reason" =~ s/[^ -~]/?/gr);
}

$bed->done;
