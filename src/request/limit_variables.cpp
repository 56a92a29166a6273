#include "request/limit_variables.hpp"

#include <algorithm>
#include <span>
#include <utility>

#include "limit/source.hpp"
#include "limit/time_text.hpp"
#include "request/context.hpp"
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

ngx_int_t setStatus(ngx_http_request_t*, Value& value, const Decision& decision) {
    return setText(value, statusOf(*decision.result));
}

ngx_int_t setLimit(ngx_http_request_t* request, Value& value, const Decision& decision) {
    return decision.limit == Decision::kUnknownLimit ? setText(value, "") : setNumber(request, value, decision.limit);
}

ngx_int_t setRemaining(ngx_http_request_t* request, Value& value, const Decision& decision) {
    return decision.verdict == nullptr ? setText(value, "") : setNumber(request, value, decision.verdict->remaining);
}

ngx_int_t setReset(ngx_http_request_t* request, Value& value, const Decision& decision) {
    return decision.verdict == nullptr ? setText(value, "")
                                       : setNumber(request, value, secondsUp(decision.verdict->resetMs));
}

ngx_int_t setRetryAfter(ngx_http_request_t* request, Value& value, const Decision& decision) {
    const std::int64_t seconds = isRejection(*decision.result) ? retryAfterOf(decision) : 0;
    return seconds == 0 ? setText(value, "") : setNumber(request, value, seconds);
}

ngx_int_t setSource(ngx_http_request_t*, Value& value, const Decision& decision) {
    return setText(value, nameOf(decision.source));
}

struct Family {
    std::string_view prefix;
    ngx_int_t (*set)(ngx_http_request_t* request, Value& value, const Decision& decision);
};

constexpr Family kFamilies[] = {
    {"sliding_log_status_", setStatus},          {"sliding_log_limit_", setLimit},
    {"sliding_log_remaining_", setRemaining},    {"sliding_log_reset_", setReset},
    {"sliding_log_retry_after_", setRetryAfter}, {"sliding_log_source_", setSource},
};

/// nginx passes the whole name of the variable.
template <std::size_t Nth>
ngx_int_t getVariable(ngx_http_request_t* request, Value* value, uintptr_t data) {
    std::string_view name = view(*reinterpret_cast<const ngx_str_t*>(data));
    name.remove_prefix(kFamilies[Nth].prefix.size());
    const Decision* decision = shownDecision(request, name);
    return decision == nullptr ? setText(*value, "") : kFamilies[Nth].set(request, *value, *decision);
}

template <std::size_t Nth>
ngx_int_t addFamily(ngx_conf_t* cf) {
    ngx_str_t prefix = toNgx(kFamilies[Nth].prefix);
    ngx_http_variable_t* family = ngx_http_add_variable(cf, &prefix, NGX_HTTP_VAR_NOCACHEABLE | NGX_HTTP_VAR_PREFIX);
    if (family == nullptr) {
        return NGX_ERROR;
    }
    family->get_handler = getVariable<Nth>;
    return NGX_OK;
}

template <std::size_t... Nths>
ngx_int_t addFamilies(ngx_conf_t* cf, std::index_sequence<Nths...>) {
    return ((addFamily<Nths>(cf) == NGX_OK) && ...) ? NGX_OK : NGX_ERROR;
}

// ---- what the configuration uses

/// The part of a variable's name that a NAME gives; empty: it is of no family.
std::string_view namedPart(std::string_view variable) {
    const auto family =
        std::ranges::find_if(kFamilies, [&](const Family& each) { return variable.starts_with(each.prefix); });
    return family == std::end(kFamilies) ? std::string_view() : variable.substr(family->prefix.size());
}

/// True if a map or a module defines a variable of this very name: it goes before a family.
bool isDefined(const ngx_http_core_main_conf_t& core, std::string_view variable) {
    const ngx_array_t& keys = core.variables_keys->keys;
    return std::ranges::any_of(std::span(static_cast<const ngx_hash_key_t*>(keys.elts), keys.nelts),
                               [&](const ngx_hash_key_t& each) { return view(each.key) == variable; });
}

/// NGX_ERROR: no limit has this variable, or several do.
ngx_int_t checkVariable(ngx_conf_t* cf, std::span<LogSettings* const> logs, const ngx_str_t& variable) {
    const auto shares = [&](const LogSettings* log) { return view(log->variableName) == namedPart(view(variable)); };
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
    return addFamilies(cf, std::make_index_sequence<std::size(kFamilies)>());
}

ngx_int_t checkLimitVariables(ngx_conf_t* cf, const MainSettings& main) {
    const auto& core =
        *static_cast<const ngx_http_core_main_conf_t*>(ngx_http_conf_get_module_main_conf(cf, ngx_http_core_module));
    const std::span logs(static_cast<LogSettings* const*>(main.logs.elts), main.logs.nelts);
    const std::span used(static_cast<const ngx_http_variable_t*>(core.variables.elts), core.variables.nelts);
    const bool isKnown = std::ranges::all_of(used, [&](const ngx_http_variable_t& each) {
        return namedPart(view(each.name)).empty() || isDefined(core, view(each.name)) ||
               checkVariable(cf, logs, each.name) == NGX_OK;
    });
    return isKnown ? NGX_OK : NGX_ERROR;
}

}  // namespace sliding_log
