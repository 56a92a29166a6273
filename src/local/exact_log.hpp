// The exact log of one key, in memory that its owner provides: pieces of some hundred entries. No operation takes
// longer than a look at each piece, and growing takes one more cell.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <new>
#include <span>

#include "local/cell.hpp"
#include "local/piece.hpp"

namespace sliding_log {

/// Plain data, so that it can be in shared memory. Times are in ms of a clock that never steps back; entries may be
/// ahead of it: reservations.
///
/// A small log is one piece in the few bytes that it was created with. A larger one is a list of cells, each with a
/// piece. The log does not allocate memory: cellsToAdd() returns how many cells add() may need, give() provides them,
/// and takeSpare() removes those that are not needed any more.
class ExactLog {
  public:
    /// The bytes must live as long as the log. If there are more than kMostSmall, only that many are used.
    ExactLog(std::uint8_t* bytes, std::size_t capacity) : small_(bytes, std::min(capacity, kMostSmall)) {}
    ExactLog() = default;

    std::uint64_t count() const { return count_; }
    std::uint64_t oldest() const { return front().oldest(); }  // oldest(), newest(): only if there are entries
    std::uint64_t newest() const { return back().newest(); }

    /// The time of the entry at this index, 0 being the oldest; index < count().
    std::uint64_t at(std::uint64_t index) const {
        if (first_ == nullptr) {
            return small_.at(index);
        }
        const Chunk* chunk = first_;
        if (index < count_ / 2) {
            for (; index >= chunk->piece.count(); chunk = chunk->behind()) {
                index -= chunk->piece.count();
            }
            return chunk->piece.at(index);
        }
        std::uint64_t before = count_;  // entries in front of the chunk
        do {
            chunk = chunk->inFront();
            before -= chunk->piece.count();
        } while (before > index);
        return chunk->piece.at(index - before);
    }

    /// The number of entries after this time.
    std::uint64_t countAfter(std::uint64_t time) const {
        if (count_ == 0 || newest() <= time) {
            return 0;
        }
        if (first_ == nullptr) {
            return small_.countAfter(time);
        }
        std::uint64_t after = 0;
        const Chunk* chunk = first_->inFront();
        for (; chunk->piece.oldest() > time && chunk != first_; chunk = chunk->inFront()) {
            after += chunk->piece.count();
        }
        return after + chunk->piece.countAfter(time);
    }

    /// Removes entries that are a window old or older.
    void prune(std::uint64_t now, std::uint64_t windowMs) {
        if (count_ == 0) {
            return;
        }
        if (newest() + windowMs <= now) {
            clear();
            return;
        }
        while (first_ != nullptr && first_->piece.newest() + windowMs <= now) {
            drop(*first_);
        }
        for (Piece& piece = front(); piece.oldest() + windowMs <= now;) {
            count_ -= piece.count();
            piece.dropOldest();
            count_ += piece.count();
        }
        shrink();
    }

    /// Removes the oldest entries if there are more than `cap`.
    void trim(std::uint64_t cap) {
        if (cap == 0) {
            clear();
            return;
        }
        while (first_ != nullptr && count_ - std::min(cap, count_) >= first_->piece.count()) {
            drop(*first_);
        }
        if (count_ > cap) {
            front().trim(count_ - cap);
            count_ = cap;
        }
        shrink();
    }

    /// Removes the entries after this time.
    void truncate(std::uint64_t time) {
        const std::uint64_t kept = count_ - countAfter(time);
        if (kept == 0) {
            clear();
        }
        if (kept == count_) {
            return;
        }
        while (first_ != nullptr && back().oldest() > time) {
            drop(*first_->inFront());
        }
        Unpacked all(back());
        all.cut(time);
        back().assign(all.view());
        count_ = kept;
        shrink();
    }

    /// Moves entries after `farthest`, which is not before `now`, to `now`. They stay ahead until there is a spare
    /// cell; the owner provides one while entries are ahead.
    void bringBack(std::uint64_t now, std::uint64_t farthest) {
        const std::uint64_t entries = countAfter(farthest);
        if (entries > 0 && spares_ > 0) {
            truncate(farthest);
            add(now, entries);
        }
    }

    /// The number of spare cells that add() may need.
    std::size_t cellsToAdd(std::uint64_t time, std::uint64_t entries) const { return fits(time, entries) ? 0 : 1; }

    /// Adds entries of this time. The cells that cellsToAdd() returned must have been given.
    void add(std::uint64_t time, std::uint64_t entries) {
        if (entries == 0) {
            return;
        }
        const bool isNewest = isLast(time);
        if (!fits(time, entries)) {
            makeRoom(isNewest);
        }
        count_ += entries;
        if (isNewest) {
            back().append(time, entries);
            return;
        }
        Chunk* chunk = chunkOf(time);
        Piece& piece = chunk == nullptr ? small_ : chunk->piece;
        Unpacked all(piece);
        all.add(time, entries);
        if (Piece::mostIn(all.view(), piece.capacity()) == all.view().size()) {
            piece.assign(all.view());
            return;
        }
        const std::size_t half = Piece::mostIn(all.view(), piece.capacity() / 2);
        piece.assign(all.view().first(half));
        makeChunk(chunk).piece.assign(all.view().subspan(half));
    }

    /// Removes up to this number of entries of this time; they are alike, so any of them can be removed. False if there
    /// are none.
    bool remove(std::uint64_t time, std::uint64_t entries) {
        if (count_ == 0 || time < oldest() || time > newest() || entries == 0) {
            return false;
        }
        const std::uint64_t before = count_;
        for (;;) {
            Chunk* chunk = chunkOf(time);
            Piece& piece = chunk == nullptr ? small_ : chunk->piece;
            Unpacked all(piece);
            const std::uint64_t removed = all.remove(time, entries - (before - count_));
            if (removed == 0) {
                break;
            }
            count_ -= removed;
            piece.assign(all.view());
            if (chunk != nullptr) {
                join(*chunk);
            }
            // entries of one time may begin in the previous piece
            if (count_ == 0 || before - count_ == entries || time < oldest()) {
                break;
            }
        }
        shrink();
        return count_ < before;
    }

    void clear() {
        if (first_ != nullptr) {
            first_->inFront()->next = spare_;
            spare_ = first_;
            spares_ += chunks_;
            first_ = nullptr;
            chunks_ = 0;
        }
        small_.clear();
        count_ = 0;
    }

    void give(Cell& cell) {
        cell.next = spare_;
        spare_ = &cell;
        spares_++;
    }
    std::size_t spares() const { return spares_; }

    /// Takes the spare cells, except for `kept`, which must be a small number.
    Chain takeSpare(std::size_t kept) {
        if (spares_ <= kept) {
            return {};
        }
        Cell** rest = &spare_;
        for (std::size_t i = 0; i < kept; i++) {
            rest = &(*rest)->next;
        }
        const Chain taken{*rest, spares_ - kept};
        *rest = nullptr;
        spares_ = static_cast<std::uint32_t>(kept);
        return taken;
    }

  private:
    static constexpr std::size_t kMostSmall = 128;  // bytes; they fit into a cell together with what is added

    /// A cell of the log. `next` of the last one is nullptr; `previous` of the first one is the last one.
    struct Chunk : Cell {
        Piece piece;
        std::uint8_t bytes[kCellBytes - sizeof(Cell) - sizeof(Piece)];

        explicit Chunk(const Cell& links) : Cell(links), piece(bytes, sizeof bytes) {}

        Chunk* behind() const { return static_cast<Chunk*>(next); }
        Chunk* inFront() const { return static_cast<Chunk*>(previous); }
    };
    static_assert(sizeof(Chunk) == kCellBytes && sizeof(Chunk::bytes) >= kMostSmall + Piece::kLongestIn);

    /// The entries of a piece, unpacked to be changed.
    class Unpacked {
      public:
        explicit Unpacked(const Piece& piece) { append(piece); }

        std::span<const Entries> view() const { return {all_, size_}; }

        void append(const Piece& piece) {
            piece.forEach([this](Entries each) {
                if (size_ > 0 && all_[size_ - 1].time == each.time) {
                    all_[size_ - 1].count += each.count;
                } else {
                    all_[size_++] = each;
                }
                return true;
            });
        }

        void add(std::uint64_t time, std::uint64_t entries) {
            Entries* entry = from(time);
            if (entry != all_ + size_ && entry->time == time) {
                entry->count += entries;
                return;
            }
            std::copy_backward(entry, all_ + size_, all_ + size_ + 1);
            *entry = {time, entries};
            size_++;
        }

        /// Returns the number of removed entries.
        std::uint64_t remove(std::uint64_t time, std::uint64_t entries) {
            Entries* entry = from(time);
            if (entry == all_ + size_ || entry->time != time) {
                return 0;
            }
            const std::uint64_t removed = std::min(entry->count, entries);
            entry->count -= removed;
            if (entry->count == 0) {
                std::copy(entry + 1, all_ + size_, entry);
                size_--;
            }
            return removed;
        }

        /// Removes the entries after this time.
        void cut(std::uint64_t time) { size_ = static_cast<std::size_t>(from(time + 1) - all_); }

      private:
        /// The first entries of this time or later.
        Entries* from(std::uint64_t time) {
            return std::lower_bound(all_, all_ + size_, time,
                                    [](const Entries& each, std::uint64_t wanted) { return each.time < wanted; });
        }

        // one that takes no byte, one for each byte, and one that is added
        Entries all_[sizeof(Chunk::bytes) + 2];
        std::size_t size_ = 0;
    };

    Piece& front() { return first_ == nullptr ? small_ : first_->piece; }
    const Piece& front() const { return first_ == nullptr ? small_ : first_->piece; }
    Piece& back() { return first_ == nullptr ? small_ : first_->inFront()->piece; }
    const Piece& back() const { return first_ == nullptr ? small_ : first_->inFront()->piece; }

    bool isLast(std::uint64_t time) const { return count_ == 0 || time >= newest(); }

    /// False if another cell may be needed.
    bool fits(std::uint64_t time, std::uint64_t entries) const {
        return isLast(time) ? back().hasRoomFor(time, entries)
                            : first_ == nullptr && small_.room() >= Piece::kLongestIn;
    }

    /// The last chunk that has an entry of this time or an earlier one, otherwise the first; nullptr if the log is
    /// small.
    Chunk* chunkOf(std::uint64_t time) const {
        Chunk* chunk = first_ == nullptr ? nullptr : first_->inFront();
        while (chunk != first_ && chunk->piece.oldest() > time) {
            chunk = chunk->inFront();
        }
        return chunk;
    }

    /// Makes room in a spare cell when fits() is false: moves a small log there, or appends an empty chunk.
    void makeRoom(bool atEnd) {
        if (first_ == nullptr) {
            makeChunk(nullptr).piece.copy(small_);
            small_.clear();
        } else if (atEnd) {
            makeChunk(first_->inFront());
        }
    }

    /// Makes an empty chunk of a spare cell, after `before`; nullptr: as the first one.
    Chunk& makeChunk(Chunk* before) {
        Cell* cell = spare_;
        spare_ = cell->next;
        spares_--;
        chunks_++;
        if (before == nullptr) {
            first_ = new (cell) Chunk({nullptr, nullptr});
            first_->previous = first_;
            return *first_;
        }
        auto* made = new (cell) Chunk({before->next, before});
        (before->next == nullptr ? first_->previous : before->next->previous) = made;
        before->next = made;
        return *made;
    }

    /// Removes the chunk with its entries.
    void drop(Chunk& chunk) {
        count_ -= chunk.piece.count();
        chunks_--;
        Cell* behind = chunk.next;
        if (&chunk == first_) {
            first_ = chunk.behind();
        } else {
            chunk.previous->next = behind;
        }
        if (behind != nullptr) {
            behind->previous = chunk.previous;
        } else if (first_ != nullptr) {
            first_->previous = chunk.previous;
        }
        give(chunk);
    }

    /// To be called when entries have left a chunk. Removes the chunk if it is empty, and joins it with its neighbour
    /// if both fit into half a cell. So removals from the middle of a log free memory, too.
    void join(Chunk& chunk) {
        if (chunk.piece.isEmpty()) {
            drop(chunk);
            return;
        }
        Chunk& left = chunk.next == nullptr ? *chunk.inFront() : chunk;
        Chunk* right = left.behind();
        if (right == nullptr || left.piece.used() + right->piece.used() > left.piece.capacity() / 2) {
            return;
        }
        Unpacked all(left.piece);
        all.append(right->piece);
        count_ += right->piece.count();
        drop(*right);
        left.piece.assign(all.view());
    }

    /// Moves the log into its own bytes if it fits into half of them.
    void shrink() {
        if (first_ != nullptr && first_->next == nullptr && first_->piece.used() <= small_.capacity() / 2) {
            small_.copy(first_->piece);
            count_ += small_.count();
            drop(*first_);
        }
    }

    Piece small_;  // all entries, unless there are chunks
    Chunk* first_ = nullptr;
    std::uint64_t count_ = 0;
    Cell* spare_ = nullptr;
    std::uint32_t spares_ = 0;
    std::uint32_t chunks_ = 0;
};

}  // namespace sliding_log
