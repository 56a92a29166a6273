// What one request logged and has to give back, or to settle: its part of a call.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "limit/check.hpp"
#include "list.hpp"
#include "ngx.hpp"

namespace sliding_log {

struct Kept;  // waits to be sent

/// The number of entries by which the log is wrong if this is not taken back, or settled.
std::uint64_t entriesOf(const Check& check);

/// It is owned by its store and reused.
struct TakeBack final : ListHook<Kept> {
    /// All but its text, and leftLogs, which are none. `aheadMs`: how much later than now the time of the entries may
    /// be.
    void assign(std::span<const Check> checks, std::uint64_t loggedMs, std::int64_t aheadMs);

    /// True if it can be repeated safely, since its entries have names.
    bool isRepeatable() const { return rowOf(algorithm).namesEntries; }

    /// True if both can be in one call.
    bool hasLogsOf(const TakeBack& other) const {
        return isRelease == other.isRelease && algorithm == other.algorithm && keys == other.keys;
    }

    Algorithm algorithm = Algorithm::Log;
    bool isRelease = false;               // the members of a log of algorithm=inflight leave
    bool settles = false;                 // of a difference, or of what is added in its place
    bool owes = false;                    // it adds something
    std::uint16_t hashSlot = 0;           // of all its logs, in a cluster
    std::string keys;                     // of its logs, as they are sent
    std::string arguments;                // the same: all behind the time of the call; of a release, the members
    std::size_t logs = 0;                 // their number
    std::size_t words = 0;                // the number of these arguments
    std::size_t ends = 0;                 // so many of them tell how long ago the request ended
    std::vector<std::uint32_t> leftLogs;  // hashes of the logs that it removes entries from
    std::uint64_t entries = 0;            // those that it removes, or adds, from all of them
    std::uint64_t loggedMs = 0;           // the time of the entries
    std::int64_t work = 0;                // ns of Redis, without the walk that finds the entries
    ngx_msec_t ended = 0;                 // when it was asked for
    ngx_msec_t until = 0;                 // when the entries have left their windows anyway
};

}  // namespace sliding_log
