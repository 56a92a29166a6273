// What is asked of a log, and what it answers. Plain values, shared by the request, the store and Redis sides.
#pragma once

#include <cstdint>
#include <string_view>

#include "limit/algorithm.hpp"

namespace sliding_log {

/// One limit of one request, ready to be asked. The texts belong to the asker and live as long as its request.
struct Check {
    std::string_view key;                  // the log's name in Redis
    std::string_view id;                   // the entry's name, "" for the request's unique one
    std::uint16_t hashSlot = 0;            // of the key in its cluster; checks asked in one call have the same
    Algorithm algorithm = Algorithm::Log;  // checks asked in one call have the same
    bool named = false;                    // entries of this log have ids of their own, where they are not empty
    std::int64_t limit = 0;
    std::int64_t windowMs = 0;
    std::int64_t cap = 0;  // entries, 0: none
    std::int64_t ttlMs = 0;

    std::int64_t cost = 1;          // entries the request takes; 0: it only looks
    bool countsAll = false;         // a denied request is logged, too, as far as the cap allows
    bool leavesWithClient = false;  // the entry is given back when the client leaves before an answer
    std::int64_t delayMs = 0;       // a request over the limit may reserve the next free moment, if it comes so soon
    std::int64_t aheadMs = 0;       // how far ahead of now an entry of this log may be: a reservation of any request
    std::int64_t blockMs = 0;       // a denial lasts so long at least
    std::int64_t burst = 0;         // where the algorithm takes it: the bucket's size
    std::int64_t sample = 0;        // the same: one in so many is logged

    /// The most that can be taken at one time.
    std::int64_t capacity() const { return takes(algorithm, Parameter::Burst) ? burst : limit; }

    /// Such a request is denied whatever the log holds.
    bool neverHasRoom() const { return limit < 1 || cost > capacity(); }
};

/// The answer to one Check.
struct Verdict {
    static constexpr std::int64_t kNever = -1;

    std::int64_t remaining = 0;  // after this request
    std::int64_t resetMs = 0;    // until the oldest entry leaves; the window when the log is empty
    std::int64_t retryMs = 0;    // until there is room: 0 there is, kNever there never will be
    std::int64_t delayMs = 0;    // until the reservation is due; the request is admitted then

    bool hasRoom() const { return retryMs == 0; }
};

/// Whole seconds, rounded up: the unit of every response field and variable.
constexpr std::int64_t secondsUp(std::int64_t ms) {
    return (ms + 999) / 1000;
}

/// Retry-After in seconds: at least 1, since 0 would ask for the same denial again.
constexpr std::int64_t retryAfterSeconds(std::int64_t retryMs) {
    return retryMs <= 1000 ? 1 : secondsUp(retryMs);
}

}  // namespace sliding_log
