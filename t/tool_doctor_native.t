# sliding-log doctor tells whether the native module is loaded, required and permitted.

use strict;
use warnings;
use Test::More;
use Testbed;
use Testbed::Acl qw(documented_rule);
use Testbed::FakeRedis;
use Testbed::Native qw(native_module unload);
use Testbed::Tool qw(tool_json);

delete $ENV{TEST_NATIVE};
my $bed   = Testbed->new;
my $redis = $bed->redis(args => ['--loadmodule', native_module(), '--enable-module-command', 'yes']);

sub doctor {
    my (@more) = @_;
    my ($check) = grep { $_->{check} eq 'native' } @{ tool_json('doctor', @more)->{checks} };
    return "$check->{status}: $check->{text}";
}
my @at = ('--server', $redis->address);
my $conf = $bed->write_file('required.conf', "http {\nsliding_log_redis { server " . $redis->address . "; native required; }\n}\n");
is(doctor(@at), 'ok: the native module decides', 'doctor: loaded');
$redis->cli('ACL', 'SETUSER', 'limiter', split(' ', documented_rule('limiter', 'secret')));
like(doctor(@at, '--user', 'limiter', '--password-file', $bed->write_file('password', 'secret')), qr/^warning: .* not permitted: [+]sliding_log[.]2$/, 'doctor: not permitted');
unload($redis);
is(doctor(@at), 'ok: no native module: the scripts decide', 'doctor: not loaded');
is(doctor('--nginx-conf', $conf), 'critical: no native module, which "native required" asks for', 'doctor: not loaded, and required');
$redis->cli('MODULE', 'LOAD', native_module());

like(doctor(@at, '--check-user', 'limiter'), qr/^warning: .* not permitted: [+]sliding_log[.]2$/, 'doctor: another user may not use it');
$redis->cli('ACL', 'SETUSER', 'limiter', '+sliding_log.2');
is(doctor(@at, '--check-user', 'limiter'), 'ok: the native module decides', 'doctor: another user may use it');
$redis->cli('ACL', 'SETUSER', 'asker', 'on', '>secret', '~*', '+@all', '-acl|dryrun');
like(doctor(@at, '--user', 'asker', '--password-file', $bed->write_file('password', 'secret'), '--check-user', 'limiter'),
    qr/^warning: the native module is loaded; ACL DRYRUN requires [+]acl\|dryrun$/, 'doctor: nor may this one ask about another');
$redis->cli('ACL', 'DELUSER', 'limiter');

# A Valkey from 9.1 on may have no Lua.
my $lualess = Testbed::FakeRedis->new($bed, answers => { SCRIPT => "-ERR Could not find scripting engine 'lua'\r\n", TIME => "*2\r\n\$1\r\n1\r\n\$1\r\n0\r\n", INFO => "\$22\r\nvalkey_version:9.1.0\r\n\r\n" });
my ($scripts) = grep { $_->{check} eq 'scripts' } @{ tool_json('doctor', '--server', '127.0.0.1:' . $lualess->port)->{checks} };
is("$scripts->{status}: $scripts->{text}",
    'critical: log: the server has no Lua, which is a module of Valkey from 9.1 on: load libvalkeylua.so (loadmodule), or redis_sliding_log.so, which decides without scripts',
    'doctor: a Valkey without Lua');

$bed->done;
