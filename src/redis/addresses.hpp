// The addresses of a server, used in turn: those of the configuration or, if nginx has a resolver, the current ones of
// its name.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "redis/discovery.hpp"
#include "redis/resolution.hpp"
#include "settings/settings.hpp"

namespace sliding_log {

class Addresses final : public Discovery, ResolutionOwner {
  public:
    /// A server of the configuration, with the addresses found there.
    Addresses(const RedisSettings& settings, const ServerSettings& server);

    /// A server that another one named. Without a resolver the address of a name is the one that was announced with it,
    /// if any, or the one that the configuration has for the same name.
    Addresses(const RedisSettings& settings, std::string_view host, int port, std::string_view address = {});

    /// Another server has announced this address for the name: it is used first, until the resolver finds others. False
    /// if it was announced before, or is not an address.
    bool learn(std::string_view address);

    void discover(DiscoveryTarget& target) override;
    void didNotServe() override { next_++; }
    void stop() override;

  private:
    void resolved(std::vector<Endpoint> endpoints) override;
    void unresolved(std::string_view reason) override;
    void tell(std::string_view reason);

    const RedisSettings& settings_;
    std::string name_;  // empty: an address literal, which does not change
    int port_ = 0;
    std::string told_;  // the last announced address of the name
    std::vector<Endpoint> endpoints_;
    std::size_t next_ = 0;
    bool fresh_ = false;  // resolved by the configuration of this process
    DiscoveryTarget* target_ = nullptr;
    Resolution resolution_{*this};
};

}  // namespace sliding_log
