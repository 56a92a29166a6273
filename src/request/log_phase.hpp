// The log phase: the end of a request.
#pragma once

#include "ngx.hpp"

namespace sliding_log {

/// The handler of the log phase, which each request reaches exactly once. NGX_OK.
ngx_int_t onLog(ngx_http_request_t* request) noexcept;

}  // namespace sliding_log
