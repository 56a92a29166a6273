#include "conf/redis_block.hpp"

#include <algorithm>
#include <string>

#include "conf/redis_completion.hpp"
#include "conf/refuse.hpp"
#include "conf/values.hpp"
#include "conf/warnings.hpp"
#include "limit/number.hpp"
#include "limit/store_directive.hpp"
#include "redis/password_file.hpp"
#include "settings/settings.hpp"

namespace sliding_log {

namespace {

constexpr in_port_t kRedisPort = 6379;
constexpr std::int64_t kLargestDatabase = 1'000'000;  // far above any `databases` setting

constexpr std::string_view kExpectedAddress =
    "host, IPv4, [IPv6] or unix:/path, and a port from 1 to 65535, without variables";
constexpr std::string_view kExpectedNoVariable = "a text as it is: no variable works here";

ngx_str_t& argument(ngx_conf_t* cf, ngx_uint_t index) {
    return static_cast<ngx_str_t*>(cf->args->elts)[index];
}

template <typename T>
T& fieldOf(const ngx_command_t* cmd, void* conf) {
    return *reinterpret_cast<T*>(static_cast<char*>(conf) + cmd->offset);
}

/// `reason` is nginx's: "host not found" comes from DNS, all others from the text.
char* refuseAddress(ngx_conf_t* cf, const ngx_command_t& cmd, const ngx_str_t& text, std::string_view reason) {
    if (reason == "host not found") {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "host not found in \"%V\" of \"%V\" directive, expected a name that resolves, or an address",
                           &text, &cmd.name);
        return kConfError;
    }
    std::string expected(kExpectedAddress);
    if (!reason.empty()) {
        expected.append(" (").append(reason).append(")");
    }
    return refuse(cf, view(cmd.name), "address", view(text), expected);
}

// ---- setters; conf is the block's RedisSettings

char* setServer(ngx_conf_t* cf, ngx_command_t* cmd, void* conf) {
    auto& redis = *static_cast<RedisSettings*>(conf);
    for (ngx_uint_t i = 1; i < cf->args->nelts; i++) {
        const ngx_str_t& text = argument(cf, i);
        if (beginsAsVariable(view(text))) {
            return refuse(cf, view(cmd->name), "address", view(text), kExpectedAddress);
        }
        ngx_url_t url{};
        url.url = text;
        url.default_port = kRedisPort;
        if (ngx_parse_url(cf->pool, &url) != NGX_OK || url.naddrs == 0) {
            return refuseAddress(cf, *cmd, text, url.err == nullptr ? "" : url.err);
        }
        auto* server = static_cast<ServerSettings*>(ngx_array_push(&redis.servers));
        if (server == nullptr) {
            return kConfError;
        }
        std::string_view host = url.family == AF_UNIX ? std::string_view() : view(url.host);
        if (host.starts_with('[')) {
            host = host.substr(1, host.size() - 2);
        }
        *server = {text, toNgx(host), url.port, url.no_port == 0, url.addrs, url.naddrs};
    }
    return kConfOk;
}

char* setMode(ngx_conf_t* cf, ngx_command_t* cmd, void* conf) {
    auto& redis = *static_cast<RedisSettings*>(conf);
    if (char* rv = setChoice(cf, cmd, conf); rv != kConfOk) {
        return rv;
    }
    const bool isSentinel = redis.mode == static_cast<ngx_uint_t>(Mode::Sentinel);
    if (isSentinel != (cf->args->nelts == 3)) {
        return refuse(cf, view(cmd->name), "value", view(argument(cf, cf->args->nelts - 1)),
                      isSentinel ? "the master's name after sentinel, as mode sentinel mymaster"
                                 : "nothing after standalone and cluster");
    }
    if (isSentinel) {
        redis.master = argument(cf, 2);
        if (redis.master.len == 0 || view(redis.master).find_first_of(" \t\r\n") != std::string_view::npos ||
            beginsAsVariable(view(redis.master))) {
            return refuse(cf, view(cmd->name), "master", view(redis.master), "a name without spaces and variables");
        }
    }
    return kConfOk;
}

char* setText(ngx_conf_t* cf, ngx_command_t* cmd, void* conf) {
    auto& field = fieldOf<ngx_str_t>(cmd, conf);
    if (field.data != nullptr) {
        return refuseDuplicate(cf, view(cmd->name));
    }
    if (argument(cf, 1).len == 0) {
        return refuse(cf, view(cmd->name), "value", "", "a text");
    }
    field = argument(cf, 1);
    return kConfOk;
}

/// Warns of a value that may begin with `$` legitimately, or may be meant as a variable. It may be a secret, so it is
/// not logged.
void warnOfVariable(ngx_conf_t* cf, const ngx_command_t& cmd) {
    if (beginsAsVariable(view(argument(cf, 1)))) {
        ngx_conf_log_error(NGX_LOG_WARN, cf, 0,
                           "\"%V\" begins with \"$\", and is taken as it is: no variable works here", &cmd.name);
    }
}

char* setTakenAsItIs(ngx_conf_t* cf, ngx_command_t* cmd, void* conf) {
    warnOfVariable(cf, *cmd);
    return setText(cf, cmd, conf);
}

/// A name or a file, which does not begin with a variable.
char* setName(ngx_conf_t* cf, ngx_command_t* cmd, void* conf) {
    if (beginsAsVariable(view(argument(cf, 1)))) {
        return refuse(cf, view(cmd->name), "value", view(argument(cf, 1)), kExpectedNoVariable);
    }
    return setText(cf, cmd, conf);
}

char* setPassword(ngx_conf_t* cf, ngx_command_t* cmd, void* conf) {
    if (static_cast<RedisSettings*>(conf)->password.data != nullptr) {
        return refuseHere(cf, view(cmd->name), "", "one of password and password_file, once");
    }
    return setTakenAsItIs(cf, cmd, conf);
}

/// Read here, so that a wrong file is refused; workers read it again.
char* setPasswordFile(ngx_conf_t* cf, ngx_command_t* cmd, void* conf) {
    auto& redis = *static_cast<RedisSettings*>(conf);
    if (redis.password.data != nullptr) {
        return refuseHere(cf, view(cmd->name), "", "one of password and password_file, once");
    }
    ngx_str_t path = argument(cf, 1);
    if (beginsAsVariable(view(path))) {
        return refuse(cf, view(cmd->name), "file", view(path), kExpectedNoVariable);
    }
    if (ngx_conf_full_name(cf->cycle, &path, 1) != NGX_OK) {
        return kConfError;
    }
    PasswordFile file;
    file.read(reinterpret_cast<const char*>(path.data));
    if (file.error() != 0) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, file.error(),
                           "invalid file \"%V\" in \"password_file\" directive, expected a readable file", &path);
        return kConfError;
    }
    if (file.password().empty()) {
        return refuse(cf, view(cmd->name), "file", view(path), PasswordFile::kExpected);
    }
    const std::string_view password = poolCopy(cf->pool, file.password());
    if (password.data() == nullptr) {
        return kConfError;
    }
    redis.password = toNgx(password);
    redis.passwordFile = path;
    return kConfOk;
}

/// Braces are refused: they would replace the hash tag of the keys, which keeps the logs of a client on one cluster
/// node.
char* setPrefix(ngx_conf_t* cf, ngx_command_t* cmd, void* conf) {
    auto& field = fieldOf<ngx_str_t>(cmd, conf);
    const ngx_str_t& prefix = argument(cf, 1);
    if (field.data != nullptr) {
        return refuseDuplicate(cf, view(cmd->name));
    }
    if (view(prefix).find_first_of("{}") != std::string_view::npos || prefix.len > 128) {
        return refuse(cf, view(cmd->name), "value", view(prefix), "at most 128 characters, without { and }");
    }
    warnOfVariable(cf, *cmd);
    field = prefix;
    return kConfOk;
}

char* setDatabase(ngx_conf_t* cf, ngx_command_t* cmd, void* conf) {
    auto& field = fieldOf<ngx_int_t>(cmd, conf);
    if (field != NGX_CONF_UNSET) {
        return refuseDuplicate(cf, view(cmd->name));
    }
    const std::optional<std::int64_t> database = parseCount(view(argument(cf, 1)));
    if (!database || *database > kLargestDatabase) {
        return refuse(cf, view(cmd->name), "number", view(argument(cf, 1)), "a database number, as 0");
    }
    field = *database;
    return kConfOk;
}

char* setTime(ngx_conf_t* cf, ngx_command_t* cmd, void* conf) {
    auto& field = fieldOf<ngx_msec_t>(cmd, conf);
    if (field != NGX_CONF_UNSET_MSEC) {
        return refuseDuplicate(cf, view(cmd->name));
    }
    const std::optional<std::int64_t> time = parseTime(argument(cf, 1), 1);
    if (!time) {
        return refuse(cf, view(cmd->name), "time", view(argument(cf, 1)), kExpectedTime);
    }
    field = static_cast<ngx_msec_t>(*time);
    return kConfOk;
}

char* setReconnect(ngx_conf_t* cf, ngx_command_t* cmd, void* conf) {
    auto& redis = *static_cast<RedisSettings*>(conf);
    if (redis.reconnectMin != NGX_CONF_UNSET_MSEC) {
        return refuseDuplicate(cf, view(cmd->name));
    }
    const std::optional<std::int64_t> least = parseTime(argument(cf, 1), 1);
    const std::optional<std::int64_t> most = parseTime(argument(cf, 2), 1);
    if (!least || !most) {
        return refuse(cf, view(cmd->name), "time", view(argument(cf, least ? 2 : 1)), kExpectedTime);
    }
    if (*least > *most) {
        return refuse(cf, view(cmd->name), "MAX", view(argument(cf, 2)), "a time not below MIN");
    }
    redis.reconnectMin = static_cast<ngx_msec_t>(*least);
    redis.reconnectMax = static_cast<ngx_msec_t>(*most);
    return kConfOk;
}

ngx_conf_enum_t gClocks[] = {
    {ngx_string("redis"), static_cast<ngx_uint_t>(Clock::Redis)},
    {ngx_string("nginx"), static_cast<ngx_uint_t>(Clock::Nginx)},
    {ngx_null_string, 0},
};

ngx_conf_enum_t gNatives[] = {
    {ngx_string("auto"), static_cast<ngx_uint_t>(Native::Auto)},
    {ngx_string("off"), static_cast<ngx_uint_t>(Native::Off)},
    {ngx_string("required"), static_cast<ngx_uint_t>(Native::Required)},
    {ngx_null_string, 0},
};

ngx_conf_enum_t gModes[] = {
    {ngx_string("standalone"), static_cast<ngx_uint_t>(Mode::Standalone)},
    {ngx_string("sentinel"), static_cast<ngx_uint_t>(Mode::Sentinel)},
    {ngx_string("cluster"), static_cast<ngx_uint_t>(Mode::Cluster)},
    {ngx_null_string, 0},
};

/// The type is only a number of arguments: the block has its own reader.
ngx_command_t command(StoreDirective directive, ngx_uint_t type, char* (*set)(ngx_conf_t*, ngx_command_t*, void*),
                      ngx_uint_t offset = 0, void* post = nullptr) {
    return {toNgx(nameOf(directive)), type, set, 0, offset, post};
}

ngx_command_t gBlockCommands[] = {
    command(StoreDirective::Server, NGX_CONF_1MORE, setServer),
    command(StoreDirective::Mode, NGX_CONF_TAKE12, setMode, offsetof(RedisSettings, mode), gModes),
    command(StoreDirective::SentinelUsername, NGX_CONF_TAKE1, setName, offsetof(RedisSettings, sentinelUsername)),
    command(StoreDirective::SentinelPassword, NGX_CONF_TAKE1, setTakenAsItIs,
            offsetof(RedisSettings, sentinelPassword)),
    command(StoreDirective::Username, NGX_CONF_TAKE1, setName, offsetof(RedisSettings, username)),
    command(StoreDirective::Password, NGX_CONF_TAKE1, setPassword, offsetof(RedisSettings, password)),
    command(StoreDirective::PasswordFile, NGX_CONF_TAKE1, setPasswordFile),
    command(StoreDirective::Database, NGX_CONF_TAKE1, setDatabase, offsetof(RedisSettings, database)),
    command(StoreDirective::Prefix, NGX_CONF_TAKE1, setPrefix, offsetof(RedisSettings, prefix)),
    command(StoreDirective::ConnectTimeout, NGX_CONF_TAKE1, setTime, offsetof(RedisSettings, connectTimeout)),
    command(StoreDirective::Timeout, NGX_CONF_TAKE1, setTime, offsetof(RedisSettings, timeout)),
    command(StoreDirective::Reconnect, NGX_CONF_TAKE2, setReconnect),
    command(StoreDirective::Clock, NGX_CONF_TAKE1, setChoice, offsetof(RedisSettings, clock), gClocks),
    command(StoreDirective::Native, NGX_CONF_TAKE1, setChoice, offsetof(RedisSettings, native), gNatives),
    command(StoreDirective::Tls, NGX_CONF_TAKE1, setChoice, offsetof(RedisSettings, tls.on), gSwitch),
    command(StoreDirective::TlsVerify, NGX_CONF_TAKE1, setChoice, offsetof(RedisSettings, tls.verify), gSwitch),
    command(StoreDirective::TlsTrustedCertificate, NGX_CONF_TAKE1, setName,
            offsetof(RedisSettings, tls.trustedCertificate)),
    command(StoreDirective::TlsCertificate, NGX_CONF_TAKE1, setName, offsetof(RedisSettings, tls.certificate)),
    command(StoreDirective::TlsCertificateKey, NGX_CONF_TAKE1, setName, offsetof(RedisSettings, tls.certificateKey)),
    command(StoreDirective::TlsServerName, NGX_CONF_TAKE1, setName, offsetof(RedisSettings, tls.serverName)),
};

struct Arguments {
    ngx_uint_t least;
    ngx_uint_t most;
    const char* text;
};

const Arguments& argumentsOf(const ngx_command_t& command) {
    static constexpr Arguments one = {1, 1, "1"};
    static constexpr Arguments two = {2, 2, "2"};
    static constexpr Arguments oneOrTwo = {1, 2, "1 or 2"};
    static constexpr Arguments some = {1, NGX_MAX_UINT32_VALUE, "1 or more"};
    switch (command.type) {
        case NGX_CONF_TAKE2:
            return two;
        case NGX_CONF_TAKE12:
            return oneOrTwo;
        case NGX_CONF_1MORE:
            return some;
        default:
            return one;
    }
}

/// Called by nginx for each directive inside the block.
char* readInside(ngx_conf_t* cf, ngx_command_t*, void* conf) {
    const std::string_view name = view(argument(cf, 0));
    if (name == "include" && cf->args->nelts == 2) {
        return ngx_conf_include(cf, nullptr, conf);
    }
    auto* command = std::ranges::find(gBlockCommands, name, [](const ngx_command_t& each) { return view(each.name); });
    if (command == std::end(gBlockCommands)) {
        std::string known;
        for (const ngx_command_t& each : gBlockCommands) {
            known.append(known.empty() ? "" : ", ").append(view(each.name));
        }
        return refuse(cf, "sliding_log_redis", "directive", name, "one of " + known);
    }
    const Arguments& allowed = argumentsOf(*command);
    const ngx_uint_t given = cf->args->nelts - 1;
    if (given < allowed.least || given > allowed.most) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "invalid number of arguments in \"%V\" directive, expected %s",
                           &command->name, allowed.text);
        return kConfError;
    }
    return command->set(cf, command, conf);
}

}  // namespace

char* setRedisBlock(ngx_conf_t* cf, ngx_command_t*, void* conf) {
    auto& main = *static_cast<MainSettings*>(conf);
    const std::string_view name = cf->args->nelts > 1 ? view(argument(cf, 1)) : kDefaultStore;
    if (name.empty() || name == kLocalStore) {
        return refuse(cf, "sliding_log_redis", "NAME", name, "a name other than local, which is this node's own store");
    }
    if (findStore(main.allStores(), name) != nullptr) {
        return refuseDuplicate(cf, "sliding_log_redis", "name", name);
    }
    auto* redis = poolNew<RedisSettings>(cf->pool);
    auto** slot = static_cast<RedisSettings**>(ngx_array_push(&main.stores));
    if (redis == nullptr || slot == nullptr ||
        ngx_array_init(&redis->servers, cf->pool, 3, sizeof(ServerSettings)) != NGX_OK) {
        return kConfError;
    }
    *slot = redis;
    redis->name = toNgx(name);
    redis->index = main.stores.nelts - 1;
    redis->database = NGX_CONF_UNSET;
    redis->connectTimeout = redis->timeout = NGX_CONF_UNSET_MSEC;
    redis->reconnectMin = redis->reconnectMax = NGX_CONF_UNSET_MSEC;
    redis->native = redis->clock = redis->mode = redis->tls.on = redis->tls.verify = NGX_CONF_UNSET_UINT;

    const ngx_conf_t outside = *cf;
    cf->handler = readInside;
    cf->handler_conf = reinterpret_cast<char*>(redis);
    char* rv = ngx_conf_parse(cf, nullptr);
    *cf = outside;
    return rv == kConfOk ? completeRedis(cf, *redis) : rv;
}

}  // namespace sliding_log
