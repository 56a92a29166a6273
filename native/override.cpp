#include "override.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "limit/override_record.hpp"

namespace sliding_log::native {

namespace {

constexpr Command kGet{.name = "GET", .asUser = true};

/// As in lua/override.lua, since the text may come from the caller, who may have got any of these errors.
bool isForbidden(std::string_view error) {
    return error.starts_with("NOPERM ") || error.starts_with("ERR The user executing the script ") ||
           error.starts_with("ERR ACL failure in script: ");
}

/// What the record of the whole NAME says, which allows or denies.
Override saidOfName(const Log& log, double now) {
    const bool allows = log.allow >= 0;
    const double until = allows ? log.allow : log.deny;
    if (until < 0 || (until > 0 && until <= now)) {
        return {};
    }
    return {allows ? Override::What::Allow : Override::What::Deny, 0, static_cast<std::int64_t>(until)};
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
    if (text.empty()) {
        return {};
    }
    const std::optional<OverrideText> record = OverrideText::read(text, RecordOf::Key);
    if (!record) {
        return {isForbidden(text) ? Override::What::Forbidden : Override::What::Broken, 0, 0};
    }
    const auto until = static_cast<double>(record->override.untilMs);
    return until > 0 && until <= now ? Override() : record->override;
}

void obeyRecord(Redis& redis, Log& log, const std::string_view* told, double now) {
    log.said = told != nullptr ? saidBy(*told, now) : readBeside(redis, log, now);
    if (!log.said.isInForce()) {
        const Override ofName = saidOfName(log, now);
        log.said = ofName.isInForce() ? ofName : log.said;
    }
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
