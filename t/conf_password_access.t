# `nginx -t` warns of a password_file that the user of the workers cannot read, and nginx runs on.

use strict;
use warnings;
use Test::More;
use Testbed qw(conf);

plan skip_all => 'only root may change the user of the workers' if $> != 0;
my ($name, undef, $uid, $gid) = getpwnam 'www-data' or plan skip_all => 'there is no user www-data';

my $bed = Testbed->new;
chmod oct 755, $bed->dir;
my $file = $bed->write_file('password', "secret\n");
my $conf = conf(
    store  => 'server 127.0.0.1; %%PASSWORD%%',
    server => 'location / { sliding_log_limit a key=a limit=1 window=1s; empty_gif; }',
) =~ s{%%GLOBALS%%}{%%MODULE%% user %%USER%%; pid %%DIR%%/nginx.pid; error_log %%DIR%%/error.log info;}r;

# What `nginx -t` prints, as far as it is about the file; the command must accept the configuration.
sub warned {
    my ($user, $mode, $owner, $group, $password) = @_;
    chmod oct $mode, $file;
    chown $owner, $group, $file;
    my ($accepted, $printed) = $bed->configuration($conf, MODULE => Testbed::Nginx::load_module(), USER => $user, PASSWORD => $password // "password_file $file;")->check;
    ok($accepted, "user $user is accepted") or diag($printed);
    my %lines = map { $_ => 1 } grep { /password_file/ } split /\n/, $printed;
    return join "\n", map { s/^.*?\[warn\] (?:\S+ )?//r } sort keys %lines;
}

my $says = qr/"password_file" "\Q$file\E" cannot be read by the user "www-data" of the workers, so that another password in it takes a reload \(13: Permission denied\)/;
like(warned('www-data', '600', 0, 0), $says, 'a file that only root can read');
like(warned('www-data', '640', 0, 0), $says, 'a file of the group of root');
is(warned('www-data', '644', 0, 0), '', 'a file that everybody can read');
is(warned('www-data', '600', $uid, 0), '', 'a file of the user');
is(warned('www-data', '640', 0, $gid), '', 'a file of the group of the user');
is(warned('root', '600', 0, 0), '', 'workers that are root');
is(warned('www-data', '600', 0, 0, 'password secret;'), '', 'no file');
chmod oct 700, $bed->dir;
like(warned('www-data', '644', 0, 0), $says, 'a folder that only root can enter');

$bed->done;
