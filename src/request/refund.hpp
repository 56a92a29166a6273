// refund=: gives back the entries of requests whose response has one of these statuses.
#pragma once

#include "ngx.hpp"
#include "request/context.hpp"

namespace sliding_log {

/// The response header has passed the filters. If nginx has sent it, entries are given back now, since a slow client, a
/// large body or a mirrored request may delay the end of the request. Otherwise a filter holds the header back and may
/// replace the response.
void noteHeaderSent(Context& context);

/// The request has ended: gives entries back if its header was not seen, for example since the client has left.
void refundAtEnd(Context& context);

}  // namespace sliding_log
