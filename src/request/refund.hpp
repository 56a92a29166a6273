// refund=: entries of requests whose answer has one of these statuses are given back, once the answer is known.
#pragma once

#include "ngx.hpp"
#include "request/context.hpp"

namespace sliding_log {

/// The response header has passed the filters: where nginx has sent it, its status gives entries back now, since a slow
/// client, a large body or a mirrored request may keep the request for long. A filter may hold the header back, and
/// replace the answer then.
void noteHeaderSent(Context& context);

/// The request has ended: gives entries back if its header was not seen, for example since the client has left.
void refundAtEnd(Context& context);

}  // namespace sliding_log
