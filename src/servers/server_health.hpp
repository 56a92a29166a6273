// What a worker reports of a server: whether it is reachable, its memory, and a policy that may evict logs.
#pragma once

#include <string>
#include <string_view>

#include "metrics/counters.hpp"
#include "ngx.hpp"
#include "redis/connection.hpp"
#include "servers/store_log.hpp"

namespace sliding_log {

class ServerHealthOwner {
  public:
    /// A reply has arrived that it waited for.
    virtual void healthTold() = 0;

  protected:
    ~ServerHealthOwner() = default;
};

class ServerHealth final : ReplyTarget {
  public:
    ServerHealth(ServerHealthOwner& owner, ServerCounters& counters, StoreLog& log)
        : owner_(owner), counters_(counters), log_(log) {}

    /// The successor of a worker that quits reports it.
    void report(Reachability what);

    /// To be called about once a second while the server answers: asks for its memory when that is due.
    void tick(Connection& connection);

    /// What `maxmemory-policy` it has: a dangerous one is told once for each change.
    void policyTold(std::string_view server, std::string_view policy);

  private:
    /// To INFO.
    void replied(const redisReply* reply) override;

    ServerHealthOwner& owner_;
    ServerCounters& counters_;
    StoreLog& log_;
    std::string policyTold_;  // the policy that was warned of; empty: none
    ngx_msec_t policyToldAt_ = 0;
};

}  // namespace sliding_log
