package Testbed::Examples;

# The nginx examples of a document, and the directives that they need around them.

use strict;
use warnings;
use Exporter 'import';

use Test::More;
use Testbed::Nginx;
use Testbed::Process;

our @EXPORT_OK = qw(examples indented_example redis_settings in_context with_modules needs_directive);

# [title of the section, text], in order.
sub examples {
    my ($file) = @_;
    my $title = '';
    my @examples;
    for my $part (split /^(?=##+ )|(?<=\n```\n)/m, Testbed::Process::slurp($file)) {
        $title = $1 if $part =~ /\A##+ (.*)/;
        push @examples, [$title, $1] if $part =~ /^```nginx\n(.*?)^```/ms;
    }
    return @examples;
}

# The one of a section that not every nginx accepts, which is indented.
sub indented_example {
    my ($file, $title) = @_;
    my ($section) = Testbed::Process::slurp($file) =~ /^## \Q$title\E\n(.*?)(?=^## |\z)/ms or BAIL_OUT("no section $title");
    return join '', $section =~ /^ {4}(.*\n)/mg;
}

# [name, value] of each line of its examples of redis.conf.
sub redis_settings {
    my ($file) = @_;
    return map { [split ' ', $_, 2] } map { split /\n/ } Testbed::Process::slurp($file) =~ /^```redis-conf\n(.*?)^```/msg;
}

# An example is a whole file, or belongs in http or server, depending on its beginning. $http: other directives in http.
sub in_context {
    my ($example, $http) = @_;
    if ($example =~ /^\s*http \{/m) {
        $example =~ s/^load_module .*\n//mg;
        $example =~ s/(http \{)/$1 %%HTTP%% $http/;
        return "%%GLOBALS%%\n$example";
    }
    $example = "server { listen 127.0.0.1:%%PORT%%; $example }" if $example =~ /\A\s*location/;
    return "%%GLOBALS%%\nevents { worker_connections 2048; }\nhttp { %%HTTP%% $http $example }";
}

# Skips the test if nginx does not know a directive of the configuration.
sub needs_directive {
    my ($bed, $name, $conf, %with) = @_;
    my ($accepted, $printed) = $bed->configuration($conf, %with)->check;
    plan skip_all => "this nginx has no $name" if !$accepted && $printed =~ /unknown directive "\Q$name\E"/;
    return;
}

# An nginx with such a configuration, and these modules of a Debian package before it. Without them the test is skipped.
sub with_modules {
    my ($bed, $package, $modules, $conf, %with) = @_;
    my ($folder) = qx{@{[Testbed::Nginx::binary()]} -V 2>&1} =~ /--modules-path=(\S+)/;
    my @files = map { ($folder // '/usr/lib/nginx/modules') . "/$_.so" } @$modules;
    plan skip_all => "$package is not installed" if grep { !-e } @files;
    plan skip_all => 'this module is not loaded, but linked in' if Testbed::Nginx::load_module() eq '';
    my $whole = join "\n", map({"load_module $_;"} @files), $conf;
    my ($accepted, $printed) = $bed->configuration($whole, %with)->check;
    plan skip_all => "$package is of another nginx" if !$accepted && $printed =~ /is not binary compatible|version \d+ instead of/;
    return $bed->nginx($whole, %with);
}

1;
