// The token bucket of one key: algorithm=bucket.
#pragma once

#include <algorithm>
#include <cstdint>

#include "limit/int128.hpp"

namespace sliding_log {

/// Plain data, so that it can stand in shared memory. Exact: one token is `windowMs` parts, and each ms brings `limit`
/// of them. A bucket may owe tokens: to reservations, and to denied attempts that count.
class TokenBucket {
  public:
    TokenBucket(std::uint64_t now, std::int64_t burst) : burst_(burst), tokens_(burst), stamp_(now), fullAt_(now) {}

    /// Refills it. A time stamp ahead of now becomes now. Where the burst is another one, what was taken stays taken,
    /// no more and no less; where the window is, whole tokens stay.
    void advance(std::uint64_t now, std::int64_t limit, std::int64_t burst, std::int64_t windowMs) {
        const std::uint64_t elapsed = now > stamp_ ? now - stamp_ : 0;
        stamp_ = now;
        part_ = std::min(part_, windowMs - 1);
        tokens_ += burst - burst_;
        burst_ = burst;
        setLevel(std::min(level(windowMs) + static_cast<Int128>(elapsed) * limit, full(burst, windowMs)), windowMs);
    }

    /// Until it holds `cost` tokens; 0 when it does.
    std::int64_t msUntil(std::int64_t cost, std::int64_t limit, std::int64_t windowMs) const {
        return tokens_ >= cost ? 0 : waitFor(static_cast<Int128>(cost) * windowMs - level(windowMs), limit);
    }

    /// Whole tokens, none while it owes some.
    std::int64_t remaining() const { return std::max<std::int64_t>(tokens_, 0); }

    /// Until remaining() grows; the window when it is full, or nothing refills it.
    std::int64_t resetMs(std::int64_t limit, std::int64_t burst, std::int64_t windowMs) const {
        return tokens_ >= burst || limit == 0 ? windowMs : msUntil(remaining() + 1, limit, windowMs);
    }

    /// Takes tokens that it has or will owe, down to `least` at most (it may be lower already).
    void take(std::int64_t cost, std::int64_t least, std::int64_t limit, std::int64_t burst, std::int64_t windowMs) {
        const Int128 floor = std::min(level(windowMs), static_cast<Int128>(least) * windowMs);
        const Int128 left = std::max(level(windowMs) - static_cast<Int128>(cost) * windowMs, floor);
        setLevel(left, windowMs);
        fullAt_ = stamp_ + static_cast<std::uint64_t>(waitFor(full(burst, windowMs) - left, limit));
    }

    /// False when nothing was missing.
    bool giveBack(std::int64_t cost) {
        if (tokens_ >= burst_) {
            return false;
        }
        tokens_ = std::min(tokens_ + cost, burst_);
        if (tokens_ == burst_) {
            part_ = 0;
        }
        return true;
    }

    /// From then on it is as good as a new one.
    std::uint64_t fullAt() const { return fullAt_; }

    /// The deepest debt; more is forgotten.
    static constexpr std::int64_t kLeastTokens = -1'000'000'000'000'000'000;

  private:
    static Int128 full(std::int64_t burst, std::int64_t windowMs) { return static_cast<Int128>(burst) * windowMs; }
    Int128 level(std::int64_t windowMs) const { return static_cast<Int128>(tokens_) * windowMs + part_; }

    void setLevel(Int128 level, std::int64_t windowMs) {
        tokens_ = static_cast<std::int64_t>(std::max<Int128>(divideDown(level, windowMs), kLeastTokens));
        part_ = static_cast<std::int64_t>(level - divideDown(level, windowMs) * windowMs);
    }

    std::int64_t burst_;     // as last asked
    std::int64_t tokens_;    // whole ones, rounded down; negative: owed
    std::int64_t part_ = 0;  // of the next one, 0 to windowMs - 1
    std::uint64_t stamp_;    // ms; the level is of that time
    std::uint64_t fullAt_;   // ms
};

}  // namespace sliding_log
