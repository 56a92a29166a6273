// Who knows where a server is. Asked before each connect, since a name's addresses and a master's place change.
#pragma once

#include <string_view>

#include "redis/endpoint.hpp"

namespace sliding_log {

class LocatorTarget {
  public:
    virtual void located(const Endpoint& endpoint) = 0;
    virtual void notLocated(std::string_view reason) = 0;

    /// The server is no longer where it was, or may be in a better state now: worth another locate().
    virtual void hasMoved(std::string_view reason) = 0;

  protected:
    ~LocatorTarget() = default;
};

class Locator {
  public:
    virtual ~Locator() = default;

    /// Tells the target once, maybe before the return.
    virtual void locate(LocatorTarget& target) = 0;

    /// What was located last does not serve: another place comes next where there is one.
    virtual void didNotServe() = 0;

    /// The worker quits: what is kept open only to look is closed, and the target hears nothing more.
    virtual void stop() = 0;
};

}  // namespace sliding_log
