// The response of a location whose content this module makes: to GET and HEAD, and kept by no cache.
#pragma once

#include <span>
#include <string_view>

#include "ngx.hpp"

namespace sliding_log {

struct ResponseField {
    std::string_view name;
    std::string_view value;  // both live as long as the process, or the request's pool
};

struct PageResponse {
    ngx_buf_t* body;  // nullptr: memory is short
    std::string_view contentType;
    std::span<const ResponseField> fields;  // beside Cache-Control
};

/// The content handler of such a location; make() may throw.
ngx_int_t respond(ngx_http_request_t* request, PageResponse (*make)(ngx_http_request_t* request)) noexcept;

}  // namespace sliding_log
