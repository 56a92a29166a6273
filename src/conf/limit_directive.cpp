#include "conf/limit_directive.hpp"

#include <algorithm>
#include <string>
#include <string_view>

#include "conf/limit_parameters.hpp"
#include "conf/refuse.hpp"
#include "conf/values.hpp"
#include "conf/warnings.hpp"
#include "limit/calendar.hpp"
#include "limit/fields_text.hpp"
#include "limit/number.hpp"
#include "limit/permit_life.hpp"
#include "limit/time_text.hpp"
#include "local/local_store.hpp"

namespace sliding_log {

namespace {

constexpr std::size_t kLongestName = 64;

char* outOfMemory() {
    return kConfError;
}  // nginx has logged it

bool isName(std::string_view text) {
    constexpr std::string_view kAllowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-";
    return !text.empty() && text.size() <= kLongestName && text.find_first_not_of(kAllowed) == std::string_view::npos;
}

// ---- the log of the NAME

template <typename T>
T* pushNew(ngx_pool_t* pool, ngx_array_t& array, const T& value) {
    T* kept = poolNew<T>(pool);
    auto** slot = static_cast<T**>(ngx_array_push(&array));
    if (kept == nullptr || slot == nullptr) {
        return nullptr;
    }
    *kept = value;
    return *slot = kept;
}

/// As variables of the limit have its NAME; data is nullptr if memory is short.
ngx_str_t variableNameOf(ngx_pool_t* pool, std::string_view name) {
    auto* text = static_cast<char*>(ngx_pnalloc(pool, name.size()));
    if (text == nullptr) {
        return {};
    }
    std::ranges::transform(name, text,
                           [](char c) { return c == '-' || c == '.' ? '_' : static_cast<char>(ngx_tolower(c)); });
    return toNgx({text, name.size()});
}

LogSettings* findLog(const MainSettings& settings, std::string_view name) {
    auto** logs = static_cast<LogSettings**>(settings.logs.elts);
    for (ngx_uint_t i = 0; i < settings.logs.nelts; i++) {
        if (view(logs[i]->name) == name) {
            return logs[i];
        }
    }
    return nullptr;
}

char* refuseDisagreement(ngx_conf_t* cf, const LogSettings& log, Parameter parameter, std::string_view text,
                         std::string_view above) {
    const std::string directive = std::string(kLimitDirective).append(" ").append(view(log.name));
    return refuse(cf, directive, nameOf(parameter), text,
                  std::string("\"").append(above).append("\", as in the limit of that name above: they share one log"));
}

/// Compares what two directives of one NAME must have in common, as far as it is known before the whole configuration
/// is read. Cap and store follow in finalizeLimits().
char* checkAgreement(ngx_conf_t* cf, const LogSettings& log, const LogSettings& draft) {
    if (log.algorithm != draft.algorithm) {
        return refuseDisagreement(cf, log, Parameter::Algorithm, nameOf(draft.algorithm), nameOf(log.algorithm));
    }
    if (log.windowMs != draft.windowMs && takes(log.algorithm, Parameter::Period)) {
        return refuseDisagreement(cf, log, Parameter::Period, nameOfPeriod(draft.windowMs), nameOfPeriod(log.windowMs));
    }
    if (log.windowMs != draft.windowMs) {
        return refuseDisagreement(cf, log,
                                  takes(log.algorithm, Parameter::Lease) ? Parameter::Lease : Parameter::Window,
                                  TimeText(draft.windowMs).view(), TimeText(log.windowMs).view());
    }
    if (log.slackMs != draft.slackMs) {
        return refuseDisagreement(cf, log, Parameter::Slack, TimeText(draft.slackMs).view(),
                                  TimeText(log.slackMs).view());
    }
    if (log.sample != draft.sample) {
        return refuseDisagreement(cf, log, Parameter::Sample, DecimalText(draft.sample).view(),
                                  DecimalText(log.sample).view());
    }
    if (view(log.id) != view(draft.id)) {
        return refuseDisagreement(cf, log, Parameter::Id, view(draft.id), view(log.id));
    }
    if (log.secrecy != draft.secrecy) {
        return refuseDisagreement(cf, log, Parameter::Secret, draft.secrecy == Secrecy::Secret ? "on" : "off",
                                  log.secrecy == Secrecy::Secret ? "on" : "off");
    }
    if (log.override != draft.override) {
        return refuseDisagreement(cf, log, Parameter::Override, nameOf(draft.override), nameOf(log.override));
    }
    return kConfOk;
}

/// The member of RateLimit-Policy for a limit that is not a variable; data is nullptr if memory is short.
ngx_str_t policyOf(ngx_pool_t* pool, const LimitDraft& draft) {
    auto* policy = static_cast<char*>(ngx_pnalloc(pool, fieldMemberCapacity(view(draft.log.name))));
    if (policy == nullptr) {
        return {};
    }
    const char* end = appendPolicyMember(policy, policy, view(draft.log.name),
                                         traitsOf(draft.log.algorithm).countsUnderWay
                                             ? Quota::atOnce(draft.limit.limit)
                                             : quotaOf(draft.limit.limit, draft.limit.burst, draft.log.windowMs));
    return toNgx({policy, static_cast<std::size_t>(end - policy)});
}

char* setOff(ngx_conf_t* cf, LocationSettings& location) {
    if (cf->args->nelts != 2) {
        return refuse(cf, kLimitDirective, "parameter", view(static_cast<ngx_str_t*>(cf->args->elts)[2]), "off alone");
    }
    if (location.limits != nullptr) {
        return refuse(cf, kLimitDirective, "value", "off", "off alone, or limits, at one level");
    }
    location.limits = ngx_array_create(cf->pool, 1, sizeof(LimitSettings*));
    return location.limits == nullptr ? outOfMemory() : kConfOk;
}

}  // namespace

char* setLimit(ngx_conf_t* cf, ngx_command_t*, void* conf) {
    auto& location = *static_cast<LocationSettings*>(conf);
    auto& main = *static_cast<MainSettings*>(ngx_http_conf_get_module_main_conf(cf, ngx_http_sliding_log_module));
    const ngx_str_t& name = static_cast<ngx_str_t*>(cf->args->elts)[1];
    if (isWord(name, "off")) {
        return setOff(cf, location);
    }
    if (!isName(view(name))) {
        return refuse(cf, kLimitDirective, "NAME", view(name), "1 to 64 characters of [A-Za-z0-9_.-]");
    }
    LimitDraft draft;
    draft.log.name = name;
    draft.limit.position = positionOf(cf);
    if (char* rv = readLimitParameters(cf, draft); rv != kConfOk) {
        return rv;
    }
    warnOfClientsChoice(cf, draft);
    warnOfSecretInClear(cf, draft);

    if (location.limits == nullptr) {
        location.limits = ngx_array_create(cf->pool, 4, sizeof(LimitSettings*));
        if (location.limits == nullptr) {
            return outOfMemory();
        }
    } else if (location.limits->nelts == 0) {
        return refuse(cf, kLimitDirective, "value", view(name), "off alone, or limits, at one level");
    }

    LogSettings* log = findLog(main, view(name));
    if (log == nullptr) {
        draft.log.index = main.logs.nelts;
        draft.log.variableName = variableNameOf(cf->pool, view(name));
        log = pushNew(cf->pool, main.logs, draft.log);
        if (log == nullptr || log->variableName.data == nullptr) {
            return outOfMemory();
        }
    } else if (char* rv = checkAgreement(cf, *log, draft.log); rv != kConfOk) {
        return rv;
    }
    auto** others = static_cast<LimitSettings**>(location.limits->elts);
    for (ngx_uint_t i = 0; i < location.limits->nelts; i++) {
        if (others[i]->log == log) {
            return refuseDuplicate(cf, kLimitDirective, "limit", view(name));
        }
    }

    if (location.limits->nelts == LocalStore::kMostLogs) {
        return refuse(cf, kLimitDirective, "limit", view(name), "at most 32 limits at one level");
    }
    if (draft.limit.limitVariable != nullptr) {
        log->variableLimit = 1;
    } else {
        log->largestLimit = std::max(log->largestLimit, draft.limit.limit);
        draft.limit.policy = policyOf(cf->pool, draft);
        if (draft.limit.policy.data == nullptr) {
            return outOfMemory();
        }
    }
    if (draft.limit.limitVariable != nullptr || draft.limit.costVariable != nullptr ||
        draft.limit.storeVariable != nullptr) {
        log->mayBeInvalid = 1;
    }
    if (draft.limit.settle != nullptr) {
        log->settles = 1;
    }
    log->largestBurst = std::max(log->largestBurst, draft.limit.burst);
    if (draft.limit.blockTimes.escalates()) {
        log->escalates = 1;
    }
    if (draft.limit.prefetch > 1) {
        log->permitLifeMs = permitLifeMs(log->windowMs);
    }
    draft.limit.log = log;
    main.largestDelay = std::max(main.largestDelay, draft.limit.reservesMs());
    log->isQueuedFor = log->isQueuedFor || draft.limit.queues();
    LimitSettings* limit = pushNew(cf->pool, main.limits, draft.limit);
    auto** slot = static_cast<LimitSettings**>(ngx_array_push(location.limits));
    if (limit == nullptr || slot == nullptr) {
        return outOfMemory();
    }
    *slot = limit;
    return kConfOk;
}

}  // namespace sliding_log
