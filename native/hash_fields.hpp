// The fields of a HASH, as the scripts read them.
#pragma once

#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "limit/block_form.hpp"
#include "log.hpp"
#include "redis.hpp"

namespace sliding_log::native {

inline constexpr Command kHgetall{.name = "HGETALL"};
inline constexpr Command kHset{.name = "HSET", .writes = true, .grows = true};
inline constexpr Command kHincrby{.name = "HINCRBY", .writes = true, .grows = true};
inline constexpr Command kHdel{.name = "HDEL", .writes = true};

/// Calls field(name, text) for each field.
template <typename Field>
void forEachField(const Reply& fields, Field&& field) {
    const std::size_t size = fields.size();
    for (std::size_t i = 0; i + 1 < size; i += 2) {
        field(fields.at(i), fields.at(i + 1));
    }
}

/// Adds a field to those that are removed when something is added; no more than one command can delete.
inline void leaveBehind(std::vector<std::string>& leaving, std::string_view field) {
    constexpr std::size_t kAtOnce = 1000;
    if (leaving.size() < kAtOnce) {
        leaving.emplace_back(field);
    }
}

inline void removeFields(Redis& redis, const Log& log, std::vector<std::string>& leaving) {
    if (!leaving.empty()) {
        redis.call(kHdel, log.key, std::vector<std::string_view>(leaving.begin(), leaving.end()));
        leaving.clear();
    }
}

/// Reads a field of a block; false if it is another field.
inline bool readBlock(Log& log, std::string_view name, double value) {
    if (name == kBlockedUntil) {
        log.isBlocked = true;
        log.blockedUntil = value;
    } else if (name == kBlockedFor) {
        log.blockLength = value;
    }
    return name == kBlockedUntil || name == kBlockedFor;
}

inline double numberOrZero(std::string_view text) {
    double number = 0;
    return numberIn(text, number) ? number : 0;
}

/// The time when the block began (ms); a time before all others if there is none.
inline double beginOfBlock(const Reply& fields) {
    double until = 0;
    double length = std::numeric_limits<double>::infinity();
    forEachField(fields, [&](std::string_view name, std::string_view text) {
        if (name == kBlockedUntil) {
            until = numberOrZero(text);
        } else if (name == kBlockedFor) {
            length = numberOrZero(text);
        }
    });
    return until - length;
}

inline void keepBlock(Redis& redis, const Log& log, double length, double until) {
    redis.call(kHset, log.key, {kBlockedUntil, textOf(until), kBlockedFor, textOf(length)});
}

inline void endBlock(Redis& redis, Log& log) {
    log.isBlocked = false;
    redis.call(kHdel, log.key, {kBlockedUntil, kBlockedFor});
}

/// The digits behind ".00000" at the end of the text; empty if there are none.
inline std::string_view sinceBehind(std::string_view text) {
    constexpr std::string_view kMark = ".00000";
    const std::size_t at = text.find_last_not_of("0123456789");
    if (at == std::string_view::npos || text[at] != '.' || !text.substr(at).starts_with(kMark)) {
        return {};
    }
    return text.substr(at + kMark.size());
}

}  // namespace sliding_log::native
