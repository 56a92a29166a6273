// A master with replicas, and Sentinels that let a replica take its place.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "random.hpp"
#include "redis_host.hpp"
#include "sentinel_host.hpp"
#include "store_witness.hpp"

namespace simulate {

class FailOver {
  public:
    /// The first one is the master. The Sentinels have the hosts from `sentinels` on.
    FailOver(Kernel& kernel, Random random, StoreWitness& witness, std::vector<RedisHost*> servers, Host sentinels);

    /// What the block of the store has of the Sentinels.
    std::string directives() const;

    RedisHost& master() { return *servers_[master_]; }

    /// The master is killed, replaced, or a Sentinel is.
    void fault();

  private:
    void replicate();
    void compare(RedisHost& replica);
    void masterDies();
    void promote();
    void demote(std::size_t server);
    void sentinelDies();

    Kernel& kernel_;
    Random random_;
    StoreWitness& witness_;
    std::vector<RedisHost*> servers_;
    std::vector<std::unique_ptr<SentinelHost>> sentinels_;
    std::size_t master_ = 0;
    bool isUnderWay_ = false;  // a fail-over, until the old master is a replica
};

}  // namespace simulate
