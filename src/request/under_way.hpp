// The entries of algorithm=inflight last as long as the request: they are leases, which end with it.
#pragma once

#include <span>

#include "request/context.hpp"

namespace sliding_log {

/// To be called before the stage is asked: the length of its leases may have changed while it waited.
void useLeasesOfNow(const Round& round, const Stage& stage);

/// These decisions of the round, together, have admitted the request. It also counts where no store could decide.
void beginLeases(const LocationSettings& location, Round& round, std::span<const Decision> together);

/// Gives the entries of all decisions with isLeaving back that are leases; these are not in a log then.
void endMarkedLeases(Round& round);

/// The request has ended.
void endLeases(Context& context) noexcept;

}  // namespace sliding_log
