// Whether the servers that the configuration names belong to the cluster.
#pragma once

#include <span>

#include "findings.hpp"
#include "store.hpp"

namespace sliding_log::tool {

/// Checks the servers that are not masters; masters are checked anyway. A node that was removed from the cluster, or
/// one of another cluster, replies like any other. False if none of them replied.
bool inspectMembership(Findings& findings, const StoreSettings& settings, std::span<const Endpoint> masters);

}  // namespace sliding_log::tool
