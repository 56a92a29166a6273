// Which limits a request has to meet, what each asks of its log, and which are asked in one call.
#pragma once

#include "request/context.hpp"

namespace sliding_log {

/// Collects what this location asks of the request, to enforce it or in a dry run, and was not asked before, in a
/// Context that is made where there is none. NGX_OK: context->round is new. NGX_DECLINED: nothing to ask. NGX_ERROR: no
/// memory.
ngx_int_t beginRound(ngx_http_request_t* request, const LocationSettings& location, bool isDryRun, Context*& context);

/// Has each limit of the latest round's stage asked by itself. Its own are open again.
void divide(Context& context, Stage& stage);

}  // namespace sliding_log
