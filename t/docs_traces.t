# The example of docs/recipes.md whose spans tell what limits decided, with nginx's OpenTelemetry module and a collector by
# gRPC.

use strict;
use warnings;
use Cwd ();
use File::Basename ();
use Test::More;
use Testbed qw(wait_until);
use Testbed::Examples qw(indented_example in_context with_modules);
use Testbed::Grpc;
use Testbed::Http qw(get);

my $bed   = Testbed->new;
my $redis = $bed->redis;
my $root  = Cwd::abs_path(File::Basename::dirname(__FILE__) . '/..');
my $text  = indented_example("$root/docs/recipes.md", 'Traces');
$text =~ s/127\.0\.0\.1:8000\b/127.0.0.1:%%PORT%%/ or BAIL_OUT('no port');
$text =~ s/127\.0\.0\.1:8080\b/127.0.0.1:%%PORT2%%/ or BAIL_OUT('no upstream server');
$text =~ s/127\.0\.0\.1:4317\b/127.0.0.1:%%COLLECTOR%%; interval 100ms/ or BAIL_OUT('no collector');
$text =~ s/limit=1000/limit=2/ or BAIL_OUT('no limit');
$text =~ s/\A.*?^(http)/events { }\n$1/ms;
Testbed::Grpc::needs_grpc();
my $collector = Testbed::Grpc->new($bed, 'collect');
my $conf = in_context($text, 'sliding_log_redis { server %%REDIS%%; timeout 5s; connect_timeout 5s; } server { listen 127.0.0.1:%%PORT2%%; return 200; }');
my $nginx = with_modules($bed, 'nginx-module-otel', ['ngx_otel_module'], $conf, REDIS => $redis->address, COLLECTOR => $collector->port);

my @statuses = map { get($nginx->port, '/api/', headers => { 'X-Api-Key' => 'a' })->{status} } 1 .. 3;
is("@statuses", '200 200 429', 'two requests pass');
sub spans_with { my ($name, $value) = @_; return scalar(() = $collector->output =~ /ratelimit\.$name .{0,4}$value/g) }
ok(wait_until('the spans', 10, sub { spans_with('status', 'PASSED') == 2 && spans_with('status', 'REJECTED') == 1 }), 'their spans tell what was decided');
is(spans_with('source', 'redis'), 3, 'and by whom');
is(spans_with('wait', '0\.\d{3}'), 3, 'and how long it took');
is(spans_with('address', 'PASSED'), 3, 'and of one limit among others') or diag($collector->output);
$bed->done;
