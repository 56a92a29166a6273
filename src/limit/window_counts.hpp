// The counts of one key, one for each window of the clock: algorithm=counter.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "limit/wide.hpp"

namespace sliding_log {

/// Plain data, so that it can stand in shared memory. Windows begin at the multiples of their length. What is used at a
/// time is the count of the window before, as far as it overlaps the last `windowMs`, and all from that time's window
/// on.
///
/// Two numbers tell of the time that is. The counts of windows ahead, in which slots were reserved, stand in memory
/// that somebody else owns, where they differ from 0: there are no more of them than requests held.
class WindowCounts {
  public:
    std::size_t capacity() const { return capacity_; }  // bytes
    std::uint8_t* bytes() const { return reinterpret_cast<std::uint8_t*>(ahead_); }

    /// Counts of windows before the previous one leave; those of windows ahead that no reservation can be in, of
    /// entries more than `aheadMs` ahead, count in this window. `now` never steps back.
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
        while (aheadCount_ > 0 && ahead_[aheadCount_ - 1].index > (now + aheadMs) / windowMs) {
            aheadCount_--;
        }
    }

    /// The latest time that an entry is of, as far as it is ahead of now.
    std::uint64_t latest() const { return latest_; }

    bool isEmpty() const { return previous_ == 0 && here_ == 0; }

    /// Until when anything counts.
    std::uint64_t endsAt() const {
        if (isEmpty()) {
            return 0;
        }
        const std::uint64_t last = aheadCount_ > 0 ? ahead_[aheadCount_ - 1].index : index_;
        return (last + (here_ > 0 ? 2 : 1)) * windowMs_;
    }

    /// True when no more than `most` is used.
    bool isAtMost(std::int64_t most, std::uint64_t now) const {
        return static_cast<Wide>(previous_) * restOfWindow(now) <= (static_cast<Wide>(most) - here_) * windowMs_;
    }

    /// What is left of the limit, whole and not below 0.
    std::int64_t remaining(std::int64_t limit, std::uint64_t now) const {
        const Wide left =
            (static_cast<Wide>(limit) - here_) * windowMs_ - static_cast<Wide>(previous_) * restOfWindow(now);
        return left <= 0 ? 0 : static_cast<std::int64_t>(left / windowMs_);
    }

    /// The first ms from `from` on, which is not before now, at which no more than `most` is used; not below 0.
    std::uint64_t fallsTo(std::int64_t most, std::uint64_t from) const {
        std::uint64_t index = from / windowMs_;
        std::uint64_t before = index == 0 ? 0 : countOf(index - 1);
        std::uint64_t here = index == index_ ? here_ : sumFrom(index);
        for (;;) {
            const Wide room = static_cast<Wide>(most) - here;
            if (room >= 0) {
                // of the window before, this much of its length may overlap
                const Wide overlap = before == 0 ? windowMs_ : std::min<Wide>(room * windowMs_ / before, windowMs_);
                if (overlap > 0) {
                    return std::max(from, (index + 1) * windowMs_ - static_cast<std::uint64_t>(overlap));
                }
            } else if (index > index_) {
                index = firstFrom(index)->index;  // there may be very many windows without a count in between
            }
            before = countOf(index);
            here -= before;
            index++;
        }
    }

    /// The capacity needed to add something at that time: capacity() where it suffices.
    std::size_t capacityToAdd(std::uint64_t time) const {
        const std::size_t needed = (std::size_t{aheadCount_} + 1) * sizeof(Count);
        return needed <= capacity_ || time / windowMs_ <= index_ ? capacity_ : std::bit_ceil(needed);
    }

    /// `time` is not before now; the capacity is what capacityToAdd() said.
    void add(std::uint64_t time, std::uint64_t cost) {
        latest_ = std::max(latest_, time);
        here_ = sum(here_, cost);
        const std::uint64_t index = time / windowMs_;
        if (index <= index_) {
            return;
        }
        Count* place = firstFrom(index);
        Count* end = ahead_ + aheadCount_;
        if (place == end || place->index != index) {
            std::copy_backward(place, end, end + 1);
            *place = {index, 0};
            aheadCount_++;
        }
        place->count += cost;
    }

    /// Adds to this window's count as far as not more than `most` is used from it on.
    void addUpTo(std::uint64_t most, std::uint64_t cost) { here_ = std::max(here_, std::min(sum(here_, cost), most)); }

    /// Takes what was added at that time out of the count it is in; false where that is 0, or kept no more.
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
            Count* place = firstFrom(index);
            place->count -= removed;
            if (place->count == 0) {
                std::copy(place + 1, ahead_ + aheadCount_, place);
                aheadCount_--;
            }
        }
        return true;
    }

    /// Moves to a larger memory of `capacity` bytes; the caller frees what bytes() was before.
    void moveTo(std::uint8_t* bytes, std::size_t capacity) {
        auto* ahead = reinterpret_cast<Count*>(bytes);
        std::copy(ahead_, ahead_ + aheadCount_, ahead);
        ahead_ = ahead;
        capacity_ = static_cast<std::uint32_t>(capacity);
    }

  private:
    static constexpr std::uint64_t kMost = 1'000'000'000'000'000'000;  // of a count; more is forgotten

    struct Count {
        std::uint64_t index;  // of the window: its begin / its length
        std::uint64_t count;
    };

    static std::uint64_t sum(std::uint64_t left, std::uint64_t right) { return std::min(left + right, kMost); }

    std::uint64_t restOfWindow(std::uint64_t now) const { return windowMs_ - now % windowMs_; }

    /// The first count ahead that is of that window or a later one.
    Count* firstFrom(std::uint64_t index) const {
        return std::lower_bound(ahead_, ahead_ + aheadCount_, index,
                                [](const Count& count, std::uint64_t wanted) { return count.index < wanted; });
    }

    /// All from a window ahead on.
    std::uint64_t sumFrom(std::uint64_t index) const {
        std::uint64_t all = 0;
        for (const Count* place = firstFrom(index); place != ahead_ + aheadCount_; place++) {
            all += place->count;
        }
        return all;
    }

    std::uint64_t countOf(std::uint64_t index) const {
        if (index == index_) {
            return here_ - sumFrom(index + 1);
        }
        if (index + 1 == index_) {
            return previous_;
        }
        const Count* place = firstFrom(index);
        return place != ahead_ + aheadCount_ && place->index == index ? place->count : 0;
    }

    void beginWindow(std::uint64_t index) {
        previous_ = countOf(index - 1);
        here_ = sumFrom(index);
        index_ = index;
        const Count* rest = firstFrom(index + 1);
        const auto dropped = static_cast<std::uint32_t>(rest - ahead_);
        std::copy(rest, static_cast<const Count*>(ahead_) + aheadCount_, ahead_);
        aheadCount_ -= dropped;
    }

    /// Counts of windows of another length tell of no times in these: all become entries of now, so that none is
    /// forgotten.
    void changeWindow(std::uint64_t now, std::uint64_t windowMs) {
        here_ = sum(here_, previous_);
        previous_ = 0;
        aheadCount_ = 0;
        windowMs_ = windowMs;
        index_ = now / windowMs;
        latest_ = 0;
    }

    std::uint64_t windowMs_ = 0;
    std::uint64_t index_ = 0;     // of the window that now is in
    std::uint64_t previous_ = 0;  // the count of the window before that one
    std::uint64_t here_ = 0;      // the counts of that window and all ahead
    std::uint64_t latest_ = 0;    // ms
    Count* ahead_ = nullptr;      // by index
    std::uint32_t capacity_ = 0;  // bytes of it
    std::uint32_t aheadCount_ = 0;
};

}  // namespace sliding_log
