// The exact log of one key in memory that somebody else owns: a ring of arrival times.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace sliding_log {

/// Plain data, so that it can stand in shared memory. Times are ms of a clock that never steps back, oldest first.
class ExactLog {
  public:
    std::size_t count() const { return count_; }
    std::size_t capacity() const { return capacity_; }
    std::uint64_t* times() const { return times_; }

    /// The time of the entry at that place, 0 being the oldest; place < count().
    std::uint64_t at(std::size_t place) const { return times_[(first_ + place) & (capacity_ - 1)]; }

    /// Entries that are a window old or older leave. `now` is not before the newest entry.
    void prune(std::uint64_t now, std::uint64_t windowMs) {
        while (count_ > 0 && now - at(0) >= windowMs) {
            dropOldest();
        }
    }

    /// Of more than `cap` entries the oldest leave.
    void trim(std::size_t cap) {
        while (count_ > cap) {
            dropOldest();
        }
    }

    bool isFull() const { return count_ == capacity_; }

    /// Adds an entry; not when isFull(). `now` is not before the newest entry.
    void add(std::uint64_t now) { times_[(first_ + count_++) & (capacity_ - 1)] = now; }

    /// Removes one entry of that time, if there is one. Entries of one time are alike, so any of them is the right one.
    void remove(std::uint64_t time) {
        std::size_t place = count_;
        while (place > 0 && at(place - 1) > time) {
            place--;
        }
        if (place == 0 || at(place - 1) != time) {
            return;
        }
        for (; place < count_; place++) {
            times_[(first_ + place - 1) & (capacity_ - 1)] = at(place);
        }
        count_--;
    }

    /// Moves to a larger memory of `capacity` entries, a power of two; the caller frees what times() was before.
    void moveTo(std::uint64_t* times, std::size_t capacity) {
        for (std::size_t i = 0; i < count_; i++) {
            times[i] = at(i);
        }
        times_ = times;
        capacity_ = capacity;
        first_ = 0;
    }

  private:
    void dropOldest() {
        first_ = (first_ + 1) & (capacity_ - 1);
        count_--;
    }

    std::uint64_t* times_ = nullptr;
    std::size_t capacity_ = 0;  // a power of two, or 0
    std::size_t first_ = 0;
    std::size_t count_ = 0;
};

}  // namespace sliding_log
