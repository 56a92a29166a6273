#include "request/counting.hpp"

#include <algorithm>
#include <functional>
#include <string_view>

#include "limit/key.hpp"
#include "this_process.hpp"
#include "worker.hpp"

namespace sliding_log {

namespace {

constexpr unsigned kNear = 800;  // thousandths of a limit

/// If the store could not decide, sliding_log_on_error decides; a limit of 0 denies even then.
bool isRejected(const LocationSettings& location, const Decision& decision) {
    if (decision.source == Source::Error) {
        return decision.limit == 0 || location.onError != static_cast<ngx_uint_t>(OnError::Allow);
    }
    return decision.isDenied();
}

Result resultOf(const LocationSettings& location, const Decision& decision, bool isDryRun) {
    if (isRejected(location, decision)) {
        return isDryRun ? Result::RejectedDryRun : Result::Rejected;
    }
    if (decision.isDelayed()) {
        return isDryRun ? Result::DelayedDryRun : Result::Delayed;
    }
    return Result::Passed;
}

/// The used part of the limit, including this request, in thousandths.
unsigned usedPart(const Decision& decision, const Check& check) {
    constexpr std::int64_t kAll = 1000;
    if (decision.verdict == nullptr || (decision.source == Source::Override && !decision.isDenied())) {
        return 0;
    }
    const std::int64_t most = check.capacity();
    const std::int64_t used = most - std::min(decision.verdict->remaining, most);
    return static_cast<unsigned>(used >= most ? kAll : used * kAll / most);
}

void countKey(TopKeys& keys, const Decision& decision, unsigned used) {
    if (decision.key.empty()) {
        return;  // a value of the limit is invalid, so its key was not made
    }
    keys.count(shownName(decision), std::hash<std::string_view>{}(keyWithoutPrefix(decision)), used, nowMs());
}

}  // namespace

void countDecisions(const LocationSettings& location, const Round& round, std::span<Decision> decisions,
                    bool admitted) {
    for (Decision& decision : decisions) {
        if (decision.result || !decision.wasAsked()) {
            continue;
        }
        decision.result = resultOf(location, decision, round.isDryRun);
        const LogSettings& log = *decision.settings->log;
        const Check& check = round.checks[&decision - round.decisions];
        const unsigned used = usedPart(decision, check);
        LimitCounters& counters = worker().counters(log);
        counters.of(*decision.result, decision.source).add();
        if (decision.verdict != nullptr && decision.verdict->override.isInForce()) {
            counters.overridden.add();
        }
        if (decision.verdict != nullptr && decision.verdict->isFirst) {
            counters.newLogs.add();
        }
        if (admitted && used >= kNear) {
            counters.nearLimit.add();
        }
        countKey(isRejection(*decision.result) ? worker().deniedKeys() : worker().usedKeys(), decision, used);
    }
}

}  // namespace sliding_log
