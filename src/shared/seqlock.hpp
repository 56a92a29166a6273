// What many processes read and write without a lock, in memory that they share: a seqlock, as in Boehm, "Can Seqlocks
// Get Along With Programming Language Memory Models?" (MSPC 2012). All that it guards are relaxed atomics, so that
// reading beside a writer is no data race; a reader that a writer has overtaken sees that by the sequence.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace sliding_log {

/// Zeroed memory is one that nobody writes under. A process that is killed while it writes leaves it odd for ever.
class Sequence {
  public:
    bool isWritten() const { return isOdd(value_.load(std::memory_order_relaxed)); }

    /// False when another one writes. Who may write ends it.
    bool beginWriting() {
        std::uint32_t before = value_.load(std::memory_order_relaxed);
        if (isOdd(before) || !value_.compare_exchange_strong(before, before + 1, std::memory_order_acquire)) {
            return false;
        }
        std::atomic_thread_fence(std::memory_order_release);
        return true;
    }
    void endWriting() { value_.fetch_add(1, std::memory_order_release); }

    /// To be given to isWhole() behind what is read.
    std::uint32_t beginReading() const { return value_.load(std::memory_order_acquire); }

    /// True when nobody has written since beginReading() began.
    bool isWhole(std::uint32_t begin) const {
        std::atomic_thread_fence(std::memory_order_acquire);
        return !isOdd(begin) && value_.load(std::memory_order_relaxed) == begin;
    }

  private:
    static bool isOdd(std::uint32_t value) { return (value & 1) != 0; }

    std::atomic<std::uint32_t> value_;
};

/// A text under a sequence: read beside a writer, it is some text of at most that length.
template <std::size_t Longest>
class GuardedText {
  public:
    void set(std::string_view text) {
        length_.store(text.size(), std::memory_order_relaxed);
        forEachWord(text.data(), text.size(), [&](std::size_t i, const char* bytes, std::size_t size) {
            words_[i].store(wordOf(bytes, size), std::memory_order_relaxed);
            return true;
        });
    }

    bool is(std::string_view text) const {
        return length_.load(std::memory_order_relaxed) == text.size() &&
               forEachWord(text.data(), text.size(), [&](std::size_t i, const char* bytes, std::size_t size) {
                   return words_[i].load(std::memory_order_relaxed) == wordOf(bytes, size);
               });
    }

    std::string get() const {
        std::string text(std::min<std::size_t>(length_.load(std::memory_order_relaxed), Longest), '\0');
        forEachWord(text.data(), text.size(), [&](std::size_t i, char* bytes, std::size_t size) {
            const std::uint64_t word = words_[i].load(std::memory_order_relaxed);
            std::memcpy(bytes, &word, size);
            return true;
        });
        return text;
    }

  private:
    static constexpr std::size_t kWord = sizeof(std::uint64_t);
    static_assert(Longest % kWord == 0);

    /// Calls visit(i, bytes, how many of them) for each word of the text while that returns true. The last word of more
    /// than one ends with the text, and overlaps the one before.
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

    /// Up to eight bytes, with zeros behind them; without a call of memcpy(), which each request would pay for.
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
