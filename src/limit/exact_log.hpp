// The exact log of one key in memory that somebody else owns: a ring of bytes, one to two for each arrival.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace sliding_log {

/// Plain data, so that it can stand in shared memory. Times are ms of a clock that never steps back; entries may be
/// ahead of it: slots that were reserved.
///
/// It holds its oldest and newest time, and in the ring for each entry but the oldest the ms since the one before, as
/// lua/compact_log.lua does: 7 bits a byte, highest first, the eighth bit set in all but the last byte of a number, so
/// that it reads from either end.
class ExactLog {
  public:
    static constexpr std::size_t kFirstCapacity = 16;  // bytes

    std::size_t count() const { return count_; }
    std::size_t capacity() const { return capacity_; }  // bytes
    std::uint8_t* bytes() const { return bytes_; }

    /// The time of the entry at that place, 0 being the oldest; place < count(). Walks there from the nearer end.
    std::uint64_t at(std::size_t place) const {
        if (place < count_ / 2) {
            std::uint64_t time = oldest_;
            for (std::size_t offset = 0; place > 0; place--) {
                time += numberFrom(offset);
            }
            return time;
        }
        std::uint64_t time = newest_;
        for (std::size_t end = used_; place + 1 < count_; place++) {
            time -= numberBefore(end);
        }
        return time;
    }

    std::uint64_t oldest() const { return oldest_; }  // these two: when there are entries
    std::uint64_t newest() const { return newest_; }

    /// How many entries are after that time. Walks over them.
    std::size_t countAfter(std::uint64_t time) const { return count_ == 0 ? 0 : lastNotAfter(time).behind; }

    /// Entries that are a window old or older leave.
    void prune(std::uint64_t now, std::uint64_t windowMs) {
        if (count_ > 0 && newest_ + windowMs <= now) {
            clear();
        }
        while (count_ > 0 && oldest_ + windowMs <= now) {
            dropOldest();
        }
    }

    /// Of more than `cap` entries the oldest leave.
    void trim(std::size_t cap) {
        while (count_ > cap) {
            dropOldest();
        }
    }

    /// Entries after `farthest`, which is not before `now`, become entries of now. The memory suffices: see
    /// capacityToAdd().
    void bringBack(std::uint64_t now, std::uint64_t farthest) {
        if (count_ == 0 || newest_ <= farthest) {
            return;
        }
        const Place last = lastNotAfter(farthest);
        used_ = last.end;
        count_ -= last.behind;
        newest_ = last.time;
        add(now, last.behind);
    }

    /// The capacity that a log needs for adding so many entries, at least one, of that time: capacity() where it
    /// suffices.
    std::size_t capacityToAdd(std::uint64_t now, std::uint64_t time, std::size_t entries) const {
        std::size_t needed = used_ + entries - 1;
        if (count_ > 0) {
            // an entry among others splits a number; so does each that is ahead of now when it is brought back
            needed += time > now || newest_ > now ? 3 * kLongestNumber : kLongestNumber;
        } else if (time > now) {
            needed += kLongestNumber;
        }
        return needed <= capacity_ ? capacity_ : std::bit_ceil(std::max(needed, kFirstCapacity));
    }

    /// Adds entries of that time; the capacity is what capacityToAdd() said.
    void add(std::uint64_t time, std::size_t entries) {
        if (entries == 0) {
            return;
        }
        if (count_ == 0) {
            oldest_ = newest_ = time;
            appendZeros(entries - 1);
        } else if (time >= newest_) {
            used_ += write(used_, time - newest_);
            newest_ = time;
            appendZeros(entries - 1);
        } else {
            insert(time, entries);
        }
        count_ += entries;
    }

    /// Removes up to so many entries of that time, which are alike, so any of them are the right ones; false where
    /// there are none.
    bool remove(std::uint64_t time, std::size_t entries) {
        if (count_ == 0 || time < oldest_ || entries == 0) {
            return false;
        }
        const Place last = lastNotAfter(time);
        if (last.time != time) {
            return false;
        }
        const std::size_t kept = count_ - last.behind;  // it and those before it
        std::size_t begin = last.end;
        std::size_t removed = 1;
        std::uint64_t ahead = 0;  // ms from the entry before those removed
        for (; removed < kept; removed++) {
            std::size_t end = begin;
            ahead = numberBefore(end);
            begin = end;
            if (ahead > 0 || removed == entries) {
                break;
            }
        }
        if (removed == kept) {  // they were the oldest
            if (last.behind == 0) {
                clear();
                return true;
            }
            oldest_ = last.time + last.gap;
            erase(0, last.gapEnd);
        } else if (last.behind == 0) {
            newest_ = last.time - ahead;
            used_ = begin;
        } else {
            begin += write(begin, ahead + last.gap);  // never longer than the two were
            erase(begin, last.gapEnd);
        }
        count_ -= removed;
        return true;
    }

    /// Moves to a larger memory of `capacity` bytes, a power of two; the caller frees what bytes() was before.
    void moveTo(std::uint8_t* bytes, std::size_t capacity) {
        for (std::size_t i = 0; i < used_; i++) {
            bytes[i] = byte(i);
        }
        bytes_ = bytes;
        capacity_ = capacity;
        first_ = 0;
    }

  private:
    static constexpr std::size_t kLongestNumber = 10;  // 64 bits

    /// An entry, and what is needed to put others behind it or take it out.
    struct Place {
        std::uint64_t time;
        std::size_t end;     // of its own number; 0 for the oldest
        std::size_t behind;  // entries newer than it
        std::uint64_t gap;   // ms to its successor, and where that number ends; when there is one
        std::size_t gapEnd;
    };

    /// The newest entry that is not after that time; where all are, what would be in front of the oldest: `end` 0, all
    /// behind, and `time` and `gap` as from `time` to the oldest. There are entries.
    Place lastNotAfter(std::uint64_t time) const {
        Place place{newest_, used_, 0, 0, used_};
        while (place.time > time) {
            if (place.behind == count_ - 1) {
                return {time, 0, count_, oldest_ - time, 0};
            }
            place.gapEnd = place.end;
            place.gap = numberBefore(place.end);
            place.time -= place.gap;
            place.behind++;
        }
        return place;
    }

    /// Puts entries in front of newer ones.
    void insert(std::uint64_t time, std::size_t entries) {
        const Place last = lastNotAfter(time);
        const bool isOldest = last.behind == count_;
        const std::uint64_t toSuccessor = last.time + last.gap - time;
        // the gap's number makes place for: the one to the new entries, the zeros between them, the one behind them
        const std::size_t front = isOldest ? 0 : lengthOf(time - last.time);
        const std::size_t length = front + entries - 1 + lengthOf(toSuccessor);
        const std::size_t tail = used_ - last.gapEnd;
        used_ = last.end + length + tail;
        if (length >= last.gapEnd - last.end) {
            for (std::size_t i = tail; i > 0; i--) {
                byte(last.end + length + i - 1) = byte(last.gapEnd + i - 1);
            }
        } else {
            for (std::size_t i = 0; i < tail; i++) {
                byte(last.end + length + i) = byte(last.gapEnd + i);
            }
        }
        std::size_t at = last.end;
        if (isOldest) {
            oldest_ = time;
        } else {
            at += write(at, time - last.time);
        }
        for (std::size_t i = 1; i < entries; i++) {
            byte(at++) = 0;
        }
        write(at, toSuccessor);
    }

    void appendZeros(std::size_t zeros) {
        for (; zeros > 0; zeros--) {
            byte(used_++) = 0;
        }
    }

    /// The bytes of [begin, end) go.
    void erase(std::size_t begin, std::size_t end) {
        if (begin == 0) {
            first_ = (first_ + end) & (capacity_ - 1);
            used_ -= end;
            return;
        }
        for (; end < used_; end++) {
            byte(begin++) = byte(end);
        }
        used_ = begin;
    }

    std::uint8_t& byte(std::size_t offset) const { return bytes_[(first_ + offset) & (capacity_ - 1)]; }

    /// The number that begins at the offset, which moves behind it.
    std::uint64_t numberFrom(std::size_t& offset) const {
        std::uint64_t number = 0;
        std::uint8_t next = byte(offset++);
        for (; next >= 0x80; next = byte(offset++)) {
            number = (number | (next & 0x7f)) << 7;
        }
        return number | next;
    }

    /// The number that ends at the offset, which moves to where it begins.
    std::uint64_t numberBefore(std::size_t& offset) const {
        std::uint64_t number = byte(--offset);
        for (unsigned shift = 7; offset > 0 && byte(offset - 1) >= 0x80; shift += 7) {
            number |= static_cast<std::uint64_t>(byte(--offset) & 0x7f) << shift;
        }
        return number;
    }

    static std::size_t lengthOf(std::uint64_t number) {
        std::size_t length = 1;
        for (number >>= 7; number > 0; number >>= 7) {
            length++;
        }
        return length;
    }

    /// Writes the number at the offset, and returns how many bytes it takes.
    std::size_t write(std::size_t offset, std::uint64_t number) {
        const std::size_t length = lengthOf(number);
        std::uint8_t more = 0;
        for (std::size_t i = length; i > 0; i--, number >>= 7, more = 0x80) {
            byte(offset + i - 1) = static_cast<std::uint8_t>((number & 0x7f) | more);
        }
        return length;
    }

    void dropOldest() {
        if (--count_ == 0) {
            clear();
            return;
        }
        std::size_t length = 0;
        oldest_ += numberFrom(length);
        first_ = (first_ + length) & (capacity_ - 1);
        used_ -= length;
    }

    void clear() { count_ = used_ = first_ = 0; }

    std::uint8_t* bytes_ = nullptr;
    std::size_t capacity_ = 0;  // a power of two, or 0
    std::size_t first_ = 0;     // where the second entry's number begins
    std::size_t used_ = 0;      // bytes
    std::size_t count_ = 0;     // entries
    std::uint64_t oldest_ = 0;  // these two: when there are entries
    std::uint64_t newest_ = 0;
};

}  // namespace sliding_log
