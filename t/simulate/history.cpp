#include "history.hpp"

#include <algorithm>
#include <span>
#include <sstream>

namespace simulate {

namespace {

/// What a denial of another limit takes back, and what a refund gives back, may count so long after the answer.
constexpr Time kTakenBack = 200 * kMs;

/// A fault may have an effect on what is decided so long before or after its beginning.
constexpr Time kFaultLasts = 3 * kSecond;

/// What nobody answered may count until then: the request may still have been on its way.
constexpr Time kLate = 10 * kSecond;

Time lifeOfPermits(const Limit& limit) {
    return limit.prefetch > 1 ? limit.window : 0;
}

/// Of the store of a log; none: there was nothing of the kind.
std::span<const Interval> intervalsOf(const std::map<std::size_t, std::vector<Interval>>& ofStores, const Limit& limit,
                                      std::size_t key) {
    const auto found = ofStores.find(limit.storeOf(key));
    return found == ofStores.end() ? std::span<const Interval>() : found->second;
}

/// So many of these may have admitted something that is used in the interval. One without an end goes on.
std::int64_t overlapping(std::span<const Interval> intervals, const Limit& limit, Time begin, Time end) {
    return std::ranges::count_if(intervals, [&](const Interval& each) {
        return each.begin <= end && (each.end == 0 || each.end + lifeOfPermits(limit) >= begin);
    });
}

/// Nothing that is used by `time` is of what ended before then, or was going on: permits that a limit took meanwhile
/// are used for a window. 0: there was nothing.
Time latestBefore(const std::map<std::size_t, std::vector<Interval>>& ofStores, const Limit& limit, std::size_t key,
                  Time time) {
    Time latest = 0;
    for (const Interval& interval : intervalsOf(ofStores, limit, key)) {
        if (interval.begin <= time) {
            const bool goesOn = interval.end == 0;
            latest = std::max(latest, goesOn ? time : std::min(interval.end + lifeOfPermits(limit), time));
        }
    }
    return latest;
}

bool isNear(const Event& event, const std::vector<Time>& faults) {
    const auto next = std::ranges::lower_bound(faults, event.sent - kFaultLasts);
    return next != faults.end() && *next <= event.answered + kFaultLasts;
}

}  // namespace

std::string inSeconds(Time time) {
    std::ostringstream out;
    out << static_cast<double>(time) / kSecond;
    return out.str();
}

void History::add(Event event) {
    if (event.source == "override" && event.key != Limit::kKeyOfRecords) {
        overridden_[{event.denier, event.node, event.end == Event::End::Denied}].push_back(
            {event.sent, event.answered});
    }
    events_.push_back(std::move(event));
}

std::string History::check() const {
    const Logs all = logs();
    for (const auto& [which, log] : all) {
        const Limit& limit = plan_.limits[which.first];
        std::string wrong = tooMany(limit, log);
        wrong = wrong.empty() ? notBlocked(limit, log) : wrong;
        wrong = wrong.empty() ? wrongRetryAfter(limit, log) : wrong;
        if (!wrong.empty()) {
            return "limit " + limit.name + ", key " + std::to_string(which.second) + ": " + wrong;
        }
    }
    std::string wrong = tooStrict(all);
    wrong = wrong.empty() ? notObeyed() : wrong;
    return wrong.empty() ? unexpected() : wrong;
}

std::string_view Event::sourceOf(std::string_view limit) const {
    const std::string begin = ' ' + std::string(limit) + '=';
    const std::size_t found = sources.find(begin);
    if (found == std::string::npos) {
        return source;
    }
    const std::string_view rest = std::string_view(sources).substr(found + begin.size());
    return rest.substr(0, rest.find(' '));
}

bool isOfRedis(std::string_view source) {
    return source == "redis" || source == "prefetch" || source.empty() || source == "override" ||
           source == "cache";  // of a dry run
}

History::Logs History::logs() const {
    Logs logs;
    for (const Event& event : events_) {
        for (const std::size_t number : plan_.locations[event.location].limits) {
            const Limit& limit = plan_.limits[number];
            if (limit.isDry || limit.mayHaveRecord(event.key)) {
                continue;
            }
            logs[{number, event.key}].push_back(shareOf(event, limit));
        }
    }
    for (auto& [which, log] : logs) {
        std::ranges::sort(log, {}, [](const Share& share) { return share.event->answered; });
    }
    return logs;
}

/// Entries of a denied request are taken back after its answer; a fault may delay or lose that. What is given back to a
/// server far away goes by and by, twice as much with each round trip.
Share History::shareOf(const Event& event, const Limit& limit) const {
    const bool isSure = (event.end != Event::End::Unknown || event.hasLeft) && !isFaulty(event);
    const bool hasFailed = event.upstreamStatus >= 500 || event.upstreamStatus == 0 || event.status >= 500;
    const bool isRefunded = limit.refunds && hasFailed;  // also by nginx itself, which has no connection to spare
    const std::int64_t cost = limit.hasCost ? event.cost : 1;
    const auto [least, most] = std::minmax({cost, limit.settles ? event.trueCost : cost});
    Share share{&event,
                least,
                most,
                isCounted(event, limit) && !isRefunded && !isUncounted(limit, event),
                event.answered + (isSure ? kTakenBack + 16 * plan_.delay : kLate),
                kNever};
    if (isSure && ((isRefunded && event.status >= 500) || (event.end == Event::End::Denied && !limit.countsAll))) {
        share.isGone = share.mayCount;
    }
    if (limit.algorithm == Algorithm::Inflight && !isSure) {
        share.mayCount += limit.window;
    }
    return share;
}

bool History::isFaulty(const Event& event) const {
    return isNear(event, faults_) || mayHaveOldAddress(event);
}

bool History::isOfFaultyWorker(const Event& event) const {
    const auto found = workerFaults_.find(event.node);
    return found != workerFaults_.end() && isNear(event, found->second);
}

/// True if a server of the request has moved, and its node may not have learned it.
bool History::mayHaveOldAddress(const Event& event) const {
    const auto found = oldAddresses_.find(event.node);
    if (found == oldAddresses_.end()) {
        return false;
    }
    const auto hasMoved = [&](std::size_t number) {
        const auto moves = moves_.find(plan_.limits[number].storeOf(event.key));
        return moves != moves_.end() && moves->second <= event.answered;
    };
    const auto isOld = [&](const Interval& old) {
        return old.begin <= event.answered && event.sent <= old.end + kFaultLasts;
    };
    return std::ranges::any_of(found->second, isOld) &&
           std::ranges::any_of(plan_.locations[event.location].limits, hasMoved);
}

/// Where a NAME may have a record, the limits of a request are asked in several calls, and one of them may be lost.
bool History::isCounted(const Event& event, const Limit& limit) const {
    const std::vector<std::size_t>& limits = plan_.locations[event.location].limits;
    const auto obeysName = [&](std::size_t number) { return plan_.limits[number].obeysName; };
    if (limits.size() > 1 && std::ranges::any_of(limits, obeysName) && isFaulty(event)) {
        return false;
    }
    const bool isAdmitted =
        event.end == Event::End::Admitted || (event.end == Event::End::Otherwise && event.source == "local");
    return isAdmitted && isOfRedis(event.sourceOf(limit.name));
}

void History::united(std::size_t store, Interval divided) {
    std::ranges::find_if(divisions_[store], [&](const Interval& each) {
        return each.begin == divided.begin && each.end == 0;
    })->end = divided.end;
}

void History::lostWrite(std::size_t store, const std::vector<std::string>& command, Interval divided) {
    for (const std::string& word : command) {
        if (word.starts_with(kPrefix)) {
            lostWrites_[{store, word}].push_back(divided);
        }
    }
}

/// What is admitted since then, and by `time`, is in the log of the server that decided it.
Time History::lossInPlaceBefore(const Limit& limit, std::size_t key, Time time) const {
    return latestBefore(losses_, limit, key, time);
}

/// What is admitted since then, and by `time`, is also in the log of the server that is the master now, or that all
/// nodes have.
Time History::lossBefore(const Limit& limit, std::size_t key, Time time) const {
    return std::max({lossInPlaceBefore(limit, key, time), latestBefore(divisions_, limit, key, time),
                     latestBefore(replacements_, limit, key, time)});
}

/// A lost write may have admitted a limit once more, and so may another server.
std::int64_t History::moreLimits(const Limit& limit, std::size_t key, Time begin, Time end) const {
    return overlapping(intervalsOf(replacements_, limit, key), limit, begin, end) + lostWrites(limit, key, begin, end);
}

/// Of the interval, the time in which two servers may have decided.
Time History::replacing(const Limit& limit, std::size_t key, Time begin, Time end) const {
    Time sum = 0;
    for (const Interval& each : intervalsOf(replacements_, limit, key)) {
        const Time last = each.end == 0 ? end : std::min(each.end, end);
        sum += std::max<Time>(last - std::max(each.begin, begin), 0);
    }
    return sum;
}

/// So many writes of the log are lost that may have admitted something in the interval.
std::int64_t History::lostWrites(const Limit& limit, std::size_t key, Time begin, Time end) const {
    const auto found = lostWrites_.find({limit.storeOf(key), limit.logOf(key)});
    return found == lostWrites_.end() ? 0 : overlapping(found->second, limit, begin, end);
}

}  // namespace simulate
