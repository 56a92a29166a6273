#include "node/node_queue.hpp"

#include <algorithm>
#include <array>
#include <new>

#include "redis/timer.hpp"
#include "shared/process.hpp"
#include "shared/slab_lock.hpp"
#include "this_process.hpp"

namespace sliding_log {

namespace {

/// A worker that has not looked at its first ticket for so long, in ms, may be dead.
constexpr ngx_msec_t kMayBeDeadMs = 20;

/// If it is not, it stands still after so long: others go before it.
constexpr ngx_msec_t kStandsStillMs = 1000;

std::uint32_t hashOf(std::string_view name) {
    return ngx_crc32_short(reinterpret_cast<u_char*>(const_cast<char*>(name.data())), name.size());
}

Ticket& ticketOf(ngx_queue_t* link) {
    return *ngx_queue_data(link, Ticket, link);
}

}  // namespace

NodeQueue* NodeQueues::find(std::string_view name) const {
    ngx_str_t text = toNgx(name);
    ngx_str_node_t* node = ngx_str_rbtree_lookup(&zone_.header->queues, &text, hashOf(name));
    return node == nullptr ? nullptr : ngx_queue_data(node, NodeQueue, node);
}

void NodeQueues::discard(NodeQueue& queue, Ticket& ticket) {
    queue.asking -= ticket.asks == Ticket::Asks::No ? 0 : 1;
    ngx_queue_remove(&ticket.link);
    ngx_slab_free_locked(zone_.pool, &ticket);
}

void NodeQueues::freeIfEmpty(NodeQueue& queue) {
    if (ngx_queue_empty(&queue.tickets)) {
        ngx_rbtree_delete(&zone_.header->queues, &queue.node.node);
        ngx_slab_free_locked(zone_.pool, &queue);
    }
}

/// Calls visit(ticket) from first to last until that is false. Frees tickets of dead workers. A worker is judged by its
/// first ticket. If no ticket is left, the queue is gone.
template <typename Visit>
void NodeQueues::forEachLive(NodeQueue& queue, Visit visit) {
    enum class State : std::uint8_t { Live, StandsStill, Dead };
    struct Judged {
        ngx_pid_t worker;
        State state;
    };
    std::array<Judged, 64> judged;
    std::size_t count = 0;
    const auto stateOf = [&](const Ticket& ticket) {
        if (ticket.worker == processId()) {
            return State::Live;
        }
        for (std::size_t i = 0; i < count; i++) {
            if (judged[i].worker == ticket.worker) {
                return judged[i].state;
            }
        }
        const auto isSeenWithin = [&](ngx_msec_t ms) { return isBefore(nowMs(), ticket.seenAt + ms); };
        State state = State::Live;
        if (!isSeenWithin(kMayBeDeadMs) && isDead(ticket.worker)) {
            state = State::Dead;
        } else if (!isSeenWithin(kStandsStillMs)) {
            state = State::StandsStill;
        }
        if (count < judged.size()) {
            judged[count++] = {ticket.worker, state};
        }
        return state;
    };
    for (ngx_queue_t *link = ngx_queue_head(&queue.tickets), *next; link != &queue.tickets; link = next) {
        next = ngx_queue_next(link);
        Ticket& ticket = ticketOf(link);
        const State state = stateOf(ticket);
        if (state == State::Dead) {
            discard(queue, ticket);
        } else if (state == State::Live && !visit(ticket)) {
            break;
        }
    }
    freeIfEmpty(queue);
}

void NodeQueues::forgetDead() {
    const SlabLock lock(*zone_.pool);
    ngx_rbtree_t& queues = zone_.header->queues;
    if (queues.root == queues.sentinel) {
        return;
    }
    for (ngx_rbtree_node_t *node = ngx_rbtree_min(queues.root, queues.sentinel), *next; node != nullptr; node = next) {
        next = ngx_rbtree_next(&queues, node);
        NodeQueue& queue = *ngx_queue_data(reinterpret_cast<ngx_str_node_t*>(node), NodeQueue, node);
        for (ngx_queue_t *link = ngx_queue_head(&queue.tickets), *after; link != &queue.tickets; link = after) {
            after = ngx_queue_next(link);
            Ticket& ticket = ticketOf(link);
            if (ticket.worker == processId() || isDead(ticket.worker)) {
                discard(queue, ticket);
            }
        }
        freeIfEmpty(queue);
    }
}

bool NodeQueues::isWaitedFor(std::string_view name) {
    const ngx_rbtree_t& queues = zone_.header->queues;
    if (queues.root == queues.sentinel) {  // read without the lock, which all requests would take
        return false;
    }
    const SlabLock lock(*zone_.pool);
    NodeQueue* queue = find(name);
    bool any = false;
    if (queue != nullptr) {
        forEachLive(*queue, [&](const Ticket&) {
            any = true;
            return false;
        });
    }
    return any;
}

Ticket* NodeQueues::draw(std::string_view name, NodeQueue*& queue) {
    const SlabLock lock(*zone_.pool);
    void* memory = ngx_slab_alloc_locked(zone_.pool, sizeof(Ticket));
    queue = find(name);
    if (memory != nullptr && queue == nullptr) {
        void* room = ngx_slab_alloc_locked(zone_.pool, sizeof(NodeQueue) + name.size());
        if (room == nullptr) {
            ngx_slab_free_locked(zone_.pool, memory);
            return nullptr;
        }
        queue = new (room) NodeQueue{};
        ngx_queue_init(&queue->tickets);
        queue->node.str.data = static_cast<u_char*>(room) + sizeof(NodeQueue);
        queue->node.str.len = name.size();
        ngx_memcpy(queue->node.str.data, name.data(), name.size());
        queue->node.node.key = hashOf(name);
        ngx_rbtree_insert(&zone_.header->queues, &queue->node.node);
    }
    if (memory == nullptr) {
        return nullptr;
    }
    auto* ticket = new (memory) Ticket{{}, processId(), nowMs(), Ticket::Asks::No};
    ngx_queue_insert_tail(&queue->tickets, &ticket->link);
    return ticket;
}

void NodeQueues::leave(NodeQueue& queue, Ticket& ticket, Ticket* next) {
    const SlabLock lock(*zone_.pool);
    if (next != nullptr) {
        next->seenAt = nowMs();  // else its worker seems to stand still until it looks again
    }
    discard(queue, ticket);
    freeIfEmpty(queue);
}

std::size_t NodeQueues::takeTurns(NodeQueue& queue, bool isDue, Turn& turn) {
    const SlabLock lock(*zone_.pool);
    const bool isTime = hasPassed(queue.chanceAt);
    turn = {.freed = isTime ? queue.freed : queue.taken,  // what is freed later is not found yet
            .answered = queue.answered};
    std::uint64_t chances = isTime ? queue.chances() : 0;
    if (chances == 0 && !isDue) {
        return 0;
    }
    std::size_t own = 0;
    bool isFirst = true;
    forEachLive(queue, [&](Ticket& ticket) {
        const bool hasTurn = ticket.asks == Ticket::Asks::No && (chances > 0 || (isDue && isFirst));
        if (hasTurn && ticket.worker == processId()) {
            ticket.asks = chances > 0 ? Ticket::Asks::ForChance : Ticket::Asks::Anyway;
            queue.taken += chances > 0 ? 1 : 0;
            queue.asking++;
            own++;
        }
        if (chances > 0 && (hasTurn || ticket.asks == Ticket::Asks::Anyway)) {
            chances--;  // it may be the place that this one gets
        }
        isFirst = false;
        return chances > 0;
    });
    return own;
}

void NodeQueues::notAsked(NodeQueue& queue, Ticket& ticket) {
    const SlabLock lock(*zone_.pool);
    queue.taken -= ticket.asks == Ticket::Asks::ForChance ? 1 : 0;
    ticket.asks = Ticket::Asks::No;
    queue.asking--;
}

void NodeQueues::answered(NodeQueue& queue, Ticket& ticket, Turn& turn) {
    ticket.asks = Ticket::Asks::No;
    queue.asking--;
    queue.answered++;
    turn.answered++;
    queue.taken = std::max(queue.taken, turn.freed);
}

void NodeQueues::askedInVain(NodeQueue& queue, Ticket& ticket, Turn& turn) {
    const SlabLock lock(*zone_.pool);
    answered(queue, ticket, turn);
}

/// The answer is one of some time ago: others, who have asked since, or ask, may have got the places that were left.
/// Those of this worker are in one call, in the order of their answers.
void NodeQueues::gotPlace(NodeQueue& queue, Ticket& ticket, Turn& turn, std::int64_t room) {
    const SlabLock lock(*zone_.pool);
    const bool hadNoChance = ticket.asks == Ticket::Asks::Anyway;
    answered(queue, ticket, turn);
    if (hadNoChance && queue.chances() > 0) {
        queue.taken++;  // a place that was told of meanwhile is likely to be this one
    }
    const std::uint64_t others = queue.asking + queue.answered - turn.answered;
    const auto places = static_cast<std::uint64_t>(room);
    const std::uint64_t chances = places - std::min(places, others);
    if (queue.chances() < chances) {
        queue.freed = queue.taken + chances;
        queue.chanceAt = nowMs();
    }
}

void NodeQueues::addFreed(std::string_view name, ngx_msec_t at) {
    const ngx_rbtree_t& queues = zone_.header->queues;
    if (queues.root == queues.sentinel) {  // read without the lock: who joins now asks soon anyway
        return;
    }
    const SlabLock lock(*zone_.pool);
    if (NodeQueue* queue = find(name)) {
        const bool isNext = queue->chances() == 0 || isBefore(at, queue->chanceAt);
        queue->chanceAt = isNext ? at : queue->chanceAt;
        queue->freed++;
    }
}

}  // namespace sliding_log
