// What the decisions of a round come to.
#pragma once

#include <span>

#include "request/context.hpp"

namespace sliding_log {

struct Outcome {
    const Decision* decider;  // the limit that denied, of several the one that denies longest; else the one that holds
                              // the request; else the one with the least remaining
    ngx_uint_t status;        // what is answered; 0: admitted
    std::int64_t retryAfter;  // seconds; 0: not to be promised
};

/// Dry run aside. A number that is none denies in any case. Where the store could not tell, on_error decides; a limit
/// of 0 denies even then.
Outcome judge(const LocationSettings& location, std::span<const Decision> decisions);

bool remainsLess(const Decision& left, const Decision& right);

/// One line in the error log, for a denial or a delay; a delay's is one level lower, as limit_req's. None where a
/// number of the limit is none: that was told when it was evaluated, once a second.
void logOutcome(ngx_http_request_t* request, const LocationSettings& location, const Outcome& outcome, bool isDryRun);

}  // namespace sliding_log
