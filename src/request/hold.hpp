// Requests that a limit has admitted for a later moment: held by a timer until their reservation is due.
#pragma once

#include "request/context.hpp"

namespace sliding_log {

/// Suspends the request until context.dueAt; the phases run again then. NGX_AGAIN, or NGX_ERROR.
ngx_int_t hold(Context& context);

/// The request goes, whatever it was doing: no answer and no timer finds it, and its reservations are given back.
void cancel(Context& context) noexcept;

}  // namespace sliding_log
