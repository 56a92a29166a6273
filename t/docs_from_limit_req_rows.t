# docs/from-limit-req.md: each row of the tables of directives, tried with both modules beside each other, and the steps
# from one to the other. A row without a trial fails.

use strict;
use warnings;
use Cwd            ();
use File::Basename ();
use Test::More;
use Testbed qw(seed wait_until);
use Testbed::Http qw(get field statuses);
use Testbed::Metrics;
use Testbed::Process;
use Testbed::UnderWay;

seed();

my $document = Testbed::Process::slurp(Cwd::abs_path(File::Basename::dirname(__FILE__) . '/../docs/from-limit-req.md'));

# The first cells of the table under a heading.
sub rows {
    my ($heading) = @_;
    my ($section) = $document =~ /^## \Q$heading\E\n(.*?)(?=^## |\z)/ms;
    my @cells = map { /^\| (.*?) \|/ ? $1 : () } split /\n/, $section;
    return @cells[1 .. $#cells];
}

# ---- both modules: "one" request a minute, with a word of the status in the field X-How

my $limit = 'limit_req zone=one';
my $ours  = 'key=$arg_k algorithm=bucket limit=1 window=1m burst=1';
my %of    = (    # the contents of the location with limit_req, and of ours
    zone    => ["$limit;",                            "sliding_log_limit zone $ours;"],
    status  => ["$limit; limit_req_status 420;",      "sliding_log_limit status $ours; sliding_log_status 420;"],
    level   => ["$limit; limit_req_log_level warn;",  "sliding_log_limit level $ours; sliding_log_log_level warn;"],
    late    => ['limit_req zone=slow burst=9; limit_req_log_level warn;',
        'sliding_log_limit late key=$arg_k algorithm=bucket limit=2 window=1s burst=1 delay=4500ms; sliding_log_log_level warn;'],
    dry     => ["$limit; limit_req_dry_run on;",      "sliding_log_limit dry $ours dry_run=on;"],
    several => ['limit_req zone=a burst=3 nodelay; limit_req zone=b burst=5 nodelay;',
        'sliding_log_limit a key=$arg_a algorithm=bucket limit=1 window=1m burst=4; sliding_log_limit b key=$arg_b algorithm=bucket limit=1 window=1m burst=6;'],
    soon    => ['limit_req zone=soon;',               'sliding_log_limit soon key=$arg_k algorithm=bucket limit=2 window=1s burst=1;'],
    phase   => ["$limit; deny all;",                  "sliding_log_limit phase $ours; deny all;"],
    silent  => ["$limit;",                            "sliding_log_limit silent $ours; sliding_log_headers off;"],
    conns   => ['limit_conn conns 2;',                'sliding_log_limit conns key=$arg_k limit=2 algorithm=inflight;'],
    conns_status => ['limit_conn conns 2; limit_conn_status 420;',
        'sliding_log_limit conns_status key=$arg_k limit=2 algorithm=inflight; sliding_log_status 420;'],
    conns_level  => ['limit_conn conns 2; limit_conn_log_level warn;',
        'sliding_log_limit conns_level key=$arg_k limit=2 algorithm=inflight; sliding_log_log_level warn;'],
    conns_dry    => ['limit_conn conns 2; limit_conn_dry_run on;',
        'sliding_log_limit conns_dry key=$arg_k limit=2 algorithm=inflight dry_run=on;'],
    both_dry     => ["limit_conn conns 2; $limit; limit_req_dry_run on;",
        "sliding_log_limit both_conns key=\$arg_k limit=2 algorithm=inflight; sliding_log_limit both_rate $ours dry_run=on;"],
);
my $silent    = Testbed::UnderWay->new;
my $upstream  = 'proxy_pass http://127.0.0.1:' . $silent->port . ';';
my $locations = join "\n", map {
    my ($name, $answer) = ($_, /conn|both/ ? $upstream : 'empty_gif;');
    map { "location /$name/" . qw(theirs ours)[$_] . " { $of{$name}[$_] $answer }" } 0, 1;
} sort keys %of;
my $bed   = Testbed->new;
my $nginx = $bed->serve(
    LOCATIONS => $locations,
    how    => '$limit_req_status $limit_conn_status $sliding_log_status',
    http   => <<'HTTP',
    sliding_log_zone 10m;
    limit_req_zone $uri$arg_k zone=one:1m rate=1r/m;
    limit_req_zone $arg_a zone=a:1m rate=1r/m;
    limit_req_zone $arg_b zone=b:1m rate=1r/m;
    limit_req_zone $arg_k zone=soon:1m rate=2r/s;
    limit_req_zone $arg_k zone=slow:1m rate=2r/s;
    limit_conn_zone $uri$arg_k zone=conns:1m;
HTTP
    server => <<'SERVER',
    %%LOCATIONS%%
    location /empty/theirs { limit_req zone=a; empty_gif; }
    location /empty/ours   { sliding_log_limit empty key=$arg_a limit=1 window=1m; empty_gif; }
    location /first        { limit_req zone=one; sliding_log_limit first key=all limit=9 window=1m; empty_gif; }
    location /step1        { limit_req zone=one; sliding_log_limit step1 key=$arg_k algorithm=bucket limit=1 window=1m burst=1 dry_run=on; empty_gif; }
    location /step2        { limit_req zone=one; limit_req_dry_run on; sliding_log_limit step2 key=$arg_k algorithm=bucket limit=1 window=1m burst=1; empty_gif; }
    location /compared     { limit_req zone=one; limit_req_dry_run on; sliding_log_limit compared key=$arg_k algorithm=bucket limit=1 window=1m burst=1 dry_run=on; empty_gif; }
    location /metrics      { sliding_log_metrics; }
SERVER
);
my $port = $nginx->port;

sub ask { my ($path) = @_; return get($port, $path) }
sub words { my ($answer) = @_; return join ' ', grep { $_ ne '-' } split / /, field($answer, 'X-How') =~ s/^ | $//gr =~ s/ +/ /gr }
# The statuses of some requests of one key, of limit_req and of ours.
sub both {
    my ($name, $times, $key) = @_;
    $key //= 1;
    return map { my $module = $_; join ' ', map { my $answer = ask("/$name/$module?k=$key"); "$answer->{status}" . (words($answer) ? ' ' . words($answer) : '') } 1 .. $times } qw(theirs ours);
}
sub alike { my ($name, $times, $what) = @_; my ($theirs, $mine) = both($name, $times); return is($mine, $theirs, "$what: $theirs") }
sub told { my ($level, $what, $uri) = @_; return $nginx->logged(qr/\[$level\].*$what.*"GET \Q$uri\E\?/) }

# Two requests of one key under way, and then a third one: its status and words.
sub third {
    my ($path) = @_;
    my @begun  = map { $silent->begin($port, "$path?k=1") } 1 .. 3;
    my $denied = $begun[2]{denied};
    my $seen   = $denied ? "$denied->{status} " . words($denied) : 'admitted';
    for my $one (grep { $_->{backend} } @begun) {
        my $answer = Testbed::UnderWay::end($one);
        $seen .= ' ' . words($answer) if !$denied && $one == $begun[2];
    }
    return $seen;
}

# ---- a trial for each row

my %trial = (
    'limit_req_zone … zone=NAME:10m' => sub { is(join(' | ', both('zone', 1)), '200 PASSED | 200 PASSED', 'zone: both have memory') },
    'limit_req_status 503' => sub {
        is(join(' | ', both('zone', 1)), '503 REJECTED | 429 REJECTED', 'status: the defaults');
        alike('status', 2, 'status');
    },
    'limit_req_log_level error' => sub {
        both('level', 2);
        is(join(' ', map { told('warn', 'limiting requests', "/level/$_") } qw(theirs ours)), '1 1', 'level: denials');
        both('late', 2);
        is(join(' ', map { told('notice', 'delaying request', "/late/$_") } qw(theirs ours)), '1 1', 'level: delays, one level lower');
    },
    'limit_req_dry_run on' => sub {
        alike('dry', 3, 'dry run');
        my @third = map { third("/both_dry/$_") } qw(theirs ours);
        is(join(' | ', @third), '503 REJECTED_DRY_RUN REJECTED | 429 REJECTED', 'dry run: a limit of requests under way beside it denies');
    },
    '$limit_req_status' => sub {
        my ($theirs, $mine) = both('late', 2, 2);
        is($mine, $theirs, "words: $theirs");
        like($theirs, qr/DELAYED/, 'words: a delay');
    },
    'several limit_req' => sub {
        my @wrong;
        for my $n (1 .. 200) {
            my $arguments = 'a=' . int(rand 8) . '&b=' . int rand 5;
            my ($theirs, $mine) = map { ask("/several/$_?$arguments")->{status} } qw(theirs ours);
            push @wrong, "$n: $arguments $theirs $mine" if ($theirs == 200) != ($mine == 200);
        }
        is(join(', ', @wrong), '', 'several limits: 200 requests are decided alike');
    },
    'an empty key is not limited' => sub { is(join(' ', map { ask("/empty/$_")->{status} } qw(theirs ours) x 3), '200 ' x 5 . 200, 'an empty key') },
    'a denied request is not counted' => sub {
        for my $module (qw(theirs ours)) {
            my @answers = map { ask("/soon/$module?k=$module") } 1 .. 4;
            ok((grep { $_->{status} != 200 } @answers) > 0, "denied requests, $module: there are some");
            ok(wait_until('room', 1, sub { ask("/soon/$module?k=$module")->{status} == 200 }), "denied requests, $module: half a second after the admitted one there is room");
        }
    },
    'preaccess phase' => sub { is(join(' | ', both('phase', 2)), '403 PASSED 503 REJECTED | 403 PASSED 429 REJECTED', 'phase: both decide before deny') },
    'no response fields' => sub {
        my @fields = qw(RateLimit-Policy RateLimit Retry-After);
        for (['theirs', 'zone', 0], ['ours', 'zone', 3], ['ours', 'silent', 0]) {
            my ($module, $name, $number) = @$_;
            my ($answer) = (map { ask("/$name/$module?k=fields") } 1, 2)[1];
            is(scalar(grep { defined field($answer, $_) } @fields), $number, "fields: /$name/$module");
        }
    },
    'limit_conn_zone $http_x_user zone=conns:10m; limit_conn conns 10;' => sub {
        is(join(' | ', map { third("/conns/$_") } qw(theirs ours)), '503 REJECTED | 429 REJECTED', 'requests under way: the third of two');
    },
    'limit_conn_status 503' => sub { is(join(' | ', map { third("/conns_status/$_") } qw(theirs ours)), '420 REJECTED | 420 REJECTED', 'requests under way: the status') },
    'limit_conn_log_level error' => sub {
        third("/conns_level/$_") for qw(theirs ours);
        is(join(' ', told('warn', 'limiting connections', '/conns_level/theirs'), told('warn', 'limiting requests', '/conns_level/ours')), '1 1', 'requests under way: the level');
    },
    'limit_conn_dry_run on' => sub { is(join(' | ', map { third("/conns_dry/$_") } qw(theirs ours)), 'admitted REJECTED_DRY_RUN | admitted REJECTED_DRY_RUN', 'requests under way: a dry run') },
    '$limit_conn_status' => sub { is(join(' | ', map { my $one = $silent->begin($port, "/conns/$_?k=2"); words(Testbed::UnderWay::end($one)) } qw(theirs ours)), 'PASSED | PASSED', 'requests under way: the words') },
);
for my $row (rows('Directive by directive'), grep { !/^`limit_conn`$/ } rows('From limit_conn')) {
    my $name = $row =~ s/`//gr =~ s/ \(default \d+\)$//r;
    my $try  = delete $trial{$name};
    ok($try, "the row $row has a trial") or next;
    $try->();
}
is(join(', ', sort keys %trial), '', 'each trial has its row');

# ---- one limit at a time

is(join(', ', map { my $answer = ask('/first?k=1'); "$answer->{status} " . words($answer) } 1, 2), '200 PASSED PASSED, 503 REJECTED', 'limit_req decides first, and the other does not see what it denies');
is(statuses(map { ask('/step1?k=1') } 1 .. 5), '200:1 503:4', 'step 1: limit_req decides');
is(Testbed::Metrics::scrape($port)->value('sliding_log_requests_total', limit => 'step1', result => 'rejected_dry_run') // 0, 0, 'step 1: the dry limit sees only what is admitted');
is(join(', ', map { my $answer = ask('/step2?k=1'); "$answer->{status} " . words($answer) } 1, 2), '200 PASSED PASSED, 429 REJECTED_DRY_RUN REJECTED', 'step 2: both decide, the new limit denies');
is(join(', ', map { my $answer = ask('/compared?k=1'); "$answer->{status} " . words($answer) } 1, 2), '200 PASSED PASSED, 200 REJECTED_DRY_RUN REJECTED_DRY_RUN', 'both dry: both decide, none denies');

$bed->done;
