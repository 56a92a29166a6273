#include "conf/redis_block.hpp"

#include <algorithm>

#include "conf/refuse.hpp"
#include "conf/settings.hpp"
#include "conf/values.hpp"
#include "limit/number.hpp"

namespace sliding_log {

namespace {

constexpr in_port_t kDefaultPort = 6379;
constexpr std::int64_t kLargestDatabase = 1'000'000;  // far above any `databases` setting
constexpr std::size_t kLargestPasswordFile = 4096;    // bytes

ngx_str_t& argument(ngx_conf_t* cf, ngx_uint_t index) {
    return static_cast<ngx_str_t*>(cf->args->elts)[index];
}

template <typename T>
T& fieldOf(const ngx_command_t* cmd, void* conf) {
    return *reinterpret_cast<T*>(static_cast<char*>(conf) + cmd->offset);
}

// ---- setters; conf is the block's RedisSettings

char* setServer(ngx_conf_t* cf, ngx_command_t* cmd, void* conf) {
    auto& redis = *static_cast<RedisSettings*>(conf);
    const ngx_str_t& server = argument(cf, 1);
    if (redis.addresses != nullptr) {
        return refuse(cf, view(cmd->name), "second address", view(server), "one server in mode standalone");
    }
    ngx_url_t url{};
    url.url = server;
    url.default_port = kDefaultPort;
    if (ngx_parse_url(cf->pool, &url) != NGX_OK || url.naddrs == 0) {
        const ngx_str_t reason = toNgx(url.err == nullptr ? "" : url.err);
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "%V", &reason);
        return refuse(cf, view(cmd->name), "address", view(server),
                      "host, IPv4, [IPv6] or unix:/path, and a port from 1 to 65535");
    }
    redis.server = server;
    redis.addresses = url.addrs;
    redis.addressCount = url.naddrs;
    return kConfOk;
}

char* setText(ngx_conf_t* cf, ngx_command_t* cmd, void* conf) {
    auto& field = fieldOf<ngx_str_t>(cmd, conf);
    if (field.data != nullptr) {
        return refuseDuplicate(cf, view(cmd->name), "value");
    }
    if (argument(cf, 1).len == 0) {
        return refuse(cf, view(cmd->name), "value", "", "a text");
    }
    field = argument(cf, 1);
    return kConfOk;
}

char* setPassword(ngx_conf_t* cf, ngx_command_t* cmd, void* conf) {
    if (static_cast<RedisSettings*>(conf)->password.data != nullptr) {
        return refuseDuplicate(cf, view(cmd->name), "password (one of password and password_file)");
    }
    return setText(cf, cmd, conf);
}

/// The file's first line: a trailing newline, as editors leave it, is no part of the password.
char* setPasswordFile(ngx_conf_t* cf, ngx_command_t* cmd, void* conf) {
    auto& redis = *static_cast<RedisSettings*>(conf);
    if (redis.password.data != nullptr) {
        return refuseDuplicate(cf, view(cmd->name), "password (one of password and password_file)");
    }
    ngx_str_t path = argument(cf, 1);
    if (ngx_conf_full_name(cf->cycle, &path, 1) != NGX_OK) {
        return kConfError;
    }
    auto* content = poolNew<u_char>(cf->pool, kLargestPasswordFile);
    const ngx_fd_t fd = ngx_open_file(path.data, NGX_FILE_RDONLY, NGX_FILE_OPEN, 0);
    if (content == nullptr || fd == NGX_INVALID_FILE) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, ngx_errno,
                           "\"password_file\" cannot open \"%V\", expected a readable file", &path);
        return kConfError;
    }
    const ssize_t size = ngx_read_fd(fd, content, kLargestPasswordFile);
    ngx_close_file(fd);
    const std::string_view text(reinterpret_cast<char*>(content), size < 0 ? 0 : static_cast<std::size_t>(size));
    const std::string_view line = text.substr(0, text.find_first_of("\r\n"));
    if (line.empty() || text.size() == kLargestPasswordFile) {
        return refuse(cf, view(cmd->name), "file", view(path), "a password of up to 4095 bytes in its first line");
    }
    redis.password = toNgx(line);
    return kConfOk;
}

/// Braces would take over the keys' hash tag, which keeps a client's logs on one cluster node.
char* setPrefix(ngx_conf_t* cf, ngx_command_t* cmd, void* conf) {
    auto& field = fieldOf<ngx_str_t>(cmd, conf);
    const ngx_str_t& prefix = argument(cf, 1);
    if (field.data != nullptr) {
        return refuseDuplicate(cf, view(cmd->name), "value");
    }
    if (view(prefix).find_first_of("{}") != std::string_view::npos || prefix.len > 128) {
        return refuse(cf, view(cmd->name), "value", view(prefix), "at most 128 characters, without { and }");
    }
    field = prefix;
    return kConfOk;
}

char* setDatabase(ngx_conf_t* cf, ngx_command_t* cmd, void* conf) {
    auto& field = fieldOf<ngx_int_t>(cmd, conf);
    if (field != NGX_CONF_UNSET) {
        return refuseDuplicate(cf, view(cmd->name), "value");
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
        return refuseDuplicate(cf, view(cmd->name), "value");
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
        return refuseDuplicate(cf, view(cmd->name), "value");
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

ngx_conf_enum_t gModes[] = {{ngx_string("standalone"), 0}, {ngx_null_string, 0}};

// the type is only a number of arguments here: the block has its own reader
ngx_command_t gBlockCommands[] = {
    {ngx_string("server"), NGX_CONF_TAKE1, setServer, 0, 0, nullptr},
    {ngx_string("mode"), NGX_CONF_TAKE1, setChoice, 0, offsetof(RedisSettings, mode), gModes},
    {ngx_string("username"), NGX_CONF_TAKE1, setText, 0, offsetof(RedisSettings, username), nullptr},
    {ngx_string("password"), NGX_CONF_TAKE1, setPassword, 0, offsetof(RedisSettings, password), nullptr},
    {ngx_string("password_file"), NGX_CONF_TAKE1, setPasswordFile, 0, 0, nullptr},
    {ngx_string("database"), NGX_CONF_TAKE1, setDatabase, 0, offsetof(RedisSettings, database), nullptr},
    {ngx_string("prefix"), NGX_CONF_TAKE1, setPrefix, 0, offsetof(RedisSettings, prefix), nullptr},
    {ngx_string("connect_timeout"), NGX_CONF_TAKE1, setTime, 0, offsetof(RedisSettings, connectTimeout), nullptr},
    {ngx_string("timeout"), NGX_CONF_TAKE1, setTime, 0, offsetof(RedisSettings, timeout), nullptr},
    {ngx_string("reconnect"), NGX_CONF_TAKE2, setReconnect, 0, 0, nullptr},
    {ngx_string("clock"), NGX_CONF_TAKE1, setChoice, 0, offsetof(RedisSettings, clock), gClocks},
};

/// Called by nginx for each directive inside the block.
char* readInside(ngx_conf_t* cf, ngx_command_t*, void* conf) {
    const std::string_view name = view(argument(cf, 0));
    auto* command = std::ranges::find(gBlockCommands, name, [](const ngx_command_t& each) { return view(each.name); });
    if (command == std::end(gBlockCommands)) {
        return refuse(cf, "sliding_log_redis", "directive", name,
                      "server, mode, username, password, password_file, database, prefix, connect_timeout, timeout, "
                      "reconnect or clock");
    }
    const ngx_uint_t arguments = command->type == NGX_CONF_TAKE2 ? 2 : 1;
    if (cf->args->nelts != arguments + 1) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "\"%V\" has invalid number of arguments %ui, expected %ui",
                           &command->name, cf->args->nelts - 1, arguments);
        return kConfError;
    }
    return command->set(cf, command, conf);
}

void setDefaults(RedisSettings& redis) {
    ngx_conf_init_value(redis.database, 0);
    ngx_conf_init_msec_value(redis.connectTimeout, 100);
    ngx_conf_init_msec_value(redis.timeout, 100);
    ngx_conf_init_msec_value(redis.reconnectMin, 50);
    ngx_conf_init_msec_value(redis.reconnectMax, 5000);
    ngx_conf_init_uint_value(redis.clock, static_cast<ngx_uint_t>(Clock::Redis));
    if (redis.prefix.data == nullptr) {
        ngx_str_set(&redis.prefix, "rl:sliding:");
    }
}

char* checkWhole(ngx_conf_t* cf, const RedisSettings& redis) {
    if (redis.addresses == nullptr) {
        return refuse(cf, "sliding_log_redis", "block", view(redis.name), "a server in it, as server 127.0.0.1:6379");
    }
    if (redis.username.data != nullptr && redis.password.data == nullptr) {
        return refuse(cf, "username", "use", view(redis.username), "a password or password_file with it");
    }
    return kConfOk;
}

}  // namespace

char* setRedisBlock(ngx_conf_t* cf, ngx_command_t*, void* conf) {
    auto& main = *static_cast<MainSettings*>(conf);
    const std::string_view name = cf->args->nelts > 1 ? view(argument(cf, 1)) : "default";
    if (name.empty() || name == "local") {
        return refuse(cf, "sliding_log_redis", "NAME", name, "a name other than local, which is this node's own store");
    }
    auto** stores = static_cast<RedisSettings**>(main.stores.elts);
    for (ngx_uint_t i = 0; i < main.stores.nelts; i++) {
        if (view(stores[i]->name) == name) {
            return refuseDuplicate(cf, "sliding_log_redis", name);
        }
    }
    auto* redis = poolNew<RedisSettings>(cf->pool);
    auto** slot = static_cast<RedisSettings**>(ngx_array_push(&main.stores));
    if (redis == nullptr || slot == nullptr) {
        return kConfError;
    }
    *slot = redis;
    redis->name = toNgx(name);
    redis->index = main.stores.nelts - 1;
    redis->database = NGX_CONF_UNSET;
    redis->connectTimeout = redis->timeout = NGX_CONF_UNSET_MSEC;
    redis->reconnectMin = redis->reconnectMax = NGX_CONF_UNSET_MSEC;
    redis->clock = redis->mode = NGX_CONF_UNSET_UINT;

    const ngx_conf_t outside = *cf;
    cf->handler = readInside;
    cf->handler_conf = reinterpret_cast<char*>(redis);
    char* rv = ngx_conf_parse(cf, nullptr);
    *cf = outside;
    if (rv != kConfOk) {
        return rv;
    }
    setDefaults(*redis);
    return checkWhole(cf, *redis);
}

}  // namespace sliding_log
