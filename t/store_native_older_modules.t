# An older native module does not know all calls: the first one of each kind on a connection finds that out. A script, or
# the module in a longer call, decides that call and all later ones of its kind. Other calls stay with the module.

use strict;
use warnings;
use Test::More;
use Testbed qw(wait_until);
use Testbed::Algorithm qw(%ALL_SCRIPTS %SCRIPTS);
use Testbed::Http qw(get field);
use Testbed::Native qw(native_module);
use Testbed::NativeStore qw(asked is_native location);
use Testbed::Relay;
use Testbed::Script;

delete $ENV{TEST_NATIVE};
my $bed   = Testbed->new;
my $redis = $bed->redis(args => ['--loadmodule', native_module()]);
my $store = Testbed::NativeStore->new($bed, $redis, (map { location($_, 3, $_, '') } qw(log compact counter bucket)), location('over/log', 3, 'log', 'override=on'),
    location('cost', 2500, 'compact', 'cost=$arg_c'), 'location /pair { sliding_log_limit pair key=$arg_k limit=3 window=1h; sliding_log_limit longer key=$arg_k limit=5 window=2h; empty_gif; }', map { location("settle/$_", 100, $_, 'cost=$arg_cost settle=$arg_real', '366d') } qw(compact counter bucket quota));
my $auto = $store->nginx('');
asked($auto, '/log?k=first');
Testbed::Script->new($redis, $SCRIPTS{log});    # loads it

# ---- a record: the option is not known

my $relay = Testbed::Relay->new($bed, to => $redis->port, rewrites => sub { $_[0] =~ s/(\r\nsliding_log\.2\r\n(?:(?!\r\n\*).)*?)override/$1foreseen/gsr });
for my $native (qw(auto required)) {
    my $old = $store->nginx("native $native;", '127.0.0.1:' . $relay->port);
    asked($old, '/log?k=old');
    $store->deny('over_log', "$native$_") for 1 .. 3;
    is($store->calls_of(sub { is(asked($old, "/over/log?k=$native$_"), '429 override', "native $native, an older module: a script obeys the record") for 1 .. 3 }),
        '3 evalsha, 1 sliding_log.2', 'after the module was asked once');
    is($store->calls_of(sub { asked($old, "/log?k=old$native") }), '0 evalsha, 1 sliding_log.2', 'other calls are decided by the module');
    is(is_native($old), 1, 'the metrics say so');
    is($old->logged(qr/unknown option|on_error/), 0, 'the error log has nothing of it');
}

# ---- settled costs: by today's module, by an older one, which does not know `ended`, and in calls of an older nginx, which
# do not have it
{
    my %rewrites = (
        'an older module' => sub { $_[0] =~ s/(\r\nsliding_log\.2\r\n(?:(?!\r\n\*).)*?)ended=/${1}since=/gsr },
        'an older nginx'  => sub { $_[0] =~ s/\r\n\$(\d+)\r\n([^\r]*?) ended=0{12}/"\r\n\$" . ($1 - 19) . "\r\n$2"/ger },
        'both of today'   => sub { $_[0] },
    );
    Testbed::Script->new($redis, $ALL_SCRIPTS{$_}) for qw(compact counter bucket quota);    # loads them
    for my $who (sort keys %rewrites) {
        my $relay = Testbed::Relay->new($bed, to => $redis->port, rewrites => $rewrites{$who});
        my $nginx = $store->nginx('', '127.0.0.1:' . $relay->port);
        for my $algorithm (qw(compact counter bucket quota)) {
            my $key  = "$algorithm-" . $who =~ tr/ /-/r;
            my $more = sub { my ($left) = @_; get($nginx->port, "/settle/$algorithm?k=$key&cost=1&real=3"); wait_until('the settling', 10, sub { (field(get($nginx->port, "/settle/$algorithm?k=$key&cost=0&real=0"), 'RateLimit') // '') =~ /;r=(\d+)/ && $1 == $left }) };
            asked($nginx, "/settle/$algorithm?k=warm$key&cost=0&real=0");
            my $left = 100;
            is($store->calls_of(sub { ok($more->($left -= 3), "$who, $algorithm: a cost is settled") }) =~ s/\d+ (?=sliding)//r, $who eq 'an older module' ? '1 evalsha, sliding_log.2' : '0 evalsha, sliding_log.2',
                "$who, $algorithm: " . ($who eq 'an older module' ? 'by a script' : 'by the module'));
            $more->($left -= 3);
            is($store->calls_of(sub { asked($nginx, "/settle/$algorithm?k=$key&cost=5&real=2") }) =~ /^0 evalsha/, 1, "$who, $algorithm: less is given back by the module");
        }
        is($nginx->logged(qr/unknown option|could not be settled/), 0, "$who: the error log has nothing of it");
    }
}

# ---- costs of plain calls are not known

{
    my $costs = Testbed::Relay->new($bed, to => $redis->port, rewrites => sub { $_[0] =~ s/(\r\nsliding_log\.2\r\n(?:(?!\r\n\*).)*?(?:\r\n| ))777(?=\r\n)/${1}7x7/gsr });
    my $old   = $store->nginx('', '127.0.0.1:' . $costs->port);
    asked($old, '/compact?k=old');
    Testbed::Script->new($redis, $SCRIPTS{compact});    # loads it
    asked($auto, '/cost?k=old&c=776');
    is($store->calls_of(sub { is(asked($old, "/cost?k=old&c=777"), $_, 'an older module: a script decides a plain call with a cost') for '200 redis', '200 redis', '429 redis' }),
        '3 evalsha, 2 sliding_log.2', 'after the module was asked once, by a short call and another one');
    is($store->calls_of(sub { asked($old, '/compact?k=old2'); asked($old, '/cost?k=old2&c=1'); asked($old, '/cost?k=old2&c=0') }), '0 evalsha, 3 sliding_log.2', 'other calls are decided by the module');
    is($old->logged(qr/wrong arguments|on_error/), 0, 'the error log has nothing of it');
    is($store->calls_of(sub { asked($auto, '/cost?k=new&c=777') }), '0 evalsha, 1 sliding_log.2', "today's module decides them");
}

# ---- two limits in a plain call are not known

{
    my $two = Testbed::Relay->new($bed, to => $redis->port, rewrites => sub { $_[0] =~ s/(\r\nsliding_log\.2\r\n(?:(?!\r\n\*).)*?\r\n)two(?=\r\n)/$1tow/gsr });
    my $old = $store->nginx('', '127.0.0.1:' . $two->port);
    asked($old, '/log?k=old');
    asked($auto, '/pair?k=warm');
    is($store->calls_of(sub { is(asked($old, '/pair?k=old'), $_, 'an older module: a script decides a plain call of two limits') for ('200 redis') x 3, '429 redis' }),
        '4 evalsha, 1 sliding_log.2', 'after the module was asked once');
    is($store->calls_of(sub { asked($old, '/log?k=old3') }), '0 evalsha, 1 sliding_log.2', 'other calls are decided by the module');
    is($old->logged(qr/wrong arguments|on_error/), 0, 'the error log has nothing of it');
    is($store->calls_of(sub { asked($auto, '/pair?k=new') }), '0 evalsha, 1 sliding_log.2', "today's module decides them");
}

# ---- a counter and a bucket have no plain calls

for my $algorithm (qw(counter bucket)) {
    Testbed::Script->new($redis, $SCRIPTS{$algorithm});
    my $none = Testbed::Relay->new($bed, to => $redis->port, rewrites => sub { $_[0] =~ s/(\r\nsliding_log\.2\r\n\$\d+\r\n$algorithm\r\n(?:(?!\r\n\*).)*?)3600000(?=\r\n)/${1}36e0000/gsr });
    my $old  = $store->nginx('', '127.0.0.1:' . $none->port);
    asked($old, '/log?k=none');
    is($store->calls_of(sub { is(asked($old, "/$algorithm?k=old"), $_, "an older module: a script decides a plain call of $algorithm") for ('200 redis') x 3, '429 redis' }),
        '4 evalsha, 1 sliding_log.2', 'after the module was asked once');
    is($store->calls_of(sub { asked($old, '/log?k=none') }), '0 evalsha, 1 sliding_log.2', 'other calls are decided by the module');
    is($store->calls_of(sub { asked($auto, "/$algorithm?k=new") }), '0 evalsha, 1 sliding_log.2', "today's module decides them");
}

# ---- short calls are not known: no algorithm has that name, or the call wants more words

my %long = (
    log     => sub { $_[0] =~ s/(\r\nsliding_log\.2\r\n\$\d+\r\nlog) (\d+) (\d+) (?=\d+\r)/$1_$2_$3_/gr },
    compact => sub { $_[0] =~ s/\*3(\r\n\$13\r\nsliding_log\.2\r\n)\$\d+\r\ncompact [^\r]*\r\n/*2$1/gr },
);
for my $algorithm (sort keys %long) {
    my $relay = Testbed::Relay->new($bed, to => $redis->port, rewrites => $long{$algorithm});
    my $asked = $algorithm eq 'log' ? 5 : 4;    # Redis does not count calls with too few words
    for my $native (qw(auto required)) {
        my $old   = $store->nginx("native $native;", '127.0.0.1:' . $relay->port);
        my $other = $algorithm eq 'log' ? 'compact' : 'log';
        asked($old, "/$other?k=long");
        is($store->calls_of(sub { is(asked($old, "/$algorithm?k=long$native"), $_, "$algorithm, native $native, a module without short calls: it decides") for ('200 redis') x 3, '429 redis' }),
            "0 evalsha, $asked sliding_log.2", 'after it was asked once by a short call');
        is($store->calls_of(sub { asked($old, "/$other?k=long") }), '0 evalsha, 1 sliding_log.2', 'and all other calls');
        is(is_native($old), 1, 'the metrics say so');
        is($old->logged(qr/no such algorithm|wrong number|on_error/), 0, 'the error log has nothing of it');
        $old->finish;
    }
}

$bed->done;
