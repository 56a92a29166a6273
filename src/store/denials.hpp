// Known denials: what Redis denied stays denied until the slot frees that it named, for all workers of the node.
//
// Why that is exact: a denied request is logged nowhere, so until the oldest entry leaves, nothing can make room. The
// time is counted from before the question was sent, so it ends early rather than late. A raised limit is another
// signature. Logs whose entries may be taken back are not kept here (LogSettings::takenBack).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "limit/verdict.hpp"

namespace sliding_log {

/// A table of fixed size in memory that processes share, read without a lock: a reader that a writer overtakes sees
/// that by the slot's sequence, and asks Redis. Four slots per hash; a new denial takes the place of one that is over,
/// else of the one that ends first.
class Denials {
  public:
    static constexpr std::size_t kSlotBytes = 512;
    static constexpr std::size_t kMostLogs = 4;

    Denials() = default;

    /// `memory`: zeroed, or a table that other processes use; of `bytes`, at least 4 slots.
    Denials(void* memory, std::size_t bytes);

    /// True when the questions of that signature are known to be denied at `nowMs`; the verdicts are as they were,
    /// with less time to go.
    bool find(std::string_view signature, std::size_t hash, std::uint64_t nowMs, std::span<Verdict> verdicts) const;

    /// Keeps a denial that was asked for at `askedMs`. One of more logs, or of longer names, than a slot holds is not
    /// kept, nor is one that another worker is writing over.
    void publish(std::string_view signature, std::size_t hash, std::uint64_t askedMs,
                 std::span<const Verdict> verdicts);

    /// Forgets the denial of that signature: an entry was taken back, there may be room.
    void forget(std::string_view signature, std::size_t hash);

  private:
    static constexpr std::size_t kWays = 4;

    struct Entry {
        std::int64_t remaining;
        std::uint64_t resetAt;
        std::uint64_t retryAt;  // 0: has room, kNeverAt
    };

    struct Slot {
        std::atomic<std::uint32_t> sequence;  // odd: being written
        std::uint16_t length;                 // of the signature; 0: empty
        std::uint16_t logs;
        std::uint64_t hash;
        std::uint64_t until;
        Entry entries[kMostLogs];
        char signature[kSlotBytes - 24 - kMostLogs * sizeof(Entry)];
    };
    static_assert(sizeof(Slot) == kSlotBytes);
    static_assert(std::atomic<std::uint32_t>::is_always_lock_free);

    Slot* slotOf(std::string_view signature, std::size_t hash) const;
    static bool beginWriting(Slot& slot);
    static void endWriting(Slot& slot);
    std::span<Slot> setOf(std::size_t hash) const { return {slots_ + hash % sets_ * kWays, kWays}; }

    Slot* slots_ = nullptr;
    std::size_t sets_ = 0;
};

}  // namespace sliding_log
