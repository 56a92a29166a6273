// A piece of a log: times in ascending order, in few bytes.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace sliding_log {

/// Entries of one time.
struct Entries {
    std::uint64_t time;
    std::uint64_t count;
};

/// Plain data. The bytes are provided by the owner and are at most 64k.
///
/// The oldest and the newest time are members. The bytes have, for each time but the oldest, the ms since the previous
/// time, minus one, doubled. If several entries are of one time, their number, minus two, doubled, plus one, follows
/// it. So a time takes one byte if it is at most 64 ms after the previous one, and any number of entries of it takes
/// one or a few more. Numbers are written as in lua/compact_log.lua: 7 bits per byte, highest first, the eighth bit set
/// in all bytes but the last, so that they can be read from both ends.
class Piece {
  public:
    static constexpr std::size_t kLongestNumber = 10;              // bytes: 64 bits
    static constexpr std::size_t kLongest = 2 * kLongestNumber;    // bytes that append() takes
    static constexpr std::size_t kLongestIn = 3 * kLongestNumber;  // bytes that one more time between others takes

    Piece() = default;
    Piece(std::uint8_t* bytes, std::size_t capacity) : bytes_(bytes), capacity_(static_cast<std::uint16_t>(capacity)) {}

    std::size_t capacity() const { return capacity_; }  // bytes
    std::size_t used() const { return end_ - begin_; }
    std::size_t room() const { return capacity_ - used(); }

    std::uint64_t count() const { return count_; }  // entries
    bool isEmpty() const { return count_ == 0; }
    std::uint64_t oldest() const { return oldest_; }  // oldest(), newest(): only if there are entries
    std::uint64_t newest() const { return newest_; }

    /// The time of the entry at this index, 0 being the oldest; index < count().
    std::uint64_t at(std::uint64_t index) const {
        std::uint64_t found = oldest_;
        forEach([&](Entries each) {
            found = each.time;
            const bool isBehind = index >= each.count;
            index -= each.count;
            return isBehind;
        });
        return found;
    }

    /// The number of entries after this time.
    std::uint64_t countAfter(std::uint64_t time) const {
        if (isEmpty() || newest_ <= time) {
            return 0;
        }
        std::uint64_t after = count_;
        forEach([&](Entries each) {
            if (each.time > time) {
                return false;
            }
            after -= each.count;
            return true;
        });
        return after;
    }

    /// True if append() has room. May be false although there is room if the entries are of the newest time.
    bool hasRoomFor(std::uint64_t time, std::uint64_t entries) const {
        if (room() >= kLongest) {
            return true;
        }
        if (count_ > 0 && time == newest_) {
            return lengthOf(runOf(count_ + entries)) <= room();
        }
        return (count_ == 0 ? 0 : lengthOf(gapOf(time - newest_))) + (entries > 1 ? lengthOf(runOf(entries)) : 0) <=
               room();
    }

    /// Adds entries, at least one, of the newest time or a later one.
    void append(std::uint64_t time, std::uint64_t entries) {
        std::uint64_t run = entries;
        if (count_ == 0) {
            oldest_ = time;
        } else if (time == newest_) {
            run += takeLastRun();
        } else {
            write(gapOf(time - newest_));
        }
        if (run > 1) {
            write(runOf(run));
        }
        newest_ = time;
        count_ += entries;
    }

    /// Removes all entries of the oldest time. There must be entries.
    void dropOldest() { dropFirst(takeFirstRun()); }

    /// Removes this number of the oldest entries, which must be less than all.
    void trim(std::uint64_t entries) {
        while (entries > 0) {
            const std::uint64_t run = takeFirstRun();
            if (run > entries) {
                putFirstRun(run - entries);
                count_ -= entries;
                return;
            }
            entries -= run;
            dropFirst(run);
        }
    }

    void clear() {
        count_ = 0;
        begin_ = end_ = 0;
    }

    /// Replaces the contents by these entries. There must be room for them.
    void assign(std::span<const Entries> all) {
        clear();
        for (const Entries& each : all) {
            append(each.time, each.count);
        }
    }

    /// Replaces the contents by those of the other piece. There must be room for them.
    void copy(const Piece& other) {
        oldest_ = other.oldest_;
        newest_ = other.newest_;
        count_ = other.count_;
        begin_ = 0;
        end_ = static_cast<std::uint16_t>(other.used());
        if (end_ > 0) {
            std::memcpy(bytes_, other.bytes_ + other.begin_, end_);
        }
    }

    /// How many of these fit into this number of bytes.
    static std::size_t mostIn(std::span<const Entries> all, std::size_t bytes) {
        std::size_t used = 0;
        for (std::size_t i = 0; i < all.size(); i++) {
            used += i == 0 ? 0 : lengthOf(gapOf(all[i].time - all[i - 1].time));
            used += all[i].count > 1 ? lengthOf(runOf(all[i].count)) : 0;
            if (used > bytes) {
                return i;
            }
        }
        return all.size();
    }

    /// Calls visit(Entries) for each time, from the oldest on, until it returns false.
    template <typename Visit>
    void forEach(Visit visit) const {
        std::uint64_t time = oldest_;
        std::size_t at = begin_;
        for (std::uint64_t left = count_; left > 0;) {
            std::uint64_t run = 1;
            std::uint64_t number = at < end_ ? numberFrom(at) : 0;
            if (isRun(number)) {
                run = (number >> 1) + 2;
                number = at < end_ ? numberFrom(at) : 0;
            }
            if (!visit(Entries{time, run})) {
                return;
            }
            left -= run;
            time += (number >> 1) + 1;
        }
    }

  private:
    static std::uint64_t gapOf(std::uint64_t ms) { return (ms - 1) << 1; }
    static std::uint64_t runOf(std::uint64_t entries) { return (entries - 2) << 1 | 1; }
    static bool isRun(std::uint64_t number) { return (number & 1) != 0; }

    static std::size_t lengthOf(std::uint64_t number) {
        return static_cast<std::size_t>(std::bit_width(number | 1) + 6) / 7;
    }

    /// The number that begins at the offset, which is moved to its end.
    std::uint64_t numberFrom(std::size_t& offset) const {
        std::uint64_t number = 0;
        std::uint8_t next = bytes_[offset++];
        for (; next >= 0x80; next = bytes_[offset++]) {
            number = (number | (next & 0x7f)) << 7;
        }
        return number | next;
    }

    /// The number that ends at the offset, which is moved to its beginning.
    std::uint64_t numberBefore(std::size_t& offset) const {
        std::uint64_t number = bytes_[--offset];
        for (unsigned shift = 7; offset > begin_ && bytes_[offset - 1] >= 0x80; shift += 7) {
            number |= static_cast<std::uint64_t>(bytes_[--offset] & 0x7f) << shift;
        }
        return number;
    }

    void put(std::size_t offset, std::uint64_t number, std::size_t length) {
        std::uint8_t more = 0;
        for (std::size_t i = length; i > 0; i--, number >>= 7, more = 0x80) {
            bytes_[offset + i - 1] = static_cast<std::uint8_t>((number & 0x7f) | more);
        }
    }

    /// Writes the number at the end; moves the bytes to the front if there is no room at the end. There must be room in
    /// all.
    void write(std::uint64_t number) {
        const std::size_t length = lengthOf(number);
        if (end_ + length > capacity_) {
            std::memmove(bytes_, bytes_ + begin_, used());
            end_ = static_cast<std::uint16_t>(used());
            begin_ = 0;
        }
        put(end_, number, length);
        end_ = static_cast<std::uint16_t>(end_ + length);
    }

    /// The number of entries of the newest time, which is removed from the bytes.
    std::uint64_t takeLastRun() {
        std::size_t offset = end_;
        const std::uint64_t number = used() > 0 ? numberBefore(offset) : 0;
        if (!isRun(number)) {
            return 1;
        }
        end_ = static_cast<std::uint16_t>(offset);
        return (number >> 1) + 2;
    }

    /// The same for the oldest time.
    std::uint64_t takeFirstRun() {
        std::size_t offset = begin_;
        const std::uint64_t number = used() > 0 ? numberFrom(offset) : 0;
        if (!isRun(number)) {
            return 1;
        }
        begin_ = static_cast<std::uint16_t>(offset);
        return (number >> 1) + 2;
    }

    /// Writes the rest of a larger run that takeFirstRun() has removed.
    void putFirstRun(std::uint64_t run) {
        if (run > 1) {
            const std::size_t length = lengthOf(runOf(run));
            begin_ = static_cast<std::uint16_t>(begin_ - length);
            put(begin_, runOf(run), length);
        }
    }

    /// Removes the oldest time, whose entries are this number; the number has been removed from the bytes already.
    void dropFirst(std::uint64_t run) {
        count_ -= run;
        if (count_ == 0) {
            clear();
            return;
        }
        std::size_t offset = begin_;
        oldest_ += (numberFrom(offset) >> 1) + 1;
        begin_ = static_cast<std::uint16_t>(offset);
    }

    std::uint8_t* bytes_ = nullptr;
    std::uint16_t capacity_ = 0;
    std::uint16_t begin_ = 0;
    std::uint16_t end_ = 0;
    std::uint64_t count_ = 0;
    std::uint64_t oldest_ = 0;
    std::uint64_t newest_ = 0;
};

}  // namespace sliding_log
