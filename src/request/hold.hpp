// Holds requests that were admitted with a reservation, by a timer, until it is due.
#pragma once

#include "request/context.hpp"

namespace sliding_log {

/// Suspends the request until context.dueAt, when the phases run again with State::Due. Returns NGX_AGAIN or NGX_ERROR.
ngx_int_t hold(Context& context);

/// State::Due: the request goes on. True if limits are to be asked that are asked after the hold.
bool endHold(Context& context);

/// The request ends, in whatever state: no reply and no timer reaches it any more, and its reservations are taken back.
void cancel(Context& context) noexcept;

}  // namespace sliding_log
