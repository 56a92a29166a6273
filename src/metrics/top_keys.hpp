// The keys with most requests, in memory of fixed size for any number of keys: an unbiased Space-Saving (Ting 2018) in
// sets of eight.
//
// A request of a key without a cell increments the smallest count of its set, and the key takes this cell with a
// probability of one in that count. So a key with many requests soon gets a cell, and keys with few requests rarely
// write more than a counter. Counts are halved every minute, so they show recent requests. The number of a key is what
// was counted since it took its cell: a lower bound.
#pragma once

#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "shared/seqlock.hpp"
#include "shared/set_table.hpp"

namespace sliding_log {

/// Shared by processes, read and written without a lock: counters are atomic, and the name in a cell is guarded by a
/// sequence number. A process that finds another one writing does not change the cell; a cell that was left by one that
/// was killed becomes free. A key is identified by its
/// name, not only by its hash, since clients could choose two keys with the same hash.
class TopKeys {
  public:
    static constexpr std::size_t kLongestName = 64 + 2 + 128;
    static constexpr std::uint64_t kHalvedEveryMs = 60'000;

    struct Key {
        std::string limit;
        std::string value;
        std::uint64_t requests;  // recent ones, a lower bound
        unsigned used;           // of its limit at its last request, in thousandths
        std::uint64_t seenMs;    // time of that request
    };

    TopKeys() = default;

    /// `memory`: zeroed, or a table that other processes use; aligned to 64. If it is smaller than one set, nothing is
    /// counted. `self`: the process that uses this object.
    TopKeys(void* memory, std::size_t bytes, std::uint64_t random, pid_t self = getpid());

    /// Counts a request of the key with this name and hash: `LIMIT:{VALUE`, the beginning of a log's key after the
    /// prefix. Longer names are not counted.
    void count(std::string_view name, std::size_t hash, unsigned used, std::uint64_t nowMs);

    /// Halves the counts when it is time; to be called regularly by any process.
    void age(std::uint64_t nowMs);

    /// All keys with a cell, those with most requests first.
    std::vector<Key> list() const;

  private:
    static constexpr std::size_t kWays = 8;

    struct Cell {
        Sequence sequence;
        std::atomic<std::uint32_t> used;
        std::atomic<std::uint64_t> base;  // the part of the count before this key
        std::atomic<std::uint64_t> seenMs;
        GuardedText<200> name;
        static_assert(kLongestName <= 200);
    };

    using Counter = std::atomic<std::uint64_t>;

    struct alignas(64) Set {
        std::atomic<std::uint64_t> hashes[kWays];
        Counter counts[kWays];
        Cell cells[kWays];
    };

    struct alignas(64) Header {
        std::atomic<std::uint64_t> halvedMs;
    };

    void replace(Set& set, std::size_t way, std::string_view name, std::uint64_t hash);
    bool oneIn(std::uint64_t count);

    Sequence::Writer self_ = 0;
    Header* header_ = nullptr;
    Sets<Set> sets_;
    std::uint64_t random_ = 1;
};

}  // namespace sliding_log
