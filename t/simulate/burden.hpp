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
    /// So many workers are started, which use so many scripts.
    Burden(Time timeout, std::uint64_t workers, std::uint64_t scripts)
        : timeout_(timeout), scripts_(scripts), seconds_{{.workers = workers}} {}

    /// A request asks so many limits. So many workers live, those included that quit.
    void asked(Time now, std::uint64_t limits, std::uint64_t workers) {
        Second& second = at(now);
        second.limits += limits;
        second.workers = std::max(second.workers, workers);
    }
    /// A request ends that has asked so many: it may give back, settle or release what it has taken.
    void ended(Time now, std::uint64_t limits) { at(now).ended += limits; }
    /// Of a worker or a store.
    void fault(Time now) { at(now).faults++; }

    /// What is too much for the servers of a store, or longer than any call of a log takes; empty: nothing.
    std::string check(const std::vector<RedisHost*>& servers, Time longestCall) const;

  private:
    struct Second {
        std::uint64_t workers = 0;
        std::uint64_t limits = 0;
        std::uint64_t ended = 0;  // the limits of requests that end
        std::uint64_t faults = 0;
    };

    Second& at(Time now);
    /// Of that second and so many before it.
    Second until(std::size_t second, std::size_t before) const;

    Time timeout_;
    std::uint64_t scripts_;
    std::vector<Second> seconds_;
};

}  // namespace simulate
