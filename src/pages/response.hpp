// The response of a location whose content this module generates: for GET and HEAD, not cached.
#pragma once

#include <span>
#include <string_view>

#include "ngx.hpp"

namespace sliding_log {

struct ResponseField {
    std::string_view name;
    std::string_view value;  // both must live as long as the process or the pool of the request
};

struct PageResponse {
    ngx_buf_t* body;  // nullptr: no memory
    std::string_view contentType;
    std::span<const ResponseField> fields;  // in addition to Cache-Control
};

/// The content handler of such a location; make() may throw.
ngx_int_t respond(ngx_http_request_t* request, PageResponse (*make)(ngx_http_request_t* request)) noexcept;

}  // namespace sliding_log
