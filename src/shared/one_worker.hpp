// What one worker of a node does for all, whichever comes first: a time in shared memory decides.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace sliding_log {

/// True for one worker, when `dueMs` has passed: it is due again `everyMs` later. A worker that dies then does not
/// prevent it for longer.
inline bool claimDue(std::atomic<std::uint64_t>& dueMs, std::uint64_t nowMs, std::uint64_t everyMs) {
    std::uint64_t due = dueMs.load(std::memory_order_relaxed);
    return due <= nowMs && dueMs.compare_exchange_strong(due, nowMs + everyMs, std::memory_order_relaxed);
}

/// True for one worker, at most once in `everyMs`. `toldMs`: when that last was; 0: never. The time of another worker
/// may be ahead.
inline bool mayTell(std::atomic<std::uint64_t>& toldMs, std::uint64_t nowMs, std::uint64_t everyMs) {
    std::uint64_t told = toldMs.load(std::memory_order_relaxed);
    return (told == 0 || nowMs - std::min(told, nowMs) >= everyMs) &&
           toldMs.compare_exchange_strong(told, nowMs, std::memory_order_relaxed);
}

}  // namespace sliding_log
