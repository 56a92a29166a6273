# Records of override=on in a Redis Cluster: each decision obeys the record of its key, wherever the log and the record
# are while their slot is migrated, and no request fails.

use strict;
use warnings;
use Test::More;
use Testbed;
use Testbed::Http qw(get field);
use Testbed::Load;

my $bed     = Testbed->new;
my $cluster = $bed->cluster(masters => 2);
my ($one, $other) = $cluster->nodes;
my $nginx = $bed->serve(
    SEEDS  => $one->address,
    store  => 'server %%SEEDS%%; mode cluster; timeout 5s; connect_timeout 5s;',
    http   => 'sliding_log_on_error deny;',
    how    => '$sliding_log_source $sliding_log_limit',
    server => <<'END');
    location /log     { sliding_log_limit log key=$arg_k limit=6 window=1h override=on; empty_gif; }
    location /compact { sliding_log_limit compact key=$arg_k limit=6 window=1h algorithm=compact override=on; empty_gif; }
    location /refund  { sliding_log_limit compact key=$arg_k limit=6 window=1h algorithm=compact override=on refund=404; try_files /none =404; }
    location /both    { sliding_log_limit log key=$arg_k limit=6 window=1h override=on; sliding_log_limit more key=$arg_k limit=9 window=1d override=on; empty_gif; }
END
my $port = $nginx->port;

sub asked { my ($path) = @_; my $answer = get($port, $path); return "$answer->{status} " . field($answer, 'X-How') }

# A key of its own, its slot, the node that has it, and the other one.
my $tags = 0;

sub fresh {
    my $tag  = 'tag' . ++$tags;
    my $slot = $cluster->slot_of($tag);
    my $from = $cluster->owner_of($slot);
    return ($tag, $slot, $from, $from == $one ? $other : $one);
}

my %said = ('limit=9' => '200 redis 9', allow => '200 override 6', deny => '429 override 6', 'x' => '200 redis 6');

for my $name (qw(log compact)) {
    for my $log (qw(nowhere here there)) {
        for my $record (qw(nowhere here there)) {
            for my $what ($record eq 'nowhere' ? 'none' : $name eq 'log' ? sort keys %said : 'limit=9') {
                my ($tag, $slot, $from, $to) = fresh();
                my $key = "rl:sliding:$name:{$tag}";
                $from->cli('SET', "$key:override", "$what until=0 since=1 by=tester why=") if $record ne 'nowhere';
                if ($log ne 'nowhere') {
                    $from->cli('RENAME', "$key:override", "$key:kept") if $record ne 'nowhere';
                    get($port, "/$name?k=$tag");
                    $from->cli('RENAME', "$key:kept", "$key:override") if $record ne 'nowhere';
                }
                $cluster->begin_move($slot, $from, $to, $log eq 'there' ? $key : (), $record eq 'there' ? "$key:override" : ());
                my $expected = $said{$what} // '200 redis 6';
                is(asked("/$name?k=$tag"), $expected, "$name: the log is $log, the record, $what, is $record");
                is(get($port, "/both?k=$tag")->{status}, substr($expected, 0, 3), "two limits: the log is $log, the record, $what, is $record") if $name eq 'log';
                $cluster->finish_move($slot);
                my $known = $what eq 'deny' ? qr/^429/ : qr/^\Q$expected\E$/;
                like(asked("/$name?k=$tag"), $known, "$name: all have arrived: $what");
            }
        }
    }
}
is($nginx->logged(qr/on_error/), 0, 'no decision failed');
cmp_ok($cluster->errors('ASK'), '>', 0, 'ASK occurred');
cmp_ok($one->calls('get') + $other->calls('get'), '>', 0, 'records were read');

# what is allowed is logged nowhere, and never refunded, under load while the slot moves
my ($tag, $slot, $from, $to) = fresh();
get($port, "/compact?k=$tag");
$from->cli('SET', "rl:sliding:compact:{$tag}:override", 'allow until=0 since=1 by=tester why=');
my $load = Testbed::Load->start($bed, $port, paths => ["/compact?k=$tag", "/refund?k=$tag"], rate => 200);
for my $way (1 .. 6) {
    my ($at, $next) = $way % 2 ? ($from, $to) : ($to, $from);
    $cluster->move($slot, $at, $next);
}
my $record = $load->stop;
is($record->that(status => 503)->count, 0, 'moved to and fro under load: no request failed');
is($record->that(source => 'override')->count, $record->count, 'each was decided by the record');
my $owner = $cluster->owner_of($slot);
$owner->cli('DEL', "rl:sliding:compact:{$tag}:override");
is(field(get($port, "/compact?k=$tag"), 'RateLimit') =~ /r=(\d+)/ ? $1 : '', 4, 'the log has the one entry that it had');

$bed->done;
