// When to try again: exponential back-off with jitter, so that many workers do not return at the same time.
#pragma once

#include <algorithm>
#include <cstdint>

namespace sliding_log {

/// Enough ms to spread the workers of a fleet, which notice a failure at the same time.
inline constexpr std::uint64_t kSpreadMs = 100;

/// Delays in ms: random, in the upper half of min, 2 min, 4 min, ... max; while that is at most kSpreadMs, from 0 to
/// kSpreadMs. Never longer than max.
class Backoff {
  public:
    Backoff(std::uint64_t minMs, std::uint64_t maxMs) : min_(minMs), max_(maxMs), ceiling_(minMs) {}

    /// `random` is any random number.
    std::uint64_t next(std::uint64_t random) {
        const std::uint64_t ceiling = std::min(ceiling_, max_);
        ceiling_ = std::min(ceiling * 2, max_);
        return ceiling > kSpreadMs ? ceiling - random % (ceiling / 2 + 1) : random % (std::min(kSpreadMs, max_) + 1);
    }

    void reset() { ceiling_ = min_; }

  private:
    std::uint64_t min_;
    std::uint64_t max_;
    std::uint64_t ceiling_;
};

}  // namespace sliding_log
