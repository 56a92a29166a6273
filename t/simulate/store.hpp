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
    /// `keys`: so many values has the key of limits. Beginning: of the wall clocks. Its hosts are those from `first`
    /// on.
    Store(Kernel& kernel, Random random, StoreWitness& witness, const std::string& nativeModule, const StorePlan& plan,
          std::size_t keys, Time beginning, Host first);

    /// What the block has of the addresses.
    std::string directives() const;

    /// Of a server drawn at random.
    Host host(Random& random);

    /// The keys that have not expired by now.
    std::vector<std::string> keys();

    /// Of its servers, which show the same.
    Time wallClock() const;

    /// Sets a key, which expires; false: nothing happens while the servers are not sure who has it.
    bool set(const std::string& key, const std::string& value, Time lifetime);

    /// A fault drawn at random.
    void fault(Random random);

  private:
    struct Part {
        std::unique_ptr<Machine> machine;
        std::unique_ptr<RedisHost> redis;
    };

    std::string numbered(int server) const;
    RedisHost& any();
    int ownerOf(std::uint16_t slot);
    void crash();
    void stop();
    void moveClock();
    void moveSlot();
    void handOver(std::uint16_t slot, int from, int to);
    ClusterView& view(int server);

    Kernel& kernel_;
    Random random_;
    StoreWitness& witness_;
    Host first_;
    std::vector<Part> parts_;
    std::unique_ptr<FailOver> failOver_;  // nullptr: there are no Sentinels
    std::size_t keys_;
    bool isMoving_ = false;
    std::map<std::uint16_t, std::uint64_t> epochs_;  // of slots that have moved: news of an older move count no more
};

}  // namespace simulate
