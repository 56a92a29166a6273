// A master and its replicas. They get what it has done a little later, and one of them may take its place.
#pragma once

#include <string>
#include <vector>

#include "random.hpp"
#include "redis_host.hpp"
#include "store_witness.hpp"

namespace simulate {

/// Those that agree on who the master is: Sentinels, or the masters of a Cluster.
struct Voters {
    /// False: they do not let a replica take the place of a master now.
    virtual bool mayChoose() const { return true; }
    /// A master hands over to a replica that has all it has.
    virtual bool mayHandOver() const { return false; }
    /// They find that the master is down, and are about to choose another one.
    virtual void missed(const RedisHost&) {}
    virtual void chose(const RedisHost& master, const RedisHost& old) = 0;
    /// The old master, which was down, has started. It does not know yet of the new one.
    virtual void cameBack(const RedisHost&) {}
    /// The old master knows the new one.
    virtual void demoted(const RedisHost&) {}

  protected:
    ~Voters() = default;
};

class FailOver {
  public:
    /// The first one is the master. All follow it, and servers of one store have the same clock.
    /// `lag`: what a replica gets is no older.
    FailOver(Kernel& kernel, Random random, StoreWitness& witness, Voters& voters, std::vector<RedisHost*> servers,
             Time lag);

    RedisHost& master() const { return *servers_[master_]; }

    /// Until the old master is a replica.
    bool isUnderWay() const { return isUnderWay_; }

    // ---- faults

    void masterDies();
    /// A replica takes the place of a master that lives.
    void replaceMaster();

  private:
    void replicate();
    void catchUp();
    void compare(const RedisHost& replica, const RedisHost& master);
    void forgetEffects();
    void countReplicas();
    std::size_t drawReplica();
    std::size_t promote();
    void followMaster(std::size_t server);
    void lose(std::size_t old);
    void startOld(std::size_t server);
    void demote(std::size_t server);

    Kernel& kernel_;
    Random random_;
    StoreWitness& witness_;
    Voters& voters_;
    struct Replica {
        std::size_t follows = 0;  // its own index: it is none
        Time heard = 0;           // by that one, at last
    };

    std::vector<RedisHost*> servers_;
    Time lag_;
    std::vector<Replica> replicas_;  // by the same index
    std::size_t master_ = 0;
    std::uint64_t lostFrom_ = 0;  // what the old master has done since is lost; there is one while isUnderWay_
    Time dividedAt_ = 0;          // the same
    bool isUnderWay_ = false;
};

}  // namespace simulate
