// Writes the head of a log of algorithm=compact, as lua/compact_log.lua packs it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "limit/compact_head.hpp"
#include "redis.hpp"

namespace sliding_log::native {

inline constexpr double kLongestNumber = 7;  // bytes

inline constexpr const char* kNotCompact = "WRONGTYPE not a log of algorithm=compact";

inline void pack(char*& out, double number, std::size_t size) {
    const auto bits = static_cast<std::uint64_t>(integerOf(number));
    while (size > 0) {
        size--;
        *out++ = static_cast<char>(bits >> (8 * size));
    }
}

inline constexpr auto kMostEntriesOfLog = static_cast<double>(kMostCompact);

/// Writes the newest entry and the number of entries, which depend on the format.
inline void packNewestAndUsed(char*& out, bool hasRuns, double oldest, double newest, double used) {
    if (!hasRuns) {
        pack(out, newest, 6);
        pack(out, used, 4);
        return;
    }
    if (!(newest - oldest <= kMostEntriesOfLog)) {
        throw Error{kNotCompact};
    }
    pack(out, newest - oldest, 5);
    pack(out, used, 5);
}

/// Writes kCompactStateBytes.
inline void writeState(const CompactState<double>& state, char* out) {
    *out++ = state.hasRuns ? kCompactRunsFormat : kCompactFormat;
    pack(out, state.oldest, 6);
    packNewestAndUsed(out, state.hasRuns, state.oldest, state.newest, state.used);
    pack(out, state.touched, 6);
    pack(out, state.size, 4);
    pack(out, state.begin, 4);
    pack(out, state.filled, 4);
    pack(out, static_cast<double>(state.nextBytes), 1);
    pack(out, static_cast<double>(state.latestBytes), 1);
}

}  // namespace sliding_log::native
