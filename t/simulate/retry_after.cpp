// Retry-After is true: the entries that were in the log of a denial for certain leave room by then, and it is not later
// than all of them leave.
#include <algorithm>

#include "history.hpp"

namespace simulate {

namespace {

/// What says when there is room: nothing but the entries in the log.
bool isByEntries(const Limit& limit) {
    return limit.isExact() && limit.delay == 0 && limit.block == 0 && limit.prefetch == 1 && !limit.obeysName;
}

/// So much is in the log at `then`, of what was there for certain when the request was denied. A loss since then, or a
/// clock that was set, may have taken it.
std::int64_t leftAt(const Limit& limit, const Log& log, const Event& denied, Time then, Time loss) {
    std::int64_t sum = 0;
    for (const Share& share : log) {
        const Event& other = *share.event;
        const bool wasThere = share.counts && other.answered < denied.sent && other.sent > loss;
        sum += wasThere && other.sent - kRounding > then - limit.window ? share.cost : 0;
    }
    return sum;
}

}  // namespace

std::string History::wrongRetryAfter(const Limit& limit, const Log& log) const {
    for (const Share& share : log) {
        const Event& event = *share.event;
        if (event.end != Event::End::Denied || event.source != "redis" || event.denier != limit.name) {
            continue;
        }
        const std::string denied = "denied at " + inSeconds(event.answered) + " with a Retry-After of " +
                                   std::to_string(event.retryAfter) + ", ";
        const std::int64_t cost = limit.hasCost ? event.cost : 1;
        const Time then = event.answered + event.retryAfter * kSecond;
        if (limit.algorithm == Algorithm::Inflight && event.retryAfter != 1) {
            return denied + "of places";
        }
        if (!isByEntries(limit)) {
            continue;
        }
        if (event.retryAfter == 0 && cost <= limit.least()) {
            return denied + "though the cost is no more than the limit";
        }
        if (event.retryAfter * kSecond > limit.window + kSecond) {
            return denied + "more than the window";
        }
        const std::int64_t left = leftAt(limit, log, event, then, lossBefore(limit, event.key, event.answered));
        if (event.retryAfter > 0 && left + cost > limit.most()) {
            return denied + std::to_string(left) + " of " + std::to_string(limit.most()) + " are still there then";
        }
    }
    return {};
}

}  // namespace simulate
