// Lets a request wait until another one of its key ends (`delay=` with algorithm=inflight). It asks again when it is
// its turn among those of this node that wait for the same log.
#pragma once

#include <optional>

#include "request/context.hpp"

namespace sliding_log {

/// True if requests of this node wait for a log of the stage that this one may wait for, too: it has to wait behind
/// them, and does not ask.
bool findsOthersWaiting(const Stage& stage);

/// The stage denies the request. True if that may wait, since only limits deny for whose places it may, and has time.
bool mayWait(const Stage& stage);

/// Suspends the request until it is its turn to ask the stage, or its time is up. The phases then run again with
/// State::Turn. Returns NGX_AGAIN or NGX_ERROR.
ngx_int_t waitForPlace(Stage& stage);

/// State::Turn: the stage that was waited for is open again, and is to be asked. False if the time is up: it denies.
bool takeTurn(Context& context);

/// The stage that was waited for has replied, and is decided.
void leaveQueue(Stage& stage);

/// The request waits for no place any more, if it did. `room`: see Queues::leave().
void leaveQueue(Context& context, std::optional<std::int64_t> room);

}  // namespace sliding_log
