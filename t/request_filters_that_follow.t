# Filters of other modules see the response fields if this module is loaded after them; otherwise `nginx -t` warns. With
# the real modules, if they are installed.

use strict;
use warnings;
use Test::More;
use Testbed qw(conf);
use Testbed::Http qw(get field);

my %others = (
    ngx_http_headers_more_filter_module => {
        files => ['ngx_http_headers_more_filter_module'],
        inside => 'more_clear_headers "RateLimit*"; more_set_headers "X-Seen: by more";',
        sees   => sub { my ($answer) = @_; return !defined field($answer, 'RateLimit') && !defined field($answer, 'RateLimit-Policy') },
    },
    ngx_http_lua_module => {
        files  => ['ndk_http_module', 'ngx_http_lua_module'],
        inside => 'header_filter_by_lua_block { ngx.header["X-Seen"] = ngx.header["RateLimit"] or "nothing" }',
        sees   => sub { my ($answer) = @_; return (field($answer, 'X-Seen') // '') eq '"api";r=9;t=60' },
    },
);
my ($folder) = qx{nginx -V 2>&1} =~ /--modules-path=(\S+)/;
$folder //= '/usr/lib/nginx/modules';

my $bed   = Testbed->new;
my $frame = "%%BEFORE%%\n" . conf(main => '%%BEHIND%%', http => '%%LIMIT%%', server => 'location / { %%INSIDE%% empty_gif; }');
my $limit = 'sliding_log_limit api key=all limit=10 window=1m;';

for my $name (sort keys %others) {
    SKIP: {
        my $other = $others{$name};
        my $load  = join ' ', map { "load_module $folder/$_.so;" } @{ $other->{files} };
        skip "$name is not installed", 1 if grep { !-e "$folder/$_.so" } @{ $other->{files} };
        skip 'this module is not loaded, but linked in', 1 if Testbed::Nginx::load_module() eq '';
        my %usual = (BEFORE => $load, BEHIND => '', LIMIT => $limit, INSIDE => $other->{inside});
        my ($accepted, $printed) = $bed->configuration($frame, %usual)->check;
        skip "$name is of another nginx", 1 if !$accepted && $printed =~ /is not binary compatible|version \d+ instead of/;

        ok($accepted, "$name before this module: nginx -t accepts it") or diag($printed);
        unlike($printed, qr/\[warn\]/, "$name before this module: nginx -t does not warn");
        ok($other->{sees}->(get($bed->nginx($frame, %usual)->port, '/')), "$name before this module: it sees the fields");

        my %wrong = (%usual, BEFORE => '', BEHIND => $load);
        ($accepted, $printed) = $bed->configuration($frame, %wrong)->check;
        ok($accepted, "$name behind this module: nginx -t accepts it") or diag($printed);
        like($printed, qr/\[warn\].* $name is loaded behind ngx_http_sliding_log_module, so it does not see the response fields of sliding_log_headers, put its load_module first/,
            "$name behind this module: nginx -t warns");
        ok(!$other->{sees}->(get($bed->nginx($frame, %wrong)->port, '/')), "$name behind this module: it does not see the fields");
        ($accepted, $printed) = $bed->configuration($frame, %wrong, LIMIT => '')->check;
        ok($accepted && $printed !~ /\[warn\]/, "$name behind this module, no limit: nginx -t does not warn");
    }
}

$bed->done;
