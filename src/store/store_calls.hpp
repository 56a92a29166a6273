// What each kind of call asks of the store that it belongs to.
#pragma once

#include <cstdint>
#include <string_view>

#include "limit/algorithm.hpp"
#include "metrics/counters.hpp"
#include "redis/store_error.hpp"
#include "servers/topology.hpp"

namespace sliding_log {

class StoreOfCalls {
  public:
    virtual Topology& topology() = 0;

    /// The server of this hash slot, whatever its state; nullptr if it is not known, or the store ends.
    virtual Server* serverOf(std::uint16_t hashSlot) = 0;

    /// False: it is known that the server of this hash slot cannot decide.
    virtual bool canBeAsked(std::uint16_t hashSlot) = 0;

    /// The counters of the server of this hash slot, if that is known.
    virtual ServerCounters& countersOf(std::uint16_t hashSlot) = 0;

    /// The server that the redirect names which the call got: after MOVED it serves the slot from now on. nullptr if
    /// there is none that can be asked.
    virtual Server* redirectedBy(const Call& call, const redisReply& reply, StoreError error) = 0;

    /// The server takes no writes: it is left. The error log says so.
    virtual void leaveAsReadOnly(Server& server, const redisReply& reply) = 0;

    /// The time argument of a call; valid until the next call of this function.
    virtual std::string_view stamp(Algorithm algorithm) = 0;

    /// At the end of this turn all that waits to be sent is sent.
    virtual void flushSoon() = 0;

    /// True from when the worker finishes its requests, which noteQuit() may find.
    virtual bool isQuitting() const = 0;
    virtual void noteQuit() = 0;

    /// Some may have ended: connections may be of no use any more.
    virtual void closeWhenUnused() = 0;

  protected:
    ~StoreOfCalls() = default;
};

}  // namespace sliding_log
