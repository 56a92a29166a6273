// algorithm=counter and algorithm=bucket: HASHes, as the heads of lua/sliding_counter.lua and lua/token_bucket.lua
// describe them.
#include <algorithm>
#include <array>
#include <map>

#include "failure.hpp"
#include "forms.hpp"
#include "limit/block_form.hpp"
#include "limit/bounds.hpp"

namespace sliding_log::tool {

namespace {

using namespace std::string_view_literals;

constexpr std::array kCounterCommands = {"time"sv, "hgetall"sv, "hget"sv, "hincrby"sv, "hset"sv, "hdel"sv, "pexpire"sv};
constexpr std::array kBucketCommands = {"time"sv, "hgetall"sv, "hget"sv, "hset"sv, "hdel"sv, "pexpire"sv};
constexpr std::array kHashBlockCommands = {"pttl"sv};

Command probeHash(const std::string& key) {
    return {"HGETALL", key};
}

std::int64_t blockedFor(ReplyView fields, const ReadSettings& settings) {
    return std::max<std::int64_t>(fields.field(kBlockedUntil).numberOr(0) - settings.nowMs, 0);
}

// ---- counter

constexpr std::int64_t kMostCounted = 9'007'199'254'740'991;  // exact as a number of Lua

/// The counts, by the time at which they began, or by the start of their window.
std::map<std::int64_t, std::int64_t> countsIn(ReplyView fields) {
    std::map<std::int64_t, std::int64_t> counts;
    for (std::size_t i = 0; i + 1 < fields.size(); i += 2) {
        const std::optional<std::int64_t> start = fields[i].number();
        if (start && *start >= 0 && *start <= kLatestTimeMs) {
            counts[*start] = std::clamp<std::int64_t>(fields[i + 1].numberOr(0), 0, kMostCounted);
        }
    }
    return counts;
}

bool isCounter(ReplyView probed) {
    return !probed.isError() && probed.field("used").isNil() &&
           (!countsIn(probed).empty() || !probed.field(kBlockedUntil).isNil());
}

std::optional<std::int64_t> sumOfCounts(ReplyView probed) {
    std::int64_t sum = 0;
    for (const auto& [start, count] : countsIn(probed)) {
        sum += count;
    }
    return sum;
}

/// Computed as in lua/sliding_counter.lua, which explains it.
struct Windows {
    std::int64_t start;
    std::int64_t before;
    std::int64_t here;  // from this window on
};

std::int64_t usedIn(const Windows& at, std::int64_t nowMs, std::int64_t windowMs) {
    const auto weighted = static_cast<__int128>(at.before) * (windowMs - nowMs + at.start) + windowMs - 1;
    return at.here + static_cast<std::int64_t>(weighted / windowMs);
}

/// The time at which no more than `most` is used.
std::int64_t fallsTo(Windows at, const std::map<std::int64_t, std::int64_t>& counts, std::int64_t most,
                     std::int64_t nowMs, std::int64_t windowMs) {
    while (true) {
        if (at.here <= most) {
            const auto part = static_cast<std::int64_t>(
                at.before > 0 ? static_cast<__int128>(most - at.here) * windowMs / at.before : windowMs);
            if (part > 0) {
                return std::max(at.start + std::max<std::int64_t>(windowMs - part, 0), nowMs);
            }
        }
        std::int64_t rest = 0;
        const auto next = counts.upper_bound(at.start);
        for (auto later = next; later != counts.end(); ++later) {
            rest += later->second;
        }
        const bool isEmpty = at.here == rest && at.before == 0 && next != counts.end();  // until the next count begins
        at = {isEmpty ? next->first : at.start + windowMs, at.here - rest, rest};
    }
}

/// The sums of counts that begin in one window, by the start of the window, as in the script.
std::map<std::int64_t, std::int64_t> byWindow(const std::map<std::int64_t, std::int64_t>& counts,
                                              std::int64_t windowMs) {
    std::map<std::int64_t, std::int64_t> sums;
    for (const auto& [begin, count] : counts) {
        sums[begin - begin % windowMs] += count;
    }
    return sums;
}

/// If two counts have the starts of their windows, these are one window apart. Otherwise the time to live was set when
/// the latest count began, and is one window longer than that of other logs.
std::optional<std::int64_t> windowOf(const std::map<std::int64_t, std::int64_t>& counts, const ReadSettings& settings) {
    if (counts.empty()) {
        return std::nullopt;
    }
    const std::int64_t latest = counts.rbegin()->first;
    const std::int64_t apart = latest - counts.begin()->first;
    if (counts.size() == 2 && latest % apart == 0) {
        return apart;
    }
    if (settings.ttlMs < 0 || latest < 0 || latest > settings.nowMs) {
        return std::nullopt;
    }
    ReadSettings other = settings;
    other.ttlMs = (settings.ttlMs + settings.nowMs - latest) * 11 / 21;
    other.nowMs = latest;
    const std::optional<std::int64_t> window = guessWindow(other, latest);
    return window && latest % *window != 0 ? window : std::nullopt;
}

State readCounter(Store& store, const std::string& key, const ReadSettings& settings) {
    const Reply fields = store.ask(key, probeHash(key));
    std::map<std::int64_t, std::int64_t> counts = countsIn(checked(fields, "HGETALL"));
    State state;
    state.entries = sumOfCounts(fields);
    state.blockedMs = blockedFor(fields, settings);
    state.windowMs = settings.windowMs ? settings.windowMs : windowOf(counts, settings);
    if (state.windowMs) {
        counts = byWindow(counts, *state.windowMs);
    }
    if (!counts.empty()) {
        state.oldestMs = counts.begin()->first;
        state.newestMs = counts.rbegin()->first;
    }
    if (!state.windowMs) {
        return state;
    }
    const std::int64_t window = *state.windowMs;
    Windows now{settings.nowMs - settings.nowMs % window, 0, 0};
    for (const auto& [start, count] : counts) {
        now.before += start >= now.start - window && start < now.start ? count : 0;
        now.here += start >= now.start ? count : 0;
    }
    state.used = usedIn(now, settings.nowMs, window);
    if (settings.limit) {
        state.remaining = std::max<std::int64_t>(*settings.limit - *state.used, 0);
        state.retryMs = *settings.limit == 0 ? -1
                        : *state.used < *settings.limit
                            ? 0
                            : fallsTo(now, counts, *settings.limit - 1, settings.nowMs, window) - settings.nowMs;
    }
    return state;
}

// ---- bucket

bool isBucket(ReplyView probed) {
    return !probed.field("used").isNil();
}

/// The used part has a meaning only with the limit and the window: it is in tokens * window, and each ms gives back
/// `limit` of it.
State readBucket(Store& store, const std::string& key, const ReadSettings& settings) {
    const Reply fields = store.ask(key, probeHash(key));
    const std::int64_t taken = checked(fields, "HGETALL").field("used").numberOr(0);
    State state;
    state.newestMs = fields.field("time").number();
    state.blockedMs = blockedFor(fields, settings);
    state.windowMs = settings.windowMs;
    if (!settings.windowMs || !settings.limit) {
        return state;
    }
    const std::int64_t window = *settings.windowMs;
    const std::int64_t burst = settings.burst.value_or(*settings.limit);
    const std::int64_t passed = std::max<std::int64_t>(settings.nowMs - state.newestMs.value_or(settings.nowMs), 0);
    const std::int64_t now = burst * window - std::max<std::int64_t>(taken - passed * *settings.limit, 0);
    const std::int64_t tokens = now >= 0 ? now / window : -((-now + window - 1) / window);
    state.used = burst - tokens;
    state.remaining = std::max<std::int64_t>(tokens, 0);
    state.retryMs = *settings.limit == 0 ? -1
                    : now >= window      ? 0
                                         : (window - now + *settings.limit - 1) / *settings.limit;
    return state;
}

}  // namespace

const Form kCounterForm = {Algorithm::Counter, kCounterCommands, kHashBlockCommands, probeHash,
                           isCounter,          sumOfCounts,      readCounter};

const Form kBucketForm = {Algorithm::Bucket, kBucketCommands, kHashBlockCommands,
                          probeHash,         isBucket,        [](ReplyView) { return std::optional<std::int64_t>(); },
                          readBucket};

}  // namespace sliding_log::tool
