// Who is told what happens to a store.
#pragma once

#include <string>
#include <vector>

#include "schedule.hpp"

namespace simulate {

struct StoreWitness {
    virtual void noted(const std::string& what) = 0;
    /// Calls may be late, lost or refused.
    virtual void disturbed() = 0;
    /// A server has lost what it had.
    virtual void lost() = 0;
    /// From now on two servers may believe that they are the master, and the new one may lack the latest writes.
    virtual void divided() = 0;
    /// One of them has done this, and no longer believes it: its command, or what a script or a module did. `since`:
    /// when they were divided, for two shards of a Cluster may be at the same time.
    virtual void lostWrite(const std::vector<std::string>& command, Time since) = 0;
    /// Only one of them decides.
    virtual void united(Time since) = 0;
    /// The clock of the servers was set.
    virtual void clockMoved() = 0;
    /// A server has another address from now on.
    virtual void hasOtherAddress() = 0;
    /// A failure.
    virtual void failed(const std::string& what) = 0;

  protected:
    ~StoreWitness() = default;
};

}  // namespace simulate
