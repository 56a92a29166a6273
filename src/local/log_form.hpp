// The local form of algorithm=log, compact, sampled and inflight: the exact log. With sampled, an entry counts for many
// requests; with inflight, the window is the lease.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "limit/bounds.hpp"
#include "limit/int128.hpp"
#include "local/exact_log.hpp"
#include "local/local_form.hpp"

namespace sliding_log {

class LogForm {
  public:
    /// `spare`: a few bytes, which must live as long as the form.
    explicit LogForm(std::span<std::uint8_t> spare) : log_(spare.data(), spare.size()) {}

    void advance(const Check& check, std::uint64_t now) {
        windowMs_ = check.windowMs;
        log_.prune(now, static_cast<std::uint64_t>(check.windowMs));
        log_.bringBack(now, now + static_cast<std::uint64_t>(check.aheadMs));
    }

    std::int64_t msUntilRoom(const Check& check, std::uint64_t now) const {
        const Int128 over = used(check) + check.cost - check.limit;
        if (over <= 0) {
            return 0;
        }
        const auto index = static_cast<std::size_t>(divideUp(over, weight(check))) - 1;
        return msBetween(now, log_.at(index)) + check.windowMs;
    }

    std::int64_t msUntilReservation(const Check&, std::uint64_t now, std::int64_t wait) const {
        return log_.count() == 0 ? wait : std::max(msBetween(now, log_.newest()), wait);
    }

    std::int64_t remaining(const Check& check, std::uint64_t) const {
        return static_cast<std::int64_t>(std::max<Int128>(check.limit - used(check), 0));
    }

    std::int64_t resetMs(const Check& check, std::uint64_t now) const {
        return log_.count() == 0 ? check.windowMs : msBetween(now, log_.oldest()) + check.windowMs;
    }

    std::size_t cellsToAdd(std::uint64_t now, std::uint64_t time, std::int64_t entries) const {
        // while entries are ahead, one cell is kept for bringBack()
        const std::size_t wanted =
            log_.cellsToAdd(time, static_cast<std::uint64_t>(entries)) + (time > now || isAhead(now) ? 1 : 0);
        return wanted - std::min(wanted, log_.spares());
    }

    void give(Cell& cell) { log_.give(cell); }

    void add(const Check&, std::uint64_t time, std::int64_t entries) {
        log_.add(time, static_cast<std::uint64_t>(entries));
        if (log_.count() > kMostEntries) {
            log_.trim(kMostEntries);
        }
    }

    std::int64_t entriesOfDenied(const Check& check, std::uint64_t now, std::int64_t entries) const {
        return std::min(entries, static_cast<std::int64_t>(longestWithDenied(check) - log_.countAfter(now)));
    }

    void addDenied(const Check& check, std::uint64_t now, std::int64_t entries) {
        if (check.cap > 0) {
            log_.trim(longestWithDenied(check) - static_cast<std::size_t>(entries));
        }
        add(check, now, entries);
    }

    bool remove(std::uint64_t time, std::int64_t entries) {
        return log_.remove(time, static_cast<std::size_t>(entries));
    }

    std::uint64_t latest(std::uint64_t now) const { return isAhead(now) ? log_.newest() : now; }

    void owe(const Check& check, std::uint64_t time, std::int64_t entries) { add(check, time, entries); }

    Chain takeSpare(std::uint64_t now) { return log_.spares() == 0 ? Chain() : log_.takeSpare(isAhead(now) ? 2 : 0); }

    Chain takeAll() {
        log_.clear();
        return log_.takeSpare(0);
    }

    std::uint64_t endsAt() const {
        return log_.count() == 0 ? 0 : log_.newest() + static_cast<std::uint64_t>(windowMs_);
    }

  private:
    static constexpr std::uint64_t kMostEntries = kMostOfLog;

    /// The number of requests that an entry counts for.
    static std::int64_t weight(const Check& check) {
        return takes(check.algorithm, Parameter::Sample) ? check.sample : 1;
    }

    /// The most entries that there may be after a denied request was added. The cap is rounded up to whole entries;
    /// otherwise a log at its cap might always have room.
    std::size_t longestWithDenied(const Check& check) const {
        const std::int64_t cap = (check.cap - 1) / weight(check) + 1;
        return std::min(std::max(static_cast<std::uint64_t>(cap), log_.count()), kMostEntries);
    }

    /// True if entries are ahead of now.
    bool isAhead(std::uint64_t now) const { return log_.count() > 0 && log_.newest() > now; }

    Int128 used(const Check& check) const { return static_cast<Int128>(log_.count()) * weight(check); }

    ExactLog log_;
    std::int64_t windowMs_ = 0;  // of the latest check
};

static_assert(LocalForm<LogForm>);

}  // namespace sliding_log
