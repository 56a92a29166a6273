// The masters of a Redis Cluster, with or without replicas, and what each of them believes of the slots.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fail_over.hpp"
#include "random.hpp"
#include "redis_host.hpp"
#include "store_witness.hpp"

namespace simulate {

class Cluster final : public Voters {
  public:
    /// The masters come first, then a replica of each, then another one of each.
    Cluster(Kernel& kernel, Random random, StoreWitness& witness, std::vector<RedisHost*> servers, std::size_t masters,
            Time lag);

    /// What a node of a new cluster believes: as many slots for each master.
    static ClusterView newView(Host first, std::size_t servers, std::size_t masters, std::size_t self);

    /// That of the key; nullptr: the servers are not sure.
    RedisHost* ownerOf(std::string_view key) const;

    // ---- faults, all drawn from `random`

    /// The slot of the key moves to another master: key by key, while both know of it, then for all others, one after
    /// the other.
    void moveSlotOf(std::string_view key, Random random);

    void masterDies(Random random);
    void replaceMaster(Random random);

  private:
    /// A master and its replicas, as they were in the beginning.
    struct Shard {
        std::unique_ptr<FailOver> failOver;  // nullptr: there are no replicas
        std::uint64_t epoch = 0;             // of its latest master
    };

    bool mayChoose() const override { return !isMoving_; }
    bool mayHandOver() const override { return true; }
    void missed(const RedisHost& master) override;
    void chose(const RedisHost& master, const RedisHost& old) override;
    void cameBack(const RedisHost& server) override;
    void demoted(const RedisHost& server) override;

    std::size_t indexOf(const RedisHost& server) const;
    std::size_t shardOf(std::size_t server) const { return server % shards_.size(); }
    std::size_t masterOf(std::size_t shard) const;
    std::optional<std::size_t> shardOfSlot(std::uint16_t slot) const;
    bool isSettled() const;
    ClusterView& view(std::size_t server) const { return *servers_[server]->server().cluster(); }
    void learnMaster(std::size_t server, std::size_t shard, std::size_t master, std::uint64_t epoch);
    void giveSlot(std::size_t server, std::uint16_t slot, std::size_t shard) const;
    /// `pause`: between two keys, on the average. Calls of both are refused meanwhile: TRYAGAIN.
    void handOver(std::uint16_t slot, std::size_t from, std::size_t to, Time pause);

    Kernel& kernel_;
    Random random_;
    StoreWitness& witness_;
    std::vector<RedisHost*> servers_;
    std::vector<Shard> shards_;
    std::map<std::pair<std::size_t, std::size_t>, std::uint64_t> learnt_;  // by server and shard: epochs of masters
    bool isMoving_ = false;                                                // a slot
    std::map<std::uint16_t, std::uint64_t> epochs_;  // of slots that have moved: news of an older move count no more
};

}  // namespace simulate
