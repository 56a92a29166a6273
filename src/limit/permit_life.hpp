// How long prefetched permits last. lua/decide.lua has the same formula.
#pragma once

#include <algorithm>
#include <cstdint>

namespace sliding_log {

/// A hundredth of the window, from 1 ms to 1 s.
constexpr std::int64_t permitLifeMs(std::int64_t windowMs) {
    return std::clamp<std::int64_t>(windowMs / 100, 1, 1000);
}

}  // namespace sliding_log
