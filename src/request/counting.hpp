// What the limits that a request asked said of it, for the metrics.
#pragma once

#include "request/context.hpp"

namespace sliding_log {

/// Counts each of these limits of the round that was asked, once: what it said itself, also where another one denied.
/// `admitted`: by all of them.
void countDecisions(const LocationSettings& location, const Round& round, std::span<const Decision> decisions,
                    bool admitted);

}  // namespace sliding_log
