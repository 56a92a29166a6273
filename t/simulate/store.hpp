// The store of a world, as sliding_log_redis names it: one Redis, or the masters of a Cluster, and their faults.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kernel.hpp"
#include "process.hpp"
#include "random.hpp"
#include "redis_host.hpp"

namespace simulate {

/// Who is told what happens to the store.
struct StoreWitness {
    virtual void noted(const std::string& what) = 0;
    /// Calls may be late, lost or refused.
    virtual void disturbed() = 0;
    /// A server has lost what it had.
    virtual void lost() = 0;

  protected:
    ~StoreWitness() = default;
};

class Store {
  public:
    /// `keys`: so many values has the key of limits. Beginning: of the wall clocks.
    Store(Kernel& kernel, Random random, StoreWitness& witness, const std::string& nativeModule, std::size_t servers,
          std::size_t keys, Time beginning);

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
    std::size_t keys_;
    bool isMoving_ = false;
    std::map<std::uint16_t, std::uint64_t> epochs_;  // of slots that have moved: news of an older move count no more
};

}  // namespace simulate
