// Which keys ask most, in memory of fixed size, whatever number of keys there is: an unbiased Space-Saving (Ting 2018)
// in sets of eight.
//
// A key that has no place is counted by the least one of its set, and takes that place with one chance in its count:
// so a key that asks often gets a place soon, and the many that ask seldom rarely write more than a counter. Numbers
// halve every minute: they are of lately. What is shown of a key is what was counted of it since it took its place, so
// never too much; what it asked before is missing.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "shared/seqlock.hpp"

namespace sliding_log {

/// Shared by processes, read and written without a lock: counters are atomic, and the name in a place stands under its
/// sequence. Who finds another one writing leaves the place as it is. A key is known by its name: clients choose keys,
/// and so could choose two of one hash, as the hash has no secret.
class TopKeys {
  public:
    static constexpr std::size_t kLongestName = 64 + 2 + 128;
    static constexpr std::uint64_t kHalvedEveryMs = 60'000;

    struct Key {
        std::string limit;
        std::string value;
        std::uint64_t requests;  // at least, of lately
        unsigned used;           // of its limit when it asked last, in thousandths
        std::uint64_t seenMs;    // when that was
    };

    TopKeys() = default;

    /// `memory`: zeroed, or a table that other processes use; aligned to 64. Of less than one set nothing is kept.
    TopKeys(void* memory, std::size_t bytes, std::uint64_t random);

    /// One request of the key of that name and hash: `LIMIT:{VALUE`, as a log's key begins behind its prefix. One of a
    /// longer name is not kept.
    void count(std::string_view name, std::size_t hash, unsigned used, std::uint64_t nowMs);

    /// Halves the numbers when it is time; to be called now and then, by any process.
    void age(std::uint64_t nowMs);

    /// All that have a place, the most requests first.
    std::vector<Key> list() const;

  private:
    static constexpr std::size_t kWays = 8;

    struct Place {
        Sequence sequence;
        std::atomic<std::uint32_t> used;
        std::atomic<std::uint64_t> base;  // of the count, not this key's
        std::atomic<std::uint64_t> seenMs;
        GuardedText<200> name;
        static_assert(kLongestName <= 200);
    };

    struct alignas(64) Set {
        std::atomic<std::uint64_t> hashes[kWays];
        std::atomic<std::uint64_t> counts[kWays];
        Place places[kWays];
    };

    struct alignas(64) Header {
        std::atomic<std::uint64_t> halvedMs;
    };

    void replace(Set& set, std::size_t way, std::string_view name, std::uint64_t hash);
    bool oneIn(std::uint64_t count);

    Header* header_ = nullptr;
    Set* sets_ = nullptr;
    std::size_t setCount_ = 0;
    std::uint64_t random_ = 1;
};

}  // namespace sliding_log
