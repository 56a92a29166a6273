// refund=: entries of requests whose final answer has one of these statuses are given back.
#pragma once

#include "ngx.hpp"

namespace sliding_log {

/// The log phase, which each request comes to exactly once, also one whose client has left: NGX_OK.
ngx_int_t onLog(ngx_http_request_t* request) noexcept;

}  // namespace sliding_log
