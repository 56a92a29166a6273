// What a denied request has from an answer before the denial, and what keeps caches from storing the denial.
#pragma once

#include "ngx.hpp"

namespace sliding_log {

/// Removes what an upstream's answer has left in the response before an internal redirect (X-Accel-Redirect,
/// error_page). Fields that other modules have set for this response stay.
void forgetEarlierAnswer(ngx_http_request_t* request);

/// True if caches may store a response with this status by themselves (RFC 9110, 15.1), of those of a denial.
bool isStoredByCaches(ngx_uint_t status);

/// The response has `Cache-Control: no-store`, once, in place of a proxied server's Cache-Control. False without
/// memory.
bool forbidStoring(ngx_http_request_t* request);

}  // namespace sliding_log
