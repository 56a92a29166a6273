# The native module reads and writes the keys beside a log with the rights of the user who calls, as a script does. Users
# who lack some rights make the same random calls to both. Replies and contents of keys are the same.

use strict;
use warnings;
use Test::More;
use Testbed qw(seed);
use Testbed::Algorithm qw(@ALGORITHMS %ALL_SCRIPTS);
use Testbed::Clock;
use Testbed::Corrupt qw(any);
use Testbed::Native qw(native_module);
use Testbed::Script;

seed();

use constant T => 1_800_000_000_000;

my $bed   = Testbed->new;
my $clock = Testbed::Clock->new($bed->dir, standing => 1)->set(T);
my $redis = $bed->redis(clock => $clock, args => ['--loadmodule', native_module()]);
my $now   = T;

my $admin = Testbed::Script->new($redis, 'sliding_log');    # for other commands
my @sides = qw(native script);
my %rules = (
    'all rights'          => [qw(~*)],
    'no key beside'       => [qw(~*})],
    'only reading beside' => [qw(~*} %R~*)],
    'only writing beside' => [qw(~*} %W~*)],
    'no mget'             => [qw(~* -mget)],
);
$redis->cli('ACL', 'SETUSER', $_ =~ tr/ /-/r, 'on', '>secret', '+@all', @{ $rules{$_} }) for keys %rules;

sub text { my ($reply) = @_; return ref $reply ? '[' . join(' ', map { text($_) } @$reply) . ']' : $reply // 'none' }

# The words of a refusal are those of the version.
sub told {
    my ($reply) = @_;
    return text($reply) =~ s/error ERR (?:ACL failure in script|The user executing the script)[^\]]*/forbidden/gr;
}

sub state_of {
    my ($key) = @_;
    return join '; ', map { ($admin->call('DUMP', $_) // '', $admin->call('PTTL', $_)) } $key, "$key:blocks";
}

for my $rule (sort keys %rules) {
    for my $algorithm (@ALGORITHMS) {
        my (%scripts, %seen, $differs);
        for my $side (@sides) {
            $scripts{$side} = Testbed::Script->new($redis, $ALL_SCRIPTS{$algorithm}, native => $side eq 'native', frame => 1);
            $scripts{$side}->call('AUTH', $rule =~ tr/ /-/r, 'secret') eq 'OK' or die "AUTH failed\n";
        }
        my $own = { bucket => 'burst=2', sampled => 'sample=1' }->{$algorithm} // '';
        my @taken;
        for my $step (1 .. 120) {
            $clock->set($now += any(0, 1, 5, 30, 200));
            my ($key, $name) = ('k' . int rand 2, "u$step");
            my $options = join ' ', grep { length } any('', 'count=all'), any('block=20,100', 'block=20,100,400', 'block=30'), 'escalates', $own;
            my $back    = @taken && rand() < 0.3 ? splice @taken, int rand @taken, 1 : undef;
            my %answers;
            my $earlier = rand() < 0.1 && join ' ', $now + any(-10, 50), any(20, 100), 1;
            for my $side (@sides) {
                $admin->call('SET', "{$side$key}:blocks", $earlier, 'PX', 500) if $earlier;
                my $log   = sub { return { key => "{$side$_[0]}", limit => 2, window => 1000, ttl => 1100, options => $options } };
                my $reply = $back
                    ? $scripts{$side}->take_back({ now => '', logged => $back->{at}, taken => $back->{at} }, $back->{name}, $log->($back->{key}))
                    : $scripts{$side}->call($scripts{$side}->words('', [[$name], $log->($key)]));
                $answers{$side} = told($reply);
                $differs //= "step $step: $answers{native}, script: $answers{script}" if $side eq 'script' && $answers{native} ne $answers{script};
            }
            push @taken, { name => $name, key => $key, at => $now } if !$back;
            $seen{forbidden}++ if $answers{script} =~ /forbidden/;
            for my $key (qw(k0 k1)) {
                my ($native, $script) = map { state_of("{$_$key}") } @sides;
                $differs //= "step $step: $key holds other things" if $native ne $script;
            }
        }
        is($differs, undef, "$rule, $algorithm: the module does what the script does");
        my $is_refused = $rule !~ /all/;
        is(!!$seen{forbidden}, $is_refused, "$rule, $algorithm: " . ($is_refused ? 'some calls are refused' : 'no call is refused'));
        $admin->call('FLUSHALL');
    }
}

$bed->done;
