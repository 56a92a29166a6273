# sliding-log acl: the printed rules permit all that nginx and the tool need in a Redis, behind Sentinels and in a
# Cluster. The documents show the same rules.

use strict;
use warnings;
use Cwd ();
use File::Basename ();
use Test::More;
use Testbed qw(conf wait_until);
use Testbed::Acl qw(documented_rule);
use Testbed::Http qw(get);
use Testbed::Native qw(native_module unload);
use Testbed::Process;
use Testbed::Tool qw(tool tool_json);

my $root = Cwd::abs_path(File::Basename::dirname(__FILE__) . '/..');
my $bed  = Testbed->new;

# ---- the documents show its output

my $shown = 0;
for my $file (qw(topologies operations tool)) {
    my $text = Testbed::Process::slurp("$root/docs/$file.md");
    while ($text =~ /^```console\n(.*?)^```/msg) {
        for my $example (grep { /^\$ sliding-log acl / && !/--nginx-conf/ } split /^(?=\$ )/m, $1) {
            my ($line, $output) = $example =~ /^\$ sliding-log ([^\n]*)\n(.*)\z/s;
            is(tool(split ' ', $line)->{out}, $output, "$file.md: sliding-log $line");
            $shown++;
        }
    }
}
cmp_ok($shown, '>=', 6, 'the documents show the rules of each mode');
my ($limiter) = tool('acl', '--algorithms', 'log,compact')->{out} =~ /^ACL SETUSER limiter (.*)/;
is($limiter =~ s/PASSWORD/x/r, documented_rule('limiter', 'x'), 'operations.md has the rule of log and compact');
my ($operator) = tool('acl', '--for', 'tool')->{out} =~ /^ACL SETUSER operator (.*)/;
is($operator =~ s/PASSWORD/x/r, documented_rule('operator', 'x'), "operations.md has the tool's");
my ($watcher) = tool('acl', '--mode', 'sentinel limits')->{out} =~ /^ACL SETUSER watcher (.*)/m;
is($watcher =~ s/PASSWORD/x/r, documented_rule('watcher', 'x'), "operations.md has that of the Sentinels");

# ---- nginx and the tool have only the printed user

my $conf = conf(
    store  => '%%WHERE%% timeout 3s; connect_timeout 3s; reconnect 20ms 200ms;',
    http   => 'sliding_log_on_error deny;',
    server => '%%LIMITS%%',
);
my %all = ((map { $_ => "algorithm=$_ block=1h,2h" } qw(log compact counter bucket)), sampled => 'algorithm=sampled sample=1 block=1h,2h');

# Locations with a limit each: one denies, one slides, one gives back.
sub locations {
    my (%limits) = @_;
    my %open = map { $_ => $limits{$_} =~ s/ block=\S+//r } keys %limits;
    return join "\n", map { (
        "location /$_/denies { sliding_log_limit $_.denies key=\$arg_k limit=3 window=1h $limits{$_}; empty_gif; }",
        "location /$_/slides { sliding_log_limit $_.slides key=\$arg_k limit=9 window=20ms $open{$_}; empty_gif; }",
        "location /$_/back   { sliding_log_limit $_.back key=\$arg_k limit=3 window=1h refund=404 $limits{$_}; try_files /none =404; }",
    ) } sort keys %limits;
}

# The printed rules, each given to its servers; all have the password "us3rpass".
sub grant {
    my ($servers, $sentinels, @words) = @_;
    my $printed = tool('acl', @words);
    is($printed->{status}, 0, "sliding-log acl @words") or diag($printed->{err});
    my @rules = grep { /^ACL / } split /\n/, $printed->{out} =~ s/PASSWORD/us3rpass/gr;
    is(scalar @rules, $sentinels ? 2 : 1, 'a rule for each kind of server');
    is($_->cli(split ' ', $rules[0]), 'OK', 'Redis accepts the rule') for @$servers;
    is($sentinels->cli(split ' ', $rules[1]), 'OK', 'the Sentinel accepts the rule') if $sentinels;
    return;
}

sub statuses { my ($nginx, $path, $times) = @_; return join ' ', map { get($nginx->port, $path)->{status} } 1 .. $times }

sub nothing_refused {
    my ($what, @servers) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    my @refused;
    for my $server (@servers) {
        push @refused, $server->cli('ACL', 'LOG');
        my $answered = $server->cli('INFO', 'errorstats');
        push @refused, $answered =~ /^(errorstat_NOPERM\S*)/mg;
    }
    return is(join(' ', grep { length } @refused), '', "$what: nothing was refused");
}

sub nginx_is_served {
    my ($what, $nginx, $limits, @tags) = @_;
    for my $tag (@tags) {
        for my $name (sort keys %$limits) {
            like(statuses($nginx, "/$name/denies?k=$tag", 5), qr/^200 .*429$/, "$what: $name admits and denies");
            unlike(statuses($nginx, "/$name/slides?k=$tag", 40), qr/50\d/, "$what: $name slides");
            is(statuses($nginx, "/$name/back?k=$tag", 4), '404 404 404 404', "$what: $name gives back");
        }
    }
    return;
}

sub tool_is_served {
    my ($what, $limits, $tag, @where) = @_;
    my @as = ({ env => { SLIDING_LOG_PASSWORD => 'us3rpass', SLIDING_LOG_SENTINEL_PASSWORD => 'us3rpass' } });
    my ($name) = sort keys %$limits;
    is(tool(@as, 'inspect', "$name.denies", $tag, @where)->{status}, 0, "$what: inspect");
    is(tool(@as, 'top', @where)->{status}, 0, "$what: top");
    is(tool(@as, 'blocked', @where)->{status}, 0, "$what: blocked");
    is(tool(@as, 'unblock', "$_.denies", $tag, @where)->{status}, 0, "$what: unblock of $_") for grep { $limits->{$_} =~ /block/ } sort keys %$limits;
    cmp_ok(tool(@as, 'export', 'log.denies', @where)->{status}, '<', 2, "$what: export");
    cmp_ok(tool(@as, 'export', 'log.denies', $tag, @where)->{status}, '<', 2, "$what: export of one log");
    my $size = tool(@as, 'size', '--entries', 200, @where);
    is($size->{status}, 0, "$what: size") or diag($size->{err});
    is(tool(@as, 'reset', "$name.denies", $tag, @where)->{status}, 0, "$what: reset");
    my $doctor = tool_json(@as, 'doctor', @where);
    is(join(' ', map { "$_->{check}: $_->{text}" } grep { $_->{check} =~ /^(?:rights|scripts|server|cluster|sentinel)$/ && $_->{status} ne 'ok' } @{ $doctor->{checks} }),
        '', "$what: doctor sees all that it looks at");
    return;
}

my @logins = qw(--user operator);

# one Redis, another prefix, a database
{
    my $redis = $bed->redis;
    my @words = ('--prefix', 'my*limits:', '--db', 2);
    grant([$redis], undef, @words);
    grant([$redis], undef, @words, '--for', 'tool');
    my $nginx = $bed->nginx($conf, LIMITS => locations(%all),
        WHERE => 'server ' . $redis->address . '; username limiter; password us3rpass; prefix my*limits:; database 2;');
    nginx_is_served('one Redis', $nginx, \%all, 'a');
    ok(wait_until('its memory to be checked', 5, sub { $redis->calls('info') > 0 }), 'one Redis: its memory is checked');
    tool_is_served('one Redis', \%all, 'a', '--server', $redis->address, @words, @logins);
    nothing_refused('one Redis', $redis);
}

# the same, from the configuration
{
    my $redis = $bed->redis;
    my %some  = (log => '');
    my $nginx = $bed->configuration($conf, LIMITS => locations(%some) . ' location /own { sliding_log_limit own key=a limit=1 window=1s algorithm=bucket store=local; empty_gif; }',
        WHERE => 'server ' . $redis->address . '; username "gate-keeper"; password us3rpass; clock nginx;');
    my @conf = ('--nginx-conf', $nginx->dir . '/nginx.conf');
    grant([$redis], undef, @conf);
    my ($rule) = tool('acl', @conf)->{out} =~ /^ACL SETUSER gate-keeper (.*)/;
    unlike($rule, qr/\+(?:hset|set|pttl|zscore|time|select)\b/, 'no right for other algorithms, for block= and for Redis\'s clock');
    push @{ $bed->{processes} }, $nginx->start;
    nginx_is_served('a configuration', $nginx, \%some, 'a');
    my $blocks = $bed->write_file('blocks.conf', 'http { sliding_log_redis { server 127.0.0.1; } sliding_log_limit a key=a limit=1 window=1s block=1h; }');
    unlike(tool('acl', '--nginx-conf', $blocks)->{out}, qr/\+(?:mget|set|del)\b/, 'no right for blocks with several times where they have one');
    $blocks = $bed->write_file('blocks.conf', 'http { sliding_log_redis { server 127.0.0.1; } sliding_log_limit a key=a limit=1 window=1s block=1h,2h; }');
    like(tool('acl', '--nginx-conf', $blocks)->{out}, qr/\+del \+mget \+pttl \+set \+zscore\b/, 'rights for several times where they are used');
    like(tool('acl', @conf, '--user', 'another')->{out}, qr/^ACL SETUSER another /, '--user overrides the name');
    like(tool('acl', @conf, '--for', 'tool')->{out}, qr/^ACL SETUSER operator /, 'the tool has a user of its own');
    nothing_refused('a configuration', $redis);
    unlike(tool('acl', @conf)->{out}, qr/us3rpass/, 'a password is not printed');
    my $refused = tool('inspect', 'log.denies', 'a', @conf);
    like("$refused->{status} $refused->{err}", qr/^3 sliding-log: TYPE answered: NOPERM .*; sliding-log acl --for tool prints the rights that this tool needs$/,
        "the tool with nginx's user prints the missing rights");
}

# Cluster
{
    my $cluster = $bed->cluster(masters => 2);
    my @nodes   = $cluster->nodes;
    my @words   = ('--mode', 'cluster', '--user', 'limiter');
    grant(\@nodes, undef, @words);
    grant(\@nodes, undef, '--mode', 'cluster', @logins, '--for', 'tool');
    my $nginx = $bed->nginx($conf, LIMITS => locations(%all), WHERE => 'mode cluster; server ' . $nodes[0]->address . '; username limiter; password us3rpass;');
    my @tags = map { $cluster->tag_on($_) } @nodes;
    nginx_is_served('Cluster', $nginx, \%all, @tags);
    my $slot = $cluster->slot_of($tags[0]);
    $cluster->begin_move($slot, @nodes);
    $cluster->move_all_keys($slot);
    is(statuses($nginx, "/log/back?k=$tags[0]", 4), '404 404 404 404', 'Cluster: a migrating slot is followed');
    cmp_ok($nodes[1]->calls('asking'), '>', 0, 'Cluster: nginx has sent ASKING');
    $cluster->end_move($slot);
    tool_is_served('Cluster', \%all, $tags[1], '--mode', 'cluster', '--server', $nodes[1]->address, @logins);
    nothing_refused('Cluster', @nodes);
}

# Sentinel
{
    my $master   = $bed->redis;
    my $sentinel = $bed->sentinel(master => $master);
    my @mode     = ('--mode', 'sentinel limits');
    grant([$master], $sentinel, @mode, '--sentinel-user', 'watcher');
    grant([$master], $sentinel, @mode, @logins, '--for', 'tool');
    my $nginx = $bed->nginx($conf, LIMITS => locations(%all),
        WHERE => 'mode sentinel limits; username limiter; password us3rpass; sentinel_username watcher; sentinel_password us3rpass; server ' . $sentinel->address . ';');
    nginx_is_served('Sentinel', $nginx, \%all, 'a');
    ok(wait_until('the subscription', 5, sub { $sentinel->cli('CLIENT', 'LIST') =~ / sub=2 .* user=watcher /m }), 'Sentinel: nginx is subscribed to both channels');
    tool_is_served('Sentinel', \%all, 'a', @mode, '--sentinel-user', 'operator', @logins, '--server', $sentinel->address);
    nothing_refused('Sentinel', $master, $sentinel);
}

# ---- the native module

{
    my $redis = $bed->redis(args => ['--loadmodule', native_module(), '--enable-module-command', 'yes']);
    grant([$redis], undef, '--native');
    grant([$redis], undef, '--native', '--for', 'tool');
    my $where = 'server ' . $redis->address . '; username limiter; password us3rpass;';
    my $nginx = $bed->nginx($conf, LIMITS => locations(%all), WHERE => "$where native required;");
    nginx_is_served('the native module', $nginx, \%all, 'a');
    cmp_ok($redis->calls('sliding_log.2'), '>', 100, 'the native module: it decides');
    tool_is_served('the native module', \%all, 'a', '--server', $redis->address, @logins);
    my ($check) = grep { $_->{check} eq 'native' } @{ tool_json({ env => { SLIDING_LOG_PASSWORD => 'us3rpass' } }, 'doctor', '--server', $redis->address, @logins)->{checks} };
    is("$check->{status}: $check->{text}", 'ok: the native module decides', 'the native module: doctor may ask for it');
    nothing_refused('the native module', $redis);

    my @conf = ('--nginx-conf', $nginx->dir . '/nginx.conf');
    like(tool('acl', @conf)->{out},                   qr/ \+sliding_log[.]2$/, 'native required: the rule permits it');
    like(tool('acl', @conf, '--for', 'tool')->{out},  qr/ \+sliding_log[.]2$/, "native required: so does the tool's");
    unlike(tool('acl', '--nginx-conf', $bed->write_file('auto.conf', "http { sliding_log_redis { $where } }"))->{out}, qr/sliding_log[.]2/, 'native auto: it does not');
    grant([$redis], undef, @$_) for [], ['--for', 'tool'];
    ok(unload($redis), 'the rules without --native take the right away: the module can be unloaded');
    my ($rule) = tool('acl', '--native')->{out} =~ /^(ACL .*)/;
    like($redis->cli(split ' ', $rule), qr/^ERR .*sliding_log[.]2.*Unknown command/, 'Redis refuses the rule while the module is not loaded');
}

# ---- what it cannot print

for (
    [['--prefix', 'a b'],         qr/"--prefix" has invalid value "a b", expected a text without blanks, quotes and backslashes/],
    [['--user', 'a b'],           qr/"--user" has invalid value "a b"/],
    [['--for', 'all'],            qr/"--for" has invalid value "all", expected nginx or tool/],
    [['--algorithms', 'log,lag'], qr/"--algorithms" has invalid value "log,lag", expected one or more of log, compact/],
    [['limiter'],                 qr/acl takes no operand: "limiter"/],
) {
    my ($words, $message) = @$_;
    my $ran = tool('acl', @$words);
    is("$ran->{status}$ran->{out}", '3', "refused: @$words");
    like($ran->{err}, qr/^sliding-log: $message/, "the message has the reason: @$words");
}

$bed->done;
