# A reload into another file of the module: its workers get a new zone, since the memory layout may differ. A replaced
# file of the same name is loaded when the binary is (USR2, restart), not before.

use strict;
use warnings;
use File::Copy qw(copy);
use Test::More;
use Testbed qw(conf);
use Testbed::Http qw(get field);

my ($module) = Testbed::Nginx::load_module() =~ /^load_module (.*);/ or plan skip_all => 'the module is linked in';

my $bed   = Testbed->new;
my @files = map { my $file = $bed->dir . "/$_.so"; copy($module, $file) or die "$file: $!"; $file } qw(one other);
my $redis = $bed->redis;
my $conf  = conf(redis => '%%REDIS%%', server => <<'END');
    location /redis { sliding_log_limit far key=all limit=2 window=1h; empty_gif; }
    location /local { sliding_log_limit near key=all limit=2 window=1h store=local; empty_gif; }
    location /metrics { sliding_log_metrics; }
END

my $nginx;

# Testbed::Nginx writes the file of the module.
sub loading { $ENV{TEST_NGINX_MODULE} = $_[0]; return $conf }

sub left { return join ' ', map { field(get($nginx->port, $_), 'RateLimit') =~ /r=(\d+)/ } qw(/redis /local) }

$nginx = $bed->nginx(loading($files[0]), REDIS => $redis->address);
sub replaced { return get($nginx->port, '/metrics')->{body} =~ /^sliding_log_module_replaced (\d)$/m ? $1 : 'not told' }

is(left(), '1 1', 'the first file of the module decides');
is(replaced(), 0, 'the metrics show the loaded file as the installed one');
$nginx->configure(loading($files[0]))->reload(gone => 1);
is(left(), '0 0', 'the same file keeps its zone');
$nginx->configure(loading($files[1]))->reload(gone => 1);
is(left(), '0 1', 'another file has a zone of its own');
is(replaced(), 0, 'after a reload the metrics show the other file as the installed one');
like(get($nginx->port, '/metrics')->{body}, qr/^sliding_log_requests_total\{limit="near",result="passed",source="local"\} 1$/m, 'another file begins to count at zero');
is(join(' ', map { get($nginx->port, '/redis')->{status} } 1 .. 3), '429 429 429', 'another file knows denials');

# another file overwrites it, as a package does: the loaded code stays in use
unlink $files[1];
is(replaced(), 1, 'the metrics show that the file is missing');
copy($module, $files[1]);
is(replaced(), 1, 'the metrics show that the file was replaced');
$nginx->configure(loading($files[1]))->reload(gone => 1);
is(left(), '0 0', 'a file that was replaced is not loaded by a reload, and keeps its zone');
is(replaced(), 1, 'after the reload the metrics still show that the file was replaced');

$bed->done;
