// algorithm=quota: a HASH of one count, as the head of lua/calendar_quota.lua describes it.
#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>

#include "failure.hpp"
#include "forms.hpp"
#include "limit/calendar.hpp"

namespace sliding_log::tool {

namespace {

using namespace std::string_view_literals;

constexpr std::array kQuotaCommands = {"time"sv, "hgetall"sv, "hincrby"sv, "hdel"sv, "pexpire"sv};

Command probeQuota(const std::string& key) {
    return {"HGETALL", key};
}

std::optional<std::int64_t> digitsIn(std::string_view text) {
    std::int64_t value = 0;
    const char* end = text.data() + text.size();
    const std::from_chars_result result = std::from_chars(text.data(), end, value);
    return result.ec == std::errc() && result.ptr == end && value >= 0 ? std::optional(value) : std::nullopt;
}

/// A field and its count.
struct Counted {
    std::int64_t windowMs = 0;  // identifies the period
    std::int64_t beganMs = 0;
    std::int64_t count = 0;
};

/// nullopt: it is no field of a quota.
std::optional<Counted> countedIn(std::string_view field, std::int64_t count) {
    const std::size_t blank = field.find(' ');
    if (blank == std::string_view::npos) {
        return std::nullopt;
    }
    const std::optional<std::int64_t> began = digitsIn(field.substr(blank + 1));
    const std::optional<std::int64_t> named = periodNamed(field.substr(0, blank));
    const std::optional<std::int64_t> window = named ? named : digitsIn(field.substr(0, blank));
    return began && window && *window > 0 ? std::optional(Counted{*window, *began, count}) : std::nullopt;
}

/// The latest count; there is only one, unless somebody else has written to the log.
std::optional<Counted> latestIn(ReplyView probed) {
    std::optional<Counted> latest;
    for (std::size_t i = 0; i + 1 < probed.size(); i += 2) {
        const std::optional<Counted> each = countedIn(probed[i].text(), probed[i + 1].numberOr(0));
        if (each && (!latest || each->beganMs > latest->beganMs)) {
            latest = each;
        }
    }
    return latest;
}

bool isQuota(ReplyView probed) {
    return !probed.isError() && latestIn(probed);
}

std::optional<std::int64_t> countOf(ReplyView probed) {
    const std::optional<Counted> latest = latestIn(probed);
    return latest ? std::optional(latest->count) : std::nullopt;
}

/// If the clock has stepped back, the later period goes on.
State readQuota(Store& store, const std::string& key, const ReadSettings& settings) {
    const Reply fields = store.ask(key, probeQuota(key));
    const Counted counted = latestIn(checked(fields, "HGETALL")).value_or(Counted{kDayMs, settings.nowMs, 0});
    const Period current = periodAt(settings.nowMs, counted.windowMs);
    const Period latest = periodAt(counted.beganMs, counted.windowMs);
    State state;
    state.entries = counted.count;
    state.oldestMs = counted.beganMs;
    state.windowMs = counted.windowMs;
    state.period = nameOfPeriod(counted.windowMs);
    state.endsMs = latest.begin == current.end ? latest.end : current.end;
    state.used = latest.begin < current.begin ? 0 : counted.count;
    if (settings.limit) {
        state.remaining = std::max<std::int64_t>(*settings.limit - *state.used, 0);
        state.retryMs = *settings.limit == 0 ? -1 : *state.remaining > 0 ? 0 : *state.endsMs - settings.nowMs;
    }
    return state;
}

}  // namespace

const Form kQuotaForm = {Algorithm::Quota, kQuotaCommands, {}, probeQuota, isQuota, countOf, readQuota};

}  // namespace sliding_log::tool
