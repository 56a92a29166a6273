// The store of a world, as sliding_log_redis names it, and its faults: one Redis, one with replicas and Sentinels, or
// the masters of a Cluster.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "cluster.hpp"
#include "fail_over.hpp"
#include "kernel.hpp"
#include "plan.hpp"
#include "process.hpp"
#include "random.hpp"
#include "redis_host.hpp"
#include "sentinels.hpp"
#include "store_witness.hpp"

namespace simulate {

class Store {
  public:
    /// `keys`: so many values has the key of limits. Beginning: of the wall clocks. Its hosts are those from `first`
    /// on. `passwordFile`: where it writes its password, if it has one; nginx knows that file by its name alone.
    Store(Kernel& kernel, Random random, StoreWitness& witness, const std::string& nativeModule, const StorePlan& plan,
          std::size_t keys, Time beginning, Host first, std::filesystem::path passwordFile);

    /// What the block has of the addresses and the password.
    std::string directives() const;

    std::vector<RedisHost*> servers() const;
    Cluster* cluster() const { return cluster_.get(); }
    FailOver* failOver() const { return failOver_.get(); }

    /// Of its servers and Sentinels.
    std::vector<Host> hosts() const;

    /// Of a server drawn at random.
    Host host(Random& random);

    /// The keys that have not expired by now.
    std::vector<std::string> keys();

    /// Of its servers, which show the same.
    Time wallClock() const;

    /// Sets a key, which expires; false: nothing happens while the servers are not sure who has it.
    bool set(const std::string& key, const std::string& value, Time lifetime);

    /// directives() tells it. Only if the plan says so.
    void useOtherServer() { used_ = 1 - used_; }

    /// A fault drawn at random.
    void fault(Random random);

  private:
    struct Part {
        std::unique_ptr<Machine> machine;
        std::unique_ptr<RedisHost> redis;
    };

    std::string numbered(std::size_t server) const;
    RedisHost& any();
    void masterFails();
    void crash(bool moves);
    void move(RedisHost& redis);
    void stop();
    void refuse();
    void evict();
    void moveClock();
    void rotatePassword();
    void accept(std::vector<std::string> passwords);
    void dropConnections();
    std::string directivesOfServers() const;

    Kernel& kernel_;
    Random random_;
    StoreWitness& witness_;
    Host first_;
    std::string name_;  // of its only server; empty: nginx knows addresses
    std::vector<Part> parts_;
    std::unique_ptr<Cluster> cluster_;  // nullptr: it is none
    std::unique_ptr<Sentinels> sentinels_;
    std::unique_ptr<FailOver> failOver_;  // by the Sentinels; nullptr: there are none
    std::size_t keys_;
    bool hasReplicas_;
    bool isReplaced_;
    std::size_t used_ = 0;  // of the servers, if the one is replaced by the other
    std::filesystem::path passwordFile_;
    std::vector<std::string> passwords_;  // that the servers accept; none: they need none
    bool isRotating_ = false;
};

}  // namespace simulate
