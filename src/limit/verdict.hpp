// What is asked of a log, and what it answers. Plain values, shared by the request, the store and Redis sides.
#pragma once

#include <cstdint>
#include <string_view>

#include "limit/algorithm.hpp"

namespace sliding_log {

/// One limit of one request, ready to be asked. The texts belong to the asker and live as long as its request.
struct Question {
    std::string_view key;                  // the log's name in Redis
    std::string_view id;                   // the entry's name, "" for the request's unique one
    std::uint16_t slot = 0;                // of the key in its cluster; questions asked in one call have the same
    Algorithm algorithm = Algorithm::Log;  // questions asked in one call have the same
    bool keepsDenials = true;              // nothing but time can make room in this log
    bool named = false;                    // entries of this log have ids of their own, where they are not empty
    std::int64_t limit = 0;
    std::int64_t windowMs = 0;
    std::int64_t cap = 0;  // entries, 0: none
    std::int64_t ttlMs = 0;
};

/// The answer to one Question.
struct Verdict {
    static constexpr std::int64_t kNever = -1;

    std::int64_t remaining = 0;  // after this request
    std::int64_t resetMs = 0;    // until the oldest entry leaves; the window when the log is empty
    std::int64_t retryMs = 0;    // until there is room: 0 there is, kNever there never will be

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
