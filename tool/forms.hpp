// How each algorithm stores a log in Redis, in addition to its row in src/limit/algorithm.hpp.
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

/// The settings for reading a log, which does not contain its window and limit.
struct ReadSettings {
    std::int64_t nowMs = 0;                // by the server's clock
    std::int64_t ttlMs = -1;               // the key's remaining time to live; -1: none
    std::optional<std::int64_t> windowMs;  // nullopt: guessed, if the log permits it
    std::optional<std::int64_t> limit;
    std::optional<std::int64_t> burst;  // bucket: its size; nullopt: the limit
    std::int64_t sample = 1;            // sampled: how many requests an entry counts for
};

/// What a log has. Times are in ms, by the server's clock.
struct State {
    std::optional<std::int64_t>
        entries;  // including those that have left the window and are not removed yet; nullopt: a bucket
    std::optional<std::int64_t> oldestMs;
    std::optional<std::int64_t> newestMs;   // of the last change, for a bucket
    std::optional<std::int64_t> windowMs;   // given or guessed
    std::string_view period;                // of a quota: the name of its period; empty: none
    std::optional<std::int64_t> endsMs;     // of a quota: when the period ends
    std::optional<std::int64_t> used;       // the used part of the limit, now
    std::optional<std::int64_t> remaining;  // if the limit is known
    std::optional<std::int64_t> retryMs;    // if the limit is known: until there is room for one; 0: now; -1: never
    std::int64_t blockedMs = 0;             // the rest of a block
};

/// How an algorithm stores a log in Redis: the commands that its script calls, and how to read the log.
struct Form {
    Algorithm algorithm;
    std::span<const std::string_view> commands;       // that its script calls
    std::span<const std::string_view> blockCommands;  // in addition, with block=

    /// A command whose reply shows whether a log has this form; the same for all forms of one type.
    Command (*probe)(const std::string& key);
    bool (*matches)(ReplyView probed);
    std::optional<std::int64_t> (*count)(ReplyView probed);  // entries

    /// Throws CouldNotAsk.
    State (*read)(Store& store, const std::string& key, const ReadSettings& settings);

    std::string_view name() const { return nameOf(algorithm); }
    std::string_view type() const;  // as in the reply to TYPE
};

/// In the order of kAlgorithms.
std::span<const Form> forms();

/// One form of the logs of this type, whose `probe` is right for all of them; nullptr if no log has this type.
const Form* formOfType(std::string_view type);

/// The form of a log, by the reply to `probe`; nullptr: it is not a log.
const Form* formOf(std::string_view type, ReplyView probed);

/// nullptr: there is no algorithm of this name.
const Form* formNamed(std::string_view name);

/// The window, guessed from a time to live that was set at `setMs` and has the default slack: exact to three digits.
std::optional<std::int64_t> guessWindow(const ReadSettings& settings, std::int64_t setMs);

/// What to do if a right is missing; empty for other errors.
std::string hintFor(ReplyView refusal);

/// The reply, if it is not an error; otherwise throws its text.
ReplyView checked(ReplyView reply, std::string_view what);

extern const Form kLogForm;
extern const Form kCompactForm;
extern const Form kCounterForm;
extern const Form kBucketForm;
extern const Form kSampledForm;
extern const Form kQuotaForm;
extern const Form kInflightForm;

}  // namespace sliding_log::tool
