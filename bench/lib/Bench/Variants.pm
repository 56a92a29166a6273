package Bench::Variants;

# The variants that are compared. Each is a row of the table.

use strict;
use warnings;
use FindBin;

use constant { KEYS => 10_000, CONNECTIONS => 50 };

# Not reached in a run.
use constant PLENTY => 10_000_000;

# A variant:
#   name      the first column
#   kind      keys (many, admitted), hot (one key, admitted) or denied (one key, denied)
#   keys      of the load
#   family    '', limit_req, lua, c, floor or module (which loads ours): rows of limit_req and lua are others' units
#   load      other modules it needs, by name or by file
#   redis     true when it asks Redis
#   http      lines of the http block; %%REDIS%% is host:port, %%REDISPORT%% the port, %%SCRIPT%% the peer's script,
#             %%NAME%% the variant's own name for its limit
#   location  lines of the location, the same
# Its answers must always be 2xx; if denied, 429 except for one in a hundred.
# c_peer: where a C module for nginx and its Redis module are, which no Debian has; without it they are left out.
sub all {
    my ($window, $c_peer) = @_;
    my ($keys, $plenty) = (KEYS, PLENTY);
    my $two = "limit=$plenty window=$window; sliding_log_limit %%NAME%%_day key=\$arg_k limit=$plenty window=1d";
    my @all = (
        { name => 'no limit', kind => 'keys', family => '' },
        limit_req('limit_req',         'keys',   '1000000r/s', "burst=$plenty nodelay"),
        limit_req('limit_req, fields', 'keys',   '1000000r/s', "burst=$plenty nodelay", <<"END"),
add_header RateLimit-Policy '"%%NAME%%";q=$plenty;w=60';
add_header RateLimit '"%%NAME%%";r=$plenty;t=60';
END
        limit_req('limit_req, denied', 'denied', '1r/m',       ''),
        lua_peer("Lua peer, $keys keys", 'keys',   $plenty, $window),
        lua_peer('Lua peer, hot key',    'hot',    $plenty, $window),
        lua_peer('Lua peer, denied',     'denied', 1,       '1h'),
        !$c_peer ? () : (
            c_peer($c_peer, "C peer, $keys keys", 'keys',   $plenty, $window),
            c_peer($c_peer, 'C peer, hot key',    'hot',    $plenty, $window),
            c_peer($c_peer, 'C peer, denied',     'denied', 1,       '1h'),
        ),
        floor_of_all("GET, $keys keys"),
        module("log, $keys keys", 'keys',   "limit=$plenty window=$window", redis => 1),
        module('log, hot key',    'hot',    "limit=$plenty window=$window", redis => 1),
        module('log, denied',     'denied', 'limit=1 window=1h',            redis => 1),
        module("compact, $keys keys", 'keys',   "algorithm=compact limit=$plenty window=$window", redis => 1),
        module('compact, hot key',    'hot',    "algorithm=compact limit=$plenty window=$window", redis => 1),
        module('compact, denied',     'denied', 'algorithm=compact limit=1 window=1h',            redis => 1),
        module("log, native, $keys keys",     'keys', "limit=$plenty window=$window",                   redis => 1, native => 'required'),
        module("compact, native, $keys keys", 'keys', "algorithm=compact limit=$plenty window=$window", redis => 1, native => 'required'),
        module("log, override=on, $keys keys",     'keys', "limit=$plenty window=$window override=on",                   redis => 1),
        module("compact, override=on, $keys keys", 'keys', "algorithm=compact limit=$plenty window=$window override=on", redis => 1),
        module("log, block=1m, $keys keys",         'keys', "limit=$plenty window=$window block=1m", redis => 1),
        module("log, block=1m, native, $keys keys", 'keys', "limit=$plenty window=$window block=1m", redis => 1, native => 'required'),
        module("log, delay=1s, $keys keys",         'keys', "limit=$plenty window=$window delay=1s", redis => 1),
        module("log, delay=1s, native, $keys keys", 'keys', "limit=$plenty window=$window delay=1s", redis => 1, native => 'required'),
        module("log, two limits, $keys keys",         'keys', $two, redis => 1),
        module("log, two limits, native, $keys keys", 'keys', $two, redis => 1, native => 'required'),
        module("bucket, $keys keys", 'keys', "algorithm=bucket limit=$plenty window=$window", redis => 1),
        module("local, $keys keys", 'keys',   "limit=$plenty window=$window"),
        module('local, denied',     'denied', 'limit=1 window=1h'),
    );
    return map { { keys => $_->{kind} eq 'keys' ? $keys : 1, %$_ } } @all;
}

sub limit_req {
    my ($name, $kind, $rate, $parameters, $fields) = (@_, '');
    return {
        name     => $name,
        kind     => $kind,
        family   => 'limit_req',
        http     => "limit_req_zone \$arg_k zone=bench:10m rate=$rate;",
        location => "limit_req zone=bench $parameters; limit_req_status 429; $fields",
    };
}

sub lua_peer {
    my ($name, $kind, $limit, $window) = @_;
    my $milliseconds = milliseconds($window);
    my $cap          = int(1.2 * $limit + 0.9);
    return {
        name   => $name,
        kind   => $kind,
        family => 'lua',
        redis  => 1,
        load   => [qw(ndk_http_module ngx_http_lua_module)],
        http   => <<"END",
lua_package_path "$FindBin::RealBin/peer/?.lua;;";
init_by_lua_block {
    limiter  = require "limiter"
    settings = {
        port = %%REDISPORT%%, script = "%%SCRIPT%%", prefix = "rl:%%NAME%%:{",
        window = $milliseconds, limit = $limit, cap = $cap,
    }
}
END
        location => 'access_by_lua_block { limiter.check(settings, ngx.var.arg_k) }',
    };
}

# GCRA in one command of a Redis module: no log is kept.
sub c_peer {
    my ($dir, $name, $kind, $limit, $window) = @_;
    my $burst = $limit - 1;
    return {
        name     => $name,
        kind     => $kind,
        family   => 'c',
        redis    => 1,
        load     => ["$dir/ngx_http_rate_limit_module.so"],
        http     => 'upstream limiter { server %%REDIS%%; keepalive 64; } rate_limit_status 429; rate_limit_headers on;',
        location => "rate_limit \$arg_k requests=$limit period=$window burst=$burst;"
            . ' rate_limit_prefix %%NAME%%; rate_limit_pass limiter;',
    };
}

# The least that asks Redis: a GET whose reply is a number, and nothing else (bench/floor).
sub floor_of_all {
    my ($name) = @_;
    return {
        name     => $name,
        kind     => 'keys',
        family   => 'floor',
        redis    => 1,
        load     => ["$FindBin::RealBin/../build/ngx_http_floor_module.so"],
        location => 'floor %%REDIS%% $arg_k;',
    };
}

sub module {
    my ($name, $kind, $parameters, %more) = @_;
    return {
        name     => $name,
        kind     => $kind,
        family   => 'module',
        http     => $more{redis} ? 'sliding_log_redis { server %%REDIS%%; native ' . ($more{native} // 'off') . '; }' : '',
        location => "sliding_log_limit %%NAME%% key=\$arg_k $parameters;",
        %more,
    };
}

sub milliseconds {
    my ($number, $unit) = $_[0] =~ /^(\d+)(ms|s|m|h|d)$/;
    return $number * { ms => 1, s => 1000, m => 60_000, h => 3_600_000, d => 86_400_000 }->{$unit};
}

1;
