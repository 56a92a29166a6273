// A seqlock: data in shared memory that processes read and write without a lock, as in Boehm, "Can Seqlocks Get Along
// With Programming Language Memory Models?" (MSPC 2012). All guarded data are relaxed atomics, so that concurrent
// reading and writing is not a data race; a reader that was overtaken by a writer detects it by the sequence number.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "shared/process.hpp"

namespace sliding_log {

constexpr auto kRelaxed = std::memory_order_relaxed;

/// Zeroed memory is a valid sequence without a writer. While a process writes, its id is in the word: what a process
/// was writing when it was killed can be taken over. A process that is stopped while it writes keeps what it writes.
class Sequence {
  public:
    using Writer = std::uint32_t;  // the id of a process, not 0

    bool isWritten() const { return writerIn(value_.load(kRelaxed)) != 0; }

    /// True if its writer has left it; it did not end, so nothing that was guarded can be relied on. Another process
    /// may have got the id of a dead one: `self`, which is not writing, or any other, until that ends, too.
    bool isAbandoned(Writer self) const { return isLeft(value_.load(kRelaxed), self); }

    /// False if another process is writing, or has left it. If true, the caller must end the writing.
    bool beginWriting(Writer self) {
        const std::uint64_t before = value_.load(kRelaxed);
        return writerIn(before) == 0 && exchange(before, before | self);
    }

    /// The same of a sequence that is abandoned, and only of one. The caller must write all that is guarded.
    bool takeOver(Writer self) {
        const std::uint64_t before = value_.load(kRelaxed);
        return isLeft(before, self) && exchange(before, next(before) | self);
    }

    void endWriting() { value_.store(next(value_.load(kRelaxed)), std::memory_order_release); }

    /// Returns the argument for isWhole(), to be called after reading.
    std::uint64_t beginReading() const { return value_.load(std::memory_order_acquire); }

    /// True if nothing was written since beginReading().
    bool isWhole(std::uint64_t begin) const {
        std::atomic_thread_fence(std::memory_order_acquire);
        return writerIn(begin) == 0 && value_.load(kRelaxed) == begin;
    }

  private:
    static constexpr unsigned kWriterBits = 32;

    static Writer writerIn(std::uint64_t value) { return static_cast<Writer>(value); }
    static std::uint64_t next(std::uint64_t value) { return ((value >> kWriterBits) + 1) << kWriterBits; }
    static bool isLeft(std::uint64_t value, Writer self) {
        const Writer writer = writerIn(value);
        return writer != 0 && (writer == self || isDead(static_cast<pid_t>(writer)));
    }

    bool exchange(std::uint64_t before, std::uint64_t after) {
        if (!value_.compare_exchange_strong(before, after, std::memory_order_acquire)) {
            return false;
        }
        std::atomic_thread_fence(std::memory_order_release);
        return true;
    }

    std::atomic<std::uint64_t> value_;  // how often it was written, and the writer
};

/// A text guarded by a sequence: read during writing, it is some text of at most this length.
template <std::size_t Longest>
class GuardedText {
  public:
    void set(std::string_view text) {
        length_.store(text.size(), kRelaxed);
        forEachWord(text.data(), text.size(), [&](std::size_t i, const char* bytes, std::size_t size) {
            words_[i].store(wordOf(bytes, size), kRelaxed);
            return true;
        });
    }

    bool is(std::string_view text) const {
        return length_.load(kRelaxed) == text.size() &&
               forEachWord(text.data(), text.size(), [&](std::size_t i, const char* bytes, std::size_t size) {
                   return words_[i].load(kRelaxed) == wordOf(bytes, size);
               });
    }

    std::string get() const {
        std::string text(Longest, '\0');
        text.resize(copyTo(text.data()));
        return text;
    }

    /// Writes at most Longest bytes and returns their number.
    std::size_t copyTo(char* out) const {
        const std::size_t length = std::min<std::size_t>(length_.load(kRelaxed), Longest);
        forEachWord(out, length, [&](std::size_t i, char* bytes, std::size_t size) {
            const std::uint64_t word = words_[i].load(kRelaxed);
            std::memcpy(bytes, &word, size);
            return true;
        });
        return length;
    }

  private:
    static constexpr std::size_t kWord = sizeof(std::uint64_t);
    static_assert(Longest % kWord == 0);

    /// Calls visit(i, bytes, number of bytes) for each word of the text while that returns true. If there are several
    /// words, the last one ends with the text and overlaps the previous one.
    template <typename Char, typename Visit>
    static bool forEachWord(Char* text, std::size_t length, Visit visit) {
        std::size_t i = 0;
        for (; (i + 1) * kWord <= length; i++) {
            if (!visit(i, text + i * kWord, kWord)) {
                return false;
            }
        }
        const std::size_t rest = length - i * kWord;
        return rest == 0 || (i > 0 ? visit(i, text + length - kWord, kWord) : visit(i, text, rest));
    }

    /// Up to eight bytes, padded with zeros; avoids a call of memcpy() in each request.
    static std::uint64_t wordOf(const char* bytes, std::size_t size) {
        std::uint64_t word = 0;
        if (size == kWord) {
            std::memcpy(&word, bytes, kWord);
        } else {
            for (std::size_t i = 0; i < size; i++) {
                word |= std::uint64_t{static_cast<unsigned char>(bytes[i])} << 8 * i;
            }
        }
        return word;
    }

    std::atomic<std::uint64_t> length_;
    std::atomic<std::uint64_t> words_[Longest / kWord];
};

static_assert(std::atomic<std::uint64_t>::is_always_lock_free && std::atomic<std::uint32_t>::is_always_lock_free);

}  // namespace sliding_log
