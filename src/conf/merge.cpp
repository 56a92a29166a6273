#include "conf/merge.hpp"

#include <algorithm>
#include <span>
#include <string>

#include "conf/refuse.hpp"
#include "conf/values.hpp"
#include "conf/warnings.hpp"
#include "limit/number.hpp"
#include "metrics/own_answer.hpp"
#include "store/zone.hpp"

namespace sliding_log {

namespace {

constexpr size_t kDefaultZoneSize = size_t{10} * 1024 * 1024;
constexpr off_t kLargestZone = off_t{64} * 1024 * 1024 * 1024;
constexpr std::int64_t kMostNodes = 1'000'000;

std::string nameOf(const LimitSettings& limit) {
    return std::string("\"sliding_log_limit\" ").append(view(limit.log->name));
}

char* refuseLater(ngx_conf_t* cf, const LimitSettings& limit, std::string_view what, std::string_view text,
                  std::string_view expected) {
    return refuseAt(cf, limit.place, nameOf(limit), what, text, expected);
}

RedisSettings* findStore(const MainSettings& main, std::string_view name) {
    auto** stores = static_cast<RedisSettings**>(main.stores.elts);
    for (ngx_uint_t i = 0; i < main.stores.nelts; i++) {
        if (name.empty() || view(stores[i]->name) == name) {
            return stores[i];
        }
    }
    return nullptr;
}

char* settleStore(ngx_conf_t* cf, const MainSettings& main, const LimitSettings& limit) {
    LogSettings& log = *limit.log;
    RedisSettings* store = view(limit.store) == "local" ? nullptr : findStore(main, view(limit.store));
    if (store == nullptr && limit.store.len > 0 && view(limit.store) != "local") {
        return refuseLater(cf, limit, "store", view(limit.store), "the name of a sliding_log_redis block, or local");
    }
    if (log.settledBy != nullptr && log.redis != store) {
        return refuseLater(cf, limit, "store", store == nullptr ? "local" : view(store->name),
                           "the one of the other limits of that name");
    }
    log.redis = store;
    if (store != nullptr) {
        store->used = 1;
    }
    return kConfOk;
}

/// 1.2 times the largest limit, rounded up; none where a limit is a variable.
std::int64_t defaultCap(const LogSettings& log) {
    return log.variableLimit ? 0 : std::max<std::int64_t>((log.mostAllowed() * 12 + 9) / 10, 1);
}

std::string capText(std::int64_t cap) {
    return cap == 0 ? "off" : std::string(DecimalText(cap).view());
}

/// Two places of one NAME have different caps. One of them may be a default: nobody wrote that number.
char* refuseOtherCap(ngx_conf_t* cf, const LimitSettings& limit, std::int64_t cap) {
    const LimitSettings& other = *limit.log->settledBy;
    const std::string ours = capText(cap);
    const std::string theirs = capText(limit.log->cap);
    std::string there(view(other.place.file));
    there.append(":").append(DecimalText(static_cast<std::int64_t>(other.place.line)).view());
    if (limit.capGiven) {
        return refuseLater(cf, limit, "cap", ours,
                           other.capGiven ? "the same as cap=" + theirs + " in " + there + ": they share one log"
                                          : "the same as in " + there + ", where none is written and " + theirs +
                                                " is the default: write cap=" + ours + " there, too");
    }
    const std::string expected =
        "cap=" + theirs + " instead of the default, " + ours + ", as in " + there + ": they share one log";
    return refuseLack(cf, limit.place, nameOf(limit), "cap", expected);
}

char* settleCap(ngx_conf_t* cf, const LimitSettings& limit) {
    LogSettings& log = *limit.log;
    const std::int64_t cap = limit.capGiven ? limit.cap : defaultCap(log);
    if (cap != 0 && cap < log.mostAllowed()) {
        return refuseLater(cf, limit, "cap", capText(cap),
                           "a whole number not below the largest limit of that name, or off: a log cut shorter than "
                           "its limit would never deny");
    }
    if (log.settledBy != nullptr && log.cap != cap) {
        return refuseOtherCap(cf, limit, cap);
    }
    const bool isCappedBelowCost = limit.limitVariable != nullptr && limit.burst == 0 && limit.cost > cap && cap != 0;
    if (limit.costVariable == nullptr && isCappedBelowCost) {
        return refuseLater(cf, limit, "cost", DecimalText(limit.cost).view(),
                           "at most the cap, " + capText(cap) + ", which a variable limit never exceeds");
    }
    if (cap == 0 && limit.countsAll) {
        return refuseLater(cf, limit, "count", "all", "a cap with it, which bounds what denied attempts add");
    }
    log.cap = cap;
    log.longest = cap;
    log.settledBy = &limit;
    return kConfOk;
}

/// What denied attempts are kept to when entries may lie ahead of now: the cap, and a limit for each window that these
/// reach into.
/// A log cut shorter would lose what it needs to know.
std::int64_t withReservations(const LogSettings& log) {
    const std::int64_t limit = log.variableLimit ? log.cap : log.mostAllowed();
    const std::int64_t windows = (log.aheadMs + log.windowMs - 1) / log.windowMs;
    const bool isMore = windows > (kLargestCount - log.cap) / std::max<std::int64_t>(limit, 1);
    return isMore ? kLargestCount : log.cap + limit * windows;
}

/// What it means for the logs that these limits are asked together: what one log reserves stands in all of them.
void noteTogether(const ngx_array_t& limits, std::int64_t largestDelay) {
    const std::span<LimitSettings* const> all(static_cast<LimitSettings* const*>(limits.elts), limits.nelts);
    if (std::ranges::none_of(all, [](const LimitSettings* each) { return each->delayMs > 0; })) {
        return;
    }
    for (LimitSettings* limit : all) {
        LogSettings& log = *limit->log;
        log.aheadMs = largestDelay;
        log.longest = log.cap == 0 ? 0 : withReservations(log);
    }
}

ngx_array_t* noLimits(ngx_conf_t* cf) {
    return ngx_array_create(cf->pool, 1, sizeof(LimitSettings*));
}

/// A level that answers itself is free of the limits above it, where it has none of its own. Levels inside it have
/// those, as if it were not between.
char* inheritLimits(ngx_conf_t* cf, LocationSettings& from, LocationSettings& to) {
    if (from.limits == nullptr) {
        from.limits = noLimits(cf);
        if (from.limits == nullptr) {
            return kConfError;
        }
    }
    if (from.inherited == nullptr) {
        from.inherited = from.limits;
    }
    if (to.limits != nullptr) {
        to.inherited = to.limits;
        warnOfReturn(cf, *to.limits);
        return kConfOk;
    }
    to.inherited = from.inherited;
    to.limits = to.ownAnswer == nullptr ? to.inherited : noLimits(cf);
    return to.limits == nullptr ? kConfError : kConfOk;
}

ngx_conf_enum_t gOnErrors[] = {
    {ngx_string("allow"), static_cast<ngx_uint_t>(OnError::Allow)},
    {ngx_string("deny"), static_cast<ngx_uint_t>(OnError::Deny)},
    {ngx_string("local"), static_cast<ngx_uint_t>(OnError::Local)},
    {ngx_null_string, 0},
};

}  // namespace

void* createMainSettings(ngx_conf_t* cf) {
    auto* main = poolNew<MainSettings>(cf->pool);
    if (main == nullptr || ngx_array_init(&main->stores, cf->pool, 2, sizeof(RedisSettings*)) != NGX_OK ||
        ngx_array_init(&main->logs, cf->pool, 8, sizeof(LogSettings*)) != NGX_OK ||
        ngx_array_init(&main->limits, cf->pool, 8, sizeof(LimitSettings*)) != NGX_OK) {
        return nullptr;
    }
    main->zoneSize = NGX_CONF_UNSET_SIZE;
    return main;
}

char* finishLimits(ngx_conf_t* cf, void* conf) {
    auto& main = *static_cast<MainSettings*>(conf);
    auto** limits = static_cast<LimitSettings**>(main.limits.elts);
    for (ngx_uint_t i = 0; i < main.limits.nelts; i++) {
        if (settleStore(cf, main, *limits[i]) != kConfOk || settleCap(cf, *limits[i]) != kConfOk) {
            return kConfError;
        }
        warnOfForgottenDollar(cf, *limits[i]);
    }
    // without a resolver directive nginx puts one without name servers there
    const auto* core =
        static_cast<ngx_http_core_loc_conf_t*>(ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module));
    const bool resolves = core->resolver != nullptr && core->resolver->connections.nelts > 0;
    auto** stores = static_cast<RedisSettings**>(main.stores.elts);
    for (ngx_uint_t i = 0; i < main.stores.nelts; i++) {
        stores[i]->resolver = resolves ? core->resolver : nullptr;
    }
    ngx_conf_init_size_value(main.zoneSize, kDefaultZoneSize);
    if (main.limits.nelts > 0) {
        main.zone = declareZone(cf, main.zoneSize);
        if (main.zone == nullptr) {
            return kConfError;
        }
    }
    return kConfOk;
}

void* createLocationSettings(ngx_conf_t* cf) {
    auto* location = poolNew<LocationSettings>(cf->pool);
    if (location == nullptr) {
        return nullptr;
    }
    location->status = NGX_CONF_UNSET_UINT;
    location->onError = NGX_CONF_UNSET_UINT;
    location->nodes = NGX_CONF_UNSET_UINT;
    location->dryRun = NGX_CONF_UNSET_UINT;
    location->fields = NGX_CONF_UNSET_UINT;
    location->logLevel = NGX_CONF_UNSET_UINT;
    return location;
}

char* mergeLocationSettings(ngx_conf_t* cf, void* parent, void* child) {
    auto& from = *static_cast<LocationSettings*>(parent);
    auto& to = *static_cast<LocationSettings*>(child);
    if (char* rv = inheritOwnAnswer(cf, from, to); rv != kConfOk) {
        return rv;
    }
    if (char* rv = inheritLimits(cf, from, to); rv != kConfOk) {
        return rv;
    }
    const auto& main =
        *static_cast<const MainSettings*>(ngx_http_conf_get_module_main_conf(cf, ngx_http_sliding_log_module));
    noteTogether(*to.limits, main.largestDelay);
    ngx_conf_merge_uint_value(to.status, from.status, NGX_HTTP_TOO_MANY_REQUESTS);
    ngx_conf_merge_uint_value(to.onError, from.onError, static_cast<ngx_uint_t>(OnError::Local));
    ngx_conf_merge_uint_value(to.nodes, from.nodes, 1);
    ngx_conf_merge_uint_value(to.dryRun, from.dryRun, 0);
    ngx_conf_merge_uint_value(to.fields, from.fields, static_cast<ngx_uint_t>(Fields::Ietf));
    ngx_conf_merge_uint_value(to.logLevel, from.logLevel, NGX_LOG_ERR);
    return kConfOk;
}

char* setStatus(ngx_conf_t* cf, ngx_command_t* cmd, void* conf) {
    auto& location = *static_cast<LocationSettings*>(conf);
    if (location.status != NGX_CONF_UNSET_UINT) {
        return refuseDuplicate(cf, view(cmd->name), "value");
    }
    const std::string_view text = view(static_cast<ngx_str_t*>(cf->args->elts)[1]);
    const std::optional<std::int64_t> code = parseCount(text);
    if (!code || *code < 400 || *code > 599) {
        return refuse(cf, view(cmd->name), "code", text, "a status from 400 to 599");
    }
    location.status = static_cast<ngx_uint_t>(*code);
    return kConfOk;
}

char* setOnError(ngx_conf_t* cf, ngx_command_t* cmd, void* conf) {
    auto& location = *static_cast<LocationSettings*>(conf);
    ngx_command_t choice = *cmd;
    choice.offset = offsetof(LocationSettings, onError);
    choice.post = gOnErrors;
    if (char* rv = setChoice(cf, &choice, conf); rv != kConfOk) {
        return rv;
    }
    location.nodes = 1;  // a level that says what decides says for how many nodes, too
    if (cf->args->nelts < 3) {
        return kConfOk;
    }
    const std::string_view word = view(static_cast<ngx_str_t*>(cf->args->elts)[2]);
    const bool isNodes = word.starts_with("nodes=") && location.onError == static_cast<ngx_uint_t>(OnError::Local);
    const std::optional<std::int64_t> nodes = isNodes ? parseCount(word.substr(sizeof("nodes=") - 1)) : std::nullopt;
    if (!nodes || *nodes < 1 || *nodes > kMostNodes) {
        return refuse(cf, view(cmd->name), "parameter", word, "nodes=NUMBER after local, as local nodes=3");
    }
    location.nodes = static_cast<ngx_uint_t>(*nodes);
    return kConfOk;
}

char* setZone(ngx_conf_t* cf, ngx_command_t* cmd, void* conf) {
    auto& main = *static_cast<MainSettings*>(conf);
    if (main.zoneSize != NGX_CONF_UNSET_SIZE) {
        return refuseDuplicate(cf, view(cmd->name), "value");
    }
    ngx_str_t text = static_cast<ngx_str_t*>(cf->args->elts)[1];
    const off_t size = ngx_parse_offset(&text);
    if (size < static_cast<off_t>(8 * ngx_pagesize) || size > kLargestZone) {
        return refuse(cf, view(cmd->name), "size", view(text), "a size of at least 32k and at most 64g, as 10m");
    }
    main.zoneSize = static_cast<size_t>(size);
    return kConfOk;
}

}  // namespace sliding_log
