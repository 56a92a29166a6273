// settle=: the cost that a request really had, known when it has ended.
#pragma once

#include "ngx.hpp"
#include "request/context.hpp"

namespace sliding_log {

/// The request has ended, and what it is to give back was given back: evaluates settle= of each limit that still counts
/// it, and has the difference to its cost taken back, or added, in the store that decided. Without a valid number the
/// cost stands.
void settleAtEnd(Context& context);

}  // namespace sliding_log
