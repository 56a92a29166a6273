# The script of docs/operations.md that writes a token: whole or not at all, for the group of the workers only.

use strict;
use warnings;
use Cwd ();
use File::Basename ();
use Test::More;
use Testbed;
use Testbed::Files qw(write_program);

my $bed    = Testbed->new;
my $dir    = $bed->dir;
my $group  = getgrgid((split ' ', $))[0]);
my $root   = Cwd::abs_path(File::Basename::dirname(__FILE__) . '/..');
my ($text) = Testbed::Process::slurp("$root/docs/operations.md") =~ /^```sh\n(#!.*?)^```/ms or BAIL_OUT('no script');
$text =~ s{/etc/nginx}{$dir}g;
$text =~ s/www-data/$group/;
my $script = $bed->write_file('write_token', $text);

# Runs it with a print_token of this body: (its status, what the file has, its mode, the files that are there)
sub written {
    my ($body) = @_;
    write_program("$dir/print_token", "#!/bin/sh\n$body\n");
    local $ENV{PATH} = "$dir:$ENV{PATH}";
    my $status = system('sh', $script) >> 8;
    return join ' ', $status, Testbed::Process::slurp("$dir/limiter.password"), sprintf('%o', (stat "$dir/limiter.password")[2] & oct 7777),
        scalar(my @left = glob "$dir/limiter.*");
}
is(written('echo one'),           "0 one\n 640 1", 'a token');
is(written('echo two'),           "0 two\n 640 1", 'another token');
is(written('echo half; exit 1'),  "1 two\n 640 1", 'a command that fails leaves the former token');
is(written('exit 0'),             "1 two\n 640 1", 'so does one that prints nothing');

$bed->done;
