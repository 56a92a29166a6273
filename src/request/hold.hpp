// Requests that a limit has admitted for a later moment: held by a timer until their slot comes.
#pragma once

#include "request/context.hpp"

namespace sliding_log {

/// Suspends the request until context.dueAt; the phases run again then. NGX_AGAIN, or NGX_ERROR.
ngx_int_t hold(Context& context);

/// The request goes, whatever it was doing: no answer and no timer finds it, and slots that it held are given back.
void leave(Context& context) noexcept;

}  // namespace sliding_log
