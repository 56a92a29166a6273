#include "store/queues.hpp"

#include <algorithm>
#include <utility>

#include "this_process.hpp"

namespace sliding_log {

namespace {

/// How often queues are looked at, in ms: at least, and at most.
constexpr ngx_msec_t kLookMinMs = 5;
constexpr ngx_msec_t kLookMaxMs = 250;

/// Many queues are looked at less often: a look takes less than a microsecond.
constexpr std::size_t kQueuesPerMs = 50;

/// Without a chance the first one of a queue asks every 50 ms, or so seldom that all queues of a worker together ask
/// 2,000 times a second.
constexpr ngx_msec_t kAskEveryMs = 50;
constexpr std::size_t kAsksPerMs = 2;

/// A place that this node gives back is asked for after a random time of up to this part of the time that it was taken,
/// and of kAskEveryMs at most. So other nodes, which do not know of it, may get it, and it is idle for little.
constexpr ngx_msec_t kIdlePart = 20;

/// The call that gives a place back is on its way, while another worker may ask.
constexpr ngx_msec_t kOnItsWayMs = 1;

ngx_msec_t randomUpTo(ngx_msec_t most) {
    return randomNumber() % (most + 1);
}

/// nullptr: there is none.
Ticket* firstTicketOf(Queue& queue) {
    Ticket* first = nullptr;
    queue.applicants.findFirst([&](Applicant& each) { return (first = each.ticket) != nullptr; });
    return first;
}

}  // namespace

/// Good until the next one.
std::string_view Queues::nameOf(std::uint64_t store, std::string_view key) {
    name_.assign(reinterpret_cast<const char*>(&store), sizeof store).append(key);
    return name_;
}

/// Random, so that nodes do not ask in step.
ngx_msec_t Queues::pause() const {
    const ngx_msec_t mean = std::max<ngx_msec_t>(kAskEveryMs, queues_.size() / kAsksPerMs);
    return mean / 2 + randomUpTo(mean);
}

bool Queues::isWaitedFor(std::uint64_t store, std::string_view key) {
    const std::string_view name = nameOf(store, key);
    return queues_.contains(name) || ofNode_.isWaitedFor(name);
}

void Queues::join(Applicant& applicant, std::uint64_t store, std::string_view key) {
    const std::string_view name = nameOf(store, key);
    const auto [found, isNew] = queues_.try_emplace(std::string(name));
    Queue& queue = found->second;
    if (isNew) {
        queue.name = found->first;
        queue.nextAt = nowMs() + pause();
    }
    NodeQueue* ofNode = nullptr;
    applicant.ticket = ofNode_.draw(name, ofNode);
    if (applicant.ticket != nullptr) {
        queue.tickets++;
        queue.ofNode = ofNode;
    }
    applicant.queue = &queue;
    queue.applicants.pushBack(applicant);
    if (!timer_.isSet()) {
        timer_.set(kLookMinMs);
    }
}

void Queues::askedInVain(Applicant& applicant) {
    Queue& queue = *applicant.queue;
    if (endAsking(applicant) && applicant.ticket != nullptr) {
        ofNode_.askedInVain(*queue.ofNode, *applicant.ticket, queue.turn);
    }
}

/// It asked before, and asks no more.
bool Queues::endAsking(Applicant& applicant) {
    const bool wasAsking = std::exchange(applicant.isAsking, false);
    applicant.queue->asking -= wasAsking ? 1 : 0;
    return wasAsking;
}

void Queues::leave(Applicant& applicant, std::optional<std::int64_t> room) {
    Queue& queue = *applicant.queue;
    const bool wasAsking = endAsking(applicant);
    applicant.unlink();
    applicant.queue = nullptr;
    Ticket* ticket = std::exchange(applicant.ticket, nullptr);
    if (ticket == nullptr) {
        queue.nextAt = room == 0 ? queue.nextAt : nowMs();
    } else {
        if (wasAsking && room) {
            ofNode_.gotPlace(*queue.ofNode, *ticket, queue.turn, *room);
        } else if (wasAsking) {
            ofNode_.notAsked(*queue.ofNode, *ticket);
        }
        ofNode_.leave(*queue.ofNode, *ticket, firstTicketOf(queue));
        if (--queue.tickets == 0) {
            queue.ofNode = nullptr;
        }
    }
    if (queue.applicants.isEmpty()) {
        queues_.erase(queues_.find(queue.name));
    }
}

void Queues::placeFreed(std::uint64_t store, std::string_view key, ngx_msec_t lastedMs) {
    const ngx_msec_t idleMs = randomUpTo(std::min(lastedMs / kIdlePart, kAskEveryMs));
    ofNode_.addFreed(nameOf(store, key), nowMs() + kOnItsWayMs + idleMs);
}

/// Those whose turn it is are told to ask.
void Queues::look(Queue& queue) {
    Ticket* first = firstTicketOf(queue);
    if (first != nullptr) {
        first->seenAt = nowMs();
    }
    if (queue.asking > 0) {
        return;
    }
    const bool isDue = hasPassed(queue.nextAt);
    if (Applicant& front = queue.applicants.front(); front.ticket == nullptr) {
        if (isDue) {
            tellToAsk(queue, front);
        }
        return;
    }
    std::size_t turns = ofNode_.takeTurns(*queue.ofNode, isDue, queue.turn);
    if (turns == 0) {
        return;
    }
    queue.applicants.findFirst([&](Applicant& each) {
        if (each.ticket != nullptr && each.ticket->asks != Ticket::Asks::No) {
            tellToAsk(queue, each);
            turns--;
        }
        return turns == 0;
    });
}

void Queues::tellToAsk(Queue& queue, Applicant& applicant) {
    queue.nextAt = nowMs() + pause();
    applicant.isAsking = true;
    queue.asking++;
    applicant.ask(applicant);
}

void Queues::look() {
    for (auto& [name, queue] : queues_) {
        look(queue);
    }
    if (!queues_.empty()) {
        timer_.set(std::clamp<ngx_msec_t>(queues_.size() / kQueuesPerMs, kLookMinMs, kLookMaxMs));
    }
}

}  // namespace sliding_log
