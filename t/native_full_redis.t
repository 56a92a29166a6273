# A full Redis: the native module refuses what a script would. Under noeviction both get the same random calls, with
# memory and without: replies and contents of keys are the same, and no reply tells of a block that is not stored. Under
# volatile-ttl Redis evicts, and each call is decided.

use strict;
use warnings;
use Test::More;
use Testbed qw(seed);
use Testbed::Algorithm qw(@ALGORITHMS %ALL_SCRIPTS takes);
use Testbed::Clock;
use Testbed::Corrupt qw(any);
use Testbed::Native qw(native_module);
use Testbed::Script;

seed();

my $bed   = Testbed->new;
my $now   = 1_800_000_000_000;
my $clock = Testbed::Clock->new($bed->dir, standing => 1)->set($now);
my $redis = $bed->redis(clock => $clock, args => ['--loadmodule', native_module()]);
my $admin = Testbed::Script->new($redis, 'sliding_log');    # for other commands
my @sides = qw(native script);

sub text { my ($reply) = @_; return ref $reply ? '[' . join(' ', map { text($_) } @$reply) . ']' : ($reply // 'none') =~ s/(error OOM).*/$1/sr }

sub state_of {
    my ($key) = @_;
    return join '; ', map { ($admin->call('DUMP', $_) // '', $admin->call('PTTL', $_)) } $key, "$key:blocks";
}

sub scripts_of {
    my ($algorithm) = @_;
    $admin->call(qw(CONFIG SET maxmemory 0));
    return map { $_ => Testbed::Script->new($redis, $ALL_SCRIPTS{$algorithm}, native => $_ eq 'native') } @sides;
}

my %own = (bucket => 'burst=3', sampled => 'sample=1');

for my $algorithm (@ALGORITHMS) {
    my %scripts = scripts_of($algorithm);
    my (@taken, %seen, $differs, $untold);
    for my $step (1 .. 300) {
        my $is_full = rand() < 0.4;
        $admin->call('CONFIG', 'SET', 'maxmemory', $is_full ? 1 : 0);
        $clock->set($now += any(0, 1, 5, 30, 200));
        my ($key, $name) = ('k' . int rand 3, "u$step");
        my $cap     = any(0, 5);
        my $options = join ' ', grep { length } any('', '', 'cost=2'), any('', 'count=all'), takes($algorithm, 'delay') && rand() < 0.2 ? 'delay=100 ahead=100' : (),
            any('', 'block=50', 'block=20,100'), $own{$algorithm} // '';
        my $back = @taken && rand() < 0.2 ? splice @taken, int rand @taken, 1 : undef;
        my (%answers, $before);
        for my $side (@sides) {
            my $log = sub { return { key => "{$side$_[0]}", limit => 3, window => 1000, ttl => 1100, cap => $_[2], options => $_[1] } };
            $before = $admin->call('DUMP', "{$side$key}") // '';
            $answers{$side} = text($back
                ? $scripts{$side}->take_back({ now => '', logged => $back->{at}, taken => $back->{at} }, $back->{name}, $log->(@$back{qw(key options cap)}))
                : $scripts{$side}->call($scripts{$side}->words('', [[$name], $log->($key, $options, $cap)])));
        }
        $differs //= "step $step, $options: $answers{native}, script: $answers{script}" if $answers{native} ne $answers{script};
        push @taken, { name => $name, key => $key, options => $options, cap => $cap, at => $now } if !$back && $answers{script} =~ /^\[\[1 /;
        $seen{ $answers{script} =~ /OOM/ ? 'refused' : $answers{script} =~ /^\[\[0 / ? 'denied' : 'else' }++;
        for my $place (qw(k0 k1 k2)) {
            my ($native, $script) = map { state_of("{$_$place}") } @sides;
            $differs //= "step $step, $options: $place holds other things" if $native ne $script;
        }
        # at the cap there may be nothing to store
        next if $back || !$is_full || $cap || $answers{script} !~ /^\[\[0 / || $options !~ /count=all/;
        $untold //= "step $step, $options: $answers{script}" if ($admin->call('DUMP', "{script$key}") // '') eq $before;
    }
    is($differs, undef, "noeviction, $algorithm: the module does what the script does");
    is($untold, undef, "noeviction, $algorithm: an attempt that cannot be counted is refused");
    cmp_ok($seen{$_} // 0, '>', 5, "noeviction, $algorithm: some are $_") for qw(refused denied);

    # a denial that begins a block
    for my $side (@sides) {
        my $log = { key => "{$side}blocked", limit => 1, window => 100_000, ttl => 110_000, options => join ' ', grep { length } 'block=50000', $own{$algorithm} ? $own{$algorithm} =~ s/3/1/r : () };
        $admin->call(qw(CONFIG SET maxmemory 0));
        $scripts{$side}->call($scripts{$side}->words('', [1, $log]));
        $admin->call(qw(CONFIG SET maxmemory 1));
        like(text($scripts{$side}->call($scripts{$side}->words('', [1, $log]))), qr/^\[error OOM/, "noeviction, $algorithm, $side: a block that cannot be stored is not told");
    }
    $admin->call(qw(CONFIG SET maxmemory 0));
    $admin->call('FLUSHALL');
}

$redis->cli(qw(CONFIG SET maxmemory-policy volatile-ttl));
for my $algorithm (@ALGORITHMS) {
    my %scripts = scripts_of($algorithm);
    for my $side (@sides) {
        $admin->call('FLUSHALL');
        $redis->cli(qw(CONFIG RESETSTAT));
        $admin->call('SET', "other$_", 'x' x 2000, 'PX', 500_000) for 1 .. 1000;    # what may be evicted
        $admin->call('CONFIG', 'SET', 'maxmemory', $redis->info('used_memory'));
        my %seen;
        for my $number (1 .. 1000) {
            my $log = { key => "$side$number", limit => 3, window => 1_000_000, ttl => 1_100_000, options => $own{$algorithm} // '' };
            $seen{ text($scripts{$side}->call($scripts{$side}->words('', [1, $log]))) =~ /OOM/ ? 'refused' : 'decided' }++;
        }
        is($seen{refused} // 0, 0, "volatile-ttl, $algorithm, $side: each call is decided");
        cmp_ok($redis->info('evicted_keys'), '>', 20, "volatile-ttl, $algorithm, $side: Redis evicts");
        $admin->call(qw(CONFIG SET maxmemory 0));
    }
}

$bed->done;
