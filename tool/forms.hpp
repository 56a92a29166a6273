// How each algorithm keeps a log in Redis, beside what its row in src/limit/algorithm.hpp says.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "limit/algorithm.hpp"
#include "store.hpp"

namespace sliding_log::tool {

/// What is asked about a log; the window and the limit are no part of it.
struct Asked {
    std::int64_t nowMs = 0;                // by the server's clock
    std::int64_t ttlMs = -1;               // the key's rest of life, -1: it has no end
    std::optional<std::int64_t> windowMs;  // none: guessed, where the log lets it be
    std::optional<std::int64_t> limit;
    std::optional<std::int64_t> burst;  // bucket: its size; none: the limit
    std::int64_t sample = 1;            // sampled: an entry counts for so many requests
};

/// What a log holds. Times are in ms, of the server's clock.
struct State {
    std::optional<std::int64_t>
        entries;  // those that left the window, and wait to be removed, among them; none: a bucket
    std::optional<std::int64_t> oldestMs;
    std::optional<std::int64_t> newestMs;   // of the last change, in a bucket
    std::optional<std::int64_t> windowMs;   // as asked or guessed
    std::optional<std::int64_t> used;       // of the limit now
    std::optional<std::int64_t> remaining;  // with a limit
    std::optional<std::int64_t> retryMs;    // with a limit: until there is room for one, 0 there is, -1 never
    std::int64_t blockedMs = 0;             // the rest of a block
};

struct Form {
    Algorithm algorithm;
    std::span<const std::string_view> commands;       // that its script calls
    std::span<const std::string_view> blockCommands;  // besides, with block=

    /// The command that tells of a log what the following two need; the same for all forms of a type.
    Command (*look)(const std::string& key);
    bool (*isIts)(ReplyView looked);
    std::optional<std::int64_t> (*count)(ReplyView looked);  // entries

    /// Throws CouldNotAsk.
    State (*read)(Store& store, const std::string& key, const Asked& asked);

    std::string_view name() const { return nameOf(algorithm); }
    std::string_view type() const;  // as TYPE says
};

/// In the order of kAlgorithms.
std::span<const Form> forms();

/// nullptr for a type that is no log's; else one form of it, of which `look` is good for all of them.
const Form* formOfType(std::string_view type);

/// The form of a log, of what `look` tells; nullptr: it is none.
const Form* formOf(std::string_view type, ReplyView looked);

/// nullptr: there is no algorithm of that name.
const Form* formNamed(std::string_view name);

/// Of the entries' times in ascending order.
State stateOf(std::span<const std::int64_t> times, const Asked& asked, std::optional<std::int64_t> windowMs);

/// The window, from a time to live that was set at `setMs` and has the default slack: right to three digits.
std::optional<std::int64_t> guessWindow(const Asked& asked, std::int64_t setMs);

/// What helps where we lack a right; empty for another error.
std::string hintFor(ReplyView refusal);

/// The reply when it is no error; else throws what it says.
ReplyView checked(ReplyView reply, std::string_view what);

extern const Form kLogForm;
extern const Form kCompactForm;
extern const Form kCounterForm;
extern const Form kBucketForm;
extern const Form kSampledForm;

}  // namespace sliding_log::tool
