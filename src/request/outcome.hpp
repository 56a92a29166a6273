// The result of the decisions of a round.
#pragma once

#include <span>

#include "request/context.hpp"

namespace sliding_log {

struct Outcome {
    const Decision* decider;  // the limit that denied (of several, the one that denies longest); otherwise the one that
                              // holds the request; otherwise the one with the least remaining
    ngx_uint_t status;        // of the response; 0: admitted
    std::int64_t retryAfter;  // seconds; 0: not sent
    bool isUndecided = false;  // no store could decide: sliding_log_on_error denies
};

/// The outcome without regard to a dry run. An invalid number denies in any case. If the store could not decide,
/// sliding_log_on_error decides; a limit of 0 denies even then.
Outcome judge(const LocationSettings& location, std::span<const Decision> decisions);

/// Seconds that Retry-After has for this limit, if it denies; 0: none.
std::int64_t retryAfterOf(const Decision& decision);

bool remainsLess(const Decision& left, const Decision& right);

/// Writes one line to the error log for a denial or a delay, the latter one level lower, as limit_req does. Nothing is
/// written for an invalid number, which was logged when it was evaluated, at most once a second.
void logOutcome(ngx_http_request_t* request, const LocationSettings& location, const Outcome& outcome, bool isDryRun);

}  // namespace sliding_log
