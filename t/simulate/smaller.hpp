// Makes a world that fails smaller: the same failure with fewer requests and faults is easier to understand.
#pragma once

#include <chrono>

#include "fleet.hpp"
#include "world.hpp"

namespace simulate {

/// The smallest world that is found within about this time and fails as this one does.
World smaller(const World& world, const Figures& figures, const Surroundings& surroundings, std::chrono::seconds most);

}  // namespace simulate
