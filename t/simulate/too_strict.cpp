// No limit is too strict: what may have been in its log explains each denial by Redis. What may have been there, with a
// doubt for each thing that the documentation names: a known denial of a second before, entries that are taken back a
// little later, permits that were taken and not used.
#include <algorithm>

#include "history.hpp"
#include "random.hpp"

namespace simulate {

namespace {

/// A denial may be a known one, of so much before.
constexpr Time kKnown = 1100 * kMs;

bool isByRedis(const Event& event) {
    return event.source == "redis" || event.source == "cache";
}

/// So long an entry may have an effect. A bucket that nobody uses is full after a window, unless its limit is lowered
/// meanwhile: it then refills more slowly. A counter counts two windows.
Time memoryOf(const Limit& limit) {
    switch (limit.algorithm) {
        case Algorithm::Bucket:
            return limit.window * limit.mostEver() / limit.leastEver();
        case Algorithm::Inflight:
            return 0;
        case Algorithm::Counter:
            return 2 * limit.window;
        default:
            return limit.window;
    }
}

}  // namespace

/// It was denied, and nothing of it was ever in the log, or is soon not any more.
bool History::leavesNothing(const Limit& limit, const Event& event) const {
    const bool isAlone = plan_.locations[event.location].limits.size() == 1;
    return event.end == Event::End::Denied && isByRedis(event) && isAlone && !limit.countsAll;
}

/// Entries may have been ahead of the clock then.
bool History::hasClockMoved(std::size_t store, Time begin, Time end) const {
    const auto found = clockMoves_.find(store);
    return found != clockMoves_.end() &&
           std::ranges::any_of(found->second, [&](Time each) { return each >= begin - kMostClockMove && each <= end; });
}

/// True if what may have been in the log explains that it denied this request.
bool History::mayDeny(const Limit& limit, const Log& log, const Event& event) const {
    const Time known = event.source == "cache" ? kKnown : 0;
    const Time doubt = known + limit.delay;
    const Time begin = event.sent - memoryOf(limit) - doubt;
    const bool mayOwe = limit.algorithm == Algorithm::Bucket && limit.settles;  // tokens of any time before
    const bool mayHaveQueued = limit.algorithm == Algorithm::Inflight && limit.delay > 0 &&
                               event.answered - event.sent >= limit.delay;  // behind others, and was never asked
    if (mayOwe || mayHaveQueued || hasClockMoved(limit.storeOf(event.key), begin - limit.block, event.answered)) {
        return true;
    }
    const auto permits = static_cast<std::int64_t>(plan_.nodes * plan_.workers) * 2 * limit.prefetch;
    const std::int64_t cost = limit.hasCost ? event.cost : 1;
    // under count=all a request that another limit denies is counted before this one tells whether it has room
    std::int64_t sum = cost + (limit.countsAll ? cost : 0) + (limit.prefetch > 1 ? permits : 0);
    for (const Share& share : log) {
        const Event& other = *share.event;
        // a node forgets what it knows of a log when it gives something back there
        const Time since = event.sent - limit.delay - (other.node == event.node ? 0 : known);
        const bool mayBeThere = other.sent <= event.answered && share.mayCount >= begin && share.isGone >= since;
        if (limit.block > 0 && other.end != Event::End::Admitted && &other != &event && other.sent <= event.answered &&
            share.mayCount >= event.sent - doubt - limit.block) {
            return true;  // that one may have blocked the log, whatever this one costs
        }
        sum += &other != &event && !leavesNothing(limit, other) && mayBeThere ? share.mostCost : 0;
    }
    return sum > leastOf(limit, begin, event.answered);
}

std::string History::tooStrict(const Logs& logs) const {
    for (const Event& event : events_) {
        const auto denied = [&](std::size_t number) {
            const Limit& limit = plan_.limits[number];
            return limit.name == event.denier &&
                   (limit.mayHaveRecord(event.key) ||
                    (!limit.isDry && mayDeny(limit, logs.at({number, event.key}), event)));
        };
        if (event.end == Event::End::Denied && isByRedis(event) &&
            std::ranges::none_of(plan_.locations[event.location].limits, denied)) {
            return "limit " + event.denier + ", key " + std::to_string(event.key) + ": denied at " +
                   inSeconds(event.answered) + " though it had room";
        }
    }
    return {};
}

}  // namespace simulate
