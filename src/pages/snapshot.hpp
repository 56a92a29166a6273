// The data of this nginx that the metrics and the dashboard show.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "metrics/counters.hpp"
#include "settings/settings.hpp"

namespace sliding_log {

/// Fixed as far as it determines the size of the text.
struct Snapshot {
    struct ServerState {
        ServerCounters* counters;
        Reachability reachability;
        bool healthKnown;

        std::string_view store() const { return counters->names.first(); }
        std::string_view name() const { return counters->names.second(); }
    };

    std::span<LogSettings* const> logs;  // without a name in the counters if these have no room
    std::vector<ServerState> servers;    // sorted by name
    const Zone* zone;                    // nullptr: no zone
    std::size_t zoneSize;
};

Snapshot takeSnapshot(const MainSettings& main);

inline std::uint64_t get(const std::atomic<std::uint64_t>& number) {
    return number.load(std::memory_order_relaxed);
}

}  // namespace sliding_log
