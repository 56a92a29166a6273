// Puts a round's questions to their stores, place after place, and takes back what must not stay.
#pragma once

#include "request/context.hpp"

namespace sliding_log {

/// Asks place after place until all have answered or one has to be waited for: then false, and the phases run again
/// when its answer is here. Once a limit has denied, or cannot be told of and on_error does not allow, only places
/// with a log that counts denied requests, too, are still asked.
bool askAll(const LocationSettings& location, Context& context);

/// The request goes while a store is asked, or before its answer was read: what that has logged is given back where a
/// refund of 499 or a reserved slot wants it.
void abandon(Context& context);

/// Takes the answer that was waited for over into the decisions.
void takeAnswer(const LocationSettings& location, Context& context);

/// For takeBack(): all that the request has logged.
inline bool everyEntry(const Decision&, ngx_uint_t) {
    return true;
}

/// The request's entries leave the logs of the decisions for which `leaves` is true; each at most once.
void takeBack(Context& context, bool (*leaves)(const Decision& decision, ngx_uint_t status), ngx_uint_t status = 0);

}  // namespace sliding_log
