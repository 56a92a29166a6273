// Where a command belongs in a Redis Cluster, as a node of it sees that.
#pragma once

#include <cstdint>
#include <string>

#include "commands.hpp"

namespace simulate {

struct Route {
    enum Kind { Here, CrossSlot, TryAgain, Ask, Moved, NotServed, Down };

    Kind kind = Here;
    std::uint16_t slot = 0;
    int node = 0;  // of Ask and Moved
};

/// Where the keys of the command are. In a server without a cluster: here.
Route routeOf(Execution& execution, const CommandRow& row, Words words);

/// The error that sends a client elsewhere.
std::string errorOf(const Route& route, const ClusterView& cluster);

/// CLUSTER SLOTS.
void tellSlots(std::string& reply, const ClusterView& cluster);

/// CLUSTER NODES.
std::string nodesText(const ClusterView& cluster);

}  // namespace simulate
