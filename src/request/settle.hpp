// settle=: the cost that a request really had, known when it has ended.
#pragma once

#include "ngx.hpp"
#include "request/context.hpp"

namespace sliding_log {

/// The client has its answer, or has left: evaluates settle= of each limit that counts the request, unless that was
/// done. A post_action, which begins now, would replace the answer.
void noteCosts(Context& context);

/// The request has ended, and what it is to give back was given back: has, for each limit that still counts it, the
/// difference of its true cost taken back, or added, in the store that decided. Without a valid number the
/// cost stands.
void settleAtEnd(Context& context);

}  // namespace sliding_log
