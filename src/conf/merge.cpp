#include "conf/merge.hpp"

#include "conf/empty_keys.hpp"
#include "conf/page_location.hpp"
#include "conf/refuse.hpp"
#include "conf/warnings.hpp"

namespace sliding_log {

namespace {

ngx_array_t* noLimits(ngx_conf_t* cf) {
    return ngx_array_create(cf->pool, 1, sizeof(LimitSettings*));
}

/// The limits of outer levels do not apply to a page, but to levels inside it that have no limits.
char* inheritLimits(ngx_conf_t* cf, LocationSettings& from, LocationSettings& to) {
    if (from.limits == nullptr) {
        from.limits = noLimits(cf);
        if (from.limits == nullptr) {
            return kConfError;
        }
    }
    if (from.inherited == nullptr) {  // the http level, once
        from.inherited = from.limits;
        warnOfEmptyKeys(cf, *from.limits);
    }
    if (to.limits != nullptr) {
        to.inherited = to.limits;
        warnOfReturn(cf, *to.limits);
        warnOfEmptyKeys(cf, *to.limits);
        return kConfOk;
    }
    to.inherited = from.inherited;
    to.limits = to.page == nullptr ? to.inherited : noLimits(cf);
    return to.limits == nullptr ? kConfError : kConfOk;
}

/// Notes which logs are enforced and which on_error values the locations of a store have, for messages.
void noteUse(const LocationSettings& level) {
    for (const LimitSettings* limit : level.allLimits()) {
        LogSettings& log = *limit->log;
        log.enforced = log.enforced != 0 || !level.isRehearsed(*limit) ? 1 : 0;
        for (RedisSettings* home : log.homes) {
            home->onErrors |= ngx_uint_t{1} << level.onError;
        }
    }
}

/// Adds the level to those that finalizeReservations() visits; false if memory is short.
bool noteLevel(ngx_conf_t* cf, LocationSettings& level) {
    auto& main = *static_cast<MainSettings*>(ngx_http_conf_get_module_main_conf(cf, ngx_http_sliding_log_module));
    auto** noted = static_cast<LocationSettings**>(ngx_array_push(&main.levels));
    if (noted != nullptr) {
        *noted = &level;
    }
    return noted != nullptr;
}

}  // namespace

void* createMainSettings(ngx_conf_t* cf) {
    auto* main = poolNew<MainSettings>(cf->pool);
    if (main == nullptr || ngx_array_init(&main->stores, cf->pool, 2, sizeof(RedisSettings*)) != NGX_OK ||
        ngx_array_init(&main->logs, cf->pool, 8, sizeof(LogSettings*)) != NGX_OK ||
        ngx_array_init(&main->limits, cf->pool, 8, sizeof(LimitSettings*)) != NGX_OK ||
        ngx_array_init(&main->levels, cf->pool, 8, sizeof(LocationSettings*)) != NGX_OK) {
        return nullptr;
    }
    main->zoneSize = NGX_CONF_UNSET_SIZE;
    return main;
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
    location->answer = NGX_CONF_UNSET_UINT;
    location->logLevel = NGX_CONF_UNSET_UINT;
    return location;
}

char* mergeLocationSettings(ngx_conf_t* cf, void* parent, void* child) {
    auto& from = *static_cast<LocationSettings*>(parent);
    auto& to = *static_cast<LocationSettings*>(child);
    if (char* rv = inheritPage(cf, from, to); rv != kConfOk) {
        return rv;
    }
    if (char* rv = inheritLimits(cf, from, to); rv != kConfOk) {
        return rv;
    }
    if (!noteLevel(cf, to)) {
        return kConfError;
    }
    ngx_conf_merge_uint_value(to.status, from.status, NGX_HTTP_TOO_MANY_REQUESTS);
    ngx_conf_merge_uint_value(to.onError, from.onError, static_cast<ngx_uint_t>(OnError::Local));
    ngx_conf_merge_uint_value(to.nodes, from.nodes, 1);
    ngx_conf_merge_uint_value(to.dryRun, from.dryRun, 0);
    ngx_conf_merge_uint_value(to.fields, from.fields, static_cast<ngx_uint_t>(Fields::Ietf));
    ngx_conf_merge_uint_value(to.answer, from.answer, static_cast<ngx_uint_t>(Answer::Plain));
    ngx_conf_merge_uint_value(to.logLevel, from.logLevel, NGX_LOG_ERR);
    noteUse(to);
    return kConfOk;
}

}  // namespace sliding_log
