// Counts the decisions of a request's limits, for the metrics.
#pragma once

#include "request/context.hpp"

namespace sliding_log {

/// Counts each of these limits of the round that was asked, once, with its own decision, even if another limit denied
/// the request. `admitted`: by all of them that were asked.
void countDecisions(const LocationSettings& location, const Round& round, std::span<Decision> decisions, bool admitted);

}  // namespace sliding_log
