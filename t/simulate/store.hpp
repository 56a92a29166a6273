// The store of a world, as sliding_log_redis names it, and its faults: one Redis, one with replicas and Sentinels, or
// the masters of a Cluster.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "fail_over.hpp"
#include "kernel.hpp"
#include "plan.hpp"
#include "process.hpp"
#include "random.hpp"
#include "redis_host.hpp"
#include "store_witness.hpp"

namespace simulate {

class Store {
  public:
    /// Beginning: of the wall clocks.
    Store(Kernel& kernel, Random random, StoreWitness& witness, const std::string& nativeModule, const Plan& plan,
          Time beginning);

    /// What the block has of the addresses.
    std::string directives() const;

    /// Of a server drawn at random.
    Host host(Random& random);

    /// The keys that have not expired by now.
    std::vector<std::string> keys();

    /// A fault drawn at random.
    void fault(Random random);

  private:
    struct Part {
        std::unique_ptr<Machine> machine;
        std::unique_ptr<RedisHost> redis;
    };

    RedisHost& any();
    void crash();
    void stop();
    void moveSlot();
    void handOver(std::uint16_t slot, int from, int to);
    ClusterView& view(int server);

    Kernel& kernel_;
    Random random_;
    StoreWitness& witness_;
    std::vector<Part> parts_;
    std::unique_ptr<FailOver> failOver_;  // nullptr: there are no Sentinels
    std::size_t keys_;
    bool isMoving_ = false;
    std::map<std::uint16_t, std::uint64_t> epochs_;  // of slots that have moved: news of an older move count no more
};

}  // namespace simulate
