// Values of variables: texts, numbers, and what a decision has.
#pragma once

#include <cstdint>
#include <string_view>

#include "limit/number.hpp"
#include "ngx.hpp"
#include "request/context.hpp"

namespace sliding_log {

/// The text must live as long as the request.
inline ngx_int_t setText(ngx_http_variable_value_t& value, std::string_view text) {
    value.valid = 1;
    value.no_cacheable = 0;
    value.not_found = text.empty();
    value.len = static_cast<unsigned>(text.size());
    value.data = toNgx(text).data;
    return NGX_OK;
}

/// NGX_ERROR: memory is short.
inline ngx_int_t setNumber(ngx_http_request_t* request, ngx_http_variable_value_t& value, std::int64_t number) {
    const std::string_view text = poolCopy(request->pool, DecimalText(number).view());
    return text.data() == nullptr ? NGX_ERROR : setText(value, text);
}

inline ngx_int_t setSource(ngx_http_request_t*, ngx_http_variable_value_t& value, const Decision& decision) {
    return setText(value, nameOf(decision.source));
}

/// Empty if its variable is no number.
inline ngx_int_t setLimit(ngx_http_request_t* request, ngx_http_variable_value_t& value, const Decision& decision) {
    return decision.limit == Decision::kUnknownLimit ? setText(value, "") : setNumber(request, value, decision.limit);
}

/// Empty if no store could decide, as the following one.
inline ngx_int_t setRemaining(ngx_http_request_t* request, ngx_http_variable_value_t& value, const Decision& decision) {
    return decision.verdict == nullptr ? setText(value, "") : setNumber(request, value, decision.verdict->remaining);
}

inline ngx_int_t setReset(ngx_http_request_t* request, ngx_http_variable_value_t& value, const Decision& decision) {
    return decision.verdict == nullptr ? setText(value, "")
                                       : setNumber(request, value, secondsUp(decision.verdict->resetMs));
}

/// `seconds`: 0: none.
inline ngx_int_t setRetryAfter(ngx_http_request_t* request, ngx_http_variable_value_t& value, std::int64_t seconds) {
    return seconds == 0 ? setText(value, "") : setNumber(request, value, seconds);
}

}  // namespace sliding_log
