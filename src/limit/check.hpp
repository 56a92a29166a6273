// A check of a log, and its verdict. Plain values, used by the code of requests, of stores and of Redis.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "limit/algorithm.hpp"
#include "limit/block_times.hpp"
#include "limit/override.hpp"

namespace sliding_log {

/// What one limit asks of its log for one request. The texts are owned by the request.
struct Check {
    std::string_view key;                  // the name of the log in its store
    std::string_view keyInNode;            // the same in the local store, if that is another one; see localKey()
    std::string_view id;                   // the name of the entry; "": the unique name of the request
    std::uint16_t hashSlot = 0;            // of the key, in a cluster; the same for all checks of a call
    Algorithm algorithm = Algorithm::Log;  // the same for all checks of a call
    bool named = false;                    // the limit has id=; an empty id is none
    std::int64_t limit = 0;
    std::int64_t windowMs = 0;  // algorithm=quota: the longest length of its period, which identifies it
    std::int64_t cap = 0;       // entries; 0: none
    std::int64_t ttlMs = 0;

    static constexpr std::int64_t kNotSettled = -1;

    std::int64_t cost = 1;               // entries that the request adds; 0: it only looks
    std::int64_t settled = kNotSettled;  // of a take-back: entries that it should have added
    bool countsAll = false;              // a denied request is logged, too, up to the cap
    bool leavesWithClient = false;       // the entry is taken back if the client leaves before the reply
    std::int64_t delayMs = 0;       // how long a request over the limit may be held for a reservation; 0: not at all
    std::int64_t aheadMs = 0;       // how far ahead of now an entry of this log may be: a reservation of any request
    std::int64_t blockMs = 0;       // a denial lasts at least this long; 0: no block
    BlockTimes blockTimes;          // if there are several; blockMs is the first of them
    bool escalates = false;         // a limit of this log has several
    std::int64_t burst = 0;         // algorithm=bucket: the size of the bucket
    std::int64_t sample = 0;        // algorithm=sampled: one of this number of requests is logged
    std::int64_t prefetch = 1;      // permits to take in one call, at most; 1: none
    std::int64_t permitLifeMs = 0;  // of the permits in this log; 0: no limit has any
    std::int64_t utcAheadMs = 0;    // algorithm=quota: UTC (ms since 1970) minus the clock of the local store
    bool hasOverride = false;       // a record beside the log may change the limit, see override.hpp
    Override ofName{};              // the record of the whole NAME, if it allows or denies: where none of the key does

    /// While its store is away, the local store has the log. Logs of one NAME and key in two stores are two there, too.
    std::string_view localKey() const { return keyInNode.empty() ? key : keyInNode; }

    /// The most that can be taken at once.
    std::int64_t capacity() const { return takes(algorithm, Parameter::Burst) ? burst : limit; }

    /// Of an admitted request, by what its log has left of `most` after it, and until when: true if it is the first in
    /// its log. A sampled log may have logged another one in the same millisecond.
    bool isFirst(std::int64_t most, std::int64_t remaining, std::int64_t resetMs) const {
        return takes(algorithm, Parameter::Sample) ? remaining < most && resetMs >= windowMs
                                                   : cost > 0 && remaining == most - cost;
    }

    bool isSettled() const { return settled != kNotSettled; }

    /// The number of entries that it should have added besides.
    std::int64_t owed() const { return std::max<std::int64_t>(settled - cost, 0); }
    /// The same under a record.
    std::int64_t capacityUnder(const Override& override) const {
        if (override.what != Override::What::Limit) {
            return capacity();
        }
        return takes(algorithm, Parameter::Burst) ? burstUnder(override.limit, burst, limit) : override.limit;
    }

    /// The record of the NAME decides, and no log is asked.
    bool isDecidedByName() const { return ofName.decides() && !hasOverride; }

    /// True if such a request is denied whatever the log has.
    bool neverHasRoom() const { return limit < 1 || cost > capacity(); }
    bool neverHasRoom(const Override& override) const {
        return (override.what == Override::What::Limit ? override.limit : limit) < 1 || cost > capacityUnder(override);
    }
};

/// The result of a check.
struct Verdict {
    static constexpr std::int64_t kNever = -1;

    std::int64_t remaining = 0;  // after this request
    std::int64_t resetMs =
        0;  // until more of the limit is available; if all of it is, the window, or until the period ends
    std::int64_t retryMs = 0;  // until there is room; 0: there is room; kNever: there will never be
    std::int64_t delayMs = 0;  // until the reservation is due, if the request is admitted with one
    Override override{};       // in force for the key
    bool isFirst = false;      // it is admitted and logged, and its log had nothing before

    bool hasRoom() const { return retryMs == 0; }
};

/// Whole seconds, rounded up, as in the response fields.
constexpr std::int64_t secondsUp(std::int64_t ms) {
    return (ms + 999) / 1000;
}

/// Retry-After in seconds: at least 1, since after 0 seconds the request would be denied again.
constexpr std::int64_t retryAfterSeconds(std::int64_t retryMs) {
    return retryMs <= 1000 ? 1 : secondsUp(retryMs);
}

}  // namespace sliding_log
