#include "history.hpp"

#include <algorithm>
#include <sstream>
#include <string_view>

namespace simulate {

namespace {

/// Entries have milliseconds: two that are so much less than a window apart may be in different ones.
constexpr Time kRounding = 2 * kMs;

/// A denial may be a known one, of so much before.
constexpr Time kKnown = 1100 * kMs;

/// What a denial of another limit takes back may count so long.
constexpr Time kTakenBack = 200 * kMs;

/// A fault may have an effect on what is decided so long before or after its beginning.
constexpr Time kFaultLasts = 3 * kSecond;

/// What nobody answered may count until then: the request may still have been on its way.
constexpr Time kLate = 10 * kSecond;

std::string seconds(Time time) {
    std::ostringstream out;
    out << static_cast<double>(time) / kSecond;
    return out.str();
}

}  // namespace

struct History::Share {
    const Event* event;
    std::int64_t cost;
    bool counts;    // for certain, from its decision on
    Time mayCount;  // until then entries of it may have been made
};

std::string History::check() const {
    std::map<std::pair<std::size_t, std::size_t>, Log> logs;  // by limit and key
    for (const Event& event : events_) {
        const Time until = mayCountUntil(event);
        const bool isCertain = event.end == Event::End::Admitted && isOfAll(event);
        for (const std::size_t number : plan_.locations[event.location].limits) {
            const Limit& limit = plan_.limits[number];
            const bool isRefunded = limit.refunds && (event.upstreamStatus >= 500 || event.upstreamStatus == 0);
            logs[{number, event.key}].push_back(
                {&event, limit.hasCost ? event.cost : 1, isCertain && !isRefunded, until});
        }
    }
    for (auto& [which, log] : logs) {
        const Limit& limit = plan_.limits[which.first];
        std::ranges::sort(log, {}, [](const Share& share) { return share.event->answered; });
        if (std::string wrong = limit.isExact() ? tooMany(limit, log) : std::string(); !wrong.empty()) {
            return "limit " + limit.name + ", key " + std::to_string(which.second) + ": " + wrong;
        }
    }
    return tooStrict(logs);
}

bool History::isFaulty(const Event& event) const {
    return std::ranges::any_of(
        faults_, [&](Time each) { return each >= event.sent - kFaultLasts && each <= event.answered + kFaultLasts; });
}

/// The answer tells what decided one limit. Those of another algorithm are asked in another call, and on_error may have
/// decided these.
bool History::isOfAll(const Event& event) const {
    const std::vector<std::size_t>& limits = plan_.locations[event.location].limits;
    const Algorithm first = plan_.limits[limits.front()].algorithm;
    const auto isSame = [&](std::size_t number) { return plan_.limits[number].algorithm == first; };
    return std::ranges::all_of(limits, isSame) || !isFaulty(event);
}

Time History::lossBefore(Time time) const {
    Time latest = 0;
    for (const Time each : losses_) {
        latest = each <= time ? std::max(latest, each) : latest;
    }
    return latest;
}

/// Until when entries of a request that ended may have been made. Those of a denied one are taken back after its
/// answer; a fault may delay or lose that.
Time History::mayCountUntil(const Event& event) const {
    return event.answered + (event.end == Event::End::Unknown || isFaulty(event) ? kLate : kTakenBack);
}

/// All that were decided for certain in one window.
std::string History::tooMany(const Limit& limit, const Log& log) const {
    for (std::size_t last = 0; last < log.size(); last++) {
        if (!log[last].counts) {
            continue;
        }
        const Time end = log[last].event->answered;
        const Time begin = std::max(end - limit.window + kRounding, lossBefore(end));
        std::int64_t sum = 0;
        for (std::size_t i = last + 1; i-- > 0 && log[i].event->answered > begin;) {
            sum += log[i].counts && log[i].event->sent >= begin ? log[i].cost : 0;
        }
        if (sum > limit.most()) {
            return std::to_string(sum) + " of " + std::to_string(limit.most()) + " were admitted in the window until " +
                   seconds(end);
        }
    }
    return {};
}

/// True if what may have been in the log explains that it denied this request.
bool History::mayDeny(const Limit& limit, const Log& log, const Event& event) const {
    if (!limit.isExact() || limit.prefetch > 1 || limit.block > 0) {
        return true;
    }
    const Time begin = event.sent - limit.window - kKnown - limit.delay;
    std::int64_t sum = limit.hasCost ? event.cost : 1;
    for (const Share& share : log) {
        const Event& other = *share.event;
        const bool isAlone = plan_.locations[other.location].limits.size() == 1;
        const bool isByRedis = other.source == "redis" || other.source == "cache";  // else it was asked, too
        const bool leftNothing = other.end == Event::End::Denied && isByRedis && isAlone && !limit.countsAll;
        const bool mayBeThere = other.sent <= event.answered && share.mayCount >= begin;
        sum += &other != &event && !leftNothing && mayBeThere ? share.cost : 0;
    }
    return sum > limit.least();
}

/// A denial by Redis that none of the limits explains.
std::string History::tooStrict(const std::map<std::pair<std::size_t, std::size_t>, Log>& logs) const {
    for (const Event& event : events_) {
        const bool isByRedis = event.source == "redis" || event.source == "cache";
        const auto denies = [&](std::size_t number) {
            return mayDeny(plan_.limits[number], logs.at({number, event.key}), event);
        };
        if (event.end == Event::End::Denied && isByRedis &&
            std::ranges::none_of(plan_.locations[event.location].limits, denies)) {
            return "limit " + event.denier + ", key " + std::to_string(event.key) + ": denied at " +
                   seconds(event.answered) + " though all limits had room";
        }
    }
    return {};
}

}  // namespace simulate
