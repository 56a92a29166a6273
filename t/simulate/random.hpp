// Random numbers of the seed: everything that a simulation draws comes from one of these.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace simulate {

/// SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
class Random {
  public:
    explicit Random(std::uint64_t seed) : state_(seed) {}

    std::uint64_t next() {
        std::uint64_t z = (state_ += 0x9e3779b97f4a7c15);
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
        z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
        return z ^ (z >> 31);
    }

    /// From 0 to `bound` - 1.
    std::uint64_t below(std::uint64_t bound) { return bound == 0 ? 0 : next() % bound; }

    /// From `low` to `high`, both included.
    std::int64_t between(std::int64_t low, std::int64_t high) {
        return low + static_cast<std::int64_t>(below(static_cast<std::uint64_t>(high - low) + 1));
    }

    /// True once in `times`.
    bool once(std::uint64_t times) { return below(times) == 0; }

    /// Another sequence, which does not depend on how many numbers this one has drawn since.
    Random branch() { return Random(next()); }

  private:
    std::uint64_t state_;
};

/// A time with this average, as between events that know nothing of each other.
inline std::int64_t drawn(Random& random, std::int64_t average) {
    const double share = static_cast<double>(random.below(1'000'000) + 1) / 1'000'000;
    return static_cast<std::int64_t>(-std::log(share) * static_cast<double>(average));
}

/// By so much a clock is set ahead or back at most.
constexpr std::int64_t kMostClockMove = 2'000'000'000;  // ns

/// How long a fault lasts: as drawn, at most five times the average.
inline std::int64_t lasting(Random& random, std::int64_t average) {
    return std::min(drawn(random, average), 5 * average);
}

}  // namespace simulate
