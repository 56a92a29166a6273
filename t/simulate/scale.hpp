// ./build.sh simulate --fleet NODESxWORKERS: what Redis gets of a large fleet, and how long its requests wait, when
// something happens to all of it.
#pragma once

#include <cstddef>
#include <string>

#include "fleet.hpp"

namespace simulate {

struct FleetSize {
    std::size_t nodes = 0;  // 0: none is asked for
    std::size_t workers = 0;
};

/// Simulates it with each kind of store, and prints a line for each thing that happens. Throws std::exception.
void simulateScale(const FleetSize& size, std::uint64_t seed, const Surroundings& surroundings);

}  // namespace simulate
