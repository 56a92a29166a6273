// What must not happen: an answer that is late though its worker was well; without a fault an error, or a decision by
// on_error; an admission in a block.
#include <algorithm>

#include "history.hpp"

namespace simulate {

namespace {

/// An answer is late after this, and twice the timeout, and the time of the upstream, and delay=.
constexpr Time kAnswerTakes = 300 * kMs;

}  // namespace

/// nginx gives it, or 502 if the upstream has reset the connection.
bool History::isUpstreams(const Event& event) const {
    return event.status == (event.upstreamStatus == 0 ? 502 : event.upstreamStatus);
}

std::string History::unexpected() const {
    for (const Event& event : events_) {
        const Location& location = plan_.locations[event.location];
        Time most = kAnswerTakes + 2 * plan_.timeout + 8 * plan_.delay + (location.isProxied ? event.upstreamTime : 0);
        for (const std::size_t number : location.limits) {
            most += plan_.limits[number].delay;
        }
        const std::string request = "a request that was sent at " + inSeconds(event.sent);
        if (event.answered - event.sent > most && !isOfFaultyWorker(event)) {
            return request + " had an answer, or none, at " + inSeconds(event.answered);
        }
        if (event.status == 0 || isFaulty(event)) {
            continue;
        }
        if (event.status != 429 && !isUpstreams(event)) {
            return request + " was answered by " + std::to_string(event.status);
        }
        if (event.end == Event::End::Otherwise) {
            return request + " was decided by " + event.source + ", though nothing had failed";
        }
    }
    return {};
}

/// While a denial blocks a log, nothing of it is admitted. Denials in a block do not make it longer, so a denial counts
/// if none may have come before it that blocked the log.
std::string History::notBlocked(const Limit& limit, const Log& log) const {
    const auto isAlone = [&](const Share& share) { return plan_.locations[share.event->location].limits.size() == 1; };
    if (limit.block == 0 || limit.refunds || limit.settles || !std::ranges::all_of(log, isAlone)) {
        return {};  // what is given back ends a block
    }
    for (const Share& share : log) {
        const Event& denied = *share.event;
        if (denied.end != Event::End::Denied || denied.source != "redis" || denied.denier != limit.name) {
            continue;
        }
        const Time end = denied.sent + limit.block - kRounding;
        const auto isInEarlierBlock = [&](const Share& other) {
            return other.event != &denied && other.event->end != Event::End::Admitted &&
                   other.event->sent <= denied.answered && other.mayCount >= denied.sent - limit.block - kRounding;
        };
        const auto isAdmitted = [&](const Share& other) {
            return other.counts && other.event->sent > denied.answered && other.event->answered < end &&
                   lossBefore(limit, denied.key, other.event->answered) < denied.sent;
        };
        const auto found = std::ranges::find_if(log, isAdmitted);
        if (found != log.end() && std::ranges::none_of(log, isInEarlierBlock)) {
            return "admitted at " + inSeconds(found->event->answered) + ", though it was blocked at " +
                   inSeconds(denied.answered);
        }
    }
    return {};
}

}  // namespace simulate
