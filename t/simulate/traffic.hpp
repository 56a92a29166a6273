// What a server has got.
#pragma once

#include <algorithm>
#include <cstdint>

#include "schedule.hpp"

namespace simulate {

struct Traffic {
    std::uint64_t connects = 0;
    std::uint64_t bytes = 0;
    std::uint64_t ofLogs = 0;  // commands that name a log
    std::uint64_t scriptLoads = 0;
    std::uint64_t mapRequests = 0;  // CLUSTER SLOTS
    Time work = 0;
    Time longest = 0;  // of one command that names a log

    Traffic& operator+=(const Traffic& more) {
        connects += more.connects;
        bytes += more.bytes;
        ofLogs += more.ofLogs;
        scriptLoads += more.scriptLoads;
        mapRequests += more.mapRequests;
        work += more.work;
        longest = std::max(longest, more.longest);
        return *this;
    }
};

}  // namespace simulate
