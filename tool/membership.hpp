// Whether the servers that the configuration names belong to the cluster.
#pragma once

#include <span>

#include "findings.hpp"
#include "store.hpp"

namespace sliding_log::tool {

/// Looks at those that are none of the masters, which are looked at anyway: a node that was taken out of the cluster,
/// or one of another cluster, answers as any does. False when none of them answered.
bool inspectMembership(Findings& findings, const StoreSettings& settings, std::span<const Endpoint> masters);

}  // namespace sliding_log::tool
