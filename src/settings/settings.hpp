// The settings of the directives, as plain structs in the pool of the configuration. Defaults are set in merge.cpp and,
// for the redis block, in redis_block.cpp, because nginx's setters expect unset values until then.
#pragma once

#include <algorithm>
#include <bitset>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "limit/algorithm.hpp"
#include "limit/block_times.hpp"
#include "limit/check.hpp"
#include "limit/key.hpp"
#include "ngx.hpp"

namespace sliding_log {

class Tls;
struct Zone;

enum class Clock : ngx_uint_t { Redis, Nginx };
enum class Mode : ngx_uint_t { Standalone, Sentinel, Cluster };

/// Whether calls are decided by the native module of the server.
enum class Native : ngx_uint_t {
    Auto,  // where it is loaded; else by the scripts
    Off,
    Required  // a server without it counts as down
};

/// The position of a directive, for messages after it was read.
struct ConfPosition {
    ngx_str_t file;
    ngx_uint_t line;
};

/// One server of a redis block: the Redis, a Sentinel, or a node that knows its cluster.
struct ServerSettings {
    ngx_str_t text;  // as configured, for messages
    ngx_str_t host;  // a name or an address literal; empty: a unix socket
    in_port_t port;
    bool portGiven;
    const ngx_addr_t* addresses;  // what it resolved to when the configuration was read
    ngx_uint_t addressCount;
};

/// The tls directives of a block, as configured.
struct TlsSettings {
    ngx_uint_t on;      // 0 or 1
    ngx_uint_t verify;  // 0 or 1
    ngx_str_t trustedCertificate;
    ngx_str_t certificate;
    ngx_str_t certificateKey;
    ngx_str_t serverName;
};

/// One sliding_log_redis block.
struct RedisSettings {
    ngx_str_t name;
    ngx_array_t servers;       // of ServerSettings, at least one
    ngx_uint_t mode;           // a Mode
    ngx_str_t master;          // the name in `mode sentinel`
    ngx_resolver_t* resolver;  // of the http block; nullptr: names keep the addresses of the configuration
    ngx_str_t sentinelUsername;
    ngx_str_t sentinelPassword;
    ngx_str_t username;
    ngx_str_t password;      // of `password`, or what `password_file` had; never logged
    ngx_str_t passwordFile;  // its path; empty: none
    TlsSettings tls;
    const Tls* tlsContext;  // the result of these settings; nullptr: off
    ngx_int_t database;
    ngx_str_t prefix;
    ngx_msec_t connectTimeout;
    ngx_msec_t timeout;
    ngx_msec_t reconnectMin;
    ngx_msec_t reconnectMax;
    ngx_uint_t clock;     // a Clock
    ngx_uint_t native;    // a Native
    ngx_uint_t index;     // in MainSettings::stores
    ngx_flag_t used;      // by a limit: workers connect to it when they start
    ngx_flag_t nameable;  // by a variable of a limit: a worker connects to it when a request needs it
    ngx_uint_t onErrors;  // a bit for each OnError of the locations that use it
};

/// The one of this name; nullptr: there is none. Names are exact.
inline RedisSettings* const* findStore(std::span<RedisSettings* const> stores, std::string_view name) {
    const auto found =
        std::ranges::find_if(stores, [&](const RedisSettings* each) { return view(each->name) == name; });
    return found == stores.end() ? nullptr : &*found;
}

/// Which records may change a limit while nginx runs.
enum class OverrideBy : std::uint8_t {
    None,
    Name,  // one of the whole NAME
    Key    // this one, and one of each key
};

/// As the parameter has it.
constexpr std::string_view nameOf(OverrideBy which) {
    return which == OverrideBy::Key ? "on" : which == OverrideBy::Name ? "name" : "off";
}

struct LimitSettings;

/// One named log: the settings that all sliding_log_limit directives of this NAME have in common.
struct LogSettings {
    ngx_str_t name;
    ngx_str_t variableName;  // as variables have it: in lower case, `_` for `-` and `.`
    Algorithm algorithm;
    std::int64_t windowMs;
    std::int64_t slackMs;
    std::int64_t cap;      // entries, 0: off
    std::int64_t longest;  // what denied attempts are kept to: cap, and what delay= may reserve beyond it; 0: off
    ngx_str_t id;          // as configured
    Secrecy secrecy;       // of the key's value
    OverrideBy override;   // the records that it obeys, if it is in Redis
    bool isQueuedFor;      // a limit lets requests wait for a place, see LimitSettings::queues()
    /// Where its logs may be, beside this node's local store: one, or none, unless a variable names the store of each
    /// request.
    std::span<RedisSettings* const> homes;
    const LimitSettings* finalizedBy;  // the directive that set store and cap; nullptr until then
    std::int64_t sample;               // algorithm=sampled: one of this number of requests is logged
    std::int64_t permitLifeMs;         // how long its permits last; 0: no limit has prefetch=
    std::int64_t aheadMs;  // how far ahead of now an entry may be: reserved by this limit, or by one asked with it
    ngx_uint_t index;      // in MainSettings::logs

    std::int64_t largestLimit;  // of the constant ones
    std::int64_t largestBurst;  // 0: none is given
    ngx_flag_t variableLimit;   // one of them is a variable
    ngx_flag_t mayBeInvalid;    // a limit, a cost or the store is
    ngx_flag_t enforced;        // a location enforces it
    ngx_flag_t escalates;       // one of them has block= with several times
    ngx_flag_t settles;         // a limit has settle=

    bool mayBeInRedis() const { return !homes.empty(); }
    bool obeysName() const { return override != OverrideBy::None && mayBeInRedis(); }
    bool obeysKeys() const { return override == OverrideBy::Key && mayBeInRedis(); }

    std::int64_t mostAllowed() const { return std::max(largestLimit, largestBurst); }
    /// The entries of permits are ahead of now. algorithm=compact sets the time to live when half the slack is used.
    std::int64_t ttlMs() const { return windowMs + std::max(slackMs, 2 * permitLifeMs) + aheadMs; }
};

enum class Excess : std::uint8_t { Reject, Drop };

/// One sliding_log_limit directive.
struct LimitSettings {
    using Statuses = std::bitset<600>;

    LogSettings* log;
    ngx_http_complex_value_t* key;
    ngx_int_t keyVariable;  // its index, if the key is one variable and nothing else; otherwise NGX_ERROR
    std::int64_t limit;     // when limitVariable is nullptr
    ngx_http_complex_value_t* limitVariable;
    ngx_str_t policy;              // the member of RateLimit-Policy for this limit
    ngx_http_complex_value_t* id;  // nullptr: the module's own
    std::int64_t cost;             // when costVariable is nullptr
    ngx_http_complex_value_t* costVariable;
    bool countsAll;
    Statuses refund;                   // of the responses that give the entries back
    bool refunds;                      // there is one
    ngx_http_complex_value_t* settle;  // the cost when the request has ended; nullptr: none
    std::int64_t delayMs;
    std::int64_t blockMs;   // the first one, if there are several
    BlockTimes blockTimes;  // if there are several
    std::int64_t burst;     // algorithm=bucket; 0: as large as the limit
    std::int64_t prefetch;  // permits to take in one call, at most; 1: none
    Excess excess;
    std::optional<bool> dryRun;  // none: that of the level

    /// Requests without room wait up to delayMs until another one ends. Limits of other algorithms reserve.
    bool queues() const { return delayMs > 0 && traitsOf(log->algorithm).queues; }
    std::int64_t reservesMs() const { return traitsOf(log->algorithm).queues ? 0 : delayMs; }

    // completed for the whole log once the configuration is read
    bool capGiven;
    std::int64_t cap;  // 0: off
    ngx_str_t store;   // as configured; empty: the first redis block, or local where there is none
    ngx_http_complex_value_t* storeVariable;  // nullptr: the same for all requests
    ConfPosition position;
    Check check;  // what each request asks, but for its key and its own numbers
};

enum class OnError : ngx_uint_t { Allow, Deny, Local };
enum class Fields : ngx_uint_t { Off = 0, Ietf = 1, Legacy = 2, All = 3 };  // a bit each
enum class Answer : ngx_uint_t { Plain, Problem };

struct LocationSettings {
    ngx_array_t* limits;  // of LimitSettings*; empty: `off`; nullptr until merged: none at this level
    ngx_uint_t status;
    ngx_uint_t onError;
    ngx_uint_t nodes;   // of `sliding_log_on_error local nodes=N`: the number of nodes that share a limit
    ngx_uint_t dryRun;  // 0 or 1
    ngx_uint_t fields;
    ngx_uint_t answer;  // an Answer
    ngx_uint_t logLevel;

    ngx_http_handler_pt page;  // of sliding_log_metrics and the like: the limits of outer levels do not apply to it
    ngx_str_t pageDirective;
    ConfPosition pagePosition;
    ngx_array_t* inherited;  // the limits of a level inside that has none: those above a page reach it

    std::span<LimitSettings* const> allLimits() const {  // when merged
        return {static_cast<LimitSettings* const*>(limits->elts), limits->nelts};
    }
    bool isRehearsed(const LimitSettings& limit) const { return limit.dryRun.value_or(dryRun != 0); }
};

struct MainSettings {
    ngx_array_t stores;         // of RedisSettings*
    ngx_array_t logs;           // of LogSettings*
    ngx_array_t limits;         // of LimitSettings*, all of them
    size_t zoneSize;            // bytes
    Zone* zone;                 // nullptr: no limit, no zone
    ngx_array_t levels;         // of LocationSettings*
    std::int64_t largestDelay;  // ms, of all limits that reserve

    std::span<RedisSettings* const> allStores() const {  // by RedisSettings::index
        return {static_cast<RedisSettings* const*>(stores.elts), stores.nelts};
    }
};

}  // namespace sliding_log
