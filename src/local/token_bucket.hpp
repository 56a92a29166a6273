// The token bucket of one key: algorithm=bucket.
#pragma once

#include <algorithm>
#include <cstdint>

#include "limit/int128.hpp"

namespace sliding_log {

/// Plain data, so that it can be in shared memory. Exact: a token is `windowMs` parts, and each ms adds `limit` of
/// them. A bucket may owe tokens: for reservations, and for denied requests that count.
class TokenBucket {
  public:
    TokenBucket(std::uint64_t now, std::int64_t burst) : burst_(burst), tokens_(burst), stamp_(now), fullAt_(now) {}

    /// Refills the bucket. A time stamp ahead of now becomes now. If the burst has changed, the number of used tokens
    /// stays the same; if the window has changed, the number of whole tokens does.
    void advance(std::uint64_t now, std::int64_t limit, std::int64_t burst, std::int64_t windowMs) {
        const std::uint64_t elapsed = now > stamp_ ? now - stamp_ : 0;
        stamp_ = now;
        part_ = std::min(part_, windowMs - 1);
        tokens_ += burst - burst_;
        burst_ = burst;
        setLevel(std::min(level(windowMs) + static_cast<Int128>(elapsed) * limit, full(burst, windowMs)), windowMs);
    }

    /// The time in ms until there are `cost` tokens; 0 if there are.
    std::int64_t msUntil(std::int64_t cost, std::int64_t limit, std::int64_t windowMs) const {
        return tokens_ >= cost ? 0 : waitFor(static_cast<Int128>(cost) * windowMs - level(windowMs), limit);
    }

    /// Whole tokens; 0 if tokens are owed.
    std::int64_t remaining() const { return std::max<std::int64_t>(tokens_, 0); }

    /// The time in ms until remaining() grows; the window if the bucket is full, or if nothing refills it.
    std::int64_t resetMs(std::int64_t limit, std::int64_t burst, std::int64_t windowMs) const {
        return tokens_ >= burst || limit == 0 ? windowMs : msUntil(remaining() + 1, limit, windowMs);
    }

    /// Takes tokens, or owes them, down to `least` at most; a bucket that has less already keeps its level.
    void take(std::int64_t cost, std::int64_t least, std::int64_t limit, std::int64_t burst, std::int64_t windowMs) {
        const Int128 floor = std::min(level(windowMs), static_cast<Int128>(least) * windowMs);
        const Int128 left = std::max(level(windowMs) - static_cast<Int128>(cost) * windowMs, floor);
        setLevel(left, windowMs);
        fullAt_ = stamp_ + static_cast<std::uint64_t>(waitFor(full(burst, windowMs) - left, limit));
    }

    /// False if no tokens were missing.
    bool takeBack(std::int64_t cost) {
        if (tokens_ >= burst_) {
            return false;
        }
        tokens_ = std::min(tokens_ + cost, burst_);
        if (tokens_ == burst_) {
            part_ = 0;
        }
        return true;
    }

    /// From this time on it is equivalent to a new one.
    std::uint64_t fullAt() const { return fullAt_; }

    /// The deepest debt; what exceeds it is forgotten.
    static constexpr std::int64_t kLeastTokens = -1'000'000'000'000'000'000;

  private:
    static Int128 full(std::int64_t burst, std::int64_t windowMs) { return static_cast<Int128>(burst) * windowMs; }
    Int128 level(std::int64_t windowMs) const { return static_cast<Int128>(tokens_) * windowMs + part_; }

    void setLevel(Int128 level, std::int64_t windowMs) {
        tokens_ = static_cast<std::int64_t>(std::max<Int128>(divideDown(level, windowMs), kLeastTokens));
        part_ = static_cast<std::int64_t>(level - divideDown(level, windowMs) * windowMs);
    }

    std::int64_t burst_;     // of the latest check
    std::int64_t tokens_;    // whole tokens, rounded down; negative: owed
    std::int64_t part_ = 0;  // of the next token, 0 to windowMs - 1
    std::uint64_t stamp_;    // ms; the time of the level
    std::uint64_t fullAt_;   // ms
};

}  // namespace sliding_log
