// How each algorithm keeps a log in Redis: one table entry each.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "limit/algorithm.hpp"
#include "redis/scripts.hpp"
#include "store.hpp"

namespace sliding_log::tool {

/// What is asked about a log; the window and the limit are no part of it.
struct Asked {
    std::int64_t nowMs = 0;                // by the server's clock
    std::int64_t ttlMs = -1;               // the key's rest of life, -1: it has no end
    std::optional<std::int64_t> windowMs;  // none: guessed from the time to live
    std::optional<std::int64_t> limit;
};

/// What a log holds. Times are in ms, of the server's clock.
struct State {
    std::int64_t entries = 0;  // those that have left the window, and wait to be removed, among them
    std::optional<std::int64_t> oldestMs;
    std::optional<std::int64_t> newestMs;
    std::optional<std::int64_t> windowMs;   // as asked or guessed
    std::optional<std::int64_t> used;       // of the limit now
    std::optional<std::int64_t> remaining;  // with a limit
    std::optional<std::int64_t> retryMs;    // with a limit: until there is room for one, 0 there is, -1 never
};

struct Form {
    Algorithm algorithm;
    std::string_view name;
    std::string_view type;                       // as TYPE says
    std::span<const std::string_view> commands;  // that its script calls

    /// The command that tells the entries of a log, and what its answer comes to.
    Command (*countCommand)(const std::string& key);
    std::int64_t (*countIn)(ReplyView reply);

    /// Throws CouldNotAsk.
    State (*read)(Store& store, const std::string& key, const Asked& asked);
};

std::span<const Form> forms();

/// nullptr for a type that is no log's.
const Form* formOfType(std::string_view type);

/// nullptr: there is no algorithm of that name.
const Form* formNamed(std::string_view name);

/// Of the entries' times in ascending order; both texts of a retry come from here.
State stateOf(std::span<const std::int64_t> times, const Asked& asked, std::optional<std::int64_t> windowMs);

/// The window, from a time to live that was set at `setMs` and has the default slack: right to three digits.
std::optional<std::int64_t> guessWindow(const Asked& asked, std::int64_t setMs);

/// The reply when it is no error; else throws what it says.
ReplyView checked(ReplyView reply, std::string_view what);

extern const Form kLogForm;
extern const Form kCompactForm;

}  // namespace sliding_log::tool
