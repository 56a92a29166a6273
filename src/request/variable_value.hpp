// Values of variables.
#pragma once

#include <cstdint>
#include <string_view>

#include "limit/number.hpp"
#include "ngx.hpp"

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

}  // namespace sliding_log
