// Refusals of cluster nodes that last: a node refuses all its slots or some of them (CLUSTERDOWN), a moving slot a key
// although it is asked alone (TRYAGAIN, which Redis sends for several keys), or two nodes redirect a slot to each other
// (MOVED).
//
// Refused calls are repeated within the timeout of their requests. After one of these has waited in vain, the refusal
// lasts, for those slots and no others, and requests do not wait for its end: on_error decides at once, except that
// single requests are still asked, less and less often, until one is served. TRYAGAIN concerns only its own keys, so
// others of the slot are still asked; refused ones do not wait. Pure.
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

    /// A request has waited in vain: the server sent this error, for this slot.
    void add(const void* server, std::uint16_t hashSlot, std::string_view answer, std::uint64_t nowMs);

    /// True if no request has to wait for another reply than this error.
    bool isLasting(const void* server, std::uint16_t hashSlot, std::string_view answer, std::uint64_t nowMs);

    /// True if a request for this slot of this server is not to be asked. `random` is any random number.
    bool turnsAway(const void* server, std::uint16_t hashSlot, std::uint64_t nowMs, std::uint64_t random);

    /// The server has served the slot.
    void served(const void* server, std::uint16_t hashSlot, std::uint64_t nowMs);

    void erase(const void* server);

  private:
    enum class Kind { Server, Slot, Keys };

    struct Subject {
        const void* server;
        Kind kind;
        std::uint16_t hashSlot;  // 0 for all slots of the server
        auto operator<=>(const Subject&) const = default;
    };

    struct Refusal {
        std::uint64_t refusedAt;
        std::uint64_t askAt;
        Backoff backoff;
    };

    static Subject subjectOf(const void* server, std::uint16_t hashSlot, std::string_view answer);
    bool turnsAway(const Subject& subject, std::uint64_t nowMs, std::uint64_t random);

    std::map<Subject, Refusal> lasting_;
};

}  // namespace sliding_log
