// refund=: entries of requests whose answer has one of these statuses are given back, once the answer is known.
#pragma once

#include "ngx.hpp"
#include "request/context.hpp"

namespace sliding_log {

/// The response header has passed the filters: where nginx has sent it, its status gives entries back now, since a slow
/// client, a large body or a mirrored request may keep the request for long. A filter may hold the header back, and
/// replace the answer then.
void noteHeaderSent(Context& context);

/// The log phase, which each request comes to exactly once: for those whose header was not seen on its way, as that of
/// a client who has left. NGX_OK.
ngx_int_t onLog(ngx_http_request_t* request) noexcept;

}  // namespace sliding_log
