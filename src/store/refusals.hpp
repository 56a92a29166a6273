// What servers of a cluster refuse for long: a server all its slots or some of them (CLUSTERDOWN), a slot under way a
// key although it is asked alone (TRYAGAIN, which Redis says of several), two nodes a slot that each says the other has
// (MOVED).
//
// What is refused is asked again inside the timeout of its requests. Once one of them has waited in vain the refusal
// lasts, for those slots and no others, and nobody waits for its end: on_error decides at once, but for a request now
// and then that is asked all the same, less and less often, until one is served. TRYAGAIN tells of its own keys only,
// so others of the slot are asked on; those that are refused do not wait. Pure.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <string_view>

#include "redis/backoff.hpp"

namespace sliding_log {

class Refusals {
  public:
    bool isEmpty() const { return lasting_.empty(); }

    /// A request has waited in vain: the server gave it that answer, for that slot.
    void add(const void* server, std::uint16_t slot, std::string_view answer, std::uint64_t nowMs);

    /// True when no request is to wait for another answer than this one.
    bool isLasting(const void* server, std::uint16_t slot, std::string_view answer, std::uint64_t nowMs);

    /// True when a request for the slot, which that server has, is not to be asked. `random` is any random number.
    bool turnsAway(const void* server, std::uint16_t slot, std::uint64_t nowMs, std::uint64_t random);

    /// The server answered for the slot.
    void served(const void* server, std::uint16_t slot, std::uint64_t nowMs);

    void forget(const void* server);

  private:
    enum class Kind { Server, Slot, Keys };

    struct Subject {
        const void* server;
        Kind kind;
        std::uint16_t slot;  // 0 for all of the server's
        auto operator<=>(const Subject&) const = default;
    };

    struct Refusal {
        std::uint64_t refusedAt;
        std::uint64_t askAt;
        Backoff backoff;
    };

    static Subject subjectOf(const void* server, std::uint16_t slot, std::string_view answer);
    bool turnsAway(const Subject& subject, std::uint64_t nowMs, std::uint64_t random);

    std::map<Subject, Refusal> lasting_;
};

}  // namespace sliding_log
