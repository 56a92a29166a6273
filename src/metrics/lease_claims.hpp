// The lengths of the leases that the workers of a node have for one NAME of algorithm=inflight. After a reload two
// configurations are at work: each of their workers lets the longest one count, else the others would drop its entries
// before it renews them. They are among the counters, where logs cannot displace them. Pure.
#pragma once

#include <sys/types.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "metrics/counters.hpp"

namespace sliding_log {

/// A worker claims its length when it starts, and about once a second. All workers with that length have one claim.
struct LeaseClaims : Owned<64> {
    /// The longest ones are kept.
    static constexpr std::size_t kMost = 4;

    /// Workers that have not claimed a length for so long, in ms, may all be dead.
    static constexpr std::int64_t kMayBeDeadMs = 3000;

    struct Claim {
        std::atomic<std::int64_t> ms{0};  // 0: none
        std::uint64_t claimedAt = 0;      // the latest time; under the lock, like the following
        pid_t worker = 0;                 // that claimed it then
    };

    /// The longest of all that are claimed and of this one. Without the lock.
    std::int64_t longest(std::int64_t ms) const {
        for (const Claim& each : claims) {
            ms = std::max(ms, each.ms.load(std::memory_order_relaxed));
        }
        return ms;
    }

    /// Claims the length `ms` for the worker `self`, and drops those whose workers are dead (`isDead(pid)`). The caller
    /// holds the lock of the zone.
    template <typename IsDead>
    void claim(std::int64_t ms, std::uint64_t now, pid_t self, IsDead isDead) {
        Claim* own = nullptr;
        for (Claim& each : claims) {
            const std::int64_t its = each.ms.load(std::memory_order_relaxed);
            if (its == ms) {
                own = &each;
            } else if (its != 0 && isOver(each, now, self, isDead)) {
                each.ms.store(0, std::memory_order_relaxed);
            }
        }
        if (own == nullptr) {
            const auto length = [](const Claim& each) { return each.ms.load(std::memory_order_relaxed); };
            own = std::ranges::min_element(claims, {}, length);
            if (length(*own) > ms) {
                return;
            }
        }
        own->claimedAt = now;
        own->worker = self;
        own->ms.store(ms, std::memory_order_relaxed);
    }

    void clear() {
        touchedMs.store(0, std::memory_order_relaxed);
        for (Claim& each : claims) {
            each.ms.store(0, std::memory_order_relaxed);
        }
    }

    Claim claims[kMost];

  private:
    /// A worker that stands still for longer than its lease holds no entry any more. So another process that has got
    /// the id of a dead worker does not keep a claim for ever.
    template <typename IsDead>
    static bool isOver(const Claim& claim, std::uint64_t now, pid_t self, IsDead isDead) {
        const auto age = static_cast<std::int64_t>(now - claim.claimedAt);  // the time of its worker may be ahead
        if (age < kMayBeDeadMs) {
            return false;
        }
        return age - kMayBeDeadMs >= claim.ms.load(std::memory_order_relaxed) || claim.worker == self ||
               isDead(claim.worker);
    }
};

}  // namespace sliding_log
