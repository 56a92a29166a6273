// What the metrics and the dashboard show of this nginx.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "metrics/counters.hpp"
#include "settings/settings.hpp"

namespace sliding_log {

/// Held still as far as it decides how much there is to write.
struct Snapshot {
    struct Server {
        NodeCounters* counters;
        Seen seen;
        bool healthKnown;

        std::string_view store() const { return counters->names.first(); }
        std::string_view node() const { return counters->names.second(); }
    };

    std::span<LogSettings* const> logs;  // some may be left out of the counters: those have no name there
    std::vector<Server> servers;         // by their names
    const Zone* zone;                    // nullptr: there is none
    std::size_t zoneSize;
};

Snapshot takeSnapshot(const MainSettings& main);

inline std::uint64_t get(const std::atomic<std::uint64_t>& number) {
    return number.load(std::memory_order_relaxed);
}

}  // namespace sliding_log
