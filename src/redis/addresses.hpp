// A server's addresses, in turn: those of the configuration, and where nginx has a resolver, those its name has now.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "redis/locator.hpp"
#include "redis/resolution.hpp"
#include "settings/settings.hpp"

namespace sliding_log {

class Addresses final : public Locator, ResolutionOwner {
  public:
    /// A server of the configuration, which has resolved it.
    Addresses(const RedisSettings& settings, const ServerSettings& server);

    /// A server that another one named. Without a resolver a name's address is the one it was told with, if any, or
    /// the one that the configuration has for the same name.
    Addresses(const RedisSettings& settings, std::string_view host, int port, std::string_view address = {});

    /// Another server tells that the name has this address now: it comes first, until the resolver finds others. False
    /// for what was told before, and for what is no address.
    bool learn(std::string_view address);

    void locate(LocatorTarget& target) override;
    void didNotServe() override { next_++; }
    void stop() override;

  private:
    void resolved(std::vector<Endpoint> endpoints) override;
    void unresolved(std::string_view reason) override;
    void tell(std::string_view reason);

    const RedisSettings& settings_;
    std::string name_;  // empty: an address literal, which stays
    int port_ = 0;
    std::string told_;  // the name's address that was told last
    std::vector<Endpoint> endpoints_;
    std::size_t next_ = 0;
    bool fresh_ = false;  // the configuration resolved it for this process
    LocatorTarget* target_ = nullptr;
    Resolution resolution_{*this};
};

}  // namespace sliding_log
