// Whether servers get more than what clients ask, workers and faults account for, in each second.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "redis_host.hpp"
#include "schedule.hpp"

namespace simulate {

class Burden {
  public:
    /// `timeout`: so long a request waits, while its call is repeated.
    explicit Burden(Time timeout) : timeout_(timeout) {}

    /// So many workers live, those included that quit.
    void living(Time now, std::uint64_t workers) { at(now).workers = std::max(at(now).workers, workers); }
    /// A request asks so many limits.
    void asked(Time now, std::uint64_t limits) { at(now).limits += limits; }
    /// Of a worker or a store.
    void fault(Time now) { at(now).faults++; }

    /// What is too much for the servers of a store; empty: nothing.
    std::string check(const std::vector<RedisHost*>& servers) const;

  private:
    struct Second {
        std::uint64_t workers = 0;
        std::uint64_t limits = 0;
        std::uint64_t faults = 0;
    };

    Second& at(Time now);
    /// Of that second and the one before it.
    Second until(std::size_t second) const;

    Time timeout_;
    std::vector<Second> seconds_;
};

}  // namespace simulate
