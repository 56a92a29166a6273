# Every nginx example in README.md and docs/ is accepted by `nginx -t`.

use strict;
use warnings;
use Cwd ();
use File::Basename ();
use Test::More;
use Testbed;
use Testbed::Certificates;
use Testbed::Tls qw(tls_is_built);

my $bed  = Testbed->new;
my $ca   = Testbed::Certificates->new($bed);
my ($certificate, $key) = $ca->issue([]);

# What the examples' files stand for.
my %files = (
    'limiter.password' => "secret\n",
    'redis-ca.pem'     => Testbed::Process::slurp($ca->file),
    'redis-client.pem' => Testbed::Process::slurp($certificate),
    'redis-client.key' => Testbed::Process::slurp($key),
);
my $root = Cwd::abs_path(File::Basename::dirname(__FILE__) . '/..');

# An example is a whole file, or stands in http, server or location: by what it begins with.
sub in_context {
    my ($example) = @_;
    $example =~ s/\bredis\.example\b/localhost/g;    # nginx resolves names when it reads them
    if ($example =~ /^\s*http \{/m) {
        $example =~ s/^load_module .*\n//mg;
        $example =~ s/(http \{)/$1 %%HTTP%% access_log off;/;
        return "%%GLOBALS%%\n$example";
    }
    my $redis = $example =~ /^sliding_log_redis/m ? '' : 'sliding_log_redis { server 127.0.0.1; }';
    $example = "server { listen 127.0.0.1:%%PORT2%%; $example }" if $example =~ /\A\s*location/;
    return "%%GLOBALS%%\nevents { }\nhttp { %%HTTP%% $redis $example }";
}

for my $file ("$root/README.md", glob "$root/docs/*.md") {
    my $text = Testbed::Process::slurp($file);
    my $name = File::Basename::basename($file);
    my $nth  = 0;
    while ($text =~ /^```nginx\n(.*?)^```/msg) {
        my $example = $bed->configuration(in_context($1));
        for my $file (keys %files) {
            open my $stand_in, '>', $example->dir . "/$file";
            print $stand_in $files{$file};
        }
        my ($accepted, $printed) = $example->check;
        $accepted ||= !tls_is_built() && $printed =~ /"tls" has invalid value "on"/;
        ok($accepted, "$name, example " . ++$nth) or diag($printed);
    }
    cmp_ok($nth, '>', 0, "$name has examples") if $name =~ /README|directives|operations/;
}

$bed->done;
