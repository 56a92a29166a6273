// Finds the address of a server. Used before each connect, since the addresses of a name and the master can change.
#pragma once

#include <string_view>

#include "redis/endpoint.hpp"

namespace sliding_log {

class DiscoveryTarget {
  public:
    virtual void discovered(const Endpoint& endpoint) = 0;
    virtual void notDiscovered(std::string_view reason) = 0;

    /// The server has moved, or its state may have changed: discover() has to be called again.
    virtual void hasMoved(std::string_view reason) = 0;

  protected:
    ~DiscoveryTarget() = default;
};

class Discovery {
  public:
    virtual ~Discovery() = default;

    /// Calls the target once, possibly before the return.
    virtual void discover(DiscoveryTarget& target) = 0;

    /// The last result does not work: the next one is another address if there is one.
    virtual void didNotServe() = 0;

    /// The worker quits: connections used only for the discovery are closed, and the target is not called any more.
    virtual void stop() = 0;
};

}  // namespace sliding_log
