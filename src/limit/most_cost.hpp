// The largest cost= of an algorithm: what a constant one is refused above, and a variable one denied.
#pragma once

#include <cstdint>

#include "limit/algorithm.hpp"
#include "limit/number.hpp"

namespace sliding_log {

/// An algorithm that keeps entries takes so many of one request. `sample` is that of Sampled, which keeps one for
/// each N of a cost.
constexpr std::int64_t mostCost(Algorithm algorithm, std::int64_t sample) {
    constexpr std::int64_t kMostMembers = 1000;  // of a ZSET: each is 100 bytes, and a command's time in Redis
    constexpr std::int64_t kMostTimes = 100'000;
    switch (algorithm) {
        case Algorithm::Log:
            return kMostMembers;
        case Algorithm::Sampled:
            return kMostMembers * sample;
        case Algorithm::Compact:
            return kMostTimes;
        case Algorithm::Counter:
        case Algorithm::Bucket:
            break;
    }
    return kLargestCount;
}

}  // namespace sliding_log
