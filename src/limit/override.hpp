// What a record says: one beside a log about its key (override=on), or that of a NAME about all of its keys.
// `sliding-log set` writes both. The scripts read those of keys (lua/override.lua) and tell this in their replies; the
// nodes read those of NAMEs (store/name_records.hpp).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string_view>

#include "limit/bounds.hpp"

namespace sliding_log {

/// Appended to the key of a log, this is the key of its record: in the same hash slot, and the key of no log. Appended
/// to the prefix and a NAME, that of the NAME's.
inline constexpr std::string_view kOverrideSuffix = ":override";

struct Override {
    enum class What : std::uint8_t {
        None,
        Limit,      // another limit
        Allow,      // requests are admitted and not logged
        Deny,       // requests are denied
        Broken,     // what the key has is no record: it counts as none
        Forbidden,  // it may not be read: it counts as none
        DryRun      // of a NAME: its limits are in a dry run
    };

    What what = What::None;
    std::int64_t limit = 0;    // of Limit
    std::int64_t untilMs = 0;  // when it ends, by the clock of Redis; 0: it does not

    bool isInForce() const { return what == What::Limit || what == What::DryRun || decides(); }

    /// The log is neither read nor changed.
    bool decides() const { return what == What::Allow || what == What::Deny; }

    /// The number of the scripts: a limit, or a code.
    std::int64_t said() const {
        return what == What::Limit ? limit : -std::max<std::int64_t>(static_cast<std::int64_t>(what), 1);
    }

    /// The numbers of the scripts. False if there is no such number.
    static bool read(std::int64_t said, std::int64_t untilMs, Override& out) {
        constexpr What kCodes[] = {What::None, What::Allow, What::Deny, What::Broken, What::Forbidden};  // -1, -2, ...
        constexpr std::int64_t kLast = -5;
        if (said < kLast || said > kLargestCount || untilMs < 0 || untilMs > kLatestTimeMs) {
            return false;
        }
        out = {said >= 0 ? What::Limit : kCodes[-said - 1], std::max<std::int64_t>(said, 0), untilMs};
        return true;
    }
};

/// What is in force, as records, the tool and the dashboard say it; empty of anything else.
constexpr std::string_view wordOf(Override::What what) {
    switch (what) {
        case Override::What::Limit:
            return "limit";
        case Override::What::Allow:
            return "allow";
        case Override::What::Deny:
            return "deny";
        case Override::What::DryRun:
            return "dry-run";
        case Override::What::None:
        case Override::What::Broken:
        case Override::What::Forbidden:
            break;
    }
    return "";
}

/// The bucket of a record's limit: it keeps its proportion to the limit. As in lua/override.lua, in doubles.
inline std::int64_t burstUnder(std::int64_t recordLimit, std::int64_t burst, std::int64_t limit) {
    if (burst == limit || limit == 0) {
        return recordLimit;
    }
    const double scaled =
        std::ceil(static_cast<double>(burst) * static_cast<double>(recordLimit) / static_cast<double>(limit));
    return static_cast<std::int64_t>(std::min(scaled, static_cast<double>(kLargestCount)));
}

}  // namespace sliding_log
