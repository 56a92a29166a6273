// Three Sentinels of one master.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "fail_over.hpp"
#include "random.hpp"
#include "sentinel_host.hpp"
#include "store_witness.hpp"

namespace simulate {

class Sentinels final : public Voters {
  public:
    static constexpr std::size_t kCount = 3;

    /// They have the hosts from `first` on.
    Sentinels(Kernel& kernel, Random random, StoreWitness& witness, Host first, Address master);

    /// What the block of the store has of them.
    std::string directives() const;

    void chose(const RedisHost& master, const RedisHost& old) override;

    /// A fault: one of them is killed.
    void die();

  private:
    Kernel& kernel_;
    Random random_;
    StoreWitness& witness_;
    std::vector<std::unique_ptr<SentinelHost>> sentinels_;
};

}  // namespace simulate
