#include "request/overriding.hpp"

#include <algorithm>
#include <functional>

#include "limit/calendar.hpp"
#include "limit/key.hpp"
#include "shared/boot_time.hpp"
#include "this_process.hpp"
#include "worker.hpp"

namespace sliding_log {

namespace {

void tellUnread(const ngx_http_request_t* request, const Decision& decision, const char* why) {
    const LogSettings& log = *decision.settings->log;
    if (worker().counters(log).mayTellOfOverride(nowMs())) {
        const ngx_str_t key = toNgx(shownKey(decision));
        ngx_log_error(NGX_LOG_ERR, request->connection->log, 0,
                      "limit \"%V\": key \"%V\": its override %s, and counts as none", &log.name, &key, why);
    }
}

/// For the dashboard. A known denial does not tell when its record ends.
void noteSeen(const Decision& decision, const Override& override) {
    if (decision.source == Source::Redis) {
        const std::string_view key = keyWithoutPrefix(decision);
        worker().overrides().note(shownName(decision), std::hash<std::string_view>{}(key), override, nowMs());
    }
}

/// Of a record. A burst keeps its proportion to the limit.
void takeLimit(Check& check, const Override& override) {
    if (takes(check.algorithm, Parameter::Burst)) {
        check.burst = check.capacityUnder(override);
    }
    check.limit = override.limit;
}

/// Of an allowed request, whose log was not read.
void tellPeriod(const Check& check, Verdict& verdict) {
    if (traitsOf(check.algorithm).countsPeriods) {
        const std::int64_t now = wallClockMs();
        verdict.resetMs = periodAt(now, check.windowMs).end - now;
    }
}

/// As lua/override.lua has it: reservations are entries, too. 0: there is none.
std::int64_t capUnder(const Check& check, std::int64_t limit) {
    const std::int64_t windows = 1 + (check.aheadMs + check.windowMs - 1) / check.windowMs;
    const std::int64_t most =
        windows > kLargestCount / std::max<std::int64_t>(limit, 1) ? kLargestCount : limit * windows;
    const std::int64_t sample = std::max<std::int64_t>(check.sample, 1);
    return check.cap == 0 ? 0 : std::max(check.cap, (most + sample - 1) / sample);
}

}  // namespace

void obeyRecordOfName(const Decision& decision, Check& check) {
    const Override override = worker().overrideOf(*decision.settings->log, decision.home);
    check.ofName = override.decides() ? override : Override();
    if (override.what == Override::What::Limit) {
        takeLimit(check, override);
        check.cap = capUnder(check, override.limit);
    }
}

void setVerdictOfName(const Decision& decision, const Check& check, Verdict& verdict) {
    const bool allows = check.ofName.what == Override::What::Allow;
    const NameRecord& record = *worker().recordOf(*decision.settings->log, decision.home);
    const std::int64_t leftMs = std::max<std::int64_t>(record.leftMs(bootTimeMs()), 1);
    verdict = {};
    verdict.override = check.ofName;
    verdict.remaining = allows ? check.capacity() : 0;
    verdict.retryMs = allows ? 0 : check.ofName.untilMs == 0 ? Verdict::kNever : leftMs;
    verdict.resetMs = verdict.retryMs > 0 ? verdict.retryMs : check.windowMs;
    if (allows) {
        tellPeriod(check, verdict);
    }
}

void applyOverride(const ngx_http_request_t* request, Round& round, std::size_t limit) {
    Decision& decision = round.decisions[limit];
    Check& check = round.checks[limit];
    Verdict& verdict = round.verdicts[limit];
    const Override& override = verdict.override;
    noteSeen(decision, override);
    switch (override.what) {
        case Override::What::None:
        case Override::What::DryRun:  // which no key has
            break;
        case Override::What::Limit:
            takeLimit(check, override);
            decision.limit = override.limit;
            break;
        case Override::What::Allow:
            tellPeriod(check, verdict);
            [[fallthrough]];
        case Override::What::Deny:
            decision.source = Source::Override;
            break;
        case Override::What::Broken:
            tellUnread(request, decision, "is broken");
            break;
        case Override::What::Forbidden:
            tellUnread(request, decision, "may not be read, which requires +get and %R~ of its key");
            break;
    }
}

}  // namespace sliding_log
