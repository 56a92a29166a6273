// A server that refuses what it is asked, for a while.
#pragma once

#include <functional>
#include <string>

#include "random.hpp"
#include "redis/server.hpp"

namespace simulate {

struct Refusal {
    std::string text;                         // for the trace
    std::function<void(Server&, bool)> sets;  // true: it begins; false: it ends
};

Refusal drawRefusal(Random& random);

}  // namespace simulate
