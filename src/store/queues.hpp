// The requests of one worker that wait for a place in a log of algorithm=inflight (`delay=`). Nobody tells a node that
// a place has become free elsewhere, so those whose turn it is ask again and again, seldom, and soon after this node
// gave a place back. Turns are those of the node, see NodeQueues.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "list.hpp"
#include "node/node_queue.hpp"
#include "redis/timer.hpp"

namespace sliding_log {

struct InQueue;
struct Queue;

/// A request that waits. It is owned by the request, which leaves the queue before it ends.
struct Applicant : ListHook<InQueue> {
    bool isWaiting() const { return queue != nullptr; }

    /// It is to ask, and then to call askedInVain() or leave(). Called from a timer; must not run the request.
    void (*ask)(Applicant& applicant) = nullptr;

    // the queue's own
    Queue* queue = nullptr;
    Ticket* ticket = nullptr;  // nullptr: the zone was full; it then has its turn among those of its worker
    bool isAsking = false;
};

/// Those of one log. It exists as long as somebody waits.
struct Queue {
    std::string_view name;
    List<Applicant, InQueue> applicants;  // in the order of arrival
    NodeQueue* ofNode = nullptr;          // while there are tickets
    std::size_t tickets = 0;
    std::size_t asking = 0;
    Turn turn;              // of those who ask
    ngx_msec_t nextAt = 0;  // to ask without a chance
};

class Queues {
  public:
    Queues(const Zone& zone, ngx_log_t* log)
        : ofNode_(zone),
          timer_(
              this, [](void* self) { static_cast<Queues*>(self)->look(); }, Timer::Kind::Chore, log) {
        ofNode_.forgetDead();
    }

    /// True if a request of this node waits for this log. `store`: the identity of its store, 0 for the local one.
    bool isWaitedFor(std::uint64_t store, std::string_view key);

    /// The applicant waits behind all of this node.
    void join(Applicant& applicant, std::uint64_t store, std::string_view key);

    /// There was no room: it waits for its next turn.
    void askedInVain(Applicant& applicant);

    /// For `room`: all others shall ask, too.
    static constexpr std::int64_t kRoomForAll = 1'000'000;

    /// It waits no more. `room`: the number of places that are left, if it had its turn and asked.
    void leave(Applicant& applicant, std::optional<std::int64_t> room);

    /// A request that was under way for `lastedMs` has given its place back, or is about to in this event-loop turn.
    void placeFreed(std::uint64_t store, std::string_view key, ngx_msec_t lastedMs);

  private:
    struct Hash {
        using is_transparent = void;
        std::size_t operator()(std::string_view name) const { return std::hash<std::string_view>()(name); }
    };
    using Named = std::unordered_map<std::string, Queue, Hash, std::equal_to<>>;

    std::string_view nameOf(std::uint64_t store, std::string_view key);
    ngx_msec_t pause() const;
    void tellToAsk(Queue& queue, Applicant& applicant);
    void look(Queue& queue);
    void look();
    static bool endAsking(Applicant& applicant);

    NodeQueues ofNode_;
    Named queues_;
    std::string name_;  // made by nameOf(), for its memory
    Timer timer_;
};

}  // namespace sliding_log
