// The counts of one key, one for each window of the clock: algorithm=counter.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <new>

#include "limit/int128.hpp"
#include "local/exact_log.hpp"

namespace sliding_log {

/// Plain data, so that it can be in shared memory. Windows begin at the multiples of their length. What is used at a
/// time is the count of the previous window, as far as it overlaps the last `windowMs`, and all counts from the window
/// of that time on.
///
/// The present has two numbers. The counts of windows ahead, which have reservations, are in cells that the owner
/// provides: as a log in which the index of a window is the time.
class WindowCounts {
  public:
    /// Removes counts of windows before the previous one. A reservation is at most `aheadMs` ahead; counts
    /// of later windows count in this one. `now` must not step back.
    void advance(std::uint64_t now, std::uint64_t windowMs, std::uint64_t aheadMs) {
        if (windowMs != windowMs_) {
            changeWindow(now, windowMs);
        }
        const std::uint64_t index = now / windowMs;
        if (index != index_) {
            beginWindow(index);
        }
        if (latest_ > now + aheadMs) {
            latest_ = now;
        }
        if (ahead_ != nullptr) {
            ahead_->truncate((now + aheadMs) / windowMs);
        }
    }

    /// The time of the latest entry, or an earlier one if that is not ahead of now.
    std::uint64_t latest() const { return latest_; }

    bool isEmpty() const { return previous_ == 0 && here_ == 0; }

    /// The time from which on nothing counts.
    std::uint64_t endsAt() const {
        if (isEmpty()) {
            return 0;
        }
        const std::uint64_t last = ahead_ != nullptr && ahead_->count() > 0 ? ahead_->newest() : index_;
        return (last + (here_ > 0 ? 2 : 1)) * windowMs_;
    }

    /// True if no more than `most` is used.
    bool isAtMost(std::int64_t most, std::uint64_t now) const {
        return static_cast<Int128>(previous_) * restOfWindow(now) <= (static_cast<Int128>(most) - here_) * windowMs_;
    }

    /// What is left of the limit, rounded down, not below 0.
    std::int64_t remaining(std::int64_t limit, std::uint64_t now) const {
        const Int128 left =
            (static_cast<Int128>(limit) - here_) * windowMs_ - static_cast<Int128>(previous_) * restOfWindow(now);
        return left <= 0 ? 0 : static_cast<std::int64_t>(left / windowMs_);
    }

    /// The first ms at which no more than `most` is used, not before `from`, which is not before now; `most` is not
    /// below 0.
    std::uint64_t fallsTo(std::int64_t most, std::uint64_t from) const {
        std::uint64_t index = from / windowMs_;
        std::uint64_t before = index == 0 ? 0 : countOf(index - 1);
        std::uint64_t here = index == index_ ? here_ : sumFrom(index);
        for (;;) {
            const Int128 room = static_cast<Int128>(most) - here;
            if (room >= 0) {
                // the part of the previous window that may overlap, in ms
                const Int128 overlap = before == 0 ? windowMs_ : std::min<Int128>(room * windowMs_ / before, windowMs_);
                if (overlap > 0) {
                    return std::max(from, (index + 1) * windowMs_ - static_cast<std::uint64_t>(overlap));
                }
            } else {
                index = lastAbove(most, index);
            }
            before = countOf(index);
            here = sumFrom(index + 1);
            index++;
        }
    }

    /// The number of cells that add() may need in addition to those it was given.
    std::size_t cellsToAdd(std::uint64_t time, std::uint64_t cost) const {
        const std::uint64_t index = time / windowMs_;
        if (index <= index_) {
            return 0;
        }
        return ahead_ == nullptr ? 1 : ahead_->cellsToAdd(index, cost);
    }

    void give(Cell& cell) {
        if (ahead_ != nullptr) {
            ahead_->give(cell);
            return;
        }
        auto* rest = reinterpret_cast<std::uint8_t*>(&cell) + sizeof(ExactLog);
        ahead_ = new (static_cast<void*>(&cell)) ExactLog(rest, kCellBytes - sizeof(ExactLog));
    }

    /// Takes all cells; the counts must not be used afterwards.
    Chain takeAll() {
        if (ahead_ != nullptr) {
            ahead_->clear();
        }
        return takeSpare();
    }

    /// Takes the cells that are not needed any more.
    Chain takeSpare() {
        if (ahead_ == nullptr) {
            return {};
        }
        Chain spare = ahead_->takeSpare(0);
        if (ahead_->count() == 0) {
            spare.push(*new (static_cast<void*>(ahead_)) Cell());
            ahead_ = nullptr;
        }
        return spare;
    }

    /// `time` must not be before now; the cells that cellsToAdd() returned must have been given.
    void add(std::uint64_t time, std::uint64_t cost) {
        latest_ = std::max(latest_, time);
        here_ = sum(here_, cost);
        const std::uint64_t index = time / windowMs_;
        if (index > index_) {
            ahead_->add(index, cost);
        }
    }

    /// Adds to the count of this window, as long as the use from it on does not exceed `most`.
    void addUpTo(std::uint64_t most, std::uint64_t cost) { here_ = std::max(here_, std::min(sum(here_, cost), most)); }

    /// Removes what was added at this time from its count; false if that is 0 or not kept any more.
    bool remove(std::uint64_t time, std::uint64_t cost) {
        const std::uint64_t index = windowMs_ == 0 ? 0 : time / windowMs_;
        const std::uint64_t removed = index + 1 >= index_ ? std::min(countOf(index), cost) : 0;
        if (removed == 0) {
            return false;
        }
        if (index < index_) {
            previous_ -= removed;
            return true;
        }
        here_ -= removed;
        if (index > index_) {
            ahead_->remove(index, removed);
        }
        return true;
    }

    /// When the latest window begins that has a count ahead; 0 if none has.
    std::uint64_t latestWindow() const {
        return ahead_ != nullptr && ahead_->count() > 0 ? ahead_->newest() * windowMs_ : 0;
    }

    /// As add(), but this is no reservation.
    void owe(std::uint64_t time, std::uint64_t cost) {
        const std::uint64_t latest = latest_;
        add(time, std::min(cost, kMost - here_));
        latest_ = latest;
    }

  private:
    static constexpr std::uint64_t kMost = 1'000'000'000'000'000'000;  // of a count; what exceeds it is forgotten

    static std::uint64_t sum(std::uint64_t left, std::uint64_t right) { return std::min(left + right, kMost); }

    std::uint64_t restOfWindow(std::uint64_t now) const { return windowMs_ - now % windowMs_; }

    /// The counts of all windows from this one on, which must be ahead.
    std::uint64_t sumFrom(std::uint64_t index) const { return ahead_ == nullptr ? 0 : ahead_->countAfter(index - 1); }

    /// The last window from which on more than `most` counts, beginning with one of which this is true. Windows in
    /// between, which may be very many, are skipped.
    std::uint64_t lastAbove(std::int64_t most, std::uint64_t index) const {
        const auto wanted = static_cast<std::uint64_t>(most);
        return ahead_ == nullptr || ahead_->count() <= wanted ? index : ahead_->at(ahead_->count() - wanted - 1);
    }

    std::uint64_t countOf(std::uint64_t index) const {
        if (index == index_) {
            return here_ - sumFrom(index + 1);
        }
        if (index + 1 == index_) {
            return previous_;
        }
        return sumFrom(index) - sumFrom(index + 1);
    }

    void beginWindow(std::uint64_t index) {
        previous_ = countOf(index - 1);
        here_ = sumFrom(index);
        index_ = index;
        if (ahead_ != nullptr) {
            ahead_->prune(index, 0);
        }
    }

    /// Counts of windows of another length cannot be assigned to these windows: all become entries of now, so that none
    /// is lost.
    void changeWindow(std::uint64_t now, std::uint64_t windowMs) {
        here_ = sum(here_, previous_);
        previous_ = 0;
        if (ahead_ != nullptr) {
            ahead_->clear();
        }
        windowMs_ = windowMs;
        index_ = now / windowMs;
        latest_ = 0;
    }

    std::uint64_t windowMs_ = 0;
    std::uint64_t index_ = 0;     // of the current window
    std::uint64_t previous_ = 0;  // the count of the window before it
    std::uint64_t here_ = 0;      // the counts of the current window and all windows ahead
    std::uint64_t latest_ = 0;    // ms
    ExactLog* ahead_ = nullptr;   // nullptr: no counts ahead
};

}  // namespace sliding_log
