// The largest cost= of an algorithm: what a constant one is refused above, and a variable one denied.
#pragma once

#include <cstdint>

#include "limit/algorithm.hpp"
#include "limit/number.hpp"

namespace sliding_log {

/// An algorithm that keeps entries takes so many of one request. `sample` is that of an algorithm which keeps one for
/// each N of a cost.
constexpr std::int64_t mostCost(Algorithm algorithm, std::int64_t sample) {
    const std::int64_t entries = rowOf(algorithm).mostEntries;
    if (entries == 0) {
        return kLargestCount;
    }
    return takes(algorithm, Parameter::Sample) ? entries * sample : entries;
}

}  // namespace sliding_log
