// A piece of a log: some times in order, in few bytes.
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

/// Plain data; the bytes belong to somebody else, and are no more than 64k.
///
/// It holds its oldest and newest time, and in the bytes, for each time but the oldest, the ms since the one before,
/// less one and doubled; behind it, where several entries are of that time, how many they are, less two, doubled, plus
/// one. So a time takes one byte where it is at most 64 ms behind the one before, and any number of entries of it one
/// or a few more. A number is written as lua/compact_log.lua does: 7 bits a byte, highest first, the eighth bit set in
/// all but the last byte, so that it reads from either end.
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
    std::uint64_t oldest() const { return oldest_; }  // these two: when there are entries
    std::uint64_t newest() const { return newest_; }

    /// The time of the entry at that place, 0 being the oldest; place < count().
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

    /// How many entries are after that time.
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

    /// Whether append() has room; says no sooner than need be where the entries are of the newest time.
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

    /// All entries of the oldest time leave; there are some.
    void dropOldest() { dropFirst(takeFirstRun()); }

    /// So many of the oldest leave, which are not all.
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

    /// Holds these instead, for which it has room.
    void assign(std::span<const Entries> all) {
        clear();
        for (const Entries& each : all) {
            append(each.time, each.count);
        }
    }

    /// Holds what the other one does, for which it has room.
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

    /// How many of these take no more than so many bytes.
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

    /// Calls visit(Entries) from the oldest time on, while that returns true.
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

    /// The number that begins at the offset, which moves behind it.
    std::uint64_t numberFrom(std::size_t& offset) const {
        std::uint64_t number = 0;
        std::uint8_t next = bytes_[offset++];
        for (; next >= 0x80; next = bytes_[offset++]) {
            number = (number | (next & 0x7f)) << 7;
        }
        return number | next;
    }

    /// The number that ends at the offset, which moves to where it begins.
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

    /// Writes the number at the end, for which there is room, if not there then in front.
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

    /// How many entries are of the newest time; their number is no more written where it was.
    std::uint64_t takeLastRun() {
        std::size_t offset = end_;
        const std::uint64_t number = used() > 0 ? numberBefore(offset) : 0;
        if (!isRun(number)) {
            return 1;
        }
        end_ = static_cast<std::uint16_t>(offset);
        return (number >> 1) + 2;
    }

    /// The same of the oldest time.
    std::uint64_t takeFirstRun() {
        std::size_t offset = begin_;
        const std::uint64_t number = used() > 0 ? numberFrom(offset) : 0;
        if (!isRun(number)) {
            return 1;
        }
        begin_ = static_cast<std::uint16_t>(offset);
        return (number >> 1) + 2;
    }

    /// Where takeFirstRun() has taken a larger one.
    void putFirstRun(std::uint64_t run) {
        if (run > 1) {
            const std::size_t length = lengthOf(runOf(run));
            begin_ = static_cast<std::uint16_t>(begin_ - length);
            put(begin_, runOf(run), length);
        }
    }

    /// The oldest time goes; so many entries are of it, and that is taken already.
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
