// The order in which the requests of one node wait for a place in a log of algorithm=inflight, over all its workers: in
// the zone, a ticket for each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "local/zone.hpp"
#include "ngx.hpp"

namespace sliding_log {

/// In the zone. Owned by the worker that drew it, or by the next one that looks, if that one is dead.
struct Ticket {
    enum class Asks : std::uint8_t {
        No,
        ForChance,  // that was taken
        Anyway      // it was its turn without one
    };

    ngx_queue_t link;
    ngx_pid_t worker;
    ngx_msec_t seenAt;  // by its worker, if it is the first one of that
    Asks asks;
};

/// Those who wait for one log. It exists as long as there are tickets: a worker refers to it while it has one.
struct NodeQueue {
    ngx_str_node_t node;     // its text, the name of the log, follows this struct
    ngx_queue_t tickets;     // in the order of arrival
    std::uint64_t asking;    // of the tickets
    std::uint64_t answered;  // of the tickets that have asked, since it exists
    std::uint64_t freed;     // the number of places that have become free, as far as known, since it exists
    std::uint64_t taken;     // of them, those that were asked for, or are taken: there is a chance for each of the rest
    ngx_msec_t chanceAt;     // when they are to be asked for

    std::uint64_t chances() const { return freed - taken; }
};

/// What a worker saw when its tickets began to ask, and how many of them were answered since.
struct Turn {
    std::uint64_t freed = 0;
    std::uint64_t answered = 0;
};

/// All of them. A name is that of a log among those of all stores. Each function takes the lock of the zone, for a time
/// that does not grow with the number of those who wait, unless a worker has died or stands still.
class NodeQueues {
  public:
    explicit NodeQueues(const Zone& zone) : zone_(zone) {}

    /// To be called once by a worker that starts: frees tickets of dead workers, whose process it may have got the id
    /// of.
    void forgetDead();

    /// True if somebody waits for this log. Tickets of workers that are dead, or stand still, do not count.
    bool isWaitedFor(std::string_view name);

    /// A ticket at the end of `queue`, which it sets; nullptr if the zone is full.
    Ticket* draw(std::string_view name, NodeQueue*& queue);

    /// With its last ticket the queue is gone, too. `next` is then this worker's first ticket; nullptr: it has no
    /// other.
    void leave(NodeQueue& queue, Ticket& ticket, Ticket* next);

    /// How many of this worker's tickets have their turn, from the first one that does not ask: they ask now. A ticket
    /// has it if there is a chance for it and for all before it. `isDue`: the first one of the node has it anyway. Sets
    /// `turn`, for askedInVain() and gotPlace().
    std::size_t takeTurns(NodeQueue& queue, bool isDue, Turn& turn);

    /// It had its turn and has not asked, or nobody knows the answer.
    void notAsked(NodeQueue& queue, Ticket& ticket);

    /// It asks no more. None of the places was free that had become so before it asked.
    void askedInVain(NodeQueue& queue, Ticket& ticket, Turn& turn);

    /// The same; it has got one, and so many were left then.
    void gotPlace(NodeQueue& queue, Ticket& ticket, Turn& turn, std::int64_t room);

    /// A place has become free, which is to be asked for at `at`. Does nothing if nobody waits.
    void addFreed(std::string_view name, ngx_msec_t at);

  private:
    NodeQueue* find(std::string_view name) const;
    void freeIfEmpty(NodeQueue& queue);
    void discard(NodeQueue& queue, Ticket& ticket);
    static void answered(NodeQueue& queue, Ticket& ticket, Turn& turn);
    template <typename Visit>
    void forEachLive(NodeQueue& queue, Visit visit);

    Zone zone_;
};

}  // namespace sliding_log
