// A world to simulate, and what came of it. Each runs in a process of its own, which all of its memory ends with.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "numbers.hpp"
#include "plan.hpp"
#include "schedule.hpp"

namespace simulate {

/// What all is drawn from. Requests and faults count from 1; what is left out of them happens not, and changes nothing
/// that is drawn for the others.
struct World {
    std::uint64_t seed = 1;
    Kind kind = Kind::Any;
    std::uint64_t requests = 0;
    Numbers withoutRequests;
    Numbers withoutFaults;

    /// The options of it.
    std::string options() const;
};

struct Figures {
    std::uint64_t requests = 0;
    std::uint64_t faults = 0;
    Time simulated = 0;
    std::uint64_t trace = 0;
    std::string failure;  // empty: none
};

struct Surroundings;

/// A world that is simulated beside this process.
class Simulation {
  public:
    /// Throws std::system_error.
    Simulation(const World& world, const Surroundings& surroundings);
    ~Simulation();
    Simulation(const Simulation&) = delete;
    Simulation& operator=(const Simulation&) = delete;

    /// Waits for its end.
    Figures figures();

  private:
    pid_t process_ = -1;
    int results_ = -1;
};

}  // namespace simulate
