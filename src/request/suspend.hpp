// Suspends a request that is not waiting for a store, with a timer, and notices when its client leaves.
#pragma once

#include "request/context.hpp"

namespace sliding_log {

/// `onTime` is called at this time with context.timer; it calls runAgain(). Returns NGX_AGAIN or NGX_ERROR.
ngx_int_t suspend(Context& context, ngx_msec_t until, ngx_event_handler_pt onTime);

/// The phases run again soon, in this state.
void runAgain(Context& context, Context::State state);

}  // namespace sliding_log
