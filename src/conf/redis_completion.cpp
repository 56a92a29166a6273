#include "conf/redis_completion.hpp"

#include <algorithm>

#include "conf/redis_tls.hpp"
#include "conf/refuse.hpp"
#include "limit/number.hpp"
#include "limit/store_directive.hpp"

namespace sliding_log {

namespace {

constexpr in_port_t kSentinelPort = 26379;

/// In sentinel mode the default port is that of Sentinel. Called at the end, since `mode` may follow `server`.
void completePorts(RedisSettings& redis) {
    auto* servers = static_cast<ServerSettings*>(redis.servers.elts);
    for (ngx_uint_t i = 0; i < redis.servers.nelts; i++) {
        if (servers[i].portGiven || servers[i].host.len == 0) {
            continue;
        }
        servers[i].port = kSentinelPort;
        for (ngx_uint_t j = 0; j < servers[i].addressCount; j++) {
            ngx_inet_set_port(servers[i].addresses[j].sockaddr, kSentinelPort);
        }
    }
}

void setDefaults(RedisSettings& redis) {
    ngx_conf_init_value(redis.database, 0);
    ngx_conf_init_msec_value(redis.connectTimeout, 100);
    ngx_conf_init_msec_value(redis.timeout, 100);
    ngx_conf_init_msec_value(redis.reconnectMin, 50);
    ngx_conf_init_msec_value(redis.reconnectMax, 5000);
    ngx_conf_init_uint_value(redis.clock, static_cast<ngx_uint_t>(Clock::Redis));
    ngx_conf_init_uint_value(redis.native, static_cast<ngx_uint_t>(Native::Auto));
    if (redis.prefix.data == nullptr) {
        ngx_str_set(&redis.prefix, "rl:sliding:");
    }
    if (redis.mode == static_cast<ngx_uint_t>(Mode::Sentinel)) {
        completePorts(redis);
    }
}

char* checkServers(ngx_conf_t* cf, const RedisSettings& redis) {
    const auto* servers = static_cast<const ServerSettings*>(redis.servers.elts);
    if (redis.servers.nelts == 0) {
        return refuse(cf, "sliding_log_redis", "block", view(redis.name), "a server in it, as server 127.0.0.1:6379");
    }
    if (redis.mode == static_cast<ngx_uint_t>(Mode::Standalone) && redis.servers.nelts > 1) {
        return refuse(cf, nameOf(StoreDirective::Server), "second address", view(servers[1].text),
                      "one server in mode standalone");
    }
    if (redis.mode == static_cast<ngx_uint_t>(Mode::Standalone) && servers[0].port == kSentinelPort) {
        ngx_conf_log_error(NGX_LOG_WARN, cf, 0,
                           "\"%V\" in \"server\" directive has the port of a Sentinel, which decides nothing; "
                           "did you mean \"mode sentinel MASTER\"?",
                           &servers[0].text);
    }
    if (redis.mode == static_cast<ngx_uint_t>(Mode::Cluster)) {
        const auto* unixSocket = std::find_if(servers, servers + redis.servers.nelts,
                                              [](const ServerSettings& each) { return each.host.len == 0; });
        if (unixSocket != servers + redis.servers.nelts) {
            return refuse(cf, nameOf(StoreDirective::Server), "address", view(unixSocket->text),
                          "host, IPv4 or [IPv6] in mode cluster, whose nodes name each other so");
        }
    }
    return kConfOk;
}

/// To be called before the defaults are set, while it is known what was given.
char* checkWhole(ngx_conf_t* cf, const RedisSettings& redis) {
    if (char* rv = checkServers(cf, redis); rv != kConfOk) {
        return rv;
    }
    if (redis.username.data != nullptr && redis.password.data == nullptr) {
        return refuseHere(cf, nameOf(StoreDirective::Username), view(redis.username),
                          "password or password_file with it");
    }
    if (redis.mode == static_cast<ngx_uint_t>(Mode::Cluster) && redis.database != NGX_CONF_UNSET) {
        return refuseHere(cf, nameOf(StoreDirective::Database), DecimalText(redis.database).view(),
                          "none in mode cluster, which has the database 0 only");
    }
    const bool isSentinel = redis.mode == static_cast<ngx_uint_t>(Mode::Sentinel);
    if (!isSentinel && (redis.sentinelUsername.data != nullptr || redis.sentinelPassword.data != nullptr)) {
        return refuseHere(cf,
                          redis.sentinelUsername.data != nullptr ? nameOf(StoreDirective::SentinelUsername)
                                                                 : nameOf(StoreDirective::SentinelPassword),
                          view(redis.sentinelUsername), "mode sentinel MASTER with it");
    }
    if (redis.sentinelUsername.data != nullptr && redis.sentinelPassword.data == nullptr) {
        return refuseHere(cf, nameOf(StoreDirective::SentinelUsername), view(redis.sentinelUsername),
                          "sentinel_password with it");
    }
    return kConfOk;
}

}  // namespace

char* completeRedis(ngx_conf_t* cf, RedisSettings& redis) {
    ngx_conf_init_uint_value(redis.mode, static_cast<ngx_uint_t>(Mode::Standalone));
    char* rv = checkWhole(cf, redis);
    setDefaults(redis);
    return rv == kConfOk ? prepareTls(cf, redis) : rv;
}

}  // namespace sliding_log
