# $sliding_log_status_NAME and the like: the decision of one limit, whichever limit decided the request.

use strict;
use warnings;
use Test::More;
use Testbed qw(wait_until);
use Testbed::Checked qw($REDIS check);
use Testbed::Http qw(get field);

my $bed   = Testbed->new;
my $redis = $bed->redis;

# All variables of a limit, in one field.
sub told_of {
    my ($name) = @_;
    return join ' ', map { "\$sliding_log_${_}_$name" } qw(status limit remaining reset retry_after source);
}

# The use precedes the limits. A map that is not volatile keeps an empty value.
my $nginx = $bed->serve(
    redis => $redis,
    http  => <<"HTTP",
    map \$sliding_log_status_soft \$pool {
        volatile;
        default           main;
        REJECTED_DRY_RUN  slow;
    }
    log_format each '\$uri?\$args [@{[told_of('tight')]}] [@{[told_of('wide')]}]';
    access_log %%DIR%%/access.log each;
HTTP
    server => <<"END",
    location /two {
        add_header X-Tight "@{[told_of('tight')]}" always;
        add_header X-Wide  "@{[told_of('WIDE')]}" always;
        add_header X-Soft  "@{[told_of('soft')]}" always;
        sliding_log_limit tight key=\$arg_k limit=2 window=1h;
        sliding_log_limit Wide  key=\$arg_w limit=100 window=1h;
        empty_gif;
    }
    location /soft {
        add_header X-Soft "@{[told_of('soft')]}" always;
        add_header X-Pool \$pool always;
        add_header X-Wide "\$sliding_log_status_wide \$sliding_log_remaining_wide" always;
        sliding_log_limit Wide key=\$arg_k limit=3 window=1h;
        sliding_log_limit soft key=\$arg_k limit=1 window=1h dry_run=on;
        empty_gif;
    }
    location /names {
        add_header X-Name \$sliding_log_status_api_v1_a always;
        sliding_log_limit API-v1.A key=\$arg_k limit=1 window=1h;
        empty_gif;
    }
    location /delay {
        add_header X-Queue "\$sliding_log_status_queue \$sliding_log_retry_after_queue" always;
        sliding_log_limit queue key=\$arg_k limit=1 window=100ms delay=1s;
        empty_gif;
    }
    location /first {
        sliding_log_limit first key=\$arg_k limit=2 window=1h;
        sliding_log_limit both  key=\$arg_k limit=10 window=1h dry_run=on;
        try_files /none \@second;
    }
    location \@second {
        add_header X-Each "\$sliding_log_status_first \$sliding_log_remaining_first, \$sliding_log_status_both \$sliding_log_remaining_both" always;
        sliding_log_limit both key=\$arg_k limit=1 window=1h;
        empty_gif;
    }
    location /bad  { sliding_log_limit bad key=\$arg_k limit=\$arg_l window=1h; add_header X-Bad "@{[told_of('bad')]}" always; empty_gif; }
    location /none {
        add_header X-None "@{[told_of('none')]}" always;
        sliding_log_limit none key=\$arg_k limit=0 window=1h;
        empty_gif;
    }
    location /else { add_header X-Tight "<@{[told_of('tight')]}>" always; empty_gif; }
    location /own  { set \$sliding_log_status_my "own"; add_header X-Own \$sliding_log_status_my always; empty_gif; }
END
);
my $port = $nginx->port;

sub told { my ($path, $name) = @_; return field(get($port, $path), $name) // '' }

is(told('/else', 'X-Tight'), '<     >', 'a limit that is not asked: the variables are empty');
is(told('/two?k=a', 'X-Tight'), 'PASSED 2 1 3600  redis', 'one of two limits applies: its variables are set');
is(told('/two?w=z', 'X-Tight'), '', 'a limit with an empty key: its variables are empty');
is(told('/two?w=b', 'X-Wide'), 'PASSED 100 99 3600  redis', 'nginx ignores case in names of variables');
my $both = get($port, '/two?k=a&w=c');
is(field($both, 'X-Tight'), 'PASSED 2 0 3600  redis', 'two limits: the one with less remaining');
is(field($both, 'X-Wide'),  'PASSED 100 99 3600  redis', 'two limits: the one with more remaining');
my $over = get($port, '/two?k=a&w=c');
is($over->{status}, 429, 'one of two limits denies');
like(field($over, 'X-Tight'), qr/^REJECTED 2 0 3600 3600 (?:redis|cache)$/, 'the limit that denies is REJECTED');
like(field($over, 'X-Wide'), qr/^PASSED 100 \d+ \d+  redis$|^ +$/, 'the other one PASSED, or was not asked');
is(field($over, 'X-Soft') =~ s/ //gr, '', 'a limit of another location: empty');

# A dry limit beside an enforced one.
my $first = get($port, '/soft?k=a');
is(field($first, 'X-Soft'), 'PASSED 1 0 3600  redis', 'a dry limit that would admit');
is(field($first, 'X-Pool'), 'main', 'a map of it, before');
my $second = get($port, '/soft?k=a');
is($second->{status}, 200, 'a dry limit denies nothing');
like(field($second, 'X-Soft'), qr/^REJECTED_DRY_RUN 1 0 3600 3600 (?:redis|cache)$/, 'a dry limit that would deny');
is(field($second, 'X-Pool'), 'slow', 'a volatile map of it');
is(field($second, 'X-Wide'), 'PASSED 1', 'the enforced limit beside it');
get($port, '/soft?k=a');
my $third = get($port, '/soft?k=a');
is($third->{status}, 429, 'the enforced limit denies');
is(field($third, 'X-Soft') =~ s/ //gr, '', 'a dry limit is not asked then');

is(told('/names?k=a', 'X-Name'), 'PASSED', 'a NAME in lower case, _ for - and .');
is(told('/delay?k=a', 'X-Queue'), 'PASSED ', 'delay=: a request that passes');
is(told('/delay?k=a', 'X-Queue'), 'DELAYED ', 'delay=: a request that is delayed');

# Several locations: a NAME asked in a dry run, and then enforced.
is(told('/first?k=a', 'X-Each'), 'PASSED 1, PASSED 0', 'limits of two locations; an enforced decision goes before a dry one');
is(told('/first?k=a', 'X-Each'), 'PASSED 1, REJECTED 0', 'the second location denies, and the first one gives back');

is(told('/bad?k=a&l=x', 'X-Bad'), 'REJECTED     invalid', 'an invalid limit');
is(told('/bad?k=a&l=7', 'X-Bad'), 'PASSED 7 6 3600  redis', 'a limit from a variable');
like(told('/none?k=a', 'X-None'), qr/^REJECTED 0 0 \d+  redis$/, 'a limit of 0 has no Retry-After');
is(told('/own', 'X-Own'), 'own', 'a variable of one\'s own goes before those of limits');
wait_until('the access log', 5, sub { Testbed::Process::slurp($nginx->dir . '/access.log') =~ m{^/own}m });
like(Testbed::Process::slurp($nginx->dir . '/access.log'), qr{^/two\?k=a&w=c \[PASSED 2 0 3600 - redis\] \[PASSED 100 99 3600 - redis\]\n}m,
    'the access log tells of each limit');

# Without Redis.
my $down = $bed->serve(
    redis  => '127.0.0.1:1',
    server => join '', map { <<"END" } qw(allow deny local));
    location /$_ {
        sliding_log_on_error $_;
        add_header X-Told "@{[told_of("on_$_")]}" always;
        sliding_log_limit on-$_ key=k limit=2 window=1h;
        empty_gif;
    }
END
is(field(get($down->port, '/allow'), 'X-Told'), 'PASSED 2    error',      'on_error allow');
is(field(get($down->port, '/deny'),  'X-Told'), 'REJECTED 2   1 error',   'on_error deny');
is(field(get($down->port, '/local'), 'X-Told'), 'PASSED 2 1 3600  local', 'on_error local');

# Configurations that are refused.
my $two = 'location / { sliding_log_limit a-b key=$arg_k limit=1 window=1s; } location /b { sliding_log_limit A.b key=$arg_k limit=1 window=1s; }';
for my $case (
    ["add_header X \$sliding_log_status_typo; $two" => qr/\[emerg\].* unknown "sliding_log_status_typo" variable, expected the NAME of a "sliding_log_limit" at its end/],
    ["add_header X \$sliding_log_source_A_B; $two" => qr/\[emerg\].* "sliding_log_source_a_b" variable is that of two limits, "a-b" and "A\.b", expected another NAME of one of them/],
) {
    my ($server, $expected) = @$case;
    my ($accepted, $told) = check($bed, $REDIS, $server);
    ok(!$accepted, "refused: $server");
    like($told, $expected, "told: $server");
}
ok((check($bed, $REDIS, $two))[0], 'two limits whose variables nobody uses are accepted');

$bed->done;
