// The exact log of one key in memory that somebody else owns: a ring of bytes, one to two for each arrival.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sliding_log {

/// Plain data, so that it can stand in shared memory. Times are ms of a clock that never steps back.
///
/// It holds its oldest and newest time, and in the ring for each entry but the oldest the ms since the one before, as
/// lua/compact_log.lua does: 7 bits a byte, highest first, the eighth bit set in all but the last byte of a number, so
/// that it reads from either end.
class ExactLog {
  public:
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

    /// Entries that are a window old or older leave. `now` is not before the newest entry.
    void prune(std::uint64_t now, std::uint64_t windowMs) {
        if (count_ > 0 && now - newest_ >= windowMs) {
            clear();
        }
        while (count_ > 0 && now - oldest_ >= windowMs) {
            dropOldest();
        }
    }

    /// Of more than `cap` entries the oldest leave.
    void trim(std::size_t cap) {
        while (count_ > cap) {
            dropOldest();
        }
    }

    /// True when an entry may not fit.
    bool isFull() const { return count_ > 0 && capacity_ - used_ < kLongestNumber; }

    /// Adds an entry; not when isFull(). `now` is not before the newest entry.
    void add(std::uint64_t now) {
        if (count_ == 0) {
            oldest_ = now;
        } else {
            used_ += write(used_, now - newest_);
        }
        newest_ = now;
        count_++;
    }

    /// Removes one entry of that time, if there is one. Entries of one time are alike, so any of them is the right one.
    void remove(std::uint64_t time) {
        if (count_ == 0 || time < oldest_ || time > newest_) {
            return;
        }
        std::uint64_t entry = newest_;
        std::uint64_t behind = 0;   // ms to its successor, where there is one
        std::size_t rest = used_;   // where the numbers after the successor's begin
        std::size_t begin = used_;  // where the entry's own number ends
        while (entry > time) {
            rest = begin;
            behind = numberBefore(begin);
            entry -= behind;
        }
        if (entry != time) {
            return;
        }
        const bool isNewest = begin == used_;
        if (begin == 0) {
            oldest_ += behind;
        } else {
            const std::uint64_t ahead = numberBefore(begin);
            if (isNewest) {
                newest_ -= ahead;
            } else {
                begin += write(begin, ahead + behind);  // never longer than the two were
            }
        }
        for (; rest < used_; rest++) {
            byte(begin++) = byte(rest);
        }
        used_ = begin;
        count_--;
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

    /// Writes the number at the offset, and returns how many bytes it takes.
    std::size_t write(std::size_t offset, std::uint64_t number) {
        std::size_t length = 1;
        for (std::uint64_t rest = number >> 7; rest > 0; rest >>= 7) {
            length++;
        }
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
