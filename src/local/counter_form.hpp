// The local form of algorithm=counter.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "local/local_form.hpp"
#include "local/window_counts.hpp"

namespace sliding_log {

class CounterForm {
  public:
    void advance(const Check& check, std::uint64_t now) {
        counts_.advance(now, static_cast<std::uint64_t>(check.windowMs), static_cast<std::uint64_t>(check.aheadMs));
    }

    std::int64_t msUntilRoom(const Check& check, std::uint64_t now) const {
        const std::int64_t most = check.limit - check.cost;
        return counts_.isAtMost(most, now) ? 0 : msBetween(now, counts_.fallsTo(most, now));
    }

    std::int64_t msUntilReservation(const Check& check, std::uint64_t now, std::int64_t wait) const {
        return counts_.latest() <= now ? wait
                                       : msBetween(now, counts_.fallsTo(check.limit - check.cost, counts_.latest()));
    }

    std::int64_t remaining(const Check& check, std::uint64_t now) const { return counts_.remaining(check.limit, now); }

    std::int64_t resetMs(const Check& check, std::uint64_t now) const {
        const std::int64_t most = check.limit - counts_.remaining(check.limit, now) - 1;
        return counts_.isEmpty() ? check.windowMs
                                 : msBetween(now, counts_.fallsTo(std::max<std::int64_t>(most, 0), now));
    }

    std::size_t cellsToAdd(std::uint64_t, std::uint64_t time, std::int64_t entries) const {
        return counts_.cellsToAdd(time, static_cast<std::uint64_t>(entries));
    }

    void give(Cell& cell) { counts_.give(cell); }

    void add(const Check&, std::uint64_t time, std::int64_t entries) {
        counts_.add(time, static_cast<std::uint64_t>(entries));
    }

    std::int64_t entriesOfDenied(const Check&, std::uint64_t, std::int64_t entries) const { return entries; }

    void addDenied(const Check& check, std::uint64_t, std::int64_t entries) {
        counts_.addUpTo(check.cap == 0 ? UINT64_MAX : static_cast<std::uint64_t>(check.cap),
                        static_cast<std::uint64_t>(entries));
    }

    bool remove(std::uint64_t time, std::int64_t entries) {
        return counts_.remove(time, static_cast<std::uint64_t>(entries));
    }

    std::uint64_t latest(std::uint64_t now) const { return std::max(now, counts_.latestWindow()); }

    void owe(const Check&, std::uint64_t time, std::int64_t entries) {
        counts_.owe(time, static_cast<std::uint64_t>(entries));
    }

    Chain takeSpare(std::uint64_t) { return counts_.takeSpare(); }

    Chain takeAll() { return counts_.takeAll(); }

    std::uint64_t endsAt() const { return counts_.endsAt(); }

  private:
    WindowCounts counts_;
};

static_assert(LocalForm<CounterForm>);

}  // namespace sliding_log
