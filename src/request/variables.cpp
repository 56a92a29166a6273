#include "request/variables.hpp"

#include "request/client.hpp"
#include "request/context.hpp"
#include "request/limit_variables.hpp"
#include "request/variable_value.hpp"

namespace sliding_log {

namespace {

using Value = ngx_http_variable_value_t;

/// Seconds with three decimals, as in nginx's own variables.
ngx_int_t setSeconds(ngx_http_request_t* request, Value* value, ngx_msec_t ms) {
    auto* text = static_cast<u_char*>(ngx_pnalloc(request->pool, NGX_TIME_T_LEN + 4));
    if (text == nullptr) {
        return NGX_ERROR;
    }
    const u_char* end = ngx_sprintf(text, "%T.%03M", static_cast<time_t>(ms / 1000), ms % 1000);
    return setText(*value, {reinterpret_cast<const char*>(text), static_cast<std::size_t>(end - text)});
}

enum class Variable : uintptr_t { Status, Source, Name, Limit, Remaining, Reset, RetryAfter, Latency, Key };

/// All variables are empty until the request is decided. Those of the verdict are empty if the store could not decide.
ngx_int_t getVariable(ngx_http_request_t* request, Value* value, uintptr_t data) {
    const Context* context = Context::of(request->main);
    if (context == nullptr || context->decider == nullptr) {
        return setText(*value, "");
    }
    const Decision& decider = *context->decider;
    switch (static_cast<Variable>(data)) {
        case Variable::Status:
            return setText(*value, context->status ? statusOf(*context->status) : "");
        case Variable::Source:
            return setSource(request, *value, decider);
        case Variable::Name:
            return setText(*value, view(decider.settings->log->name));
        case Variable::Limit:
            return setLimit(request, *value, decider);
        case Variable::Remaining:
            return setRemaining(request, *value, decider);
        case Variable::Reset:
            return setReset(request, *value, decider);
        case Variable::RetryAfter:
            return setRetryAfter(request, *value, context->retryAfter);
        case Variable::Latency:
            return setSeconds(request, value, context->waited);
        case Variable::Key:
            return setText(*value, shownKey(decider));
    }
    return NGX_ERROR;
}

struct Definition {
    std::string_view name;
    Variable variable;
};

constexpr Definition kDefinitions[] = {
    {"sliding_log_status", Variable::Status},
    {"sliding_log_source", Variable::Source},
    {"sliding_log_name", Variable::Name},
    {"sliding_log_limit", Variable::Limit},
    {"sliding_log_remaining", Variable::Remaining},
    {"sliding_log_reset", Variable::Reset},
    {"sliding_log_retry_after", Variable::RetryAfter},
    {"sliding_log_latency", Variable::Latency},
    {"sliding_log_key", Variable::Key},
};

}  // namespace

ngx_int_t addVariables(ngx_conf_t* cf) {
    for (const Definition& definition : kDefinitions) {
        ngx_str_t name = toNgx(definition.name);
        // not cacheable: they are empty before the decision, and set after it
        ngx_http_variable_t* variable = ngx_http_add_variable(cf, &name, NGX_HTTP_VAR_NOCACHEABLE);
        if (variable == nullptr) {
            return NGX_ERROR;
        }
        variable->get_handler = getVariable;
        variable->data = static_cast<uintptr_t>(definition.variable);
    }
    ngx_str_t name = ngx_string("sliding_log_client");
    ngx_http_variable_t* variable = ngx_http_add_variable(cf, &name, NGX_HTTP_VAR_NOCACHEABLE);  // realip may change it
    if (variable == nullptr) {
        return NGX_ERROR;
    }
    variable->get_handler = getClient;
    return addLimitVariables(cf);
}

}  // namespace sliding_log
