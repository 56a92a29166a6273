// No limit admits too many: what was decided for certain inside an interval. A write that is lost with a master had
// admitted no more than a whole limit.
#include <algorithm>

#include "history.hpp"

namespace simulate {

namespace {

std::string admitted(std::int64_t sum, std::int64_t most, Time begin, Time end) {
    return std::to_string(sum) + " of " + std::to_string(most) + " were admitted from " + inSeconds(begin) + " until " +
           inSeconds(end);
}

/// So much at most was taken before that time, and is given back after it. A denial by the limit itself takes nothing.
std::int64_t givenBackAfter(const Limit& limit, const Log& log, Time time) {
    std::int64_t sum = 0;
    for (const Share& share : log) {
        const Event& event = *share.event;
        const bool takes = event.end != Event::End::Denied || event.denier != limit.name;
        sum += takes && !share.counts && event.sent < time && share.mayCount > time ? share.mostCost : 0;
    }
    return sum;
}

/// A clock of Redis that is set now and then, by seconds, is not further from the right time.
constexpr Time kClocksDiffer = 60 * kSecond;

/// The log has one.
std::size_t keyOf(const Log& log) {
    return log.front().event->key;
}

}  // namespace

std::string History::tooMany(const Limit& limit, const Log& log) const {
    const auto inWindow = [&](Time end) { return end - limit.window + kRounding; };
    const auto inPeriod = [&](Time end) {
        const Time begin = end - (kBeginning + end) % limit.window;
        return end < begin + limit.window - kClocksDiffer ? begin + kClocksDiffer : end;
    };
    switch (limit.algorithm) {
        case Algorithm::Log:
        case Algorithm::Compact:
            return tooManySince(limit, log, inWindow, 1);
        case Algorithm::Counter:  // a window may end in the middle of two that it counts
            return tooManySince(limit, log, inWindow, 2);
        case Algorithm::Quota:
            return tooManySince(limit, log, inPeriod, 1);
        case Algorithm::Bucket:
            return tooManyOfBucket(limit, log);
        case Algorithm::Inflight:
            return tooManyInFlight(limit, log);
    }
    return {};
}

/// `limits`: so many at a time.
std::string History::tooManySince(const Limit& limit, const Log& log, const Since& since, std::int64_t limits) const {
    for (std::size_t last = 0; last < log.size(); last++) {
        if (!log[last].counts) {
            continue;
        }
        const Time end = log[last].event->answered;
        const Time begin = std::max(since(end), lossInPlaceBefore(limit, keyOf(log), end));
        std::int64_t sum = 0;
        for (std::size_t i = last + 1; i-- > 0 && log[i].event->answered > begin;) {
            sum += log[i].counts && log[i].event->sent >= begin ? log[i].cost : 0;
        }
        const std::int64_t most = mostOf(limit, begin, end) * (limits + moreLimits(limit, keyOf(log), begin, end));
        // counted only where the sum is too large otherwise, since that is seldom
        if (sum > most && sum > most + takenBackForOthers(limit, log, begin, end)) {
            return admitted(sum, most, begin, end);
        }
    }
    return {};
}

/// After a step of the clock and a loss, a take-back that knows no name finds entries of others, of the same time.
std::int64_t History::takenBackForOthers(const Limit& limit, const Log& log, Time begin, Time end) const {
    const bool hasNames = limit.algorithm == Algorithm::Log;
    return !hasNames && hasClockMoved(limit.storeOf(keyOf(log)), begin, end) ? givenBackAfter(limit, log, begin) : 0;
}

/// From any time on: a full bucket, what flows into it until then, and what is given back then. What was taken before
/// left room for more to flow in. Each of two servers has a bucket.
std::string History::tooManyOfBucket(const Limit& limit, const Log& log) const {
    for (const Share& first : log) {
        const Time begin = first.event->sent;
        if (!first.counts) {
            continue;
        }
        const std::int64_t givenBack = givenBackAfter(limit, log, begin);
        std::int64_t sum = 0;
        for (const Share& share : log) {
            if (!share.counts || share.event->sent < begin) {
                continue;
            }
            const Time end = share.event->answered;
            if (lossInPlaceBefore(limit, keyOf(log), end) > begin) {
                break;
            }
            sum += share.cost;
            const std::int64_t size = mostOf(limit, begin, end);
            const std::int64_t full = size * (1 + moreLimits(limit, keyOf(log), begin, end));
            const Time flowing = end - begin + replacing(limit, keyOf(log), begin, end);
            const std::int64_t flows = size * (flowing + kRounding) / limit.window + 1;
            const std::int64_t most = full + flows + std::min(size, givenBack);
            if (sum > most) {
                return admitted(sum, most, begin, end);
            }
        }
    }
    return {};
}

/// Those whose requests the upstream had at a time, which is surely between admission and end. A fault may outlast a
/// lease, so what is near one does not count; neither does what a store may have lost before its end.
std::string History::tooManyInFlight(const Limit& limit, const Log& log) const {
    std::vector<std::pair<Time, std::int64_t>> changes;
    for (const Share& share : log) {
        const Event& event = *share.event;
        const Time end = std::min(event.underUpstream.end, event.answered);
        const bool isKept = !isFaulty(event) && lossInPlaceBefore(limit, keyOf(log), end) < event.sent;
        if (share.counts && event.underUpstream.begin > 0 && event.underUpstream.begin < end && isKept) {
            changes.emplace_back(event.underUpstream.begin, 1);
            changes.emplace_back(end, -1);
        }
    }
    const Time last = changes.empty() ? 0 : std::ranges::max(changes).first;
    const std::int64_t servers = replacements_.contains(limit.storeOf(keyOf(log))) ? 2 : 1;
    const std::int64_t most = mostOf(limit, 0, last) * servers;
    std::ranges::sort(changes);  // those that end before those that begin at the same time
    std::int64_t sum = 0;
    for (const auto& [time, change] : changes) {
        sum += change;
        if (sum > most) {
            return std::to_string(sum) + " of " + std::to_string(most) + " were under way at " + inSeconds(time);
        }
    }
    return {};
}

}  // namespace simulate
