// The records of override=on that decisions of this node have met, for the dashboard, in memory of fixed size.
#pragma once

#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "limit/override.hpp"
#include "shared/seqlock.hpp"
#include "shared/set_table.hpp"

namespace sliding_log {

/// Shared by processes, read and written without a lock. A key is in a set of eight; a new one takes the place of the
/// one that was met least recently. A process that finds another one writing does not note.
class SeenOverrides {
  public:
    static constexpr std::uint64_t kForgottenAfterMs = 600'000;

    struct Seen {
        std::string limit;
        std::string value;
        Override override;
        std::uint64_t seenMs;
    };

    SeenOverrides() = default;

    /// `memory`: zeroed, or a table that other processes use; aligned to 64. If it is smaller than one set, nothing is
    /// noted. `self`: the process that uses this object.
    SeenOverrides(void* memory, std::size_t bytes, pid_t self = getpid())
        : self_(static_cast<Sequence::Writer>(self)), sets_(memory, bytes) {}

    /// A decision of the key with this name and hash has met that record; without one, the key is forgotten. The name
    /// is `LIMIT:{VALUE`, the beginning of a log's key after the prefix; longer ones are not noted.
    void note(std::string_view name, std::size_t hash, const Override& override, std::uint64_t nowMs);

    /// Those met lately that have not ended, the latest first. `wallMs`: the time of the day.
    std::vector<Seen> list(std::uint64_t nowMs, std::int64_t wallMs) const;

  private:
    static constexpr std::size_t kWays = 8;
    static constexpr std::size_t kLongestName = 200;  // a multiple of eight

    struct Cell {
        Sequence sequence;
        std::atomic<std::uint32_t> what;
        std::atomic<std::int64_t> limit;
        std::atomic<std::int64_t> untilMs;
        std::atomic<std::uint64_t> seenMs;
        GuardedText<kLongestName> name;
    };

    struct alignas(64) Set {
        std::atomic<std::uint64_t> hashes[kWays];  // 0: the cell is empty
        Cell cells[kWays];
    };

    Sequence::Writer self_ = 0;
    Sets<Set> sets_;
};

}  // namespace sliding_log
