#include "request/limit_variables.hpp"

#include <algorithm>
#include <iterator>
#include <span>

#include "request/outcome.hpp"
#include "request/variable_value.hpp"

namespace sliding_log {

namespace {

using Value = ngx_http_variable_value_t;

// ---- the decision of a NAME

/// The entry of the limit that has this variable name, in the round; nullptr: it has none, or it is not decided.
const Decision* decisionIn(const Round& round, std::string_view name) {
    const auto found = std::ranges::find_if(round.all(), [&](const Decision& each) {
        return each.result && view(each.settings->log->variableName) == name;
    });
    return found == round.all().end() ? nullptr : &*found;
}

/// The order among several decisions of a NAME: an enforced one goes before a dry one, one that denied before one with
/// less remaining.
bool tellsMore(const Decision& one, bool isDryRun, const Decision& other, bool isOtherDryRun) {
    if (isDryRun != isOtherDryRun) {
        return isOtherDryRun;
    }
    if (isRejection(*one.result) != isRejection(*other.result)) {
        return isRejection(*one.result);
    }
    return remainsLess(one, other);
}

/// What the variables show of the limit with this variable name; nullptr: it was not asked, or is not decided.
const Decision* shownDecision(ngx_http_request_t* request, std::string_view name) {
    const Context* context = Context::of(request->main);
    const Decision* shown = nullptr;
    bool isDryRun = false;
    for (const Round* round = context == nullptr ? nullptr : context->round; round != nullptr;
         round = round->previous) {
        const Decision* decision = decisionIn(*round, name);
        if (decision != nullptr && (shown == nullptr || tellsMore(*decision, round->isDryRun, *shown, isDryRun))) {
            shown = decision;
            isDryRun = round->isDryRun;
        }
    }
    return shown;
}

// ---- families of variables

ngx_int_t setStatusText(ngx_http_request_t*, Value& value, const Decision& decision) {
    return setText(value, statusOf(*decision.result));
}

ngx_int_t setRetry(ngx_http_request_t* request, Value& value, const Decision& decision) {
    return setRetryAfter(request, value, isRejection(*decision.result) ? retryAfterOf(decision) : 0);
}

struct Family {
    std::string_view prefix;
    ngx_int_t (*set)(ngx_http_request_t* request, Value& value, const Decision& decision);
};

constexpr Family kFamilies[] = {
    {"sliding_log_status_", setStatusText},   {"sliding_log_limit_", setLimit},
    {"sliding_log_remaining_", setRemaining}, {"sliding_log_reset_", setReset},
    {"sliding_log_retry_after_", setRetry},   {"sliding_log_source_", setSource},
};

/// The family of a variable with this name; nullptr: it is of none.
const Family* familyOf(std::string_view variable) {
    const auto* family =
        std::ranges::find_if(kFamilies, [&](const Family& each) { return variable.starts_with(each.prefix); });
    return family == std::end(kFamilies) ? nullptr : family;
}

/// nginx passes the whole name of the variable.
ngx_int_t getOfLimit(ngx_http_request_t* request, Value* value, uintptr_t data) {
    const std::string_view variable = view(*reinterpret_cast<const ngx_str_t*>(data));
    const Family& family = *familyOf(variable);
    const Decision* decision = shownDecision(request, variable.substr(family.prefix.size()));
    return decision == nullptr ? setText(*value, "") : family.set(request, *value, *decision);
}

// ---- what the configuration uses

/// True if a map or a module defines a variable of this very name: it goes before a family.
bool isDefined(const ngx_http_core_main_conf_t& core, std::string_view variable) {
    const ngx_array_t& keys = core.variables_keys->keys;
    return std::ranges::any_of(std::span(static_cast<const ngx_hash_key_t*>(keys.elts), keys.nelts),
                               [&](const ngx_hash_key_t& each) { return view(each.key) == variable; });
}

/// NGX_ERROR: no limit has this variable of the family, or several do.
ngx_int_t checkVariable(ngx_conf_t* cf, std::span<LogSettings* const> logs, const Family& family,
                        const ngx_str_t& variable) {
    const std::string_view name = view(variable).substr(family.prefix.size());
    const auto shares = [&](const LogSettings* log) { return view(log->variableName) == name; };
    const auto first = std::ranges::find_if(logs, shares);
    if (first == logs.end()) {
        ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                      "unknown \"%V\" variable, expected the NAME of a \"sliding_log_limit\" at its end", &variable);
        return NGX_ERROR;
    }
    const auto second = std::find_if(first + 1, logs.end(), shares);
    if (second != logs.end()) {
        ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                      "\"%V\" variable is that of two limits, \"%V\" and \"%V\", expected another NAME of one of them",
                      &variable, &(*first)->name, &(*second)->name);
        return NGX_ERROR;
    }
    return NGX_OK;
}

}  // namespace

ngx_int_t addLimitVariables(ngx_conf_t* cf) {
    for (const Family& each : kFamilies) {
        ngx_str_t prefix = toNgx(each.prefix);
        ngx_http_variable_t* family =
            ngx_http_add_variable(cf, &prefix, NGX_HTTP_VAR_NOCACHEABLE | NGX_HTTP_VAR_PREFIX);
        if (family == nullptr) {
            return NGX_ERROR;
        }
        family->get_handler = getOfLimit;
    }
    return NGX_OK;
}

ngx_int_t checkLimitVariables(ngx_conf_t* cf, const MainSettings& main) {
    const auto& core =
        *static_cast<const ngx_http_core_main_conf_t*>(ngx_http_conf_get_module_main_conf(cf, ngx_http_core_module));
    const std::span logs(static_cast<LogSettings* const*>(main.logs.elts), main.logs.nelts);
    const std::span used(static_cast<const ngx_http_variable_t*>(core.variables.elts), core.variables.nelts);
    for (const ngx_http_variable_t& each : used) {
        const Family* family = familyOf(view(each.name));
        if (family != nullptr && !isDefined(core, view(each.name)) &&
            checkVariable(cf, logs, *family, each.name) != NGX_OK) {
            return NGX_ERROR;
        }
    }
    return NGX_OK;
}

}  // namespace sliding_log
