#include "override.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "limit/number.hpp"

namespace sliding_log::native {

namespace {

constexpr Command kGet{.name = "GET", .asUser = true};

constexpr std::string_view kDigits = "0123456789";
constexpr std::string_view kBlanks = " \t\n\v\f\r";

/// Takes NAME and the digits behind it from the beginning of the text; false if they are not there.
bool takeNumber(std::string_view& text, std::string_view name, std::string_view& digits) {
    if (!text.starts_with(name)) {
        return false;
    }
    text.remove_prefix(name.size());
    digits = text.substr(0, text.find_first_not_of(kDigits));
    text.remove_prefix(digits.size());
    return !digits.empty();
}

bool takeWord(std::string_view& text, std::string_view word) {
    const bool isThere = text.starts_with(word);
    text.remove_prefix(isThere ? word.size() : 0);
    return isThere;
}

/// Reads what a record says, and when it ends; false if the text is not a record.
bool readRecord(std::string_view text, Override& out) {
    constexpr std::size_t kMostDigits = 13;
    std::string_view digits;
    if (text.starts_with("limit=")) {
        takeNumber(text, "limit=", digits);
        const std::optional<std::int64_t> limit = digits.size() <= kMostDigits ? parseCount(digits) : std::nullopt;
        if (!limit) {
            return false;
        }
        out = {Override::What::Limit, *limit, 0};
    } else if (takeWord(text, "allow")) {
        out.what = Override::What::Allow;
    } else if (takeWord(text, "deny")) {
        out.what = Override::What::Deny;
    } else {
        return false;
    }
    std::string_view since;
    double until = 0;
    if (!takeNumber(text, " until=", digits) || !wholeNumberIn(digits, until) || !takeNumber(text, " since=", since) ||
        !takeWord(text, " by=")) {
        return false;
    }
    out.untilMs = integerOf(until);
    text.remove_prefix(std::min(text.find_first_of(kBlanks), text.size()));
    return text.starts_with(" why=");
}

/// As in lua/override.lua, since the text may come from the caller, who may have got any of these errors.
bool isForbidden(std::string_view error) {
    return error.starts_with("NOPERM ") || error.starts_with("ERR The user executing the script ") ||
           error.starts_with("ERR ACL failure in script: ");
}

Override readBeside(Redis& redis, const Log& log, double now) {
    const NameBeside name(redis, log.key, kOverrideSuffix);
    const Reply found = redis.tried(kGet, name.string(), {});
    if (!found.isError()) {
        std::string_view text;
        found.text(text);
        return saidBy(text, now);
    }
    if (found.errorText().find(kNonLocalKey) != std::string::npos) {
        throw Error{"TRYAGAIN the override is on another node"};
    }
    return {found.isForbidden() ? Override::What::Forbidden : Override::What::Broken, 0, 0};
}

}  // namespace

Override saidBy(std::string_view text, double now) {
    Override said;
    if (text.empty()) {
        return said;
    }
    if (!readRecord(text, said)) {
        return {isForbidden(text) ? Override::What::Forbidden : Override::What::Broken, 0, 0};
    }
    const auto until = static_cast<double>(said.untilMs);
    return until > 0 && until <= now ? Override() : said;
}

void obeyRecord(Redis& redis, Log& log, const std::string_view* told, double now) {
    log.said = told != nullptr ? saidBy(*told, now) : readBeside(redis, log, now);
    log.asked = log.capacity();
    if (log.said.decides()) {
        log.limit = log.said.what == Override::What::Allow ? std::numeric_limits<double>::infinity() : 0;
        log.burst = log.used = 0;
        log.hasFrees = false;
    } else if (log.said.what == Override::What::Limit) {
        const auto limit = static_cast<double>(log.said.limit);
        if (log.burst > 0) {
            log.burst = static_cast<double>(burstUnder(log.said.limit, integerOf(log.burst), integerOf(log.limit)));
        }
        log.limit = limit;
        const double most = limit * (1 + std::ceil(log.ahead / log.window));  // reservations are entries, too
        log.cap = log.cap > 0 ? std::max(log.cap, std::ceil(most / log.sample)) : 0;
    }
}

std::vector<double> numbersUnderRecord(const Log& log, double now) {
    if (log.said.what == Override::What::Allow) {
        return {log.asked, log.window, 0};
    }
    const auto until = static_cast<double>(log.said.untilMs);
    const double wait = until == 0 ? -1 : std::clamp(std::floor(until - now), 1.0, kLongestBlock);
    return {0, wait > 0 ? wait : log.window, wait};
}

}  // namespace sliding_log::native
