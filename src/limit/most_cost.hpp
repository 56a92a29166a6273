// The largest cost= of an algorithm: a larger constant is refused, and a request with a larger variable is denied.
#pragma once

#include <cstdint>

#include "limit/algorithm.hpp"
#include "limit/number.hpp"

namespace sliding_log {

/// An algorithm that keeps each entry takes a limited number of them from one request. `sample`: of an algorithm that
/// keeps one entry for each N of a cost.
constexpr std::int64_t mostCost(Algorithm algorithm, std::int64_t sample) {
    const std::int64_t entries = rowOf(algorithm).mostEntries;
    if (entries == 0) {
        return kLargestCount;
    }
    return takes(algorithm, Parameter::Sample) ? entries * sample : entries;
}

}  // namespace sliding_log
