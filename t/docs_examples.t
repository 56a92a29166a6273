# `nginx -t` accepts every nginx example of README.md and docs/ without a warning. Redis accepts every setting for
# redis.conf.

use strict;
use warnings;
use Cwd ();
use File::Basename ();
use Test::More;
use Testbed;
use Testbed::Certificates;
use Testbed::Examples qw(examples redis_settings in_context);
use Testbed::Tls qw(tls_is_built);

my $bed   = Testbed->new;
my $redis = $bed->redis;
my $ca   = Testbed::Certificates->new($bed);
my ($certificate, $key) = $ca->issue([]);

# The files of the examples.
my %files = (
    'limiter.password' => "secret\n",
    'redis-ca.pem'     => Testbed::Process::slurp($ca->file),
    'redis-client.pem' => Testbed::Process::slurp($certificate),
    'redis-client.key' => Testbed::Process::slurp($key),
);
my $root = Cwd::abs_path(File::Basename::dirname(__FILE__) . '/..');

for my $file ("$root/README.md", glob "$root/docs/*.md") {
    my $name = File::Basename::basename($file);
    my $nth  = 0;
    for (examples($file)) {
        my ($title, $text) = @$_;
        next if $text =~ /_by_lua_block|^js_import/m;    # t/docs_streamed_answers.t and t/docs_json_web_tokens.t run them
        $text =~ s/\bredis\.example\b/localhost/g;    # nginx resolves names at start
        $text =~ s{/etc/sliding-log-redis/password}{limiter.password};    # where pods have it
        my $redis = $text =~ /^\s*(?:sliding_log_redis|http \{)/m ? '' : 'sliding_log_redis { server 127.0.0.1; }';
        my $example = $bed->configuration(in_context($text, "access_log off; $redis"));
        for my $file (keys %files) {
            open my $stand_in, '>', $example->dir . "/$file";
            print $stand_in $files{$file};
        }
        my ($accepted, $printed) = $example->check;
        $accepted ||= !tls_is_built() && $printed =~ /invalid value "on" in "tls" directive/;
        ok($accepted, "$name, example " . ++$nth . ": $title") or diag($printed);
        unlike($printed, qr/\[warn\].*"sliding_log/, "$name, example $nth: nginx -t warns of nothing");
    }
    is($redis->cli('CONFIG', 'SET', @$_), 'OK', "$name: Redis accepts @$_") for redis_settings($file);
    cmp_ok($nth, '>', 0, "$name has examples") if $name =~ /README|directives|operations|algorithms|recipes/;
}

$bed->done;
