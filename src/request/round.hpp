// Which limits a request has to meet, and what each asks of its log.
#pragma once

#include <cstddef>

#include "request/context.hpp"

namespace sliding_log {

/// Collects what this location asks of the request and was not asked before, in a Context that is made where there is
/// none. NGX_OK: context->round is new. NGX_DECLINED: nothing to ask. NGX_ERROR: no memory.
ngx_int_t beginRound(ngx_http_request_t* request, const LocationSettings& location, Context*& context);

/// Where a limit is asked: limits of one place are asked in one call. A store, in a cluster a slot, and a script. The
/// local store comes first, since what it denies costs no round trip.
std::size_t placeOf(const Round& round, std::size_t limit);

}  // namespace sliding_log
