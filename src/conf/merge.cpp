#include "conf/merge.hpp"

#include "conf/refuse.hpp"
#include "limit/number.hpp"

namespace sliding_log {

namespace {

/// As refuse(), for a directive that was read before: its place is named from its own memory.
char* refuseLater(ngx_conf_t* cf, const LimitSettings& limit, std::string_view what, std::string_view text,
                  std::string_view expected) {
    const ngx_str_t words[] = {toNgx(what), toNgx(text), toNgx(expected)};
    ngx_log_error(NGX_LOG_EMERG, cf->log, 0, "\"sliding_log_limit\" %V has invalid %V \"%V\", expected %V in %V:%ui",
                  &limit.log->name, &words[0], &words[1], &words[2], &limit.file, limit.line);
    return kConfError;
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
    RedisSettings* store = findStore(main, view(limit.store));
    if (store == nullptr) {
        return refuseLater(cf, limit, "store", limit.store.len == 0 ? "local" : view(limit.store),
                           "the name of a sliding_log_redis block");
    }
    if (limit.log->redis != nullptr && limit.log->redis != store) {
        return refuseLater(cf, limit, "store", view(store->name), "the one of the other limits of that name");
    }
    limit.log->redis = store;
    store->used = 1;
    return kConfOk;
}

/// 1.2 times the largest limit, rounded up; none where a limit is a variable.
std::int64_t defaultCap(const LogSettings& log) {
    return log.variableLimit ? 0 : std::max<std::int64_t>((log.largestLimit * 12 + 9) / 10, 1);
}

char* settleCap(ngx_conf_t* cf, const LimitSettings& limit, bool isFirst) {
    LogSettings& log = *limit.log;
    const std::int64_t cap = limit.capGiven ? limit.cap : defaultCap(log);
    const DecimalText number(cap);
    const std::string_view text = cap == 0 ? "off" : number.view();
    if (cap != 0 && cap < log.largestLimit) {
        return refuseLater(cf, limit, "cap", text,
                           "a whole number not below the largest limit of that name, or off: a log cut shorter than "
                           "its limit would never deny");
    }
    if (!isFirst && log.cap != cap) {
        return refuseLater(cf, limit, "cap", text, "the same as the other limits of that name, which share its log");
    }
    log.cap = cap;
    return kConfOk;
}

}  // namespace

void* createMainSettings(ngx_conf_t* cf) {
    auto* main = poolNew<MainSettings>(cf->pool);
    if (main == nullptr || ngx_array_init(&main->stores, cf->pool, 2, sizeof(RedisSettings*)) != NGX_OK ||
        ngx_array_init(&main->logs, cf->pool, 8, sizeof(LogSettings*)) != NGX_OK ||
        ngx_array_init(&main->limits, cf->pool, 8, sizeof(LimitSettings*)) != NGX_OK) {
        return nullptr;
    }
    return main;
}

char* finishLimits(ngx_conf_t* cf, void* conf) {
    const auto& main = *static_cast<const MainSettings*>(conf);
    auto** limits = static_cast<LimitSettings**>(main.limits.elts);
    for (ngx_uint_t i = 0; i < main.limits.nelts; i++) {
        const bool isFirst = limits[i]->log->redis == nullptr;
        if (settleStore(cf, main, *limits[i]) != kConfOk || settleCap(cf, *limits[i], isFirst) != kConfOk) {
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
    location->dryRun = NGX_CONF_UNSET_UINT;
    location->fields = NGX_CONF_UNSET_UINT;
    location->logLevel = NGX_CONF_UNSET_UINT;
    return location;
}

char* mergeLocationSettings(ngx_conf_t* cf, void* parent, void* child) {
    auto& from = *static_cast<LocationSettings*>(parent);
    auto& to = *static_cast<LocationSettings*>(child);
    if (to.limits == nullptr) {
        if (from.limits == nullptr) {
            from.limits = ngx_array_create(cf->pool, 1, sizeof(LimitSettings*));
            if (from.limits == nullptr) {
                return kConfError;
            }
        }
        to.limits = from.limits;
    }
    ngx_conf_merge_uint_value(to.status, from.status, NGX_HTTP_TOO_MANY_REQUESTS);
    ngx_conf_merge_uint_value(to.onError, from.onError, static_cast<ngx_uint_t>(OnError::Local));
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

}  // namespace sliding_log
